use std::collections::BTreeMap;

use events::{EnvironmentId, HouseId, JsonObject, SecretId, Uuid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fill, Made, makes, makes_nothing};
use crate::ids::Ids;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateEnvironment {
    pub house_id: HouseId,
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub environment_id: Option<EnvironmentId>,
    pub name: String,
    pub config: JsonObject,
}

/// Both or neither. The secrets need not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateEnvironmentWithSecrets {
    pub environment: CreateEnvironment,
    /// By name, whether it is required.
    pub secret_bindings: BTreeMap<String, bool>,
}

impl Fill for CreateEnvironmentWithSecrets {
    fn fill(&mut self, ids: &mut Ids<'_>) -> Made {
        self.environment.fill(ids)
    }
}

/// What is left out stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateEnvironment {
    pub environment_id: EnvironmentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<JsonObject>,
}

/// The secret need not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BindSecret {
    pub environment_id: EnvironmentId,
    pub name: String,
    pub required: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnbindSecret {
    pub environment_id: EnvironmentId,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteEnvironment {
    pub environment_id: EnvironmentId,
}

/// Metadata only; the value is in the vault under `vault_secret_id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSecret {
    pub house_id: HouseId,
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub secret_id: Option<SecretId>,
    pub name: String,
    pub vault_secret_id: Uuid,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateSecret {
    pub secret_id: SecretId,
    pub vault_secret_id: Uuid,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteSecret {
    pub secret_id: SecretId,
}

makes! {
    CreateEnvironment: environment_id from environment as environment_id;
    SetSecret: secret_id from secret as secret_id;
}

makes_nothing! { UpdateEnvironment BindSecret UnbindSecret DeleteEnvironment RotateSecret DeleteSecret }
