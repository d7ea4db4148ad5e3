//! What is said in a thread.

use std::borrow::Cow;

use axum::http::Method;
use commands::Command;
use commands::command::AppendEntry;
use event_log::{From as ReadFrom, Offset};
use events::{AgentId, Chat, Entry, EventId, Json, StreamName, ThreadId, whole};
use queries::Page;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use serde_json::value::RawValue;

use super::access::limit;
use super::answer::{Answer, Created, Done, Queried};
use super::docs::Routes;
use super::error::ApiError;
use super::extract::{Body, Caller, Key, Known, Path, Query, Speaker};
use super::strict::Strict;
use super::threads::ThreadPath;

/// In one commit.
const ENTRIES_MAX: usize = 1_000;
/// Bytes read at a time, and for one page.
const READ_BYTES: usize = 256 << 10;
const PAGE_BYTES: usize = 4 << 20;

pub(super) fn routes(routes: Routes) -> Routes {
    const ENTRIES: &str = "/api/threads/{thread_id}/entries";
    routes.add(&Method::GET, ENTRIES, "list_entries", "What was said, from the beginning", list).add(
        &Method::POST,
        ENTRIES,
        "append_entries",
        "Say something",
        append,
    )
}

#[derive(Debug, DeriveDeserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Range {
    /// The `seq` of the last entry already seen; `next` of the page before.
    #[serde(default)]
    after: Option<u64>,
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u16>,
    /// Waits until what is read includes this position.
    #[serde(default)]
    min_position: Option<u64>,
}

/// An entry and where it stands.
#[derive(Debug, Serialize, JsonSchema)]
struct EntryItem {
    seq: u64,
    stream_id: String,
    id: EventId,
    /// Server time at append, in unix milliseconds.
    ts: u64,
    #[serde(rename = "type")]
    kind: String,
    v: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    author_agent_id: Option<AgentId>,
    payload: Json,
}

async fn list(
    caller: Caller,
    Path(path): Path<ThreadPath>,
    Query(range): Query<Range>,
    known: Known,
) -> Queried<Page<EntryItem>> {
    caller.folded(range.min_position).await?;
    caller.thread(&path.thread_id, |_| ())?;
    let limit = limit(range.limit)?;
    let stream_id = StreamName::Thread(path.thread_id).to_string();
    let start = range.after.map_or(0, |after| after.saturating_add(1));
    let (entries, more, position) = read(&caller, &stream_id, start, limit.get()).await?;
    let next = if more { (start + entries.len() as u64).checked_sub(1).map(|last| last.to_string()) } else { None };
    let items = (start..).zip(entries).map(|(seq, entry)| EntryItem {
        seq,
        stream_id: stream_id.clone(),
        id: entry.id,
        ts: entry.ts,
        kind: entry.kind,
        v: entry.v,
        author_agent_id: entry.author_agent_id,
        payload: entry.payload,
    });
    Ok(Answer { position, body: Page { items: items.collect(), next }, known: known.0 })
}

/// Up to `limit` entries from `start` on, whether there are more, and the position at which that is so.
async fn read(caller: &Caller, stream: &str, start: u64, limit: usize) -> Result<(Vec<Entry>, bool, u64), ApiError> {
    let log = &caller.app.log;
    let (head, tail, position) = log.head_at(stream)?;
    let (mut at, mut entries, mut bytes) = (start.min(tail.position), Vec::new(), 0);
    while at < tail.position && entries.len() < limit && bytes < PAGE_BYTES {
        let from = ReadFrom::At(Offset { generation: head.config.generation, position: at });
        let page = log.read(stream, from, READ_BYTES).await?;
        let text = [b"[".as_slice(), &page.chunks.join(&b','), b"]"].concat();
        let read: Vec<Entry> = serde_json::from_slice(&text).map_err(|error| ApiError::internal(error.to_string()))?;
        if read.is_empty() {
            break;
        }
        bytes += page.bytes;
        at += read.len() as u64;
        entries.extend(read);
    }
    // A later read may have found what came after that position.
    entries.truncate(limit.min(usize::try_from(tail.position.saturating_sub(start)).unwrap_or(limit)));
    let more = start.saturating_add(entries.len() as u64) < tail.position && start < tail.position;
    Ok((entries, more, position))
}

/// One entry, or a list of them.
#[derive(Debug)]
pub(super) struct NewEntries(Vec<NewEntry>);

/// Either `text` alone, which is a chat message, or `type` and `payload`.
#[derive(Debug, DeriveDeserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewEntry {
    #[serde(default)]
    text: Option<String>,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "whole")]
    v: Option<u32>,
    /// Null is one.
    #[serde(default, deserialize_with = "given")]
    payload: Option<Json>,
}

fn given<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(field).map(Some)
}

/// Through the exact text, which an untagged enum would lose.
impl<'de> Deserialize<'de> for NewEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let entries = if raw.get().starts_with('[') {
            serde_json::from_str(raw.get()).map(|list: Vec<Strict<_>>| list.into_iter().map(|Strict(entry)| entry).collect())
        } else {
            serde_json::from_str(raw.get()).map(|Strict(only)| vec![only])
        };
        entries.map(Self).map_err(D::Error::custom)
    }
}

impl JsonSchema for NewEntries {
    fn schema_name() -> Cow<'static, str> {
        "NewEntries".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let message = serde_json::json!({
            "type": "object",
            "title": "A chat message",
            "required": ["text"],
            "additionalProperties": false,
            "properties": { "text": { "type": "string", "minLength": 1 } }
        });
        let typed = serde_json::json!({
            "type": "object",
            "title": "An entry of any of the groups",
            "required": ["type", "payload"],
            "additionalProperties": false,
            "properties": {
                "type": { "type": "string" },
                "v": { "type": "integer", "minimum": 0, "maximum": u32::MAX, "default": 1 },
                "payload": {}
            }
        });
        let one = [message.clone(), typed.clone()];
        let list = serde_json::json!({ "type": "array", "minItems": 1, "maxItems": ENTRIES_MAX, "items": { "oneOf": one } });
        schemars::json_schema!({ "oneOf": [message, typed, list] })
    }
}

impl NewEntry {
    fn command(self, thread_id: ThreadId) -> Result<Command, ApiError> {
        let (kind, v, payload) = match self {
            Self { text: Some(text), kind: None, v: None, payload: None } => {
                let chat = Json::of(&Chat { text, to: None, reply_to: None });
                ("chat".to_owned(), 1, chat.map_err(|error| ApiError::internal(error.to_string()))?)
            }
            Self { text: None, kind: Some(kind), v, payload: Some(payload) } => (kind, v.unwrap_or(1), payload),
            Self { .. } => return Err(ApiError::bad_request("an entry has either `text`, or `type` and `payload`")),
        };
        Ok(AppendEntry { thread_id, author_agent_id: None, kind, v, payload }.into())
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Appended {
    entries: Vec<Place>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Place {
    id: EventId,
    seq: u64,
}

async fn append(speaker: Speaker, Path(path): Path<ThreadPath>, key: Key, Body(body): Body<NewEntries>) -> Created<Appended> {
    let caller = speaker.of(&path.thread_id)?;
    say(&caller, &path.thread_id, &key, body).await
}

/// For both doors.
pub(super) async fn say(caller: &Caller, thread: &ThreadId, key: &Key, body: NewEntries) -> Created<Appended> {
    if body.0.is_empty() || body.0.len() > ENTRIES_MAX {
        return Err(ApiError::bad_request("one request appends 1 to 1000 entries"));
    }
    let commands = body.0.into_iter().map(|entry| entry.command(thread.clone())).collect::<Result<Vec<_>, _>>()?;
    let done = caller.execute_all(key, commands).await?;
    let entries = done.entries.iter().map(|recorded| Place { id: recorded.entry.id, seq: recorded.seq }).collect();
    Ok(Done { position: done.position, body: Appended { entries } })
}
