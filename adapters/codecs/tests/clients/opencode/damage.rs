use codecs::check;
use serde_json::json;

use super::{SESSION, assistant, bundles, codec, home, parse, put, told, user, write};

fn text(text: &str) -> serde_json::Value {
    json!({"type": "text", "text": text})
}

/// `adapter-integrity-no-silent-drops`: a typed fault that says where, and everything else is read.
#[test]
fn a_damaged_file_is_a_fault_with_its_place_and_the_rest_is_read() {
    let cases: [(&str, &[u8], &str); 6] = [
        ("malformed", b"{\n\"id\": \"msg_b\",\n oops}", "msg_b.json:3: not JSON: no key at byte 18"),
        ("not UTF-8", b"{\"id\": \"\xff\"}", "msg_b.json: not UTF-8"),
        ("cut off", b"{\"id\": \"msg_b\", \"ro", "msg_b.json:1: not JSON: cut off at byte 17"),
        ("two values", b"{\"id\":\"msg_b\"}{\"id\":\"msg_b\"}", "msg_b.json:1: not JSON: something after the value at byte 14"),
        ("empty", b"", "msg_b.json:1: not JSON: nothing at byte 0"),
        ("too deep", &[b'['; 1_000], "msg_b.json:1: not JSON: nested too deep at byte 256"),
    ];
    for (what, contents, fault) in cases {
        let home = home(&[(user("msg_a", 1_000), vec![text("hi")]), (assistant("msg_c", 2_000, Some(2_100)), vec![text("yes")])]);
        write(home.path(), &format!("storage/message/{SESSION}/msg_b.json"), contents);
        put(home.path(), &user("msg_a", 1_000), &[text("hi")]);
        write(home.path(), "storage/part/msg_c/prt_z.json", contents);
        let contents = parse(home.path());
        assert_eq!(told(&contents.sessions[0].1), ["user text(hi)", "assistant text(yes)"], "{what}");
        let faults: Vec<_> = contents.faults.iter().map(ToString::to_string).collect();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults.contains(&format!("opencode: storage/message/{SESSION}/{fault}")), "{what}: {faults:?}");
        let [bundle] = bundles(home.path()).try_into().unwrap();
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(check::check(codec(), &bundle, scratch.path()).unwrap(), [], "what could be read comes back");
    }
}

#[test]
fn a_session_without_its_own_record_is_told_by_its_files() {
    for broken in [None, Some("{")] {
        let mut answer = assistant("msg_b", 2_000, Some(2_100));
        answer["path"] = json!({"cwd": "/srv/demo", "root": "/srv"});
        let home = home(&[(user("msg_a", 1_000), vec![text("hi")]), (answer, vec![text("yes")])]);
        let info = format!("storage/session/p/{SESSION}.json");
        match broken {
            Some(contents) => write(home.path(), &info, contents),
            None => std::fs::remove_file(home.path().join(&info)).unwrap(),
        }
        let contents = parse(home.path());
        let (session, messages) = &contents.sessions[0];
        assert_eq!((session.id.as_str(), session.project.as_str(), session.created_at.millis()), (SESSION, "/srv/demo", 1_000));
        assert_eq!(told(messages), ["user text(hi)", "assistant text(yes)"]);
        assert_eq!(contents.faults.len(), 1, "{:?}", contents.faults);
        super::assert_survives(home.path());
    }
}

/// `model-project-non-empty`
#[test]
fn a_session_whose_project_nobody_knows_is_left_out_and_said_so() {
    let home = home(&[(user("msg_a", 1_000), vec![text("hi")])]);
    write(home.path(), &format!("storage/session/p/{SESSION}.json"), r#"{"id":"ses_1"}"#);
    let contents = parse(home.path());
    assert!(contents.sessions.is_empty());
    assert!(contents.faults[0].to_string().contains("the project cannot be told"), "{:?}", contents.faults);
}

#[test]
fn parts_without_a_message_are_kept_and_those_without_a_session_are_faults() {
    let home = home(&[(assistant("msg_b", 2_000, Some(2_100)), vec![text("yes")])]);
    write(
        home.path(),
        "storage/part/msg_gone/prt_1.json",
        json!({"type": "text", "text": "left", "sessionID": SESSION}).to_string(),
    );
    super::assert_survives(home.path());
    assert!(parse(home.path()).faults.is_empty());
    write(home.path(), "storage/part/msg_lost/prt_2.json", json!({"type": "text", "text": "lost"}).to_string());
    let faults = parse(home.path()).faults;
    assert_eq!(faults.len(), 1);
    assert!(faults[0].to_string().starts_with("opencode: storage/part/msg_lost/prt_2.json"), "{}", faults[0]);
}

#[test]
fn an_export_that_is_none_or_is_cut_off_is_a_fault() {
    for (contents, fault) in [
        (r#"{"info":{"id":"ses_1"},"messages":[{"info":"#, "x.json:1: not JSON: cut off"),
        (r#"{"hello":1}"#, "x.json: neither an export nor a file of a tree"),
    ] {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), "x.json", contents);
        let contents = parse(&home.path().join("x.json"));
        assert!(contents.sessions.is_empty());
        assert!(contents.faults[0].to_string().contains(fault), "{}", contents.faults[0]);
    }
}

/// `adapter-integrity-dedup`: both stay, under names of their own, and both come back.
#[test]
fn two_messages_of_one_id_are_told_apart() {
    let home = tempfile::tempdir().unwrap();
    let info: serde_json::Value = serde_json::from_str(&super::session(SESSION, json!({}))).unwrap();
    let message = |words: &str| json!({"info": assistant("msg_a", 2_000, Some(2_100)), "parts": [{"id": "prt_a", "type": "text", "text": words}]});
    let whole = json!({"info": info, "messages": [message("one"), message("two")], "extra": {"kept": true}});
    write(home.path(), "ses_1.json", whole.to_string());
    let contents = parse(home.path());
    let ids: Vec<_> = contents.sessions[0].1.iter().map(|it| it.id.to_string()).collect();
    assert_eq!(ids[..2], ["msg_a", "msg_a~2"]);
    assert_eq!(told(&contents.sessions[0].1), ["assistant text(one)", "assistant text(two)"]);
    super::assert_survives(home.path());
}

/// `adapter-bounded-values`
#[test]
fn a_value_beyond_bounds_leaves_a_sentinel_that_says_how_long_it_was() {
    let long = "x".repeat(codecs::seam::VALUE_MAX + 1);
    let home = home(&[(assistant("msg_b", 2_000, Some(2_100)), vec![text(&long), text("short")])]);
    let expected = format!("assistant text(pond:truncated:{}) text(short)", long.len());
    assert_eq!(told(&parse(home.path()).sessions[0].1), [expected]);
}
