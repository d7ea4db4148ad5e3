//! A session file of pi, looked at before pi sees it: given a path that is missing, pi begins anew and says nothing, and lines that it
//! cannot read it leaves out.

use std::collections::{HashMap, HashSet};

use events::Json;
use serde_json::Value;

/// A file that pi will read as it is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub id: String,
    /// Where its tools run, which must exist.
    pub cwd: String,
    pub lines: Vec<Line>,
    /// How many messages the model will be shown.
    pub messages: usize,
}

/// The header, or an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// `session` for the header, whose own id is the session's.
    pub id: String,
    pub kind: &'static str,
    pub json: Json,
}

/// What the header is known by among the entries; their ids are hexadecimal.
pub const HEADER: &str = "session";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("it is empty")]
    Empty,
    #[error("line {line} is not JSON")]
    Malformed { line: usize },
    #[error("the first line is no header of a session with an id and a working directory")]
    Header,
    #[error("line {line} has no id of its own")]
    NoId { line: usize },
    #[error("line {line} follows {parent}, which is not there")]
    NoParent { line: usize, parent: String },
    /// pi fails on it.
    #[error("line {line} is an assistant's message without its usage")]
    NoUsage { line: usize },
}

impl Session {
    pub fn read(text: &str) -> Result<Self, Unfit> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let parsed = lines.map(|(n, line)| Json::parse(line).map_err(|_| Unfit::Malformed { line: n + 1 }));
        Self::of(parsed.collect::<Result<Vec<_>, _>>()?)
    }

    /// The header first, then the entries in the order they were written.
    pub fn of(lines: Vec<Json>) -> Result<Self, Unfit> {
        let values = lines.iter().enumerate().map(|(n, json)| json.decode().map_err(|_| Unfit::Malformed { line: n + 1 }));
        let values: Vec<Value> = values.collect::<Result<_, _>>()?;
        let (header, entries) = values.split_first().ok_or(Unfit::Empty)?;
        let of_header = |key: &str| header[key].as_str().map(str::to_owned);
        let (true, Some(id), Some(cwd)) = (header["type"] == "session", of_header("id"), of_header("cwd")) else {
            return Err(Unfit::Header);
        };
        let mut seen = HashSet::new();
        for (n, entry) in entries.iter().enumerate() {
            check(n + 2, entry, &mut seen)?;
        }
        let messages = shown(entries);
        let named =
            |value: &Value| if is_header(value) { HEADER.to_owned() } else { id_of(value).unwrap_or_default().to_owned() };
        let lines = values.iter().zip(lines).map(|(value, json)| Line { id: named(value), kind: kind_of(value), json }).collect();
        Ok(Self { id, cwd, lines, messages })
    }

    #[must_use]
    pub fn to_text(&self) -> String {
        self.lines.iter().flat_map(|line| [line.json.get(), "\n"]).collect()
    }
}

/// Of a file that may be damaged: every line that can be read.
#[must_use]
pub fn lines(text: &str) -> Vec<Line> {
    let read = |line: &str| {
        let json = Json::parse(line).ok()?;
        let value: Value = json.decode().ok()?;
        let id = if is_header(&value) { HEADER.to_owned() } else { id_of(&value)?.to_owned() };
        Some(Line { id, kind: kind_of(&value), json })
    };
    text.lines().filter_map(read).collect()
}

fn check<'a>(line: usize, entry: &'a Value, seen: &mut HashSet<&'a str>) -> Result<(), Unfit> {
    let parent = entry["parentId"].as_str();
    if let Some(parent) = parent.filter(|parent| !seen.contains(parent)) {
        return Err(Unfit::NoParent { line, parent: parent.to_owned() });
    }
    let message = &entry["message"];
    if message["role"] == "assistant" && !message["usage"].is_object() {
        return Err(Unfit::NoUsage { line });
    }
    let fresh = id_of(entry).is_some_and(|id| seen.insert(id));
    if fresh { Ok(()) } else { Err(Unfit::NoId { line }) }
}

fn is_header(value: &Value) -> bool {
    value["type"] == "session"
}

fn id_of(entry: &Value) -> Option<&str> {
    entry["id"].as_str().filter(|id| !id.is_empty())
}

/// The type under which a line stands on a thread.
#[must_use]
pub fn kind_of(line: &Value) -> &'static str {
    match (line["type"].as_str(), line["message"]["role"].as_str()) {
        (Some("message"), Some("assistant")) => "pi.assistant",
        (Some("message"), Some("toolResult")) => "pi.tool_result",
        (Some("compaction"), _) => "pi.compaction",
        (Some(_) | None, _) => "pi.entry",
    }
}

/// Along the branch of the last entry; what was compacted is one message.
fn shown(entries: &[Value]) -> usize {
    let places: HashMap<&str, usize> = entries.iter().enumerate().filter_map(|(n, entry)| Some((id_of(entry)?, n))).collect();
    let mut branch = Vec::new();
    let mut at = entries.last();
    while let Some(entry) = at {
        branch.push(entry);
        at = entry["parentId"].as_str().and_then(|parent| places.get(parent)).map(|n| &entries[*n]);
    }
    branch.reverse();
    let speaks = |entry: &&&Value| match entry["type"].as_str() {
        Some("message" | "custom_message") => true,
        Some("branch_summary") => entry["summary"].as_str().is_some_and(|summary| !summary.is_empty()),
        Some(_) | None => false,
    };
    let Some(compacted) = branch.iter().rposition(|entry| entry["type"] == "compaction") else {
        return branch.iter().filter(speaks).count();
    };
    let (before, after) = branch.split_at(compacted);
    let kept = branch[compacted]["firstKeptEntryId"].as_str();
    let kept = before.iter().skip_while(|entry| id_of(entry) != kept).filter(speaks).count();
    1 + kept + after.iter().filter(speaks).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER_LINE: &str = r#"{"type":"session","version":3,"id":"t1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/work"}"#;

    fn entry(id: &str, parent: Option<&str>, rest: &str) -> String {
        let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
        format!(r#"{{"id":"{id}","parentId":{parent},{rest}}}"#)
    }

    fn said(id: &str, parent: Option<&str>, role: &str) -> String {
        let usage = if role == "assistant" { r#","usage":{"input":1.50}"# } else { "" };
        entry(id, parent, &format!(r#""type":"message","message":{{"role":"{role}","content":[]{usage}}}"#))
    }

    fn file(entries: &[String]) -> String {
        [&[HEADER_LINE.to_owned()], entries].concat().join("\n") + "\n"
    }

    #[test]
    fn a_file_that_pi_would_read_otherwise_than_meant_is_unfit() {
        let model = entry("a", None, r#""type":"model_change""#);
        let cases = [
            (String::new(), Unfit::Empty),
            ("{}".to_owned(), Unfit::Header),
            (HEADER_LINE.replace(r#""id":"t1","#, ""), Unfit::Header),
            (file(std::slice::from_ref(&model)) + "{\"type\":", Unfit::Malformed { line: 3 }),
            (file(&[model.clone(), said("b", Some("x"), "user")]), Unfit::NoParent { line: 3, parent: "x".into() }),
            (file(&[model.clone(), said("a", Some("a"), "user")]), Unfit::NoId { line: 3 }),
            (file(&[said("a", None, "assistant").replace("usage", "used")]), Unfit::NoUsage { line: 2 }),
        ];
        for (text, expected) in cases {
            assert_eq!(Session::read(&text), Err(expected), "{text}");
        }
    }

    #[test]
    fn a_sound_file_keeps_every_line_as_it_is() {
        let text = file(&[said("a", None, "user"), said("b", Some("a"), "assistant"), said("c", Some("b"), "toolResult")]);
        let session = Session::read(&text).unwrap();
        assert_eq!((session.id.as_str(), session.cwd.as_str(), session.messages), ("t1", "/work", 3));
        assert_eq!(session.to_text(), text);
        let kinds: Vec<_> = session.lines.iter().map(|line| (line.id.as_str(), line.kind)).collect();
        assert_eq!(kinds, [("session", "pi.entry"), ("a", "pi.entry"), ("b", "pi.assistant"), ("c", "pi.tool_result")]);
    }

    #[test]
    fn messages_are_counted_as_the_model_is_shown_them() {
        let compaction = entry("d", Some("c"), r#""type":"compaction","summary":"s","firstKeptEntryId":"c","tokensBefore":9"#);
        let turns = [said("a", None, "user"), said("b", Some("a"), "assistant"), said("c", Some("b"), "user")];
        for (more, expected) in [
            (vec![], 3),
            (vec![compaction.clone()], 2),
            (vec![compaction, said("e", Some("d"), "assistant")], 3),
            (vec![said("e", Some("a"), "assistant")], 2),
            (vec![entry("e", Some("c"), r#""type":"label","label":"x""#)], 3),
        ] {
            assert_eq!(Session::read(&file(&[turns.to_vec(), more].concat())).unwrap().messages, expected);
        }
    }
}
