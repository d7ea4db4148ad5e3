use codecs::artifact::{Body, Restored};
use codecs::lineage::Lineage;
use codecs::restore::{Place, restore};
use events::session::{Message, Session};
use serde_json::{Value, json};

use super::{codec, parse, told, write};

fn of<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn made_by(id: &str, parent: Option<&str>) -> Session {
    let mut session =
        json!({"id": id, "source_agent": "claude-code", "created_at": "2026-01-02T03:04:05.678Z", "project": "/srv/other"});
    if let Some(parent) = parent {
        session["parent_session_id"] = json!(parent);
    }
    of(&session)
}

/// `said` by a role in one second after the other.
fn messages(said: &[(&str, Value)]) -> Vec<Message> {
    let message = |(at, (role, content)): (usize, &(&str, Value))| {
        let parts = content.as_array().map(|parts| {
            let part = |(index, part): (usize, &Value)| {
                let mut whole = json!({"id": index.to_string(), "provenance": "conversational"});
                whole.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
                whole
            };
            Value::from(parts.iter().enumerate().map(part).collect::<Vec<_>>())
        });
        let options = if *role == "assistant" { json!({"anthropic": {"model": "claude-x"}}) } else { json!({}) };
        of(
            &json!({"id": format!("m{at}"), "role": role, "timestamp": format!("2026-01-02T03:05:{at:02}Z"), "content": parts.unwrap_or_else(|| content.clone()), "options": options}),
        )
    };
    said.iter().enumerate().map(message).collect()
}

fn lineage() -> Lineage {
    let said = [
        ("system", json!("You help.")),
        ("system", json!("")),
        (
            "user",
            json!([{"type": "text", "text": "<env/>", "provenance": "injected"}, {"type": "text", "text": "What is this?\nSay."},
            {"type": "file", "media_type": "image/png", "file_name": "a.png", "data": "AAAA"}]),
        ),
        (
            "assistant",
            json!([{"type": "reasoning", "text": "Hm."}, {"type": "reasoning", "text": ""}, {"type": "text", "text": "Let me look."},
            {"type": "tool_call", "call_id": "t1", "name": "Bash", "params": {"command": "ls"}},
            {"type": "tool_call", "call_id": "t2", "name": "Read", "params": "a raw text"},
            {"type": "tool_call", "call_id": "t3", "name": "Read", "params": {}}]),
        ),
        (
            "tool",
            json!([{"type": "tool_result", "call_id": "t2", "is_failure": true, "result": "no such file", "provenance": "injected"},
            {"type": "tool_result", "call_id": "t1", "result": [{"type": "text", "text": "a"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "BBBB"}}], "provenance": "injected"},
            {"type": "tool_result", "call_id": "t9", "result": {"stray": 1}, "provenance": "injected"},
            {"type": "tool_approval_response", "approval_id": "x", "approved": true}]),
        ),
        ("assistant", json!([{"type": "text", "text": "A list."}])),
        ("user", json!([{"type": "text", "text": "Thanks"}])),
        (
            "assistant",
            json!([{"type": "tool_call", "call_id": "t1", "name": "Web", "params": {"q": 1}}, {"type": "tool_result", "call_id": "t1", "result": {"ok": [1]}, "provenance": "injected"}]),
        ),
    ];
    let child = (
        made_by("c", Some("s")),
        messages(&[
            ("user", json!([{"type": "text", "text": "Review"}])),
            ("assistant", json!([{"type": "text", "text": "Fine."}])),
        ]),
    );
    Lineage::new(made_by("s", None), messages(&said), vec![child]).unwrap()
}

fn restored() -> Restored {
    restore(codec(), &lineage(), &Place { directory: "/srv/here".to_owned() }).unwrap()
}

/// `adapter-native-restore-lossless`: what is foreign says the same as well as opencode can, in order, and reports the rest.
#[test]
fn a_session_of_another_client_says_the_same_when_it_is_read_again() {
    let restored = restored();
    assert!(!restored.native);
    let home = tempfile::tempdir().unwrap();
    for artifact in &restored.artifacts {
        write(home.path(), &artifact.path, artifact.body.to_text().unwrap());
    }
    let contents = parse(home.path());
    assert!(contents.faults.is_empty(), "{:?}", contents.faults);
    let session = contents.sessions.iter().find(|it| it.0.id.as_str() == restored.session_id).unwrap();
    assert_eq!(session.0.project, "/srv/here");
    assert_eq!(
        told(&session.1),
        [
            "user !text(<env/>) text(What is this?\nSay.) file(image/png a.png)",
            concat!(
                "assistant reasoning(Hm.) text(Let me look.) ",
                r#"tool_call(t1 Bash {"command":"ls"}) !tool_result(t1 false "a") !file(image/png -) "#,
                r#"tool_call(t2 Read {"input":"a raw text"}) !tool_result(t2 true "no such file") "#,
                r#"tool_call(t3 Read {}) !tool_result(t3 true "Tool execution aborted")"#
            ),
            "assistant text(A list.)",
            "user text(Thanks)",
            r#"assistant tool_call(t1 Web {"q":1}) !tool_result(t1 false "{\"ok\":[1]}")"#,
        ]
    );
    let dropped: Vec<_> = restored.report.dropped.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let expected = [
        "1 approval",
        "1 reasoning without text",
        "1 record that is no message",
        "1 system message",
        "1 tool result without its call",
    ];
    assert_eq!(dropped, expected);
}

/// `adapter-lineage-complete-restore`
#[test]
fn children_are_files_of_their_own_that_name_their_parent() {
    let restored = restored();
    let [parent, child] = restored.artifacts.as_slice() else { panic!("{}", restored.artifacts.len()) };
    assert_eq!(parent.path, format!("{}.json", restored.session_id));
    let info = |body: &Body| serde_json::from_str::<Value>(&body.to_text().unwrap()).unwrap()["info"].clone();
    assert_eq!(info(&parent.body)["parentID"], Value::Null);
    assert_eq!(info(&child.body)["parentID"], json!(restored.session_id));
    assert_eq!(info(&parent.body)["title"], json!("What is this?"));
}

/// `lance-deterministic-pk`, of ids that opencode takes for its own.
#[test]
fn ids_are_the_same_every_time_and_count_below_all_that_opencode_will_make() {
    let (one, two) = (restored(), restored());
    assert_eq!(one.artifacts, two.artifacts);
    let whole: Value = serde_json::from_str(&one.artifacts[0].body.to_text().unwrap()).unwrap();
    let mut ids = Vec::new();
    for message in whole["messages"].as_array().unwrap() {
        assert_eq!(message["info"]["sessionID"], json!(one.session_id));
        ids.push(message["info"]["id"].as_str().unwrap().trim_start_matches("msg_").to_owned());
        let parts = message["parts"].as_array().unwrap();
        assert!(parts.is_sorted_by_key(|it| it["id"].as_str().unwrap()), "opencode reads them in this order");
        for part in parts {
            assert_eq!(part["messageID"], message["info"]["id"]);
            assert_eq!(part["id"].as_str().unwrap().len(), "prt_".len() + 26);
        }
    }
    assert!(ids.is_sorted() && ids.iter().all(|id| id.len() == 26 && id.starts_with("00000000")), "{ids:?}");
    let answers = whole["messages"].as_array().unwrap().iter().filter(|it| it["info"]["role"] == "assistant");
    assert!(
        answers.clone().count() == 3 && answers.clone().all(|it| it["info"]["parentID"].as_str().unwrap().starts_with("msg_"))
    );
    let finishes: Vec<_> = answers.map(|it| it["info"]["finish"].clone()).collect();
    assert_eq!(finishes, ["tool-calls", "stop", "tool-calls"]);
    assert!(one.session_id.starts_with("ses_") && one.session_id.len() == 30);
    assert_eq!(whole["messages"][0]["info"]["model"], json!({"providerID": "anthropic", "modelID": "claude-x"}));
}

#[test]
fn a_blob_that_was_not_loaded_is_an_error_and_no_broken_file() {
    let file = json!([{"type": "file", "media_type": "image/png", "url": "pond://blob/00"}]);
    let lineage = Lineage::new(made_by("s", None), messages(&[("user", file)]), Vec::new()).unwrap();
    let error = restore(codec(), &lineage, &Place { directory: "/srv".to_owned() }).unwrap_err();
    assert_eq!(error.to_string(), "the data of part 0 in message m0 is a blob that was not loaded");
}
