use events::{AgentId, AgentKind, KeyHash, KeyId, Runtime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{makes, makes_nothing};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterAgent {
    /// A human's is the one its identity provider knows it by, so nobody may choose it for another in a request.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub agent_id: Option<AgentId>,
    pub kind: AgentKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameAgent {
    pub agent_id: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The key itself is made by the caller, shown once and kept nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IssueKey {
    pub agent_id: AgentId,
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub key_id: Option<KeyId>,
    pub hash: KeyHash,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeKey {
    pub agent_id: AgentId,
    pub key_id: KeyId,
}

makes! {
    RegisterAgent: agent_id from agent as agent_id;
    IssueKey: key_id from key as key_id;
}

makes_nothing! { RenameAgent RevokeKey }
