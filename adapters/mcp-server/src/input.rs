//! What a model fills in: the requests without the version of the protocol and without positions of the log.

use std::fmt::Display;
use std::str::FromStr;

use queries::library::{Files, GetRequest, PROTOCOL_VERSION, PondError, ResponseMode, SearchRequest};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer};

/// Sessions in an answer, unless the model says how many: less than elsewhere, because a model reads all of them.
pub(crate) const SESSIONS: u32 = 5;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchInput {
    /// What to look for: a few keywords, an exact identifier, a path, an error as it was printed, or a question in any language.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
    /// Only sessions of this project, as printed in answers (usually a directory). With `*` at the end: of all that begin so.
    #[schemars(with = "String")]
    #[serde(default)]
    pub project: Option<String>,
    /// Only within this session.
    #[schemars(with = "String")]
    #[serde(default)]
    pub session_id: Option<String>,
    /// Only sessions of this client: `claude-code`, `codex`, `opencode`, `pi`, or `arbe` for threads.
    #[schemars(with = "String")]
    #[serde(default)]
    pub source_agent: Option<String>,
    /// Only what people wrote (`user`) or what models answered (`assistant`).
    #[schemars(with = "Said")]
    #[serde(default)]
    pub role: Option<Said>,
    /// Only messages from this moment on: `2026-03-01T00:00:00Z`, or `2026-03-01` for the beginning of that day in UTC.
    #[schemars(with = "String")]
    #[serde(default)]
    pub since: Option<String>,
    /// Only messages before this moment, written like `since`.
    #[schemars(with = "String")]
    #[serde(default)]
    pub until: Option<String>,
    /// Only sessions that score at least this, between 0 and 1. Scores compare within one answer only: leave it out at first.
    #[schemars(with = "f64", range(min = 0.0, max = 1.0))]
    #[serde(default)]
    pub min_score: Option<f64>,
    /// How many sessions at most; 5 if left out.
    #[schemars(with = "u32", range(min = 1, max = 50))]
    #[serde(default)]
    pub limit: Option<u32>,
    /// Whose sessions. Leave it out unless told to use one.
    #[schemars(with = "String")]
    #[serde(default)]
    pub namespace: Option<String>,
}

/// Who says something that can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    User,
    Assistant,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetInput {
    /// The session. Beside `message_id` it may be left out if only one session has such a message: forks repeat the ids of others.
    #[schemars(with = "String")]
    #[serde(default)]
    pub session_id: Option<String>,
    /// One message, told with all of its parts and with the messages around it. Without it the session is told page by page.
    #[schemars(with = "String")]
    #[serde(default)]
    pub message_id: Option<String>,
    /// How much of a session is told; not beside `message_id`. `conversational` if left out: what people and models said.
    /// `complete`: every message, parts only named. `verbatim`: every message with its parts, as tool calls and their results.
    #[schemars(with = "ResponseMode")]
    #[serde(default)]
    pub response_mode: Option<ResponseMode>,
    /// How many messages before and after the one; only beside `message_id`; 2 if left out.
    #[schemars(with = "u32", range(min = 0, max = 50))]
    #[serde(default)]
    pub context_depth: Option<u32>,
    /// Goes on after this: the id of a message of the session or, beside `message_id`, of a part of the message. Answers say which.
    #[schemars(with = "String")]
    #[serde(default)]
    pub after_id: Option<String>,
    /// Whose sessions. Leave it out unless told to use one.
    #[schemars(with = "String")]
    #[serde(default)]
    pub namespace: Option<String>,
}

impl TryFrom<SearchInput> for SearchRequest {
    type Error = PondError;

    fn try_from(input: SearchInput) -> Result<Self, PondError> {
        Ok(Self {
            protocol_version: PROTOCOL_VERSION,
            namespace: input.namespace,
            query: input.query,
            project: input.project,
            session_id: read("session_id", input.session_id)?,
            source_agent: input.source_agent,
            role: input.role.map(spoken).transpose()?,
            since: read("since", input.since.map(moment))?,
            until: read("until", input.until.map(moment))?,
            min_score: input.min_score,
            limit: Some(input.limit.unwrap_or(SESSIONS)),
            min_position: None,
        })
    }
}

impl TryFrom<GetInput> for GetRequest {
    type Error = PondError;

    fn try_from(input: GetInput) -> Result<Self, PondError> {
        Ok(Self {
            protocol_version: PROTOCOL_VERSION,
            namespace: input.namespace,
            session_id: read("session_id", input.session_id)?,
            message_id: read("message_id", input.message_id)?,
            response_mode: input.response_mode,
            context_depth: input.context_depth,
            after_id: input.after_id,
            min_position: None,
            // Nobody reads base64.
            files: Files::Counted,
        })
    }
}

fn read<T: FromStr<Err: Display>>(name: &str, given: Option<String>) -> Result<Option<T>, PondError> {
    let read = |text: String| text.parse().map_err(|error| PondError::invalid(format!("{name}: {error}")));
    given.map(read).transpose()
}

/// Every role is spelled as the request spells it.
fn spoken<T: DeserializeOwned>(role: Said) -> Result<T, PondError> {
    let name: StrDeserializer<'_, serde::de::value::Error> = match role {
        Said::User => "user",
        Said::Assistant => "assistant",
    }
    .into_deserializer();
    T::deserialize(name).map_err(|error| PondError::invalid(format!("role: {error}")))
}

/// A day is its first moment: models leave the rest out.
fn moment(text: String) -> String {
    if text.len() == "2026-03-01".len() { format!("{text}T00:00:00Z") } else { text }
}
