//! `signal.agent.*`: the global directory of agents and their keys.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::ids::{AgentId, KeyId, from_text};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryEvent {
    Registered(Registered),
    Renamed(Renamed),
    KeyIssued(KeyIssued),
    KeyRevoked(KeyRevoked),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    Human,
    Bot,
}

impl AgentKind {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Bot => "bot",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    pub agent_id: AgentId,
    pub kind: AgentKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Renamed {
    pub agent_id: AgentId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyIssued {
    pub agent_id: AgentId,
    pub key_id: KeyId,
    pub hash: KeyHash,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRevoked {
    pub agent_id: AgentId,
    pub key_id: KeyId,
}

/// What runs a bot: `codex`, `claude-code`, `pi`, `opencode`, or whatever else a house brings. One to 64 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Runtime(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a runtime is named by 1 to 64 characters without control characters")]
pub struct InvalidRuntime;

impl Runtime {
    pub fn new(name: &str) -> Result<Self, InvalidRuntime> {
        let short = (1..=64).contains(&name.chars().count());
        if short && !name.chars().any(char::is_control) { Ok(Self(name.to_owned())) } else { Err(InvalidRuntime) }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The SHA-256 of an API key in lowercase hex. The key itself is shown once and kept nowhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct KeyHash(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256 in lowercase hex")]
pub struct InvalidKeyHash;

impl KeyHash {
    pub fn new(hex: &str) -> Result<Self, InvalidKeyHash> {
        let valid = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if hex.len() == 64 && hex.bytes().all(valid) { Ok(Self(hex.to_owned())) } else { Err(InvalidKeyHash) }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! checked_text {
    ($($name:ident or $error:ident, $schema:tt;)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                Self::new(text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                from_text(deserializer)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

checked_text! {
    Runtime or InvalidRuntime, { "type": "string", "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]{1,64}$" };
    KeyHash or InvalidKeyHash, { "type": "string", "pattern": "^[0-9a-f]{64}$" };
}
