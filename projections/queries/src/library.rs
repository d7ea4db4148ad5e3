//! Sessions as they are handed out: `pond_get`. The handler knows no transport and no store; whose sessions are meant is decided before.

use std::collections::BTreeMap;

use events::session::{MessageId, Provenance, Role, Session, SessionId, Timestamp};
use events::{HouseId, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod candidate;
mod error;
mod find;
mod fuse;
mod get;
mod search;
#[cfg(test)]
mod tests;

pub use error::{Code, PondError};
pub use find::{Hit, LONGEST, MOST_SESSIONS, Mode, SESSIONS, SearchRequest, SearchResponse, SessionHit, Stats};
pub use fuse::Near;
pub use get::get;
pub use search::{Arms, Attribution, Explained, Finder, Meaning, Place, explain, search, search_by};

/// Of the protocol; within one, fields are only added.
pub const PROTOCOL_VERSION: u32 = 1;

/// A message as it is stored, without its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    pub session_id: SessionId,
    pub id: MessageId,
    /// Its place in the session.
    pub seq: u64,
    pub timestamp: Timestamp,
    pub role: Role,
    /// Of a system message.
    pub content: Option<String>,
    /// What it says to people.
    pub text: Option<String>,
    pub options: Json,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPart {
    pub message_id: MessageId,
    pub id: String,
    pub ordinal: u64,
    pub kind: String,
    pub provenance: Provenance,
    /// The fields that only its kind has.
    pub variant: BTreeMap<String, Json>,
    /// The name of the field and what a file holds.
    pub data: Option<(&'static str, String)>,
    pub options: Json,
}

/// Which messages of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Which {
    /// Only those with a place from here on.
    pub from: u64,
    /// Only those with a place below.
    pub below: Option<u64>,
    /// Only those in which somebody says something.
    pub said: bool,
}

/// Where sessions are read.
#[async_trait::async_trait]
pub trait Library: Send + Sync + std::fmt::Debug {
    async fn session(&self, house: &HouseId, id: &SessionId) -> Result<Option<Session>, PondError>;

    /// The first of them, in order.
    async fn first(&self, house: &HouseId, id: &SessionId, which: Which, most: u64) -> Result<Vec<StoredMessage>, PondError>;

    /// The last of them, in order.
    async fn last(&self, house: &HouseId, id: &SessionId, which: Which, most: u64) -> Result<Vec<StoredMessage>, PondError>;

    async fn count(&self, house: &HouseId, id: &SessionId, which: Which) -> Result<u64, PondError>;

    /// Every message of an id, or the one of a session.
    async fn message(&self, house: &HouseId, id: &MessageId, of: Option<&SessionId>) -> Result<Vec<StoredMessage>, PondError>;

    /// In the order of their place in the message.
    async fn parts(&self, house: &HouseId, session: &SessionId, of: &[MessageId]) -> Result<Vec<StoredPart>, PondError>;

    /// Returns when everything up to a position of the log can be read, or tells why that takes too long.
    async fn reached(&self, position: u64) -> Result<(), PondError>;

    /// What a file holds that is kept beside the rows, as base64.
    async fn blob(&self, hash: &str) -> Result<String, PondError>;

    /// How many bytes of base64 that would be. Nothing of the file is read.
    async fn blob_bytes(&self, hash: &str) -> Result<u64, PondError>;
}

/// Before the hash of what a file holds, where it is kept beside the session. Nobody else may name it: hashes are not secrets of a house.
pub const BLOB: &str = "pond://blob/";

/// Either a session page by page, or one message with what stands around it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetRequest {
    #[schemars(range(min = 1))]
    pub protocol_version: u32,
    /// Whose sessions; the only ones there are if left out.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The session; may be left out beside a message whose id only one session has.
    #[serde(default)]
    pub session_id: Option<SessionId>,
    /// One message of it.
    #[serde(default)]
    pub message_id: Option<MessageId>,
    /// How much of a session is told.
    #[serde(default)]
    pub response_mode: Option<ResponseMode>,
    /// Messages before and after the one, 2 if left out.
    #[serde(default)]
    #[schemars(range(max = 50))]
    pub context_depth: Option<u32>,
    /// Goes on after this one: a message of the session, or a part of the message.
    #[serde(default)]
    pub after_id: Option<String>,
    /// Waits until everything up to this position of the log can be seen, as what was just ingested.
    #[serde(default)]
    pub min_position: Option<u64>,
    /// Of whoever asks in this process, and no field of the wire.
    #[serde(skip)]
    pub files: Files,
}

/// How files are told whose contents are kept beside the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Files {
    #[default]
    Whole,
    /// By their bytes alone, as `data_bytes` in the place of `data`.
    Counted,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResponseMode {
    /// What people and models say.
    #[default]
    Conversational,
    /// Every message.
    Complete,
    /// Every message with its parts.
    Verbatim,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum GetResponse {
    Session(SessionPage),
    Message(Box<MessagePage>),
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionPage {
    pub session: Session,
    pub messages: Vec<MessageView>,
    /// Those after the last of this page; go on with its id as `after_id`.
    pub messages_remaining: u64,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MessagePage {
    pub session: Session,
    pub before: Vec<MessageView>,
    pub target: MessageView,
    /// Parts after the last of this page; go on with its id as `after_id`.
    pub target_parts_remaining: u64,
    pub after: Vec<MessageView>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MessageView {
    pub id: MessageId,
    pub role: Role,
    pub timestamp: Timestamp,
    /// What is said in it, or what a system message holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts_summary: Option<Vec<PartSummary>>,
    /// The canonical parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<BTreeMap<String, Json>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Json>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PartSummary {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub provenance: Provenance,
    /// Of a tool or a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub bytes: u64,
}
