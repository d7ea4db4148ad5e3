//! Documents from what was said.

use std::hash::Hasher;

use events::session::{Message, Session};
use events::{Entry, HouseId, StreamName, ThreadId};
use serde::{Deserialize, Serialize};
use session_source::{Head, search_text};
use tantivy::{TantivyDocument, Term};

use crate::schema::{Fields, Kind};

/// A session as it is remembered beside its messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionNote {
    pub stream: String,
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    pub source_agent: String,
    pub project: String,
    /// Microseconds.
    pub created_at: i64,
}

/// A thread as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ThreadNote {
    pub thread: String,
    pub house: String,
    pub tags: Vec<String>,
    pub status: String,
}

/// The number that a stream has in documents. Persisted; two streams of one number would be taken for one, which of 2^64 none are.
pub(crate) fn number(stream: &str) -> u64 {
    // FNV-1a with a final mix: stable for ever, and nothing here is a secret.
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    hasher.write(stream.as_bytes());
    hasher.finish()
}

struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 33)
    }
}

pub(crate) fn scope(kind: Kind, house: &str) -> String {
    format!("{} {house}", kind.as_str())
}

impl Fields {
    pub fn scope_term(&self, kind: Kind, house: &HouseId) -> Term {
        Term::from_field_text(self.scope, &scope(kind, house.as_str()))
    }

    fn begin(&self, kind: Kind, house: &HouseId, stream: &StreamName) -> TantivyDocument {
        let mut document = TantivyDocument::new();
        document.add_text(self.scope, scope(kind, house.as_str()));
        document.add_u64(self.stream, number(&stream.to_string()));
        document
    }

    pub fn session(&self, house: &HouseId, stream: &StreamName, session: &Session) -> Result<TantivyDocument, serde_json::Error> {
        let note = SessionNote {
            stream: stream.to_string(),
            id: session.id.to_string(),
            parent: session.parent_session_id.as_ref().map(ToString::to_string),
            source_agent: session.source_agent.clone(),
            project: session.project.clone(),
            created_at: session.created_at.micros(),
        };
        let mut document = self.begin(Kind::Session, house, stream);
        document.add_text(self.session, &note.id);
        document.add_text(self.stored, serde_json::to_string(&note)?);
        Ok(document)
    }

    /// `None` where nothing is said.
    pub fn message(&self, head: &Head, stream: &StreamName, seq: u64, message: &Message) -> Option<TantivyDocument> {
        let text = search_text(message)?;
        let mut document = self.begin(Kind::Message, &head.house, stream);
        document.add_u64(self.seq, seq);
        document.add_i64(self.time, message.timestamp.micros());
        document.add_text(self.role, message.role().as_str());
        document.add_text(self.source_agent, &head.source_agent);
        document.add_text(self.project, &head.project);
        document.add_text(self.text, text);
        Some(document)
    }

    pub fn thread(&self, house: &HouseId, stream: &StreamName, note: &ThreadNote) -> Result<TantivyDocument, serde_json::Error> {
        let mut document = self.begin(Kind::Thread, house, stream);
        document.add_text(self.thread, &note.thread);
        note.tags.iter().for_each(|tag| document.add_text(self.tag, tag));
        document.add_text(self.status, &note.status);
        document.add_text(self.stored, serde_json::to_string(note)?);
        Ok(document)
    }

    pub fn entry(&self, house: &HouseId, stream: &StreamName, seq: u64, entry: &Entry) -> TantivyDocument {
        let mut document = self.begin(Kind::Entry, house, stream);
        document.add_u64(self.seq, seq);
        document.add_i64(self.time, i64::try_from(entry.ts).unwrap_or(i64::MAX).saturating_mul(1_000));
        document.add_text(self.kind, &entry.kind);
        if let Some(author) = &entry.author_agent_id {
            document.add_text(self.author, author.to_string());
        }
        let said = entry_text(entry);
        if !said.is_empty() {
            document.add_text(self.text, said);
        }
        document
    }
}

impl ThreadNote {
    pub fn new(thread: &ThreadId, house: &HouseId) -> Self {
        Self { thread: thread.to_string(), house: house.to_string(), ..Self::default() }
    }
}

/// Every text in what an entry carries, in order, a line each.
#[must_use]
pub fn entry_text(entry: &Entry) -> String {
    let mut text = String::new();
    // What cannot be read as a value is found as it is written.
    match serde_json::from_str::<serde_json::Value>(entry.payload.get()) {
        Ok(value) => collect(&value, &mut text),
        Err(_) => text.push_str(entry.payload.get()),
    }
    text
}

fn collect(value: &serde_json::Value, text: &mut String) {
    match value {
        serde_json::Value::String(said) => {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(said);
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, text)),
        serde_json::Value::Object(fields) => fields.values().for_each(|field| collect(field, text)),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}
