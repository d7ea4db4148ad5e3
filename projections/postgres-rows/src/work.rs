//! Rows of `reconciliation`: what a driver has to do, since when and for whom.

use events::{AgentId, HouseId, SandboxId, ThreadId};
use serde::Serialize;
use serde_json::Value;

use crate::rows::Ms;

/// Persisted as its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// A driven thread that no run was started for.
    ThreadIdle,
    RunQueued,
    /// A run that shows signs of life, or should.
    RunLive,
    /// A child at rest whose parent was not told.
    ParentNotice,
    CommandRunning,
    PermissionRequested,
    SandboxPending,
    SandboxDead,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct WorkKey {
    pub kind: WorkKind,
    pub subject: String,
    /// Whose sandbox it is: two houses may name the same id, and only one of them has it.
    #[serde(skip)]
    pub house: Option<HouseId>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Work {
    #[serde(flatten)]
    pub key: WorkKey,
    /// `None`: that of the thread.
    pub house_id: Option<HouseId>,
    pub thread_id: Option<ThreadId>,
    pub sandbox_id: Option<SandboxId>,
    /// `None`: whoever drives the thread.
    pub agent_id: Option<AgentId>,
    pub since: Ms,
    pub seen: Ms,
    pub detail: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WorkChange {
    Put(Work),
    Seen(WorkKey, Ms),
    Done(WorkKey),
}

impl WorkKind {
    pub(crate) fn of(self, subject: impl ToString) -> WorkKey {
        WorkKey { kind: self, subject: subject.to_string(), house: None }
    }

    pub(crate) fn of_sandbox(self, house: &HouseId, sandbox: &SandboxId) -> WorkKey {
        WorkKey { kind: self, subject: sandbox.to_string(), house: Some(house.clone()) }
    }
}

impl WorkKey {
    pub(crate) fn on_thread(self, thread: &ThreadId, at: Ms) -> Work {
        let thread_id = Some(thread.clone());
        Work { key: self, house_id: None, thread_id, sandbox_id: None, agent_id: None, since: at, seen: at, detail: empty() }
    }

    pub(crate) fn on_sandbox(self, house: &HouseId, sandbox: &SandboxId, at: Ms) -> Work {
        let (house_id, sandbox_id) = (Some(house.clone()), Some(sandbox.clone()));
        Work { key: self, house_id, thread_id: None, sandbox_id, agent_id: None, since: at, seen: at, detail: empty() }
    }
}

impl Work {
    pub(crate) fn with(self, detail: Value) -> Self {
        Self { detail, ..self }
    }
}

fn empty() -> Value {
    Value::Object(serde_json::Map::new())
}
