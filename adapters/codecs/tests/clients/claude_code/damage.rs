//! `adapter-integrity-no-silent-drops`: what is wrong with a source is said with adapter, file and line, and the rest is there.

use codecs::check::Contents;
use codecs::fault::What;

use super::{PROJECT, SESSION, assert_survives, bundles, codec, parse, told, write};

const HELLO: &str = r#"{"type":"user","uuid":"u1","cwd":"/srv/demo","timestamp":"2026-01-01T00:00:00.5Z","message":{"role":"user","content":"hello"}}"#;
const REPLY: &str = r#"{"type":"assistant","uuid":"a1","message":{"role":"assistant","content":[{"type":"text","text":"hi"}]}}"#;

fn faults(contents: &Contents) -> Vec<(u64, &What)> {
    for fault in &contents.faults {
        assert_eq!((fault.adapter, &*fault.location.file), ("claude-code", format!("{PROJECT}/{SESSION}.jsonl").as_str()));
    }
    contents.faults.iter().map(|fault| (fault.location.line.unwrap(), &fault.what)).collect()
}

fn assert_talk(contents: &Contents) {
    assert_eq!(told(&contents.sessions[0].1), ["user text(hello)", "assistant text(hi)"]);
}

#[test]
fn a_malformed_line_is_a_fault_and_the_lines_around_it_are_read() {
    let contents = parse(format!("{HELLO}\n{{\"type\":\"user\",}}\n{REPLY}\n"));
    assert!(matches!(faults(&contents)[..], [(2, What::Malformed(_))]));
    assert_talk(&contents);
}

#[test]
fn invalid_utf_8_is_a_fault_of_its_line_alone() {
    let contents = parse([HELLO.as_bytes(), b"\n{\"type\":\"\xff\"}\n", REPLY.as_bytes()].concat());
    assert!(matches!(faults(&contents)[..], [(2, What::NotUtf8)]));
    assert_talk(&contents);
}

#[test]
fn a_last_line_that_was_cut_off_is_a_fault() {
    let contents = parse(format!("{HELLO}\n{REPLY}\n{}", &HELLO[..60]));
    assert!(matches!(faults(&contents)[..], [(3, What::Malformed(_))]));
    assert_talk(&contents);
}

#[test]
fn two_values_on_a_line_are_two_records() {
    let contents = parse(format!("{HELLO}{REPLY}"));
    assert_eq!(faults(&contents), []);
    assert_talk(&contents);
}

/// `adapter-integrity-dedup`
#[test]
fn an_id_that_stands_twice_is_a_fault_and_both_records_are_kept() {
    let contents = parse(format!("{HELLO}\n{HELLO}\n{REPLY}"));
    assert!(matches!(faults(&contents)[..], [(2, What::Unfit(_))]));
    let ids: Vec<_> = contents.sessions[0].1.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, ["u1", "u1~2", "a1"]);
}

/// `model-project-non-empty`, `model-no-synthesis`: the directory is named by the client; nothing is made up.
#[test]
fn a_file_without_records_or_without_a_working_directory_is_a_session_of_its_directory() {
    for contents in ["", "\n", r#"{"type":"summary","summary":"About it","leafUuid":"x"}"#] {
        let contents = parse(contents);
        assert_eq!(contents.faults, []);
        let session = &contents.sessions[0].0;
        assert_eq!((session.id.as_str(), session.project.as_str()), (SESSION, "-srv-demo"));
    }
    let home = tempfile::tempdir().unwrap();
    write(home.path(), &format!("{PROJECT}/{SESSION}.jsonl"), "");
    assert_survives(home.path());
}

#[test]
fn a_session_says_where_and_when_it_began_as_soon_as_its_records_do() {
    let contents = parse(format!("{{\"type\":\"mode\"}}\n{HELLO}"));
    let session = &contents.sessions[0].0;
    assert_eq!((session.project.as_str(), session.created_at.to_string().as_str()), ("/srv/demo", "2026-01-01T00:00:00.5Z"));
    assert_eq!(session.source_agent, "claude-code");
}

/// `adapter-bounded-values`
#[test]
fn a_text_too_long_for_a_column_becomes_a_sentinel_and_an_image_does_not() {
    let long = "x".repeat(codecs::seam::VALUE_MAX + 1);
    let image = format!(r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{long}"}}}}"#);
    let line = format!(
        r#"{{"type":"user","uuid":"u","message":{{"role":"user","content":[{{"type":"text","text":"{long}"}},{image}]}},"toolUseResult":"{long}"}}"#
    );
    let message = &parse(line).sessions[0].1[0];
    let sentinel = format!("pond:truncated:{}", long.len());
    let [said, shown] = message.parts().try_into().unwrap();
    assert!(matches!(said.body, events::session::BodyRef::Text(it) if it.text == sentinel));
    assert!(matches!(shown.body, events::session::BodyRef::File(it) if it.data == events::session::Data::Inline(long.clone())));
    assert!(message.options["source"].get().contains(&format!("\"toolUseResult\":\"{sentinel}\"")));
}

#[test]
fn a_directory_of_nothing_holds_no_sessions() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "history.jsonl", "{}");
    write(home.path(), "projects/-srv-demo/notes.txt", "");
    assert_eq!(bundles(home.path()), []);
    assert!(codec().parse.discover(&home.path().join("absent")).is_err());
}
