//! Verbs that talk to a server.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use serde::Serialize;

use super::values::{agent_id, id, secret_name};

/// Which server, as whom, in which house.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct Remote {
    /// The server [default: the one that last started on the data directory]
    #[arg(long, global = true, env = "ARBE_URL", value_name = "URL", help_heading = "Server")]
    pub(crate) url: Option<String>,
    /// API key or token. Better given as a variable than as a flag [default: owner-token in the data directory]
    #[arg(long, global = true, env = "ARBE_TOKEN", value_name = "TOKEN", hide_env_values = true, help_heading = "Server")]
    pub(crate) token: Option<String>,
    /// The house to work in [default: the only one you are a member of]
    #[arg(long, global = true, env = "ARBE_HOUSE", value_name = "HOUSE", value_parser = id, help_heading = "Server")]
    pub(crate) house: Option<String>,
    /// Repeat a command whose outcome was unknown: it is done once at most [default: a new key each time]
    #[arg(long, global = true, value_name = "KEY", help_heading = "Server")]
    pub(crate) idempotency_key: Option<String>,
    /// Wait until the answer reflects this position of the log
    #[arg(long, global = true, value_name = "POSITION", help_heading = "Server")]
    pub(crate) min_position: Option<u64>,
}

#[derive(Debug, ClapArgs)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct On<V: Subcommand> {
    #[command(flatten)]
    pub(crate) remote: Remote,
    #[command(subcommand)]
    pub(crate) verb: V,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct With<A: ClapArgs> {
    #[command(flatten)]
    pub(crate) remote: Remote,
    #[command(flatten)]
    pub(crate) args: A,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Owner,
    Member,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Human,
    Bot,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HouseVerb {
    /// List the houses you are a member of
    List(Limit),
    /// Make a house; you become its owner. Prints its id
    Create {
        /// What people call it
        name: String,
    },
    /// Show a house
    Show {
        /// Its id, instead of --house
        #[arg(value_name = "HOUSE", value_parser = id)]
        which: Option<String>,
    },
    /// Rename the house
    Rename {
        /// What people call it
        name: String,
    },
    /// Set the environment of threads that name none, or clear it with --none
    DefaultEnv(SetEnv),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Limit {
    /// At most this many [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, ClapArgs)]
#[group(required = true, multiple = false)]
pub(crate) struct SetEnv {
    /// The environment's id
    #[arg(value_name = "ENVIRONMENT", value_parser = id)]
    pub(crate) environment: Option<String>,
    /// No environment
    #[arg(long)]
    pub(crate) none: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MemberVerb {
    /// List the members of the house
    List(Limit),
    /// Add an agent to the house
    Add {
        /// The agent's id
        #[arg(value_parser = id)]
        agent: String,
        /// An owner changes the house and its members; a bot is always a plain member
        #[arg(long, default_value = "member")]
        role: Role,
    },
    /// Change a member's role
    Role {
        /// The agent's id
        #[arg(value_parser = id)]
        agent: String,
        /// The new role
        role: Role,
    },
    /// Remove a member that drives no thread of the house
    Remove {
        /// The agent's id
        #[arg(value_parser = id)]
        agent: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentVerb {
    /// Register a person or a bot. Prints its id
    Register {
        /// What people call it
        name: Option<String>,
        /// A person, or a program
        #[arg(long)]
        kind: Kind,
        /// What runs the bot: pi, codex, claude-code, opencode or another. Sandboxes run pi so far
        #[arg(long, required_if_eq("kind", "bot"))]
        runtime: Option<String>,
        /// The id that its identity provider knows it by (a UUID) [default: a new one]
        #[arg(long, value_name = "UUID", value_parser = agent_id)]
        id: Option<String>,
    },
    /// List the agents you share a house with
    List,
    /// Show an agent
    Show {
        /// Its id, or `me`
        #[arg(default_value = "me", value_parser = id)]
        agent: String,
    },
    /// Rename an agent
    Rename {
        /// Its id, or `me`
        #[arg(value_parser = id)]
        agent: String,
        /// What people call it
        #[arg(required_unless_present = "none")]
        name: Option<String>,
        /// No name
        #[arg(long, conflicts_with = "name")]
        none: bool,
    },
    /// API keys of an agent
    Key {
        #[command(subcommand)]
        verb: KeyVerb,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyVerb {
    /// Make a key and print it. It is shown this once and kept nowhere
    Issue {
        /// The agent's id, or `me`
        #[arg(value_parser = id)]
        agent: String,
        /// What the key is for
        #[arg(long)]
        label: Option<String>,
    },
    /// List keys by id and label
    List {
        /// The agent's id, or `me`
        #[arg(default_value = "me", value_parser = id)]
        agent: String,
    },
    /// Revoke a key
    Revoke {
        /// The agent's id, or `me`
        #[arg(value_parser = id)]
        agent: String,
        /// The key's id, as `arbe agent key list` shows it
        #[arg(value_parser = id)]
        key: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum EnvVerb {
    /// List the environments of the house
    List(Limit),
    /// Make an environment. Prints its id
    Create {
        /// What people call it
        name: String,
        #[command(flatten)]
        recipe: Recipe,
        /// Have its sandboxes get this secret of the house. It need not exist yet. May be repeated
        #[arg(long, value_name = "NAME", value_parser = secret_name)]
        secret: Vec<String>,
        /// The same for one that work goes on without. May be repeated
        #[arg(long, value_name = "NAME", value_parser = secret_name)]
        optional_secret: Vec<String>,
    },
    /// Show an environment with its recipe and the secrets it names
    #[command(visible_alias = "view")]
    Show {
        /// The environment's id
        #[arg(value_parser = id)]
        environment: String,
    },
    /// Change the name or the recipe; what is left out stays
    #[command(group(clap::ArgGroup::new("change").args(["name", "recipe", "recipe_file"]).required(true).multiple(true)))]
    Update {
        /// The environment's id
        #[arg(value_parser = id)]
        environment: String,
        /// What people call it
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        recipe: Recipe,
    },
    /// Delete an environment that nothing refers to
    Delete {
        /// The environment's id
        #[arg(value_parser = id)]
        environment: String,
    },
    /// Have sandboxes of the environment get a secret of the house, by name. It need not exist yet
    #[command(name = "bind-secret", visible_alias = "bind")]
    Bind {
        /// The environment's id
        #[arg(value_parser = id)]
        environment: String,
        /// The secret's name, which is also the variable's
        #[arg(value_parser = secret_name)]
        secret: String,
        /// Work goes on without it
        #[arg(long)]
        optional: bool,
    },
    /// Have them get it no more
    #[command(name = "unbind-secret", visible_alias = "unbind")]
    Unbind {
        /// The environment's id
        #[arg(value_parser = id)]
        environment: String,
        /// The secret's name, which is also the variable's
        #[arg(value_parser = secret_name)]
        secret: String,
    },
}

#[derive(Debug, Default, ClapArgs)]
#[group(multiple = false)]
pub(crate) struct Recipe {
    /// Image, repository, setup, limits and more, as a JSON object: see `arbe env --help`
    #[arg(long, value_name = "JSON")]
    pub(crate) recipe: Option<String>,
    /// The same from a file, or from stdin with `-`
    #[arg(long, value_name = "FILE")]
    pub(crate) recipe_file: Option<PathBuf>,
}
