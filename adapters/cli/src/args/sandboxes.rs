//! Verbs about sandboxes.

use clap::{Args as ClapArgs, Subcommand};

use super::platform::Limit;
use super::values::id;

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxVerb {
    /// List the sandboxes of the house, the newest first
    List(SandboxList),
    /// Show a sandbox
    Show(OneSandbox),
    /// Ask for a sandbox. Prints its id
    Request(NewSandbox),
    /// Report that the provider has it running
    Live {
        #[command(flatten)]
        sandbox: OneSandbox,
        /// What the provider calls the machine
        provider_ref: String,
    },
    /// Report that a machine of your own is gone; `resume` brings its threads to another. Of one that a server made, `list --reconcile`
    /// asks the provider
    Dead {
        #[command(flatten)]
        sandbox: OneSandbox,
        /// Why, for people
        #[arg(long)]
        reason: Option<String>,
    },
    /// Have the machine taken away for good, with all that runs on it; its threads can still be resumed in another
    Destroy(OneSandbox),
    /// Move every thread of a dead sandbox to a new one. Prints the new one's id. Of one that is being destroyed when it is gone, or to
    /// another provider
    Resume {
        #[command(flatten)]
        sandbox: OneSandbox,
        /// Where the new one is made [default: where the dead one was]
        #[arg(long)]
        provider: Option<String>,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SandboxList {
    #[command(flatten)]
    pub(crate) limit: Limit,
    /// Only those of this provider, such as local
    #[arg(long, alias = "provider", value_name = "PROVIDER")]
    pub(crate) runtime: Option<String>,
    /// Ask the providers first whether the machines live. One that is dead is marked so and the runs on it fail; strays are listed too
    #[arg(long)]
    pub(crate) reconcile: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct OneSandbox {
    /// The sandbox's id
    #[arg(value_name = "SANDBOX", value_parser = id)]
    pub(crate) sandbox: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NewSandbox {
    /// Who runs the machine, such as local
    pub(crate) provider: String,
    /// What it is built from [default: the thread's, else the house's]
    #[arg(long, value_name = "ENVIRONMENT", value_parser = id)]
    pub(crate) env: Option<String>,
    /// Point this thread at it, which must have none that lives
    #[arg(long, value_name = "THREAD", value_parser = id)]
    pub(crate) thread: Option<String>,
}
