use super::*;

fn long(extra: usize) -> String {
    "x".repeat(VALUE_MAX + extra)
}

fn mark(extra: usize) -> String {
    format!("pond:truncated:{}", VALUE_MAX + extra)
}

/// `adapter-bounded-values`: whichever way a value is taken, and wherever in it.
#[test]
fn what_is_too_long_becomes_a_mark_of_how_long_it_was() {
    let mut value = Value::object([("at", long(0).into()), ("over", long(1).into()), ("encoded", long(2).into())]);
    value.push(
        "nested",
        Value::from(vec![Value::object([("k", long(3).into()), (long(4).as_str(), Value::Null)]), 1.to_string().into()]),
    );
    value.push("number", Value::Number("1".repeat(VALUE_MAX + 5).into()));
    value.push("broken", Value::Broken(format!("\\ud800{}", long(0)).into()));
    value.push("data", long(7).into());
    value.push("left", long(8).into());
    let mut record = Record::new(value, "f".into(), 1, 0);
    assert_eq!(record.text(["at"]).unwrap().look().len(), VALUE_MAX);
    assert_eq!(record.copy(["over"]).unwrap().look(), &mark(1));
    assert_eq!(record.copy_json(["over"]).unwrap().look().get(), format!("\"{}\"", mark(1)));
    assert_eq!(record.text(["over"]).unwrap().look(), &mark(1));
    assert_eq!(record.encoded(["encoded"]).unwrap().look().get(), format!("\"{}\"", mark(2)));
    let nested = format!(r#"[{{"k":"{}","{}":null}},"1"]"#, mark(3), mark(4));
    assert_eq!(record.json(["nested"]).unwrap().look().get(), nested);
    assert_eq!(record.json(["number"]).unwrap().look().get(), format!("\"{}\"", mark(5)));
    assert_eq!(record.json(["broken"]).unwrap().look().get(), format!("\"{}\"", mark(6)));
    let (data, _) = record.data(["data"]).unwrap();
    assert!(matches!(data.look(), Data::Inline(data) if data.len() == VALUE_MAX + 7), "blobs are not bounded");
    let left = Reader::only(record.remainder().0.get()).unwrap();
    assert_eq!(left.get("left").and_then(Value::as_str), Some(mark(8).as_str()));
}

#[test]
fn the_mark_is_what_is_restored_and_the_rest_is_whole() {
    let (lineage, faults) = session_with_faults(|out, to| {
        let value = Value::object([("text", long(1).into()), ("kept", "x".into()), ("left", long(2).into())]);
        let mut record = Record::new(value, "f".into(), 1, 0);
        let mut parts = Parts::<UserBody>::default();
        parts.text(record.text(["text"]).unwrap(), SAID);
        out.user(to, record, Head::default(), parts);
    });
    let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
    let bytes = VALUE_MAX + 2;
    assert_eq!(told, [format!("test: f:1: a value of {bytes} bytes is more than is kept; its size stands in its place")]);
    let line = format!(r#"{{"text":"{}","kept":"x","left":"{}"}}"#, mark(1), mark(2));
    assert_eq!(restored(&lineage), [("f".to_owned(), vec![line])]);
}
