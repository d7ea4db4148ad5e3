//! Machines that others run: made of a recipe, asked whether they live, worked on, and taken away.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use events::dispatch::OutputStream;
use events::{EnvironmentId, HouseId, SandboxId, ThreadId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Plain;

/// The provider's own name of a machine: `provider_ref` in the log.
pub type Machine = str;

/// What a recipe may name as its `runtime`.
pub const RUNTIMES: [&str; 3] = ["local", "daytona", "sprite"];

/// What an environment's `config` says of its machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    /// `local`, `daytona` or `sprite`; the server's default if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// An image or a snapshot of the provider's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Cloned into the working tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// A shell script that is run in the working tree, after the clone. It is run again in a machine whose tree is restored from a
    /// snapshot, which holds nothing beside the tree: so it must bear to find what it made there before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    pub limits: Limits,
    /// Variables that are no secret.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What the machine may reach besides the thread's stream, as `host:port`. A local machine has no network; each of these is handed in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<String>,
    /// Where models are asked, for bots that answer themselves and for coding agents: see `dispatch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<super::ModelConfig>")]
    pub model: Option<serde_json::Map<String, serde_json::Value>>,
    /// What bots and coding agents may not do without being allowed to, each time.
    #[serde(skip_serializing_if = "Permissions::is_empty")]
    pub permissions: Permissions,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Permissions {
    /// Names of tools, such as `bash`, `run_command` or `delegate_task`; `*` for all. Before each use a member of the house is asked.
    pub ask: Vec<String>,
}

impl Permissions {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ask.is_empty()
    }

    #[must_use]
    pub fn asks(&self, tool: &str) -> bool {
        self.ask.iter().any(|named| named == "*" || named == tool)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mib: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// Of one command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// A port of the machine's own loopback that leads out to one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    pub port: u16,
    /// `host:port`, as this server reaches it.
    pub to: String,
}

/// A machine that is to be made. Asked for twice with one sandbox id, the same machine comes back.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub house: HouseId,
    pub sandbox: SandboxId,
    pub environment: EnvironmentId,
    /// For whom it is made, if for a thread.
    pub thread: Option<ThreadId>,
    pub recipe: Recipe,
    pub relays: Vec<Relay>,
    /// A working tree to begin with, as it was taken by `snapshot`; then nothing is cloned, and the setup runs in it.
    pub tree: Option<Bytes>,
    /// For the clone and the setup.
    pub secrets: BTreeMap<String, Plain>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    pub provider_ref: String,
    /// What the clone and the setup printed, without secrets.
    pub printed: String,
}

/// Whether a machine lives. What is not known changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Live,
    /// It stands still and keeps its files; `wake` lets it go on.
    Resumable,
    Dead {
        why: String,
    },
    Unknown {
        why: String,
    },
}

/// One command in the working tree, with a shell.
#[derive(Clone, Debug)]
pub struct Execute {
    pub command: String,
    /// Relative to the working tree.
    pub cwd: Option<String>,
    pub secrets: BTreeMap<String, Plain>,
    pub env: BTreeMap<String, String>,
    pub timeout: Duration,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// All that it ran in was ended by this signal, from outside.
    Sandbox(i32),
    TimedOut,
}

pub type OutputSink<'a> = &'a mut (dyn FnMut(OutputStream, &[u8]) + Send);

/// A process that goes on by itself.
#[derive(Clone, Debug)]
pub struct Launch {
    /// One of a name at a time; the run's id.
    pub name: String,
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub secrets: BTreeMap<String, Plain>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    Running,
    Exited(Exit),
    /// Nobody knows a process of this name.
    Absent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub provider_ref: String,
    pub house: Option<HouseId>,
    pub sandbox: Option<SandboxId>,
    pub thread: Option<ThreadId>,
    pub environment: Option<EnvironmentId>,
    pub state: String,
}

/// Named for what the caller may conclude. None of them carries a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// The machine, or a process or a file in it, is not there, and will not be.
    #[error("it is not there: {0}")]
    Gone(String),
    /// The provider says no, and will again.
    #[error("the provider refuses: {0}")]
    Refused(String),
    /// The clone or the setup failed; nothing was left behind.
    #[error("the machine could not be set up: {0}")]
    Setup(String),
    /// Nothing was done.
    #[error("the provider cannot be reached: {0}")]
    Unavailable(String),
    /// It may or may not have been done.
    #[error("what became of it is not known: {0}")]
    Unknown(String),
}

/// A provider of machines.
#[async_trait]
pub trait Machines: Send + Sync + fmt::Debug {
    /// Part of events. Never renamed.
    fn provider(&self) -> &'static str;

    /// Whether this server can say anything of the machine. One that stands on another server's host is not its business.
    fn holds(&self, _machine: &Machine) -> bool {
        true
    }

    async fn create(&self, wanted: &Wanted) -> Result<Created, MachineError>;

    async fn probe(&self, machine: &Machine) -> Verdict;

    /// Lets a resumable machine go on, with the files it had.
    async fn wake(&self, machine: &Machine) -> Result<(), MachineError>;

    /// Where the working tree is for whoever works in the machine: an absolute path, and where processes begin.
    async fn tree(&self, machine: &Machine) -> Result<String, MachineError>;

    /// Work goes on in it: it is not to be stopped for being idle.
    async fn keep_alive(&self, machine: &Machine) -> Result<(), MachineError>;

    async fn execute(&self, machine: &Machine, execute: &Execute, output: OutputSink<'_>) -> Result<Exit, MachineError>;

    async fn launch(&self, machine: &Machine, launch: &Launch) -> Result<(), MachineError>;

    async fn process(&self, machine: &Machine, name: &str) -> Result<ProcessState, MachineError>;

    /// Asks a process to end, and after a while makes it. Everything that it began ends with it.
    async fn stop(&self, machine: &Machine, name: &str, patience: Duration) -> Result<(), MachineError>;

    /// A path without a slash at its beginning is relative to the home directory. `/work/…` is in the working tree, wherever that is.
    async fn write(&self, machine: &Machine, path: &str, contents: Bytes) -> Result<(), MachineError>;

    async fn read(&self, machine: &Machine, path: &str) -> Result<Bytes, MachineError>;

    /// The working tree as it is, for `Wanted::tree`.
    async fn snapshot(&self, machine: &Machine) -> Result<Bytes, MachineError>;

    /// One that is gone already is fine.
    async fn destroy(&self, machine: &Machine) -> Result<(), MachineError>;

    /// The machines that carry the labels of this platform.
    async fn list(&self) -> Result<Vec<Listed>, MachineError>;
}
