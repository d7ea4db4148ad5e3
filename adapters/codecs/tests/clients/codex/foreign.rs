//! Sessions of other clients as rollouts: read again with our own eyes, they say the same.

use codecs::artifact::{Artifact, Body, Restored};
use codecs::check::parse;
use codecs::lineage::Lineage;
use codecs::restore::{Place, RestoreError, restore};
use codecs::value::Value;
use events::session::{Message, Session};

use super::{codec, told};

fn session(id: &str, parent: Option<&str>) -> Session {
    let parent = parent.map(|parent| format!(r#""parent_session_id":"{parent}","#)).unwrap_or_default();
    let text = format!(
        r#"{{"id":"{id}",{parent}"source_agent":"claude-code","created_at":"2026-03-04T05:06:07.5Z","project":"/old","options":{{}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn messages(all: &[&str]) -> Vec<Message> {
    let number = |(n, text): (usize, &&str)| {
        let text = format!(r#"{{"id":"m{n}","timestamp":"2026-03-04T05:06:{:02}Z",{text}}}"#, n + 10);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    all.iter().enumerate().map(number).collect()
}

fn place() -> Place {
    Place { directory: "/srv/new".to_owned() }
}

fn foreign(session: Session, messages: Vec<Message>, children: Vec<(Session, Vec<Message>)>) -> Restored {
    let restored = restore(codec(), &Lineage::new(session, messages, children).unwrap(), &place()).unwrap();
    assert!(!restored.native);
    restored
}

fn again(artifacts: &[Artifact]) -> Vec<(Session, Vec<Message>)> {
    let home = tempfile::tempdir().unwrap();
    for artifact in artifacts {
        let path = home.path().join(&artifact.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, artifact.body.to_text().unwrap()).unwrap();
    }
    let bundles = codec().parse.discover(home.path()).unwrap();
    let contents: Vec<_> = bundles.iter().map(|bundle| parse(codec(), bundle).unwrap()).collect();
    assert!(contents.iter().all(|contents| contents.faults.is_empty()));
    contents.into_iter().flat_map(|contents| contents.sessions).collect()
}

const TALK: &[&str] = &[
    r#""role":"system","content":"You are brief.""#,
    r#""role":"system","content":"","options":{"source":{"record":{}}}"#,
    r#""role":"user","content":[
        {"id":"0","type":"text","provenance":"injected","text":"<system-reminder>x</system-reminder>"},
        {"id":"1","type":"text","provenance":"conversational","text":"What is in the picture?"},
        {"id":"2","type":"file","provenance":"conversational","media_type":"image/png","data":"iVBORw0KGgo="},
        {"id":"3","type":"file","provenance":"conversational","media_type":"application/pdf","data":"JVBERi0="}]"#,
    r#""role":"assistant","options":{"anthropic":{"model":"claude-x"}},"content":[
        {"id":"0","type":"reasoning","provenance":"conversational","text":"A dot?"},
        {"id":"1","type":"text","provenance":"conversational","text":"I look."},
        {"id":"2","type":"tool_call","provenance":"conversational","call_id":"toolu_1","name":"Bash","params":{"command":"ls"},"provider_executed":false},
        {"id":"3","type":"tool_call","provenance":"conversational","call_id":"call|with a bar","name":"mcp.odd name","params":[1],"provider_executed":false},
        {"id":"4","type":"tool_call","provenance":"conversational","call_id":"free","name":"apply_patch","params":"*** Begin Patch","provider_executed":false}]"#,
    r#""role":"tool","content":[
        {"id":"0","type":"tool_result","provenance":"injected","call_id":"toolu_1","is_failure":false,"result":[{"type":"text","text":"a b"}]},
        {"id":"1","type":"tool_result","provenance":"injected","call_id":"free","is_failure":true,"result":"no"},
        {"id":"2","type":"tool_result","provenance":"injected","call_id":"nobody","is_failure":false,"result":"lost"},
        {"id":"3","type":"tool_result","provenance":"injected","call_id":"call|with a bar","is_failure":false,
         "result":[{"type":"text","text":"t"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]},
        {"id":"4","type":"tool_result","provenance":"injected","call_id":"toolu_1","is_failure":false,"result":"twice"}]"#,
    r#""role":"assistant","content":[{"id":"0","type":"text","provenance":"conversational","text":"A dot."}]"#,
];

#[test]
fn texts_thoughts_pictures_calls_and_results_survive_in_their_order() {
    let restored = foreign(session("claude 1", None), messages(TALK), Vec::new());
    let (session, messages) = again(&restored.artifacts).remove(0);
    assert_eq!((session.id.as_str(), session.project.as_str()), (restored.session_id.as_str(), "/srv/new"));
    assert_eq!(session.created_at.to_string(), "2026-03-04T05:06:07.5Z");
    let odd = "call_".to_owned() + &blake3_start("call|with a bar");
    let tool = "tool_".to_owned() + &blake3_start("mcp.odd name");
    assert_eq!(
        told(&messages),
        [
            "system You are brief.",
            "user injected <system-reminder>x</system-reminder>",
            "user What is in the picture?",
            r#"user image/png Inline("iVBORw0KGgo=")"#,
            "assistant thinks A dot?",
            "assistant I look.",
            r#"assistant toolu_1 calls Bash {"command":"ls"}"#,
            &format!("assistant {odd} calls {tool} [1]"),
            r#"assistant free calls apply_patch "*** Begin Patch""#,
            r#"tool injected toolu_1 gives "a b""#,
            r#"tool injected free gives "no""#,
            &format!(
                r#"tool injected {odd} gives [{{"type":"input_text","text":"t"}},{{"type":"input_image","image_url":"data:image/png;base64,AAAA"}}]"#
            ),
            "assistant A dot.",
        ]
    );
    let dropped: Vec<_> = restored.report.dropped.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    assert_eq!(
        dropped,
        [
            "1 application/pdf file",
            "1 failure flag of a tool result",
            "1 record of the client's own",
            "2 tool result without a call"
        ]
    );
}

fn blake3_start(text: &str) -> String {
    blake3::hash(format!("{text}\0").as_bytes()).to_hex()[..24].to_owned()
}

#[test]
fn the_screen_is_told_what_was_said_and_not_what_a_client_put_there() {
    let restored = foreign(session("claude 1", None), messages(TALK), Vec::new());
    let Body::Lines(lines) = &restored.artifacts[0].body else { panic!("a rollout is lines") };
    let events: Vec<_> = lines.iter().filter(|it| it.get("type").and_then(Value::as_str) == Some("event_msg")).collect();
    let said = |value: &&Value| {
        let payload = value.get("payload")?;
        let text = payload.get("message").or(payload.get("text"))?.as_str()?;
        Some(format!("{} {text}", payload.get("type")?.as_str()?))
    };
    let said: Vec<_> = events.iter().filter_map(said).collect();
    assert_eq!(
        said,
        ["user_message What is in the picture?", "agent_reasoning A dot?", "agent_message I look.", "agent_message A dot."]
    );
}

#[test]
fn a_session_always_gets_the_same_id_and_place() {
    let at = |id: &str| foreign(session(id, None), Vec::new(), Vec::new());
    let (one, two) = (at("claude 1"), at("claude 2"));
    assert_eq!(one, at("claude 1"));
    assert_ne!(one.session_id, two.session_id);
    let path = format!("sessions/2026/03/04/rollout-2026-03-04T05-06-07-{}.jsonl", one.session_id);
    assert_eq!(one.artifacts[0].path, path);
    let uuid = "a7e4a5d0-5b78-48f2-b041-6b876f71fdab";
    assert_eq!(at(uuid).session_id, uuid);
}

/// `adapter-lineage-complete-restore`
#[test]
fn children_come_along_and_name_their_parent() {
    let said = [r#""role":"user","content":[{"id":"0","type":"text","provenance":"conversational","text":"Count."}]"#];
    let mut fork = session("claude 3", Some("claude 1"));
    fork.parent_message_id = Some("m0".parse().unwrap());
    let children = vec![(session("claude 2", Some("claude 1")), messages(&said)), (fork, messages(&said))];
    let restored = foreign(session("claude 1", None), messages(&said), children);
    let all = again(&restored.artifacts);
    let (parents, children): (Vec<_>, Vec<_>) = all.into_iter().partition(|(session, _)| session.parent_session_id.is_none());
    assert_eq!((parents.len(), children.len()), (1, 2));
    for (child, messages) in children {
        assert_eq!(child.parent_session_id.unwrap().as_str(), restored.session_id);
        assert_eq!(told(&messages), ["user Count."]);
    }
}

#[test]
fn a_picture_that_was_not_loaded_is_an_error() {
    let picture = [r#""role":"user","content":[{"id":"0","type":"file","provenance":"conversational","media_type":"image/png",
        "url":"pond://blob/00"}]"#];
    let lineage = Lineage::new(session("claude 1", None), messages(&picture), Vec::new()).unwrap();
    let error = restore(codec(), &lineage, &place()).unwrap_err();
    assert_eq!(error, RestoreError::BlobNotLoaded { message: "m0".to_owned(), part: "0".to_owned() });
}
