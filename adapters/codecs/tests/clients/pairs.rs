//! Every client's recorded sessions, gone on with in every other client.

use std::path::Path;

use codecs::check::{Contents, lineages};
use codecs::lineage::Lineage;
use codecs::registry::{CODECS, Codec};
use codecs::restore::{Place, restore, unfolded};
use codecs::value::{Reader, Value};
use events::Json;
use events::session::{BodyRef, Message, Provenance};

use crate::opencode::recorded;
use crate::support::{codec, directories, fixtures, moved, parse};

/// All that was recorded of a client.
fn recordings(codec: &Codec) -> Vec<Contents> {
    let root = fixtures(codec.origin);
    match codec.origin {
        "opencode" => directories(&root).iter().map(|it| parse(codec, recorded(it).path())).collect(),
        "pi" => vec![parse(codec, &root)],
        _ => directories(&root).iter().map(|it| parse(codec, it)).collect(),
    }
}

fn read(json: &Json) -> Value {
    Reader::only(json.get()).unwrap()
}

/// Some clients call tools with objects only.
fn arguments(params: &Json) -> String {
    let value = read(params);
    if matches!(value, Value::Object(_)) { value.to_string() } else { Value::object([("input", value)]).to_string() }
}

/// The words of a result, however a client keeps them.
fn words(result: &Json) -> String {
    let value = read(result);
    let block = |block: &Value| block.get("text").and_then(Value::as_str).filter(|it| !it.trim().is_empty()).map(str::to_owned);
    match &value {
        Value::String(text) => text.trim().to_owned(),
        Value::Array(blocks) if blocks.iter().all(|it| it.get("type").is_some()) => {
            blocks.iter().filter_map(block).collect::<Vec<_>>().join("\n").trim().to_owned()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Broken(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

/// What a person and the model said to each other, and the calls, in order.
fn said(messages: &[Message]) -> Vec<String> {
    let part = |message: &Message| {
        let role = message.role().as_str();
        let said = message.parts().into_iter().filter_map(|part| match part.body {
            BodyRef::Text(it) if part.provenance == Provenance::Conversational && !it.text.trim().is_empty() => {
                Some(format!("{role}: {}", it.text))
            }
            BodyRef::ToolCall(it) => Some(format!("calls {} {}", it.name, arguments(&it.params))),
            BodyRef::Text(_)
            | BodyRef::Reasoning(_)
            | BodyRef::File(_)
            | BodyRef::ToolResult(_)
            | BodyRef::ApprovalRequest(_)
            | BodyRef::ApprovalResponse(_) => None,
        });
        said.collect::<Vec<_>>()
    };
    messages.iter().flat_map(part).collect()
}

/// What every call gave, in the order of the calls; `None` where the session does not say.
fn given(messages: &[Message]) -> Vec<Option<String>> {
    let parts: Vec<_> = messages.iter().flat_map(Message::parts).collect();
    let mut results: Vec<_> =
        parts.iter().filter_map(|it| if let BodyRef::ToolResult(it) = it.body { Some(Some(it)) } else { None }).collect();
    let calls = parts.iter().filter_map(|it| if let BodyRef::ToolCall(it) = it.body { Some(it) } else { None });
    let result = calls.map(|call| {
        let found = results.iter_mut().find(|it| it.is_some_and(|it| it.call_id == call.call_id))?;
        found.take().map(|it| words(&it.result))
    });
    result.collect()
}

/// The session first, then its children, told alike whatever order they come in. A question that nobody answered yet is no message of
/// opencode's yet.
fn transcripts<'a>(to: &Codec, sessions: impl Iterator<Item = &'a [Message]>) -> Vec<(Vec<String>, Vec<Option<String>>)> {
    let transcript = |messages: &[Message]| {
        let mut said = said(messages);
        while to.origin == "opencode" && said.last().is_some_and(|it| it.starts_with("user:")) {
            said.pop();
        }
        (said, given(messages))
    };
    let mut transcripts: Vec<_> = sessions.map(transcript).filter(|(said, _)| !said.is_empty()).collect();
    if let Some((_, children)) = transcripts.split_first_mut() {
        children.sort();
    }
    transcripts
}

fn compare(to: &Codec, lineage: &Lineage) -> usize {
    let before = transcripts(to, unfolded(lineage).all().map(|(_, messages)| messages));
    if said(&lineage.messages).is_empty() {
        return 0;
    }
    let (restored, mut contents, _) = moved(to, lineage);
    let what = format!("{} {} in {}", lineage.session.source_agent, lineage.session.id, to.origin);
    assert!(!restored.native, "{what}");
    assert_eq!(contents.faults, [], "{what}");
    contents.sessions.sort_by_key(|(session, _)| session.id.as_str() != restored.session_id);
    assert_eq!(contents.sessions[0].0.id.as_str(), restored.session_id, "{what}");
    let after = transcripts(to, contents.sessions.iter().map(|(_, messages)| messages.as_slice()));
    assert_eq!(after.len(), before.len(), "{what}: sessions");
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after.0, before.0, "{what}");
        assert_eq!(after.1.len(), before.1.len(), "{what}");
        for (before, after) in before.1.iter().zip(&after.1).filter(|(before, _)| before.is_some()) {
            assert_eq!(after, before, "{what}");
        }
    }
    before.iter().map(|it| it.0.len()).sum()
}

/// `adapter-lineage-complete-restore`, and what a foreign restoration is for.
#[test]
fn what_was_said_called_and_given_survives_between_any_two_clients() {
    let mut pairs = 0;
    for from in CODECS {
        let recorded: Vec<_> = recordings(from).into_iter().flat_map(|it| lineages(it.sessions)).collect();
        for to in CODECS.iter().filter(|to| to.origin != from.origin) {
            let said: usize = recorded.iter().map(|lineage| compare(to, lineage)).sum();
            eprintln!("{} in {}: {said} texts and calls of {} sessions", from.origin, to.origin, recorded.len());
            assert!(said > 10, "{} in {}", from.origin, to.origin);
            pairs += 1;
        }
    }
    assert_eq!(pairs, 12);
}

/// opencode keeps a call and its result in one message, and before 1.1 what was said next in the same one.
#[test]
fn what_a_call_gave_comes_before_what_was_said_of_it() {
    let session = r#"{"id":"s","source_agent":"other","created_at":"2026-01-01T00:00:00Z","project":"/srv/demo","options":{}}"#;
    let text = |id: u8, text: &str| {
        format!(r#"{{"id":"{id}","type":"text","provenance":"conversational","text":"{text}","options":{{}}}}"#)
    };
    let call = r#"{"id":"2","type":"tool_call","provenance":"conversational","call_id":"c","name":"bash","params":{},
        "provider_executed":false,"options":{}},{"id":"3","type":"tool_result","provenance":"injected","call_id":"c",
        "is_failure":false,"result":"hi","options":{}}"#;
    let message = |id: u8, role: &str, parts: &[String]| -> Message {
        let head = format!(r#"{{"id":"{id}","role":"{role}","timestamp":"2026-01-01T00:00:0{id}Z","options":{{}}"#);
        serde_json::from_str(&format!(r#"{head},"content":[{}]}}"#, parts.join(","))).unwrap()
    };
    let asked = message(1, "user", &[text(1, "say hi")]);
    let (before, after) = (text(1, "I will."), text(4, "It said hi."));
    let apart =
        [message(2, "assistant", &[before.clone(), call.to_owned()]), message(3, "assistant", std::slice::from_ref(&after))];
    let together = [message(2, "assistant", &[before, call.to_owned(), after])];
    for (to, messages) in CODECS.iter().flat_map(|to| [(to, apart.to_vec()), (to, together.to_vec())]) {
        let messages = [vec![asked.clone()], messages].concat();
        let lineage = Lineage::new(serde_json::from_str(session).unwrap(), messages, Vec::new()).unwrap();
        let (_, contents, _) = moved(to, &lineage);
        let parts: Vec<_> = contents.sessions[0].1.iter().flat_map(Message::parts).collect();
        let at = |wanted: &dyn Fn(&BodyRef<'_>) -> bool| parts.iter().position(|part| wanted(&part.body)).unwrap();
        let given = at(&|body| matches!(body, BodyRef::ToolResult(_)));
        let said = at(&|body| matches!(body, BodyRef::Text(it) if it.text == "It said hi."));
        assert!(given < said, "{}: {parts:?}", to.origin);
    }
}

#[test]
fn the_command_that_goes_on_names_the_session_and_quotes_where_it_is() {
    let lineage = lineages(recordings(codec("claude-code")).remove(0).sessions).remove(0);
    let place = Place { directory: "/srv/demo".to_owned() };
    for (to, expected) in [
        ("claude-code", "claude --resume ID"),
        ("codex", "codex resume ID"),
        ("opencode", "opencode import '/a b/it'\\''s/ID.json' && opencode --session ID"),
        ("pi", "pi --session '/a b/it'\\''s/sessions/--srv-demo--/TIME_ID.jsonl'"),
    ] {
        let restored = restore(codec(to), &lineage, &place).unwrap();
        let command = codec(to).serialize.resume_command(&restored, Path::new("/a b/it's"));
        let time = restored.artifacts[0].path.rsplit_once("--/").and_then(|it| it.1.split_once('_')).map_or("TIME", |it| it.0);
        let command = command.replace(&restored.session_id, "ID").replace(time, "TIME");
        assert_eq!(command, expected);
    }
    let tree = recorded(&fixtures("opencode").join("1.1.34"));
    let own = lineages(parse(codec("opencode"), tree.path()).sessions).remove(0);
    let restored = restore(codec("opencode"), &own, &place).unwrap();
    let command = codec("opencode").serialize.resume_command(&restored, Path::new("/x"));
    assert_eq!(command, format!("opencode --session {}", own.session.id), "a tree is not imported");
}
