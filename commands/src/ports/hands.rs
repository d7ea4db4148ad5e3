//! Work that is asked for through a door and done by the drivers.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use event_log::command_id;
use events::{AgentId, HouseId, RunId, ThreadId};

use super::Load;
use crate::error::CommandError;

mod found;

pub use found::{Diagnosis, EndedRun, FoundMachine, FoundProcess, FoundRun, Left, Pruned, Seen, SeenAs, TakenMachine};

/// One command for the thread's own machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCommand {
    pub thread_id: ThreadId,
    pub command: String,
    /// Relative to the working tree.
    pub cwd: Option<String>,
    pub timeout: Option<Duration>,
}

/// How the id of a command with a key ends: whoever gave the key can tell what it prints from what others do while it comes.
#[must_use]
pub fn command_mark(thread: &ThreadId, by: AgentId, key: &str) -> String {
    format!("{:032x}", command_id(&["run_command", thread.as_str(), &by.to_string(), key]))
}

/// By which a command is asked to stop: the answer that it belongs to (`<answer>.<round>.<place>`), else how its own id ends.
#[must_use]
pub fn command_run(command_id: &str) -> Option<RunId> {
    let parts: Vec<_> = command_id.split('.').collect();
    match parts.as_slice() {
        [answer, _, _] => RunId::new(answer).ok(),
        [.., mark] => RunId::new(mark).ok(),
        [] => None,
    }
}

/// The class of a command that took longer than it might.
pub const COMMAND_TIMEOUT: &str = "command_timeout";

/// What became of it, as the thread has it too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    pub command_id: String,
    /// 128 and the number of the signal if one ended it. None when it was cancelled, when its time limit or its machine ended it, or
    /// when nobody knows.
    pub exit_code: Option<i32>,
    /// Both streams as they came.
    pub output: String,
    /// There was more output than the thread keeps.
    pub truncated: bool,
    pub duration_ms: u64,
    /// Why there is no exit code: a word that programs match on, and a sentence.
    pub error_class: Option<String>,
    pub why: Option<String>,
    /// Where in the log it stands.
    pub position: u64,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum HandsError {
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// It did not begin. The thread says so too.
    #[error("{message}")]
    NotBegun { error_class: String, message: String },
}

#[async_trait]
pub trait Hands: Send + Sync + fmt::Debug {
    /// Returns when the command has ended. It goes on if nobody waits for it any more. A retry with the same key runs nothing again.
    async fn run_command(&self, by: AgentId, ask: RunCommand, key: Option<&str>) -> Result<Ran, HandsError>;

    /// Whether the machines of this provider are made and told of by the drivers here, and by nobody else.
    fn drives(&self, _provider: &str) -> bool {
        false
    }

    /// How much there is to do, if anything is done here.
    fn load(&self) -> Option<Load> {
        None
    }

    /// Somebody reads the thread: its run is looked at now and not at the next interval. Returns at once.
    fn look(&self, thread: &ThreadId);

    /// Asks after every machine of the house. One that is surely dead is marked so, and the runs on it have failed; what is not known
    /// changes nothing.
    async fn reconcile(&self, house: &HouseId) -> Result<Vec<Seen>, HandsError>;

    /// What is known of the thread's run, and what follows from it. Changes nothing.
    async fn diagnose(&self, thread: &ThreadId) -> Result<Diagnosis, HandsError>;

    /// Looks at every running run of the house once and ends those that are over. Takes the idle machines of delegated work away, and
    /// those whose sandboxes are over, and gives up sandboxes of such work that nobody waits for. What a member asked for stays.
    async fn prune(&self, house: &HouseId) -> Result<Pruned, HandsError>;
}
