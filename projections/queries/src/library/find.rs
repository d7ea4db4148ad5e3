//! What a search is asked and what it answers: `pond_search`.

use events::session::{MessageId, Role, SessionId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PartSummary;

/// Sessions in an answer, unless the request says how many.
pub const SESSIONS: u32 = 10;
pub const MOST_SESSIONS: u32 = 50;
/// Characters of a question.
pub const LONGEST: usize = 4_096;

/// Looks for messages by what is said in them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    #[schemars(range(min = 1))]
    pub protocol_version: u32,
    /// Whose sessions; the only ones there are if left out.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Words, an identifier, a path, an error as it was printed, or a question in any language.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
    /// Only sessions of this project; with a `*` at the end, of those that begin so.
    #[serde(default)]
    pub project: Option<String>,
    #[serde(default)]
    pub session_id: Option<SessionId>,
    /// `claude-code`, `codex`, `opencode`, `pi`, or `arbe` for threads.
    #[serde(default)]
    pub source_agent: Option<String>,
    /// `user` or `assistant`; nothing else is searched.
    #[serde(default)]
    pub role: Option<Role>,
    /// Only messages from this moment on.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// Only messages before this moment.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// Only sessions that score at least this, between 0 and 1.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_score: Option<f64>,
    /// How many sessions, 10 if left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 50))]
    pub limit: Option<u32>,
    /// Waits until everything up to this position of the log can be found, as what was just ingested.
    #[serde(default)]
    pub min_position: Option<u64>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SearchResponse {
    /// The best first. Empty where nothing fits: a question whose words are nowhere has no answer.
    pub sessions: Vec<SessionHit>,
    /// Whether meaning was compared beside words.
    pub mode: Mode,
    /// What the searcher should know, as that an answer may be superseded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Keyword,
    Hybrid,
}

/// One session, with those that it spawned.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionHit {
    pub session_id: SessionId,
    pub source_agent: String,
    pub project: String,
    pub created_at: Timestamp,
    /// Between 0 and 1, and comparable within one answer only.
    pub score: f64,
    /// The best first.
    pub matches: Vec<Hit>,
    /// Messages of the session after the last of the matches.
    pub newer_messages: u64,
    /// When something was last said in it.
    pub last_message_at: Timestamp,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Hit {
    pub message_id: MessageId,
    /// Where it was said, if not in the session itself but in one that it spawned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    pub role: Role,
    pub timestamp: Timestamp,
    pub score: f64,
    /// What is said in it: all of it if it is small, else how it begins.
    pub text: String,
    /// Bytes of the whole, if `text` is only how it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_bytes: Option<u64>,
    /// Around the words that were looked for, if `text` is only how it begins. Matches stand between `«` and `»`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
    /// Of a user's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts_summary: Option<Vec<PartSummary>>,
}

/// `stats://pond`
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Stats {
    pub sessions: u64,
    pub messages: u64,
    pub parts: u64,
    /// Messages that can be found by words.
    pub searchable_messages: u64,
    /// Messages that can be found by meaning, under the configured model.
    pub embedded_messages: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_model: Option<String>,
    /// How many sessions each client has.
    pub clients: std::collections::BTreeMap<String, u64>,
    /// How far the log has been read.
    pub position: u64,
}
