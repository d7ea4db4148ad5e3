//! `signal.house.*`, `signal.environment.*`, `signal.secret.*`, `signal.sandbox.*`: the control log of a house.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::{AgentId, EnvironmentId, HouseId, SandboxId, SecretId};
use crate::json::JsonObject;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HouseEvent {
    Created(Created),
    Renamed(Renamed),
    DefaultEnvironmentSet(DefaultEnvironmentSet),
    MemberAdded(MemberAdded),
    MemberRoleSet(MemberRoleSet),
    MemberRemoved(MemberRemoved),
    EnvironmentCreated(EnvironmentCreated),
    EnvironmentUpdated(EnvironmentUpdated),
    SecretBound(SecretBound),
    SecretUnbound(SecretUnbound),
    EnvironmentDeleted(EnvironmentDeleted),
    SecretSet(SecretSet),
    SecretRotated(SecretRotated),
    SecretDeleted(SecretDeleted),
    SandboxRequested(SandboxRequested),
    SandboxLive(SandboxLive),
    SandboxDead(SandboxDead),
    SandboxDestroyed(SandboxDestroyed),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Owner,
    Member,
}

impl Role {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Member => "member",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Created {
    pub house_id: HouseId,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Renamed {
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DefaultEnvironmentSet {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<EnvironmentId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberAdded {
    pub agent_id: AgentId,
    pub role: Role,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberRoleSet {
    pub agent_id: AgentId,
    pub role: Role,
}

/// Without effect while the agent drives a thread of the house.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberRemoved {
    pub agent_id: AgentId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentCreated {
    pub environment_id: EnvironmentId,
    pub name: String,
    pub config: JsonObject,
}

/// The whole new name and recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentUpdated {
    pub environment_id: EnvironmentId,
    pub name: String,
    pub config: JsonObject,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretBound {
    pub environment_id: EnvironmentId,
    /// Of the secret, which need not exist yet.
    pub name: String,
    pub required: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretUnbound {
    pub environment_id: EnvironmentId,
    pub name: String,
}

/// Without effect while something refers to the environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentDeleted {
    pub environment_id: EnvironmentId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretSet {
    pub secret_id: SecretId,
    pub name: String,
    /// Where the vault keeps the value, which never stands in the log.
    pub vault_secret_id: Uuid,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretRotated {
    pub secret_id: SecretId,
    pub vault_secret_id: Uuid,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretDeleted {
    pub secret_id: SecretId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxRequested {
    pub sandbox_id: SandboxId,
    pub environment_id: EnvironmentId,
    pub provider: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxLive {
    pub sandbox_id: SandboxId,
    /// The provider's own name of the machine.
    pub provider_ref: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxDead {
    pub sandbox_id: SandboxId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxDestroyed {
    pub sandbox_id: SandboxId,
}
