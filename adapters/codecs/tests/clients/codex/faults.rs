//! `adapter-integrity-no-silent-drops`: what is wrong is said with adapter, file and line, and the rest is read.

use codecs::check::{check, parse};
use codecs::fault::What;

use super::{ID, codec, contents, header, home, home_with, said, told};

#[test]
fn a_line_that_cannot_be_read_is_named_and_the_rest_is_taken() {
    let bad: [(&[u8], &str); 5] = [
        (b"{\"type\":\"response_item\",\"payl", "not JSON: cut off"),
        (b"not json", "not JSON: not a value"),
        (b"{\"a\":\"\xff\xfe\"}", "not UTF-8"),
        (b"{\"a\":1}}", "not JSON: not a value"),
        (b"{\"a\":\"\x01\"}", "not JSON: a control character"),
    ];
    for (line, what) in bad {
        let text = [header().as_bytes(), said("before").as_bytes(), line, b"\n", said("after").as_bytes()].concat();
        let home = home(&text);
        let contents = parse(codec(), &home.bundle).unwrap();
        let told = told(&contents.sessions[0].1);
        assert_eq!(told, ["user before", "user after"]);
        let fault = contents.faults[0].to_string();
        assert!(fault.starts_with(&format!("codex: {}:3: {what}", home.bundle.main().display())), "{fault}");
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(check(codec(), &home.bundle, scratch.path()).unwrap(), []);
    }
}

#[test]
fn a_last_line_cut_short_costs_only_itself() {
    let text = header() + &said("whole") + said("torn").trim_end().trim_end_matches('}');
    let contents = contents(text);
    assert_eq!(told(&contents.sessions[0].1), ["user whole"]);
    assert_eq!(contents.faults[0].location.line, Some(3));
}

#[test]
fn two_values_on_a_line_are_two_records() {
    let text = header().trim_end().to_owned() + said("one").trim_end() + &said("two");
    let contents = contents(text);
    assert_eq!((told(&contents.sessions[0].1).len(), contents.faults.len()), (2, 0));
}

/// `model-no-synthesis`, `model-project-non-empty`
#[test]
fn a_session_that_does_not_say_where_it_ran_is_left_out_and_said_so() {
    for text in ["", "\n\n", &said("hello"), &header().replace("\"cwd\":\"/srv/demo\",", ""), &header().replace("/srv/demo", "")]
    {
        let contents = contents(text);
        assert_eq!(contents.sessions, []);
        assert_eq!(contents.faults.len(), 1);
        assert_eq!(contents.faults[0].what, What::Missing("the project"));
    }
}

#[test]
fn an_empty_file_loses_nothing() {
    let (home, scratch) = (home(""), tempfile::tempdir().unwrap());
    assert_eq!(check(codec(), &home.bundle, scratch.path()).unwrap(), []);
}

#[test]
fn a_session_that_is_its_own_parent_has_none() {
    let text = header().replace("\"cwd\"", &format!("\"forked_from_id\":\"{ID}\",\"cwd\""));
    assert_eq!(contents(text).sessions[0].0.parent_session_id, None);
}

#[test]
fn what_is_not_packed_as_it_says_is_a_fault() {
    let home = home_with(&format!("sessions/rollout-2025-10-14T22-34-00-{ID}.jsonl.zst"), header());
    let contents = parse(codec(), &home.bundle).unwrap();
    assert!(contents.faults.iter().any(|fault| matches!(fault.what, What::Unreadable(_))), "{:?}", contents.faults);
}
