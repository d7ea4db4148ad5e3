//! What the drivers found out about runs and machines, as the doors tell it.

use events::{RunId, SandboxId, ThreadId, ThreadStatus};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::{Exit, ProcessState, Verdict};

/// What the provider says of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeenAs {
    Live,
    /// It stands still and keeps its files.
    Resumable,
    Dead,
    /// Nobody could say, so nothing changes.
    Unknown,
    /// It is there, and no sandbox stands for it.
    Stray,
}

impl Verdict {
    /// With the reason, if one was given.
    #[must_use]
    pub fn seen(self) -> (SeenAs, Option<String>) {
        match self {
            Self::Live => (SeenAs::Live, None),
            Self::Resumable => (SeenAs::Resumable, None),
            Self::Dead { why } => (SeenAs::Dead, Some(why)),
            Self::Unknown { why } => (SeenAs::Unknown, Some(why)),
        }
    }
}

/// One machine of a house.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Seen {
    /// None of a stray that does not say whose it was.
    pub sandbox_id: Option<SandboxId>,
    pub provider: String,
    /// None while it is not made.
    pub provider_ref: Option<String>,
    pub verdict: SeenAs,
    pub why: Option<String>,
    /// Those that stand on it; of a stray, the one that it was made for.
    pub threads: Vec<ThreadId>,
}

/// What is known of a thread's run, and what follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diagnosis {
    pub thread_id: ThreadId,
    pub status: ThreadStatus,
    pub run: Option<FoundRun>,
    /// Commands that were begun and have not ended.
    pub open_commands: Vec<String>,
    /// What was said and no run or answer has taken up.
    pub words_waiting: u64,
    /// Answers of bots that are under way.
    pub answers_open: u64,
    pub machine: Option<FoundMachine>,
    /// What happens next and when, in one sentence.
    pub forecast: String,
}

/// A run as the log has it. Times are unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FoundRun {
    pub run_id: RunId,
    pub since_ms: u64,
    /// The server that drives it.
    pub server: Option<String>,
    /// How often it was claimed.
    pub claims: u32,
    /// The last sign of life.
    pub seen_ms: u64,
    pub silent_ms: u64,
    /// Its process was launched.
    pub launched: bool,
    /// When it was asked to stop.
    pub cancel_asked_ms: Option<u64>,
}

/// A thread's machine as its provider has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FoundMachine {
    pub sandbox_id: SandboxId,
    pub provider: String,
    pub provider_ref: Option<String>,
    /// `pending`, `live`, `dead` or `destroyed`, as the log has it.
    pub recorded: String,
    pub verdict: SeenAs,
    pub why: Option<String>,
    /// Of the run's process; none without a run that was launched.
    pub process: Option<FoundProcess>,
    /// Those that stand on it.
    pub threads: Vec<ThreadId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum FoundProcess {
    Running,
    Exited {
        exit_code: Option<i32>,
        signal: Option<i32>,
    },
    /// The machine knows no process of this run.
    Absent,
    /// The provider did not say.
    Unknown,
}

impl From<Option<ProcessState>> for FoundProcess {
    fn from(state: Option<ProcessState>) -> Self {
        match state {
            Some(ProcessState::Running) => Self::Running,
            Some(ProcessState::Exited(Exit::Code(code))) => Self::Exited { exit_code: Some(code), signal: None },
            Some(ProcessState::Exited(Exit::Signal(signal) | Exit::Sandbox(signal))) => {
                Self::Exited { exit_code: None, signal: Some(signal) }
            }
            Some(ProcessState::Exited(Exit::TimedOut)) => Self::Exited { exit_code: None, signal: None },
            Some(ProcessState::Absent) => Self::Absent,
            None => Self::Unknown,
        }
    }
}

/// What a sweep has done, and what it has left as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pruned {
    pub ended: Vec<EndedRun>,
    pub taken: Vec<TakenMachine>,
    pub left: Vec<Left>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EndedRun {
    pub thread_id: ThreadId,
    pub run_id: RunId,
    /// What it came to.
    pub status: ThreadStatus,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TakenMachine {
    pub sandbox_id: SandboxId,
    pub provider: String,
    pub provider_ref: String,
}

/// A run, a machine, or a provider that does not list what it has: then no id is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Left {
    pub thread_id: Option<ThreadId>,
    pub run_id: Option<RunId>,
    pub sandbox_id: Option<SandboxId>,
    pub why: String,
}
