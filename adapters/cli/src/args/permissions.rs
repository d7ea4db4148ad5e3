//! Verbs about what bots ask to be allowed.

use clap::{Args as ClapArgs, Subcommand};

use super::threads::One;
use super::values::id;

pub(super) const ABOUT: &str = "\
What bots and coding agents ask to be allowed in a thread.

An environment may name tools that need leave: before each use the bot asks on the thread and waits. Whoever is a member of the house \
answers, but not the bot itself. Who is refused is told so and goes on without; so is who was not answered for a day.";

pub(super) const EXAMPLES: &str = "\
Examples:
  arbe env create careful --recipe '{\"permissions\":{\"ask\":[\"bash\",\"run_command\"]}}'
  arbe permission list k3v9
  arbe permission allow k3v9 m4x2.1
  arbe permission deny k3v9 m4x2.2 --reason 'not before the release'";

#[derive(Debug, Subcommand)]
pub(crate) enum PermissionVerb {
    /// List the requests that wait for an answer
    List(One),
    /// Allow what a request asks for, this once
    Allow(OneRequest),
    /// Refuse it; the bot goes on without
    #[command(visible_alias = "refuse")]
    Deny {
        #[command(flatten)]
        request: OneRequest,
        /// Why, for the bot and for people: said in the thread, as an answer to the request
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct OneRequest {
    /// The thread's id
    #[arg(value_parser = id)]
    pub(crate) thread: String,
    /// The request's id, as `arbe permission list` prints it
    pub(crate) request: String,
}
