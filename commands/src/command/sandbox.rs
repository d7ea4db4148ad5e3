use events::{EnvironmentId, HouseId, SandboxId, ThreadId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{makes, makes_nothing};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestSandbox {
    pub house_id: HouseId,
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub sandbox_id: Option<SandboxId>,
    /// Points this thread at it, which must have none that lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<ThreadId>,
    /// Else the thread's, else the house's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<EnvironmentId>,
    pub provider: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkSandboxLive {
    pub sandbox_id: SandboxId,
    pub provider_ref: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkSandboxDead {
    pub sandbox_id: SandboxId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DestroySandbox {
    pub sandbox_id: SandboxId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeSandbox {
    /// The dead one. Every thread on it moves to the new one.
    pub sandbox_id: SandboxId,
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub new_sandbox_id: Option<SandboxId>,
    /// Else the dead one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetThreadSandbox {
    pub thread_id: ThreadId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
}

makes! {
    RequestSandbox: sandbox_id from sandbox as sandbox_id;
    ResumeSandbox: new_sandbox_id from sandbox as sandbox_id;
}

makes_nothing! { MarkSandboxLive MarkSandboxDead DestroySandbox SetThreadSandbox }
