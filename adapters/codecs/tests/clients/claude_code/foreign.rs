//! Sessions of other clients, written as Claude Code's and read again.

use codecs::artifact::{Artifact, Body};
use codecs::check;
use codecs::lineage::Lineage;
use codecs::restore::{Place, RestoreError, restore};
use events::session::{Message, Session};
use serde_json::{Value, json};

use super::{bundles, codec, told, write};

fn session(id: &str, parent: Option<&str>) -> Session {
    let mut session = json!({"id": id, "source_agent": "other", "created_at": "2026-01-01T00:00:00Z", "project": "/elsewhere"});
    if let Some(parent) = parent {
        session["parent_session_id"] = parent.into();
    }
    serde_json::from_value(session).unwrap()
}

fn message(id: &str, role: &str, content: Value) -> Message {
    let mut content = content;
    for (index, part) in content.as_array_mut().into_iter().flatten().enumerate() {
        part["id"] = index.to_string().into();
        if part.get("provenance").is_none() {
            part["provenance"] = "conversational".into();
        }
    }
    let options = json!({"openai": {"model": "gpt-test"}, "source": {"record": {}}});
    let message = json!({"id": id, "role": role, "timestamp": "2026-01-01T00:00:00Z", "content": content, "options": options});
    serde_json::from_value(message).unwrap()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn injected(text: &str) -> Value {
    json!({"type": "text", "text": text, "provenance": "injected"})
}

fn call(id: &str, name: &str, params: Value) -> Value {
    json!({"type": "tool_call", "call_id": id, "name": name, "params": params})
}

fn result(id: &str, result: Value) -> Value {
    json!({"type": "tool_result", "call_id": id, "result": result, "provenance": "injected"})
}

fn talk() -> Vec<Message> {
    vec![
        message("s", "system", json!("You are another client.")),
        message("c", "system", json!("")),
        message(
            "1",
            "user",
            json!([injected("<environment>linux</environment>"), text("list the files"), text("and look at this"),
            {"type": "file", "media_type": "image/png", "data": "iVBORw0KGgo="}]),
        ),
        message(
            "2",
            "assistant",
            json!([{"type": "reasoning", "text": "hm"}, text("I look."), call("call|1/ü", "shell.run", json!(["ls"]))]),
        ),
        message("3", "assistant", json!([call("c2", "read", json!({"path": "a"}))])),
        message("4", "tool", json!([result("call|1/ü", json!("a b"))])),
        message(
            "5",
            "tool",
            json!([{"type": "tool_result", "call_id": "c2", "is_failure": true, "provenance": "injected",
            "result": [{"type": "text", "text": "no"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]}]),
        ),
        message("6", "assistant", json!([text("Two files."), text(" ")])),
        message("7", "user", json!([text("thanks")])),
    ]
}

fn place() -> Place {
    Place { directory: "/srv/my demo.d".to_owned() }
}

fn written(messages: Vec<Message>) -> (Vec<Artifact>, codecs::artifact::Report) {
    let lineage = Lineage::new(session("thread_1", None), messages, Vec::new()).unwrap();
    let restored = restore(codec(), &lineage, &place()).unwrap();
    assert!(!restored.native);
    assert!(restored.artifacts[0].path.ends_with(&format!("/{}.jsonl", restored.session_id)));
    (restored.artifacts, restored.report)
}

fn lines(artifact: &Artifact) -> Vec<Value> {
    let Body::Lines(lines) = &artifact.body else { panic!("{artifact:?}") };
    lines.iter().map(|line| serde_json::from_str(&line.to_string()).unwrap()).collect()
}

fn read_again(artifacts: &[Artifact]) -> Vec<(Session, Vec<Message>)> {
    let home = tempfile::tempdir().unwrap();
    for artifact in artifacts {
        write(home.path(), &artifact.path, artifact.body.to_bytes().unwrap());
    }
    let mut sessions = Vec::new();
    for bundle in bundles(home.path()) {
        let contents = check::parse(codec(), &bundle).unwrap();
        assert_eq!(contents.faults, []);
        sessions.extend(contents.sessions);
    }
    sessions
}

#[test]
fn words_calls_results_and_their_order_survive() {
    let (artifacts, report) = written(talk());
    let sessions = read_again(&artifacts);
    assert_eq!(
        told(&sessions[0].1),
        [
            "user !text(<environment>linux</environment>)",
            "user text(list the files) text(and look at this) file(image/png -)",
            "assistant text(I look.)",
            r#"assistant tool_call(call-1-- shell_run {"input":["ls"]})"#,
            r#"assistant tool_call(c2 read {"path":"a"})"#,
            r#"tool !tool_result(call-1-- false "a b")"#,
            r#"tool !tool_result(c2 true [{"type":"text","text":"no"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}])"#,
            "assistant text(Two files.)",
            "user text(thanks)",
        ]
    );
    let dropped: Vec<_> = report.dropped.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(dropped, [("carried_record", 1), ("reasoning", 1), ("system_message", 1)]);
}

#[test]
fn lines_are_one_chain_of_fresh_uuids_under_the_slug_of_the_directory() {
    let (artifacts, _) = written(talk());
    assert!(artifacts[0].path.starts_with("projects/-srv-my-demo-d/"), "{}", artifacts[0].path);
    let lines = lines(&artifacts[0]);
    let mut last = Value::Null;
    for line in &lines {
        assert_eq!(line["parentUuid"], last);
        assert_eq!(line["cwd"], "/srv/my demo.d");
        assert_eq!(line["uuid"].as_str().unwrap().len(), 36);
        last = line["uuid"].clone();
    }
    let uuids: std::collections::BTreeSet<_> = lines.iter().map(|it| it["uuid"].to_string()).collect();
    assert_eq!(uuids.len(), lines.len());
    let replies: Vec<_> = lines.iter().filter(|it| it["type"] == "assistant").map(|it| &it["message"]).collect();
    assert_eq!((&replies[0]["id"], &replies[0]["model"]), (&replies[2]["id"], &"gpt-test".into()));
    assert_ne!(replies[2]["id"], replies[3]["id"]);
    let stops: Vec<_> = replies.iter().map(|it| it["stop_reason"].as_str()).collect();
    assert_eq!(stops, [None, None, Some("tool_use"), Some("end_turn")]);
    assert_eq!(written(talk()).0, artifacts, "the same again");
}

/// The API refuses a call that its results do not follow at once, two calls of one id, and results of no call.
#[test]
fn every_call_is_followed_by_its_own_result() {
    let (artifacts, report) = written(vec![
        message("1", "user", json!([text("go")])),
        message("2", "assistant", json!([call("t", "a", json!({})), call("never", "b", json!({}))])),
        message("3", "user", json!([text("wait")])),
        message("4", "tool", json!([result("t", json!("first")), result("of none", json!("?"))])),
        message("5", "assistant", json!([call("t", "a", json!({})), result("t", json!({"exit": 0}))])),
    ]);
    let lines = lines(&artifacts[0]);
    let mut open: Vec<Value> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for line in &lines {
        let blocks = line["message"]["content"].as_array().cloned().unwrap_or_default();
        match blocks.first().map(|it| it["type"].as_str().unwrap()) {
            Some("tool_use") => {
                assert!(seen.insert(blocks[0]["id"].to_string()), "an id twice");
                open.push(blocks[0]["id"].clone());
            }
            Some("tool_result") => assert_eq!(open.remove(0), blocks[0]["tool_use_id"]),
            Some(_) | None => assert_eq!(open, Vec::<Value>::new(), "a turn before the results"),
        }
    }
    assert_eq!(open, Vec::<Value>::new());
    let last = &lines.last().unwrap()["message"]["content"][0];
    assert_eq!(last["content"], r#"{"exit":0}"#);
    let dropped: Vec<_> = report.dropped.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(dropped, [("tool_call_without_result", 1), ("tool_result_without_call", 1)]);
}

/// `adapter-lineage-complete-restore`
#[test]
fn what_was_spawned_becomes_an_agent_and_what_was_forked_a_session() {
    let said = |id: &str, words: &str| vec![message(id, "user", json!([text(words)]))];
    let mut fork = session("fork", Some("thread_1"));
    fork.parent_message_id = Some("1".parse().unwrap());
    let children = vec![(session("child", Some("thread_1")), said("x", "task")), (fork, said("y", "another way"))];
    let lineage = Lineage::new(session("thread_1", None), said("1", "begin"), children).unwrap();
    let restored = restore(codec(), &lineage, &place()).unwrap();
    let mut sessions = read_again(&restored.artifacts);
    sessions.sort_by_key(|(_, messages)| told(messages));
    let words: Vec<_> = sessions.iter().flat_map(|(_, messages)| told(messages)).collect();
    assert_eq!(words, ["user text(another way)", "user text(begin)", "user text(task)"]);
    let parents: Vec<_> = sessions.iter().map(|(it, _)| it.parent_session_id.as_ref().map(ToString::to_string)).collect();
    assert_eq!(parents, [None, None, Some(restored.session_id)]);
}

#[test]
fn an_id_that_is_a_uuid_is_kept_and_any_other_makes_the_same_one_each_time() {
    let id = |id: &str| codec().serialize.session_id(&session(id, None));
    assert_eq!(id(super::SESSION), super::SESSION);
    assert_eq!(id("thread_1"), id("thread_1"));
    assert_ne!(id("thread_1"), id("thread_2"));
    assert_eq!(id("thread_1").len(), 36);
}

#[test]
fn files_go_as_what_the_api_takes_and_the_rest_is_reported() {
    let file = |media_type: &str, key: &str, data: &str| {
        let mut file = json!({"type": "file", "media_type": media_type, "file_name": "n"});
        file[key] = data.into();
        file
    };
    let (artifacts, report) = written(vec![message(
        "1",
        "user",
        json!([
            file("application/pdf", "data", "AAAA"),
            file("text/markdown", "data", "IyBB"),
            file("image/png", "url", "https://x.test/a.png"),
            file("video/mp4", "data", "/////w=="),
            file("image/png", "url", "file:///a.png"),
        ]),
    )]);
    let content = lines(&artifacts[0])[0]["message"]["content"].clone();
    assert_eq!(
        content,
        json!([
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}, "title": "n"},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "# A"}, "title": "n"},
            {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
        ])
    );
    assert_eq!(report.dropped["file"], 2);
    let blob = message("1", "user", json!([file("image/png", "url", "pond://blob/00")]));
    let lineage = Lineage::new(session("thread_1", None), vec![blob], Vec::new()).unwrap();
    assert!(matches!(restore(codec(), &lineage, &place()), Err(RestoreError::BlobNotLoaded { .. })));
}

/// `adapter-native-restore-lossless`: who made a session decides, not the codec.
#[test]
fn words_of_another_harness_in_the_models_place_stay_its_own() {
    let (artifacts, _) = written(vec![
        message("1", "user", json!([text("go")])),
        message("2", "assistant", json!([injected("The request failed.")])),
    ]);
    assert_eq!(told(&read_again(&artifacts)[0].1), ["user text(go)", "assistant !text(The request failed.)"]);
}
