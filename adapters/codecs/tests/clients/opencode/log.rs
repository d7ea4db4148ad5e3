use codecs::artifact::Body;
use codecs::check;
use events::session::{AssistantBody, Content, Message, Session};
use serde_json::{Value, json};

use super::{SESSION, assert_survives, assistant, bundles, codec, home, parse, put, session, told, user, write};

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Ids start over every 795 days, so they do not say what came first.
#[test]
fn messages_come_in_the_order_of_their_creation_and_then_of_their_ids() {
    let home = home(&[
        (assistant("msg_0001", 3_000, Some(3_100)), vec![text("third")]),
        (user("msg_fffe", 1_000), vec![text("first")]),
        (user("msg_ffff", 1_000), vec![text("second")]),
    ]);
    let contents = parse(home.path());
    assert_eq!(told(&contents.sessions[0].1), ["user text(first)", "user text(second)", "assistant text(third)"]);
}

#[test]
fn a_call_and_its_result_and_files_come_out_of_one_record_and_go_back_into_it() {
    let state = json!({"status": "completed", "input": {"path": "a.png"}, "output": "Image read", "title": "a.png", "metadata": {},
        "time": {"start": 1, "end": 2}, "attachments": [{"id": "prt_x", "type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA"}]});
    let failed = json!({"status": "error", "input": {}, "error": "no such file", "time": {"start": 1, "end": 2}});
    let parts = vec![
        json!({"type": "step-start", "snapshot": "s"}),
        json!({"type": "reasoning", "text": "Look.", "time": {"start": 1, "end": 2}}),
        json!({"type": "tool", "callID": "c1", "tool": "read", "state": state}),
        json!({"type": "tool", "callID": "c2", "tool": "read", "state": failed, "metadata": {"providerExecuted": true}}),
        json!({"type": "step-finish", "reason": "tool-calls", "cost": 0, "tokens": {}}),
    ];
    let home = home(&[(assistant("msg_a", 2_000, Some(2_100)), parts)]);
    let contents = parse(home.path());
    let expected = concat!(
        r#"assistant reasoning(Look.) tool_call(c1 read {"path":"a.png"}) !tool_result(c1 false "Image read") !file(image/png -) "#,
        r#"tool_call(c2 read {}) !tool_result(c2 true "no such file")"#
    );
    assert_eq!(told(&contents.sessions[0].1), [expected]);
    let Content::Assistant(parts) = &contents.sessions[0].1[0].content else { panic!() };
    let executed = parts
        .iter()
        .filter_map(|part| if let AssistantBody::ToolCall(it) = &part.body { Some(it.provider_executed) } else { None });
    assert_eq!(executed.collect::<Vec<_>>(), [false, true]);
    assert_survives(home.path());
}

#[test]
fn facts_of_a_turn_are_filed_under_its_provider() {
    let mut other = assistant("msg_b", 2_200, Some(2_300));
    other["providerID"] = json!("scripted");
    other["error"] = json!({"name": "APIError"});
    let home = home(&[(assistant("msg_a", 2_000, Some(2_100)), vec![text("a")]), (other, vec![text("b")])]);
    let contents = parse(home.path());
    let (session, messages) = &contents.sessions[0];
    let facts = |at: usize, name: &str| serde_json::from_str::<Value>(messages[at].options[name].get()).unwrap();
    let expected = r#"{"provider":"anthropic","model":"m-1","usage":{"input":3,"output":5},"cost":0.21713199999999994,"stop_reason":"stop"}"#;
    assert_eq!(messages[0].options["anthropic"].get(), expected);
    assert_eq!(facts(1, "opencode")["error"], json!({"name": "APIError"}));
    assert_eq!(session.project, "/srv/demo");
    assert_eq!(session.created_at.millis(), 1_000);
}

/// `adapter-lineage-complete-restore`
#[test]
fn a_child_is_restored_with_its_parent_and_one_that_hangs_on_a_child_stands_alone() {
    let home = home(&[(assistant("msg_a", 2_000, Some(2_100)), vec![text("parent")])]);
    for (id, parent) in [("ses_2", SESSION), ("ses_3", "ses_2"), ("ses_4", "ses_gone")] {
        write(home.path(), &format!("storage/session/p/{id}.json"), session(id, json!({"parentID": parent})));
        let mut message = assistant(&format!("msg_{id}"), 2_000, Some(2_100));
        message["sessionID"] = json!(id);
        put(home.path(), &message, &[text(id)]);
    }
    let found = bundles(home.path());
    let sessions: Vec<Vec<_>> = found
        .iter()
        .map(|bundle| check::parse(codec(), bundle).unwrap().sessions.into_iter().map(|it| it.0.id.to_string()).collect())
        .collect();
    assert_eq!(sessions, [vec![SESSION, "ses_2"], vec!["ses_3"], vec!["ses_4"]]);
    let contents = check::parse(codec(), &found[0]).unwrap();
    assert_eq!(contents.sessions[1].0.parent_session_id.as_ref().unwrap().as_str(), SESSION);
    let [lineage] = check::lineages(contents.sessions).try_into().unwrap();
    let files: Vec<_> = codec().serialize.native(&lineage).unwrap().into_iter().map(|it| it.path).collect();
    for id in [SESSION, "ses_2"] {
        assert!(files.contains(&format!("storage/session/p/{id}.json")), "{files:?}");
    }
    assert_survives(home.path());
}

type Stored = Vec<(Session, Vec<Message>)>;

/// As the log keeps it: what is there stays, what is new is added.
fn add(stored: &mut Stored, parsed: Stored) {
    for (session, messages) in parsed {
        let at = stored.iter().position(|it| it.0.id == session.id).unwrap_or_else(|| {
            stored.push((session, Vec::new()));
            stored.len() - 1
        });
        for message in messages {
            if stored[at].1.iter().all(|it| it.id != message.id) {
                stored[at].1.push(message);
            }
        }
    }
}

/// `adapter-integrity-additive-sync`: stored rows never change, and still the last state of what opencode overwrites comes back.
#[test]
fn a_turn_that_is_read_while_it_runs_becomes_messages_when_it_ends() {
    let running = json!({"type": "tool", "callID": "c", "tool": "bash", "state": {"status": "running", "input": {"command": "ls"}, "time": {"start": 1}}});
    let home = home(&[
        (user("msg_a", 1_000), vec![text("first")]),
        (assistant("msg_b", 1_100, Some(1_200)), vec![text("answer")]),
        (user("msg_c", 2_000), vec![text("second")]),
        (assistant("msg_d", 2_100, None), vec![text("I w"), running]),
    ]);
    let mut stored = Stored::new();
    add(&mut stored, parse(home.path()).sessions);
    assert_eq!(told(&stored[0].1), ["user text(first)", "assistant text(answer)"]);
    assert_survives(home.path());

    let done = json!({"type": "tool", "callID": "c", "tool": "bash", "state": {"status": "completed", "input": {"command": "ls"}, "output": "a", "time": {"start": 1, "end": 2}}});
    let mut asked = user("msg_c", 2_000);
    asked["summary"] = json!({"diffs": []});
    put(home.path(), &asked, &[text("second")]);
    put(home.path(), &assistant("msg_d", 2_100, Some(2_500)), &[text("I will look."), done]);
    write(
        home.path(),
        &format!("storage/session/p/{SESSION}.json"),
        session(SESSION, json!({"title": "Renamed", "time": {"created": 1_000, "updated": 9_500}})),
    );
    let before = stored[0].1.len();
    add(&mut stored, parse(home.path()).sessions);
    let after = r#"assistant text(I will look.) tool_call(c bash {"command":"ls"}) !tool_result(c false "a")"#;
    assert_eq!(told(&stored[0].1), ["user text(first)", "assistant text(answer)", "user text(second)", after]);
    assert_eq!(stored[0].1.len(), before + 3, "two messages and the session's new state");
    let again = stored.clone();
    add(&mut stored, parse(home.path()).sessions);
    assert_eq!(stored, again);

    // Even where a state is read after what became of it.
    stored[0].1.sort_by_key(|it| matches!(it.content, Content::System(_)));
    let [lineage] = check::lineages(stored).try_into().unwrap();
    let restored = codec().serialize.native(&lineage).unwrap();
    let [bundle] = bundles(home.path()).try_into().unwrap();
    assert_eq!(restored.len(), bundle.files.len());
    for artifact in restored {
        let Body::Json(value) = &artifact.body else { panic!() };
        let there = std::fs::read_to_string(home.path().join(&artifact.path)).unwrap();
        assert!(codecs::value::Reader::only(&there).unwrap().same(value), "{}: {value}", artifact.path);
    }
}

#[test]
fn a_turn_that_was_abandoned_is_read_as_it_was_left_once_another_is_complete() {
    let home = home(&[
        (user("msg_a", 1_000), vec![text("first")]),
        (assistant("msg_b", 1_100, None), vec![text("cut o")]),
        (user("msg_c", 2_000), vec![text("second")]),
        (assistant("msg_d", 2_100, Some(2_200)), vec![text("answer")]),
    ]);
    let expected = ["user text(first)", "assistant text(cut o)", "user text(second)", "assistant text(answer)"];
    assert_eq!(told(&parse(home.path()).sessions[0].1), expected);
}
