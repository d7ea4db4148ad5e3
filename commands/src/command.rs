//! What may be asked. The structs are request bodies as well; ids of new things are left out there and drawn before deciding. Who
//! chooses one in code must not choose it twice: two houses are not held against each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use events::{AgentId, EnvironmentId, HouseId, KeyId, RunId, SandboxId, SecretId, ThreadId};

use crate::ids::Ids;

mod agent;
mod environment;
mod house;
mod run;
mod sandbox;
mod thread;

pub use agent::{IssueKey, RegisterAgent, RenameAgent, RevokeKey};
pub use environment::{
    BindSecret, CreateEnvironment, CreateEnvironmentWithSecrets, DeleteEnvironment, DeleteSecret, RotateSecret, SetSecret,
    UnbindSecret, UpdateEnvironment,
};
pub use house::{AddMember, CreateHouse, RemoveMember, RenameHouse, SetDefaultEnvironment, SetRole};
pub use run::{CancelRun, Delegate, Failure, FinishRun, OrphanRun, Outcome, ResumeRun, StartRun};
pub use sandbox::{DestroySandbox, MarkSandboxDead, MarkSandboxLive, RequestSandbox, ResumeSandbox, SetThreadSandbox};
pub use thread::{
    AppendEntry, CloseThread, CreateThread, PinThread, RenameThread, ReopenThread, ReplaceTags, SetThreadEnvironment, TagThread,
    UnpinThread, UntagThread,
};

macro_rules! commands {
    ($($name:ident)*) => {
        #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Command {
            $($name($name),)*
        }

        impl Command {
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($name),)*
                }
            }

            /// Gives an id to everything new that has none.
            pub(crate) fn fill(&mut self, ids: &mut Ids<'_>) -> Made {
                match self {
                    $(Self::$name(command) => command.fill(ids),)*
                }
            }
        }

        $(
            impl From<$name> for Command {
                fn from(command: $name) -> Self {
                    Self::$name(command)
                }
            }
        )*
    };
}

commands! {
    CreateHouse RenameHouse SetDefaultEnvironment AddMember RemoveMember SetRole
    RegisterAgent RenameAgent IssueKey RevokeKey
    CreateEnvironment CreateEnvironmentWithSecrets UpdateEnvironment BindSecret UnbindSecret DeleteEnvironment
    SetSecret RotateSecret DeleteSecret
    RequestSandbox MarkSandboxLive MarkSandboxDead DestroySandbox ResumeSandbox SetThreadSandbox
    CreateThread RenameThread PinThread UnpinThread TagThread UntagThread ReplaceTags SetThreadEnvironment CloseThread ReopenThread
    AppendEntry
    Delegate StartRun ResumeRun CancelRun FinishRun OrphanRun
}

/// The ids of what a command makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Made {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub house_id: Option<HouseId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<KeyId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<EnvironmentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_id: Option<SecretId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<ThreadId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
}

impl Made {
    /// What several commands make; of two of a kind, the later.
    pub(crate) fn and(self, later: Self) -> Self {
        Self {
            house_id: later.house_id.or(self.house_id),
            agent_id: later.agent_id.or(self.agent_id),
            key_id: later.key_id.or(self.key_id),
            environment_id: later.environment_id.or(self.environment_id),
            secret_id: later.secret_id.or(self.secret_id),
            sandbox_id: later.sandbox_id.or(self.sandbox_id),
            thread_id: later.thread_id.or(self.thread_id),
            run_id: later.run_id.or(self.run_id),
        }
    }
}

/// Gives a new thing its id.
trait Fill {
    fn fill(&mut self, ids: &mut Ids<'_>) -> Made;
}

/// `Type: field = id made by` one of [`Ids`]; or only types that make nothing.
macro_rules! makes {
    ($($name:ident: $field:ident from $draw:ident as $made:ident;)*) => {$(
        impl $crate::command::Fill for $name {
            fn fill(&mut self, ids: &mut $crate::ids::Ids<'_>) -> $crate::command::Made {
                let id = self.$field.get_or_insert_with(|| ids.$draw()).clone();
                $crate::command::Made { $made: Some(id), ..$crate::command::Made::default() }
            }
        }
    )*};
}

macro_rules! makes_nothing {
    ($($name:ident)*) => {$(
        impl $crate::command::Fill for $name {
            fn fill(&mut self, _: &mut $crate::ids::Ids<'_>) -> $crate::command::Made {
                $crate::command::Made::default()
            }
        }
    )*};
}

use {makes, makes_nothing};
