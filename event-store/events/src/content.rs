//! What is said in a thread, and what a coding agent's session says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, EventId};
use crate::json::Json;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Chat(Chat),
    Pi(PiEntry),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chat {
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<EventId>,
}

/// A transcript entry of the runtime, of any `pi.*` type and version, also ones newer than this build: kept whole, never read here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PiEntry {
    kind: String,
    v: u32,
    payload: Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a transcript entry's type starts with `pi.`")]
pub struct NotPi;

impl PiEntry {
    /// Refuses every other type, so that no signal can be written in the guise of a transcript.
    pub fn new(kind: &str, v: u32, payload: Json) -> Result<Self, NotPi> {
        if Self::owns(kind) { Ok(Self { kind: kind.to_owned(), v, payload }) } else { Err(NotPi) }
    }

    /// Whether entries of this type are transcript entries.
    #[must_use]
    pub fn owns(kind: &str) -> bool {
        kind.strip_prefix("pi.").is_some_and(|rest| !rest.is_empty())
    }

    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    #[must_use]
    pub fn version(&self) -> u32 {
        self.v
    }

    #[must_use]
    pub fn payload(&self) -> &Json {
        &self.payload
    }
}

impl From<PiEntry> for Content {
    fn from(entry: PiEntry) -> Self {
        Self::Pi(entry)
    }
}

impl From<PiEntry> for crate::Event {
    fn from(entry: PiEntry) -> Self {
        Content::Pi(entry).into()
    }
}
