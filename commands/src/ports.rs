//! What the platform asks of the world outside: a place for secret values, machines. Decisions know nothing of them; drivers do, and
//! report back with commands.

mod hands;
mod load;
mod machines;
mod model;
mod reach;
mod vault;

pub use hands::{
    COMMAND_TIMEOUT, Diagnosis, EndedRun, FoundMachine, FoundProcess, FoundRun, Hands, HandsError, Left, Pruned, Ran, RunCommand,
    Seen, SeenAs, TakenMachine, command_mark, command_run,
};
pub use load::Load;
pub use machines::{
    Created, Execute, Exit, Launch, Limits, Listed, Machine, MachineError, Machines, OutputSink, Permissions, ProcessState,
    RUNTIMES, Recipe, Relay, Verdict, Wanted,
};
pub use model::{Api, BotRule, ModelConfig, Trigger};
pub use reach::Reach;
pub use vault::{Plain, Vault, VaultError};
