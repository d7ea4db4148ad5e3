//! The canonical model of a session: what every client's format is parsed into and restored from, and what is stored, searched and
//! handed out. A session holds messages, a message holds parts; containment replaces the back-references, which rows and the wire add.
//!
//! Order is the order of the log. Fields that a source may lack are optional; what has no field of its own stands in `options`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::Json;

mod ids;
mod message;
mod part;
#[cfg(test)]
mod tests;
mod timestamp;
mod wire;

pub use ids::{MessageId, PartId, SessionId};
pub use message::{Content, Message, Role};
pub use part::{
    ApprovalRequest, ApprovalResponse, AssistantBody, Body, BodyRef, Data, File, Part, PartRef, Reasoning, Text, ToolBody,
    ToolCall, ToolResult, UserBody,
};
pub use timestamp::{InvalidTimestamp, Timestamp};

/// The extensibility bag of every object: `source` for facts of the source and its harness, `pond` for our own, anything else is the
/// name of a provider.
pub type Options = BTreeMap<String, Json>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Session {
    pub id: SessionId,
    /// The session this one was spawned or forked from. It need not be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<SessionId>,
    /// Where it was cut off the parent; only with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_message_id: Option<MessageId>,
    /// The brand of the harness that wrote it, such as `claude-code`.
    pub source_agent: String,
    /// As the source recorded it.
    pub created_at: Timestamp,
    pub project: String,
    #[serde(default)]
    pub options: Options,
}

/// What a session stream holds: the session first, then its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    Recorded(Recorded),
    MessageRecorded(MessageRecorded),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    pub session: Session,
}

/// One message with its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageRecorded {
    pub message: Message,
}

/// Whether content is the conversation or was put into the transcript by the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    Conversational,
    Injected,
}

/// Why a session is refused as it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incoherent {
    /// `model-parent-pointer-coherence`
    #[error("parent_message_id stands without parent_session_id")]
    CutWithoutParent,
    /// `model-project-non-empty`
    #[error("project is empty")]
    NoProject,
    #[error("source_agent is empty")]
    NoSourceAgent,
    #[error("a session is not its own parent")]
    OwnParent,
    #[error("{0} is longer than {NAME_MAX} bytes or holds a control character")]
    Unfit(&'static str),
}

/// Bytes of a project or a client's name.
const NAME_MAX: usize = 4_096;

impl Session {
    pub fn check(&self) -> Result<(), Incoherent> {
        if self.parent_message_id.is_some() && self.parent_session_id.is_none() {
            return Err(Incoherent::CutWithoutParent);
        }
        if self.parent_session_id.as_ref() == Some(&self.id) {
            return Err(Incoherent::OwnParent);
        }
        if self.project.is_empty() {
            return Err(Incoherent::NoProject);
        }
        if self.source_agent.is_empty() {
            return Err(Incoherent::NoSourceAgent);
        }
        for (name, text) in [("project", &self.project), ("source_agent", &self.source_agent)] {
            if text.len() > NAME_MAX || text.chars().any(char::is_control) {
                return Err(Incoherent::Unfit(name));
            }
        }
        Ok(())
    }
}
