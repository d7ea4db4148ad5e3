use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::Options;
use crate::session::ids::MessageId;
use crate::session::part::{AssistantBody, Part, PartRef, ToolBody, UserBody};
use crate::session::timestamp::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub id: MessageId,
    pub timestamp: Timestamp,
    pub options: Options,
    pub content: Content,
}

/// The slot in the conversation, with what may stand in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Empty for a record that is no message and is carried whole in `options`.
    System(String),
    User(Vec<Part<UserBody>>),
    Assistant(Vec<Part<AssistantBody>>),
    Tool(Vec<Part<ToolBody>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

impl Message {
    #[must_use]
    pub fn role(&self) -> Role {
        match self.content {
            Content::System(_) => Role::System,
            Content::User(_) => Role::User,
            Content::Assistant(_) => Role::Assistant,
            Content::Tool(_) => Role::Tool,
        }
    }

    /// In order; a system message has none.
    #[must_use]
    pub fn parts(&self) -> Vec<PartRef<'_>> {
        match &self.content {
            Content::System(_) => Vec::new(),
            Content::User(parts) => parts.iter().map(Part::view).collect(),
            Content::Assistant(parts) => parts.iter().map(Part::view).collect(),
            Content::Tool(parts) => parts.iter().map(Part::view).collect(),
        }
    }
}
