//! Documents from what was said.

use std::hash::Hasher;

use events::session::{Message, Session};
use events::{Entry, HouseId, StreamName, ThreadId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
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

/// Every text in what an entry carries, in order, a line each; after them the numbers that somebody may look for.
#[must_use]
pub fn entry_text(entry: &Entry) -> String {
    // What cannot be read as a value is found as it is written.
    let Ok(value) = serde_json::from_str::<Value>(entry.payload.get()) else { return entry.payload.get().to_owned() };
    let (mut texts, mut numbers) = (Vec::new(), Vec::new());
    collect(&value, true, &mut texts, &mut numbers);
    let numbers = numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    texts.extend((!numbers.is_empty()).then_some(numbers.as_str()));
    texts.join("\n")
}

/// Exit codes, statuses, ports, lines: longer ones and fractions are moments, sizes and costs, and nearly each of them would be a word of
/// its own. The help of `arbe find` and the API say so.
const LARGEST: u64 = 999_999;

fn collect<'a>(value: &'a Value, counted: bool, texts: &mut Vec<&'a str>, numbers: &mut Vec<i64>) {
    match value {
        Value::String(said) => texts.push(said),
        Value::Array(items) => items.iter().for_each(|item| collect(item, counted, texts, numbers)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| collect(field, counted && !is_meter(name), texts, numbers));
        }
        Value::Number(number) => numbers.extend(number.as_i64().filter(|it| counted && it.unsigned_abs() <= LARGEST)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// What machines measure of themselves, in nearly every entry: nobody looks for it, and it would be found instead of what is meant.
fn is_meter(field: &str) -> bool {
    ["usage", "cost"].contains(&field) || ["_ms", "Ms", "tokens", "Tokens"].iter().any(|end| field.ends_with(end))
}

#[cfg(test)]
mod tests {
    use events::{EventId, Ulid};

    use super::*;

    fn text(payload: &str) -> String {
        let id = EventId(Ulid(1));
        let written = format!(r#"{{"id":"{id}","ts":1,"type":"pi.message","v":1,"payload":{payload}}}"#);
        entry_text(&Entry::from_slice(written.as_bytes()).unwrap())
    }

    #[test]
    fn numbers_come_after_what_is_said() {
        assert_eq!(text(r#"{"at":[{"line":12}],"code":137,"port":-1,"text":"killed"}"#), "killed\n12 137 -1");
        assert_eq!(text(r#"{"exit_code":0}"#), "0");
        assert_eq!(text(r#"{"text":"killed","truncated":true,"run":null}"#), "killed");
    }

    #[test]
    fn moments_fractions_and_what_machines_measure_of_themselves_are_not_words() {
        let counts = r#""usage":{"input":11,"model":"m","cost":{"total":7}},"durationMs":167,"silent_ms":5,"totalTokens":18"#;
        assert_eq!(
            text(&format!(r#"{{"text":"hi",{counts},"timestamp":1794838293803,"share":0.5,"status":404}}"#)),
            "hi\nm\n404"
        );
        assert_eq!(text(r#"{"most":999999,"more":1000000}"#), "999999");
    }
}
