use events::{AgentId, EnvironmentId, HouseId, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{makes, makes_nothing};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateHouse {
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub house_id: Option<HouseId>,
    pub name: String,
    /// Given by the system only; an agent that makes a house owns it.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub owner: Option<AgentId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameHouse {
    pub house_id: HouseId,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetDefaultEnvironment {
    pub house_id: HouseId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<EnvironmentId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddMember {
    pub house_id: HouseId,
    pub agent_id: AgentId,
    pub role: Role,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveMember {
    pub house_id: HouseId,
    pub agent_id: AgentId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetRole {
    pub house_id: HouseId,
    pub agent_id: AgentId,
    pub role: Role,
}

makes! { CreateHouse: house_id from house as house_id; }

makes_nothing! { RenameHouse SetDefaultEnvironment AddMember RemoveMember SetRole }
