//! A live thread is a session too, and is restored like one.
//!
//! What people say in a thread is `chat`, and so is what a bot says there. A `pi.*` entry holds an entry of pi's session as pi wrote it, or
//! one of its messages, and is what the codec for pi says it is; but a user's turn in it is the chat over again, as pi was given it. Live
//! pieces of a message (`pi.chunk`), signals and everything newer are carried whole. The message's id is the entry's.

use std::collections::HashSet;

use events::session::{Content, Provenance};
use events::{AgentKind, Entry, StreamName, ThreadId};

use crate::fault::{Location, What};
use crate::lineage::Lineage;
use crate::pi::{self, typing, typing::Typed};
use crate::restore::{Placed, source};
use crate::seam::{Handle, Head, Out, Parts, Record, SessionDraft};
use crate::value::{Path, Reader, Value};

/// The brand of our own sessions. Persisted; never renamed.
pub const ORIGIN: &str = "arbe";

/// What a thread's entries do not say themselves.
#[derive(Clone, Copy, Debug)]
pub struct Thread<'a> {
    pub id: &'a ThreadId,
    /// The house that it belongs to; its environment may change.
    pub project: &'a str,
}

/// Begins the session of a thread, whose first entry is `first`.
pub fn begin(out: &mut Out<'_>, thread: Thread<'_>, first: &Entry) -> Option<Handle> {
    let stream = StreamName::Thread(thread.id.clone()).to_string();
    let told = Value::object([("id", thread.id.as_str().into()), ("project", thread.project.into())]);
    let told = Record::new(told, stream.as_str().into(), 1, 0);
    let location = told.location();
    let first = read(&stream, 0, first).unwrap_or_else(|_| told.clone());
    let created = first.str(["type"]) == Some("signal.thread.created");
    let draft = SessionDraft {
        id: told.copy(["id"])?,
        parent: first.copy(["payload", "parent_thread_id"]).filter(|_| created),
        cut: None,
        project: told.copy(["project"]),
        created_at: first.time(["ts"]),
        facts: Vec::new(),
    };
    out.session(draft, location)
}

/// Hands out what the entry at place `n` of the stream says. It depends on nothing but the entry and on what its author is.
pub fn entry(out: &mut Out<'_>, to: Handle, thread: &ThreadId, n: u64, entry: &Entry, author: Option<AgentKind>) {
    let stream = StreamName::Thread(thread.clone()).to_string();
    let mut record = match read(&stream, n, entry) {
        Ok(record) => record,
        Err((location, what)) => return out.fault(location, what),
    };
    let at = Path::from(["payload"]);
    let facts = if entry.kind == "pi.chunk" { Vec::new() } else { typing::facts(&record, &at) };
    let head = Head { id: record.id(["id"]), timestamp: record.time(["ts"]), facts };
    let typed = match entry.kind.as_str() {
        "chat" => chat(&mut record, author),
        "pi.chunk" => Typed::Carried,
        kind if kind.starts_with("pi.") => transcribed(&mut record, kind, &at),
        _ => Typed::Carried,
    };
    typing::tell(out, to, record, head, typed);
}

fn read(stream: &str, n: u64, entry: &Entry) -> Result<Record, (Location, What)> {
    let location = Location { file: stream.into(), line: Some(n + 1) };
    let value = Reader::only(&entry.to_json()).map_err(|malformed| (location, What::Malformed(malformed)))?;
    Ok(Record::new(value, stream.into(), n + 1, n))
}

/// What nobody signed, the system said.
fn chat(record: &mut Record, author: Option<AgentKind>) -> Typed {
    let signed = record.str(["author_agent_id"]).is_some();
    let provenance = if signed { Provenance::Conversational } else { Provenance::Injected };
    let Some(text) = record.text(["payload", "text"]) else { return Typed::Carried };
    match author {
        Some(AgentKind::Bot) => {
            let mut parts = Parts::default();
            parts.text(text, provenance);
            Typed::Assistant(parts)
        }
        Some(AgentKind::Human) | None => {
            let mut parts = Parts::default();
            parts.text(text, provenance);
            Typed::User(parts)
        }
    }
}

fn transcribed(record: &mut Record, kind: &str, at: &Path) -> Typed {
    let said = Provenance::Injected;
    match record.look().at(at) {
        Some(payload) if pi::is_entry(payload) => typing::entry(record, at, said),
        Some(payload) if payload.get("role").is_some() => typing::message(record, at, said),
        Some(_) if kind == "pi.tool_result" => typing::tool_result(record, at),
        Some(_) if kind == "pi.compaction" => typing::summary(record, at),
        Some(_) | None => Typed::Carried,
    }
}

/// The thread without the turns that repeat a chat.
#[must_use]
pub fn said_once(lineage: &Lineage) -> Lineage {
    let mut once = lineage.clone();
    let children = once.children.iter_mut().map(|(_, messages)| messages);
    for messages in std::iter::once(&mut once.messages).chain(children) {
        let mut chats = HashSet::new();
        messages.retain(|message| {
            let record = source(&message.options).and_then(|it| it.get("record").cloned()).unwrap_or(Value::Null);
            let kind = record.get("type").and_then(Value::as_str).unwrap_or_default();
            let text: String = message.parts().iter().filter_map(|part| part.body.text()).collect();
            match &message.content {
                Content::User(_) if kind.starts_with("pi.") => !chats.contains(&text),
                Content::User(_) | Content::Assistant(_) if kind == "chat" => {
                    chats.insert(text);
                    true
                }
                Content::User(_) | Content::Assistant(_) | Content::Tool(_) | Content::System(_) => true,
            }
        });
    }
    once
}

/// The session of pi that a thread holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    pub header: Value,
    /// Each once, though a run that was gone on with tells them again.
    pub entries: Vec<Value>,
    /// The types of the thread's entries that are not in it.
    pub left: Vec<String>,
}

/// `None` where the thread does not hold pi's own header.
#[must_use]
pub fn transcript(entries: &[Placed]) -> Option<Transcript> {
    let (mut header, mut own, mut left, mut chats) = (None, Vec::new(), Vec::new(), Vec::new());
    let mut told = HashSet::new();
    for Placed { value, .. } in entries {
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        let payload = value.get("payload").unwrap_or(&Value::Null);
        let pi_entry = kind.starts_with("pi.") && kind != "pi.chunk" && pi::is_entry(payload);
        if pi_entry && payload.get("type").and_then(Value::as_str) == Some("session") {
            header.get_or_insert_with(|| payload.clone());
        } else if pi_entry {
            if told.insert(payload.to_string()) {
                own.push(payload.clone());
            }
        } else if kind == "chat" {
            chats.push(payload.get("text").and_then(Value::as_str).unwrap_or_default());
        } else {
            left.push(kind.to_owned());
        }
    }
    let said: HashSet<String> = own.iter().map(words).collect();
    left.extend(chats.into_iter().filter(|chat| !said.contains(*chat)).map(|_| "chat".to_owned()));
    Some(Transcript { header: header?, entries: own, left })
}

/// The text of a message's entry.
fn words(entry: &Value) -> String {
    let content = entry.get("message").and_then(|message| message.get("content")).unwrap_or(&Value::Null);
    let blocks = content.items().iter().filter_map(|block| block.get("text").and_then(Value::as_str));
    content.as_str().into_iter().chain(blocks).collect()
}
