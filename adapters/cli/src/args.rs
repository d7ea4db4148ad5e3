//! The command line.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};
use clap_complete::Shell;

mod help;
mod library;
mod permissions;
mod platform;
mod sandboxes;
mod secrets;
mod server;
mod threads;
mod values;
mod work;

pub(crate) use library::*;
pub(crate) use permissions::*;
pub(crate) use platform::*;
pub(crate) use sandboxes::*;
pub(crate) use secrets::*;
pub(crate) use server::{CopyVerb, Database, Projections, Rebuild, Serve, Transport, Verify};
pub(crate) use threads::*;
pub(crate) use values::{Moment, Until};
pub(crate) use work::*;

/// Threads that people and coding agents share: durable logs on object storage.
#[derive(Debug, Parser)]
#[command(name = "arbe", version, propagate_version = true, max_term_width = 100, after_long_help = help::TOP)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Settings of every verb. Flags win over environment variables, those over the configuration file.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct Common {
    /// Configuration file (TOML) [default: arbe/config.toml in the XDG configuration directory, if there]
    #[arg(long, global = true, help_heading = "Everywhere", env = "ARBE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where data lives [default: arbe in the XDG data directory]
    #[arg(long, global = true, help_heading = "Everywhere", env = "ARBE_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The log's store: memory:, file:///directory, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix.
    /// Credentials and endpoints come from the usual AWS_…, GOOGLE_… and AZURE_… variables [default: log in the data directory]
    #[arg(long, global = true, help_heading = "Everywhere", env = "ARBE_STORE", value_name = "URL")]
    pub(crate) store: Option<event_log::StoreUrl>,
    /// Print JSON to stdout: one object, or one to a line for lists
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// What is logged to stderr, as a filter such as info or event_log=debug [default: info for serve, else warn]
    #[arg(long, global = true, help_heading = "Everywhere", env = "ARBE_LOG", value_name = "FILTER")]
    pub(crate) log_level: Option<String>,
    /// How it is logged: human or json
    #[arg(long, global = true, help_heading = "Everywhere", env = "ARBE_LOG_FORMAT", value_name = "FORMAT")]
    pub(crate) log_format: Option<crate::config::LogFormat>,
    #[command(flatten)]
    pub(crate) meaning: Meaning,
}

/// Search by meaning. Off unless a model is named.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct Meaning {
    /// The model that makes vectors of texts: a directory with its files, or its id on the hub
    #[arg(long, global = true, help_heading = "Search by meaning", env = "ARBE_EMBED_MODEL", value_name = "MODEL")]
    pub(crate) embed_model: Option<String>,
    /// Where models are fetched from [default: https://huggingface.co]
    #[arg(long, global = true, help_heading = "Search by meaning", env = "ARBE_EMBED_HUB", value_name = "URL")]
    pub(crate) embed_hub: Option<String>,
    /// What the model wants before a question, such as `query: `
    #[arg(long, global = true, help_heading = "Search by meaning", env = "ARBE_EMBED_QUERY_PREFIX", value_name = "TEXT")]
    pub(crate) embed_query_prefix: Option<String>,
    /// What the model wants before a text, such as `passage: `
    #[arg(long, global = true, help_heading = "Search by meaning", env = "ARBE_EMBED_DOCUMENT_PREFIX", value_name = "TEXT")]
    pub(crate) embed_document_prefix: Option<String>,
    /// Tokens of a text that are looked at, at most as many as the model takes
    #[arg(long, global = true, help_heading = "Search by meaning", env = "ARBE_EMBED_MAX_TOKENS", value_name = "N")]
    pub(crate) embed_max_tokens: Option<usize>,
    /// Parts of the index of vectors that are searched [default: 16]
    #[arg(long, global = true, help_heading = "Search by meaning", env = "ARBE_SEARCH_NPROBES", value_name = "N")]
    pub(crate) search_nprobes: Option<usize>,
    /// Candidates of that index that are compared exactly, as a multiple of those asked for [default: 3]
    #[arg(long, global = true, help_heading = "Search by meaning", env = "ARBE_SEARCH_REFINE", value_name = "N")]
    pub(crate) search_refine: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Start the server: the platform's API, Durable Streams, health at /healthz and /readyz, metrics at /metrics
    #[command(after_long_help = help::SERVE)]
    Serve(Box<Serve>),
    /// Say something in a thread
    #[command(after_long_help = help::SAY)]
    Say(Box<With<Say>>),
    /// Print a thread and follow it as it grows
    #[command(long_about = help::TAIL_ABOUT, after_long_help = help::TAIL)]
    Tail(Box<With<Tail>>),
    /// Threads: durable logs that people and bots share
    #[command(after_long_help = help::THREAD)]
    Thread(Box<On<ThreadVerb>>),
    /// Entries of a thread: list them, append of any type
    #[command(after_long_help = help::ENTRY)]
    Entry(Box<On<EntryVerb>>),
    /// Houses: who is a member sees everything in one, others see nothing of it
    #[command(after_long_help = help::HOUSE)]
    House(Box<On<HouseVerb>>),
    /// Members of a house and their roles
    #[command(after_long_help = help::MEMBER)]
    Member(Box<On<MemberVerb>>),
    /// Agents, human and bot, and their API keys
    #[command(after_long_help = help::AGENT)]
    Agent(Box<On<AgentVerb>>),
    /// Environments: the recipes that sandboxes are built from
    #[command(after_long_help = help::ENV)]
    Env(Box<On<EnvVerb>>),
    /// Secrets of the house: values that sandboxes get as variables, by name
    #[command(long_about = help::SECRET_ABOUT, after_long_help = help::SECRET)]
    Secret(Box<On<SecretVerb>>),
    /// Sandboxes: the machines that work is done in, as the platform knows them
    #[command(long_about = help::SANDBOX_ABOUT, after_long_help = help::SANDBOX)]
    Sandbox(Box<On<SandboxVerb>>),
    /// What bots and coding agents ask to be allowed in a thread
    #[command(long_about = permissions::ABOUT, after_long_help = permissions::EXAMPLES)]
    Permission(Box<On<PermissionVerb>>),
    /// Show which agent the token belongs to, and its houses
    Whoami(Box<Remote>),
    /// Show each read model: version, position, lag, rate, state; list and drop copies
    #[command(long_about = help::PROJECTIONS_ABOUT, after_long_help = help::PROJECTIONS)]
    Projections(Box<Projections>),
    /// Build read models anew from the log, beside the ones that serve, and swap
    #[command(long_about = help::REBUILD_ABOUT, after_long_help = help::REBUILD)]
    Rebuild(Box<Rebuild>),
    /// Replay read models into a scratch copy and compare; exit code 5 if they differ
    #[command(long_about = help::VERIFY_ABOUT, after_long_help = help::VERIFY)]
    Verify(Box<Verify>),
    #[command(flatten)]
    Library(LibraryVerb),
    /// Look after the vault that keeps the values of secrets, with or without a running server
    #[command(long_about = help::VAULT_ABOUT, after_long_help = help::VAULT)]
    Vault(Box<OnVault>),
    /// Programs that local machines find: coding agents and what they need
    #[command(after_long_help = work::TOOLS)]
    Tools {
        #[command(subcommand)]
        verb: ToolsVerb,
    },
    /// Forward requests to a server's streams as they are, for machines that cannot reach it
    #[command(long_about = work::PROXY_ABOUT, after_long_help = work::PROXY)]
    StreamProxy(StreamProxy),
    /// Look at the log itself, with or without a running server
    #[command(after_long_help = help::LOG)]
    Log {
        #[command(subcommand)]
        verb: LogVerb,
    },
    /// Print shell completions
    #[command(after_long_help = help::COMPLETIONS)]
    Completions {
        /// For which shell
        shell: Shell,
    },
    /// Print the manual page, or write one for each verb
    #[command(after_long_help = help::MAN)]
    Man {
        /// Write arbe.1, arbe-serve.1, arbe-thread-create.1 and so on there
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

/// What a verb takes of the configuration besides what all do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs<'a> {
    /// How it reaches a server, if it talks to one.
    pub(crate) remote: Option<&'a Remote>,
    /// Where the keys of the vault are.
    pub(crate) vault_keys: Option<&'a VaultKeys>,
    /// How it reaches Postgres, if it does so itself.
    pub(crate) database: Option<&'a Database>,
}

impl<'a> Needs<'a> {
    fn server(remote: &'a Remote) -> Self {
        Self { remote: Some(remote), ..Self::default() }
    }

    fn database(database: &'a Database) -> Self {
        Self { database: Some(database), ..Self::default() }
    }
}

impl Verb {
    /// One verb by its other name: `serve --transport stdio` is `mcp`.
    pub(crate) fn by_its_name(self) -> Self {
        if let Self::Serve(serve) = &self
            && serve.transport == Transport::Stdio
        {
            return Self::Library(LibraryVerb::Mcp(Box::new(Mcp { house: serve.house.clone() })));
        }
        self
    }

    pub(crate) fn needs(&self) -> Needs<'_> {
        match self {
            Self::Serve(serve) => Needs { vault_keys: Some(&serve.vault), ..Needs::database(&serve.database) },
            Self::Say(with) => Needs::server(&with.remote),
            Self::Tail(with) => Needs::server(&with.remote),
            Self::Thread(on) => Needs::server(&on.remote),
            Self::Entry(on) => Needs::server(&on.remote),
            Self::House(on) => Needs::server(&on.remote),
            Self::Member(on) => Needs::server(&on.remote),
            Self::Agent(on) => Needs::server(&on.remote),
            Self::Env(on) => Needs::server(&on.remote),
            Self::Secret(on) => Needs::server(&on.remote),
            Self::Sandbox(on) => Needs::server(&on.remote),
            Self::Permission(on) => Needs::server(&on.remote),
            Self::Whoami(remote) => Needs::server(remote),
            Self::Projections(on) => match &on.verb {
                None => Needs::server(&on.remote),
                Some(verb) => Needs::database(verb.database()),
            },
            Self::Rebuild(rebuild) => Needs::database(&rebuild.database),
            Self::Verify(verify) => Needs::database(&verify.database),
            Self::Vault(on) => Needs { vault_keys: Some(&on.keys), ..Needs::default() },
            Self::Library(_)
            | Self::Tools { .. }
            | Self::StreamProxy(_)
            | Self::Log { .. }
            | Self::Completions { .. }
            | Self::Man { .. } => Needs::default(),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogVerb {
    /// List streams: name, content type, tail, size, state
    Streams {
        /// Only names that begin with this
        #[arg(default_value = "")]
        prefix: String,
    },
    /// Print a stream: bytes as they are, JSON messages one per line
    Cat {
        /// The stream's name, as `arbe log streams` lists it
        stream: String,
        /// Start at this offset instead of the beginning (`now` for the tail)
        #[arg(long, value_name = "OFFSET")]
        from: Option<String>,
        /// Wait for more
        #[arg(short, long)]
        follow: bool,
    },
    /// Show the log's head, owner, sizes and packs
    Stat,
    /// Read everything and verify it; exit code 5 if anything is damaged
    Check,
}

#[cfg(test)]
mod tests;
