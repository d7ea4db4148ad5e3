//! The envelope: one message of a platform stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::ids::{AgentId, EventId};
use crate::json::Json;
use crate::registry;

/// The order of the fields is the order of the keys in the stored text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub id: EventId,
    /// Server time at append, in unix milliseconds.
    pub ts: u64,
    #[serde(rename = "type")]
    pub kind: String,
    pub v: u32,
    /// The authoring agent. Facts of the system itself have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author_agent_id: Option<AgentId>,
    pub payload: Json,
}

#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("not an entry")]
    Entry(#[source] serde_json::Error),
    #[error("no event is known as {kind:?} version {v}")]
    UnknownKind { kind: String, v: u32 },
    #[error("the payload does not fit {kind} version {v}")]
    Payload {
        kind: String,
        v: u32,
        #[source]
        source: serde_json::Error,
    },
}

impl Entry {
    #[must_use]
    pub fn of(id: EventId, ts: u64, author: Option<AgentId>, event: &Event) -> Self {
        let (kind, v) = (event.kind().to_owned(), event.version());
        Self { id, ts, kind, v, author_agent_id: author, payload: registry::encode(event) }
    }

    pub fn event(&self) -> Result<Event, DecodeError> {
        registry::decode(&self.kind, self.v, &self.payload)
    }

    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an entry has text keys only and no failing field")
    }

    pub fn from_json(text: &str) -> Result<Self, DecodeError> {
        serde_json::from_str(text).map_err(DecodeError::Entry)
    }

    pub fn from_slice(text: &[u8]) -> Result<Self, DecodeError> {
        serde_json::from_slice(text).map_err(DecodeError::Entry)
    }
}
