//! Entries as people read them: time, author, type, text.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::{CallError, Client};
use crate::output::clean;
use crate::row::cell;

const SUMMARY_MAX: usize = 300;
const SHORT_ID: usize = 8;

/// An entry as far as it can be looked into: what is JSON and yet has no value here, such as half of a surrogate pair or a number
/// that is too large, is told as it is written.
pub(super) fn looked_into(entry: &RawValue) -> anyhow::Result<Value> {
    if let Ok(value) = serde_json::from_str(entry.get()) {
        return Ok(value);
    }
    let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(entry.get())?;
    let value = |raw: &RawValue| serde_json::from_str(raw.get()).unwrap_or_else(|_| Value::String(raw.get().to_owned()));
    Ok(Value::Object(fields.into_iter().map(|(name, raw)| (name, value(&raw))).collect()))
}

/// Names of agents, asked for once.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, String>);

impl Names {
    pub(super) async fn of(&mut self, client: &Client, entry: &Value) -> String {
        let Some(id) = entry["author_agent_id"].as_str() else { return "arbe".to_owned() };
        if let Some(name) = self.0.get(id) {
            return name.clone();
        }
        let short: String = clean(id).chars().take(SHORT_ID).collect();
        let name = match client.get_once(&["agents", id], &[]).await.and_then(|answer| answer.read::<Value>()) {
            Ok(agent) => Some(cell(&agent, "name")).filter(|name| !name.is_empty()).unwrap_or(short),
            // It will not be seen later either; anything else may pass.
            Err(CallError::Answered { .. }) => short,
            Err(_) => return short,
        };
        self.0.insert(id.to_owned(), name.clone());
        name
    }
}

/// One line, and more for a text of several, indented.
pub(super) fn narrate(entry: &Value, author: &str) -> String {
    let body = summary(entry);
    let mut lines = body.lines().map(clean);
    let first = lines.next().unwrap_or_default();
    let head = format!("{}  {author}  {}  {first}", cell(entry, "@ts"), cell(entry, "type"));
    let mut text = head.trim_end().to_owned() + "\n";
    for line in lines {
        text += format!("    {line}").trim_end();
        text.push('\n');
    }
    text
}

fn summary(entry: &Value) -> String {
    let payload = &entry["payload"];
    let (said, end) = (said(payload), bad_end(payload));
    match (said.is_empty(), end.is_empty()) {
        (false, false) => format!("{said}\n{end}"),
        (false, true) => said,
        (true, false) => end,
        (true, true) => facts(payload),
    }
}

/// Of an answer that is not whole. pi says so beside its words, of which there may be none.
fn bad_end(payload: &Value) -> String {
    let places = [payload, &payload["message"], &payload["entry"]["message"]];
    let Some(answer) = places.into_iter().find(|place| place["stopReason"].is_string()) else { return String::new() };
    let end = match answer["stopReason"].as_str() {
        Some("error") => "the model call failed",
        Some("aborted") => "the model call was stopped",
        Some("length") => "the model's answer was cut off: it may not be longer",
        Some(_) | None => return String::new(),
    };
    let why = answer["errorMessage"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    if why.is_empty() { format!("[{end}]") } else { format!("[{end}: {}]", short(&why)) }
}

/// Text where chats, output and transcripts carry it.
fn said(payload: &Value) -> String {
    let places = [
        &payload["text"],
        &payload["content"],
        &payload["message"],
        &payload["entry"]["message"],
        &payload["message"]["content"],
    ];
    let found = places.into_iter().chain([&payload["entry"]["message"]["content"]]).map(words).find(|text| !text.is_empty());
    found.unwrap_or_default()
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim_end().to_owned(),
        Value::Array(parts) => parts.iter().map(part).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn part(part: &Value) -> String {
    match (part["text"].as_str(), part["name"].as_str()) {
        (Some(text), _) => text.trim_end().to_owned(),
        (None, Some(tool)) => format!("[{tool} {}]", short(&part["arguments"].to_string())),
        (None, None) => String::new(),
    }
}

/// `key=value` of a signal; JSON of what has no shape we know.
fn facts(payload: &Value) -> String {
    let Value::Object(fields) = payload else { return short(&payload.to_string()) };
    let fact = |(key, value): (&String, &Value)| match value {
        Value::String(text) => format!("{key}={text}"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => format!("{key}={value}"),
    };
    short(&fields.iter().map(fact).collect::<Vec<_>>().join(" "))
}

fn short(text: &str) -> String {
    if text.chars().count() <= SUMMARY_MAX {
        return text.to_owned();
    }
    text.chars().take(SUMMARY_MAX).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(kind: &str, payload: Value) -> String {
        let line = narrate(&json!({"ts": "now", "type": kind, "payload": payload}), "ada");
        line.strip_prefix(&format!("now  ada  {kind}")).unwrap().trim_start().to_owned()
    }

    #[test]
    fn what_has_no_value_is_told_as_it_is_written() {
        for odd in [r#"{"n":1e999}"#, r#"{"n":"\ud800"}"#] {
            let entry = RawValue::from_string(format!(r#"{{"seq":7,"type":"pi.entry","payload":{odd}}}"#)).unwrap();
            let entry = looked_into(&entry).unwrap();
            assert_eq!((entry["seq"].as_u64(), entry["payload"].as_str()), (Some(7), Some(odd)));
            assert!(narrate(&entry, "somebody").contains("pi.entry"));
        }
    }

    #[test]
    fn a_chat_is_its_text_and_more_lines_are_indented() {
        assert_eq!(told("chat", json!({"text": "good\n\nmorning\u{1b}[0m\n"})), "good\n\n    morning\u{fffd}[0m\n");
    }

    #[test]
    fn a_signal_is_its_facts() {
        assert_eq!(
            told("signal.thread.status_changed", json!({"status": "running", "run_id": "r1"})),
            "run_id=r1 status=running\n"
        );
        assert_eq!(told("signal.thread.pinned", json!({})), "");
    }

    #[test]
    fn a_transcript_entry_is_what_was_said_and_which_tools_were_called() {
        let content =
            json!([{"type": "text", "text": "let me see"}, {"type": "toolCall", "name": "bash", "arguments": {"command": "ls"}}]);
        let expected = "let me see\n    [bash {\"command\":\"ls\"}]\n";
        assert_eq!(told("pi.assistant", json!({"message": {"role": "assistant", "content": content}})), expected);
        assert_eq!(told("pi.assistant", json!({ "content": content })), expected);
        assert_eq!(told("pi.entry", json!({"model": "x", "n": 1})), "model=x n=1\n");
    }

    #[test]
    fn an_answer_that_is_not_whole_says_why_on_one_line() {
        let ended = |content: Value, reason: &str, why: Value| {
            let answer = json!({"role": "assistant", "content": content, "stopReason": reason, "errorMessage": why});
            let told_flat = told("pi.assistant", answer.clone());
            assert_eq!(told("pi.assistant", json!({"type": "message", "message": answer})), told_flat);
            told_flat
        };
        let failed = ended(json!([]), "error", json!("400\n {\"type\":\"error\"}\u{1b}[2J\r\n"));
        assert_eq!(failed, "[the model call failed: 400 {\"type\":\"error\"}\u{fffd}[2J]\n");
        assert_eq!(ended(json!([]), "aborted", Value::Null), "[the model call was stopped]\n");
        let half = json!([{"type": "text", "text": "half a"}]);
        assert_eq!(
            ended(half.clone(), "length", Value::Null),
            "half a\n    [the model's answer was cut off: it may not be longer]\n"
        );
        assert_eq!(ended(half.clone(), "error", json!("502")), "half a\n    [the model call failed: 502]\n");
        assert_eq!(ended(half, "stop", Value::Null), "half a\n");
        let long = ended(json!([]), "error", json!("y".repeat(1_000)));
        assert_eq!((long.lines().count(), long.matches('y').count()), (1, SUMMARY_MAX));
    }

    #[test]
    fn what_is_long_is_cut() {
        assert_eq!(told("pi.entry", json!({"x": "y".repeat(1_000)})).chars().count(), SUMMARY_MAX + 2);
    }
}
