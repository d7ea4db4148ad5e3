use events::{AgentId, EnvironmentId, RunId, SandboxId, StatusReason, ThreadId, ThreadStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fill, Made, makes, makes_nothing};
use crate::ids::Ids;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delegate {
    /// The parent.
    pub thread_id: ThreadId,
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub child_thread_id: Option<ThreadId>,
    /// The bot that is to drive the child.
    pub agent_id: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Else the parent's, else the house's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<EnvironmentId>,
    /// Reuses a machine and its tree; the environment is then ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    #[serde(default)]
    pub tags: Vec<String>,
    /// Said in the child by who delegates. The run starts with it, in the same commit; without it the child is left idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub run_id: Option<RunId>,
}

/// From idle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    pub thread_id: ThreadId,
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub run_id: Option<RunId>,
}

/// From completed, failed or cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRun {
    pub thread_id: ThreadId,
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub run_id: Option<RunId>,
}

/// Asks what is under way in a thread to stop: its run, answers of bots, commands. A run has ended when its status says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRun {
    pub thread_id: ThreadId,
    /// Only this run or answer, or the command whose id ends with it. Else everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishRun {
    pub thread_id: ThreadId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<StatusReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Narrated before the status of a run that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub error_class: String,
    pub message: String,
    #[serde(default, deserialize_with = "events::whole", skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrphanRun {
    pub thread_id: ThreadId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    pub silent_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Completed,
    Failed,
    Cancelled,
}

impl Outcome {
    #[must_use]
    pub fn status(self) -> ThreadStatus {
        match self {
            Self::Completed => ThreadStatus::Completed,
            Self::Failed => ThreadStatus::Failed,
            Self::Cancelled => ThreadStatus::Cancelled,
        }
    }
}

impl Fill for Delegate {
    fn fill(&mut self, ids: &mut Ids<'_>) -> Made {
        let thread_id = Some(self.child_thread_id.get_or_insert_with(|| ids.thread()).clone());
        let run_id = self.prompt.as_ref().map(|_| self.run_id.get_or_insert_with(|| ids.run()).clone());
        Made { thread_id, run_id, ..Made::default() }
    }
}

makes! {
    StartRun: run_id from run as run_id;
    ResumeRun: run_id from run as run_id;
}

makes_nothing! { CancelRun FinishRun OrphanRun }
