//! `signal.dispatch.*`, `signal.command.*`, `signal.permission.*`: how work on a thread proceeds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, RunId, SandboxId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DispatchEvent {
    Queued(Queued),
    Claimed(Claimed),
    SessionStarted(SessionStarted),
    Heartbeat(Heartbeat),
    PiWaiting(PiWaiting),
    Failed(Failed),
    Reset(Reset),
    Cancelled(Cancelled),
    Warned(Warned),
    CommandStarted(CommandStarted),
    CommandOutput(CommandOutput),
    CommandFinished(CommandFinished),
    PermissionRequested(PermissionRequested),
    PermissionResolved(PermissionResolved),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    Stdout,
    Stderr,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queued {
    pub run_id: RunId,
    /// Who asked for the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<AgentId>,
}

/// One server at a time drives a run or answers a message. Another may only claim it when the last one has been silent for long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claimed {
    pub run_id: RunId,
    pub server: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionStarted {
    pub run_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// The runtime's own name of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_ref: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    pub run_id: RunId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PiWaiting {
    pub run_id: RunId,
    #[serde(rename = "for")]
    pub waiting_for: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    pub error_class: String,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    pub run_id: RunId,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancelled {
    pub run_id: RunId,
}

/// The run goes on, but not quite as was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Warned {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// A word that programs match on.
    pub warning: String,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandStarted {
    pub command_id: String,
    pub command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandOutput {
    pub command_id: String,
    pub stream: OutputStream,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandFinished {
    pub command_id: String,
    /// 128 and the number of the signal if one ended it. None when it was cancelled, when its time limit or its machine ended it, or
    /// when nobody knows; a warning before this says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    pub truncated: bool,
    pub duration_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionRequested {
    pub request_id: String,
    pub action: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionResolved {
    pub request_id: String,
    pub allowed: bool,
}
