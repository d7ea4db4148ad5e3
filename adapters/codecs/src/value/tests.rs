use proptest::prelude::*;

use super::{Path, Reader, Value};

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<f64>().prop_filter("finite", |it| it.is_finite()).prop_map(|it| Value::number(format!("{it:e}"))),
        any::<i64>().prop_map(Value::number),
        any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            proptest::collection::vec((any::<String>(), inner), 0..6).prop_map(Value::Object),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same(value in values()) {
        prop_assert_eq!(Reader::only(&value.to_string()), Ok(value));
    }

    #[test]
    fn a_well_known_reader_takes_and_refuses_the_same(text in "[\\[\\]{}:,\"\\\\ a0.e+tru-]{0,24}") {
        prop_assert_eq!(Reader::only(&text).is_ok(), serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok());
    }

    #[test]
    fn no_bytes_make_the_reader_panic(text in any::<String>()) {
        let _ = Reader::only(&text);
    }
}

#[test]
fn nothing_of_a_number_a_key_or_a_broken_text_is_lost() {
    for text in [
        r#"{"b":1e400,"a":-0,"b":0.21713199999999994,"c":123456789012345678901234567890}"#,
        r#"["\ud800","\ud800\u0041","\ude00"]"#,
        r#""\u0000""#,
    ] {
        assert_eq!(Reader::only(text).unwrap().to_string(), text);
    }
}

#[test]
fn the_form_of_a_value_is_not_data() {
    for (one, two) in
        [(r#"{"a":1,"b":[2]}"#, r#"{ "b" : [ 2.0 ], "a" : 1 }"#), ("100", "1e2"), ("0.50", "5e-1"), (r#""\u003c\/""#, r#""</""#)]
    {
        assert!(Reader::only(one).unwrap().same(&Reader::only(two).unwrap()), "{one} {two}");
    }
    for (one, two) in [("1", "-1"), ("0.1", "0.10000000000000001"), ("[1,2]", "[2,1]"), (r#"{"a":null}"#, "{}")] {
        assert!(!Reader::only(one).unwrap().same(&Reader::only(two).unwrap()), "{one} {two}");
    }
}

#[test]
fn several_values_on_a_line_are_read_one_after_the_other() {
    let mut reader = Reader::new(r#"{"a":1}{"b":2} [3]"#);
    let mut read = Vec::new();
    while let Some(value) = reader.read().unwrap() {
        read.push(value.to_string());
    }
    assert_eq!(read, [r#"{"a":1}"#, r#"{"b":2}"#, "[3]"]);
}

#[test]
fn what_is_malformed_is_refused() {
    for text in ["{", "[1,]", r#"{"a"}"#, "01", "1.", "\"\u{1}\"", r#""\x""#, "nul", "1 2", "", "+1", "\"a"] {
        assert!(Reader::only(text).is_err(), "{text}");
    }
    let deep = "[".repeat(1_000_000);
    assert_eq!(Reader::only(&deep).unwrap_err().what, "nested too deep");
}

#[test]
fn a_path_reads_back_whatever_its_keys_hold() {
    let value = Reader::only(r#"{"a/b":[{"~":{"0":7}}]}"#).unwrap();
    let path = Path::root().to("a/b").to(0).to("~").to("0");
    assert_eq!(Path::parse(&path.to_string(), &value), Some(path.clone()));
    assert_eq!(value.at(&path).and_then(Value::as_i64), Some(7));
}

proptest! {
    #[test]
    fn the_first_special_byte_is_found_wherever_it_stands(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let slow = bytes.iter().position(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\');
        prop_assert_eq!(super::special(&bytes), slow);
    }
}

#[test]
fn what_was_read_is_written_as_it_was() {
    let text = r#"{"a":[1,-0,1e400,0.10,9007199254740993,true,null],"b\n\"\\\u0001é":"\ud800","c":{}}"#;
    let value = Reader::only(text).unwrap();
    assert_eq!(value.to_string(), text);
}
