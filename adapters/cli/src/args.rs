//! The command line.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};
use clap_complete::Shell;

/// Threads that people and coding agents share: durable logs on object storage.
#[derive(Debug, Parser)]
#[command(name = "arbe", version, propagate_version = true, max_term_width = 100)]
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
    #[arg(long, global = true, env = "ARBE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where data lives [default: arbe in the XDG data directory]
    #[arg(long, global = true, env = "ARBE_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The log's store: memory:, file:///directory, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix.
    /// Credentials and endpoints come from the usual AWS_…, GOOGLE_… and AZURE_… variables [default: log in the data directory]
    #[arg(long, global = true, env = "ARBE_STORE", value_name = "URL")]
    pub(crate) store: Option<event_log::StoreUrl>,
    /// Print JSON to stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// What is logged to stderr, as a filter such as info or event_log=debug [default: info for serve, else warn]
    #[arg(long, global = true, env = "ARBE_LOG", value_name = "FILTER")]
    pub(crate) log_level: Option<String>,
    /// How it is logged: human or json
    #[arg(long, global = true, env = "ARBE_LOG_FORMAT", value_name = "FORMAT")]
    pub(crate) log_format: Option<crate::config::LogFormat>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Start the server: Durable Streams over HTTP, health at /healthz and /readyz, metrics at /metrics
    Serve(Box<Serve>),
    /// Look at the log itself, with or without a running server
    Log {
        #[command(subcommand)]
        verb: LogVerb,
    },
    /// Print shell completions
    Completions { shell: Shell },
}

#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct Serve {
    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:4437]
    #[arg(long, env = "ARBE_LISTEN", value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// How clients reach this server, if not as their Host header says
    #[arg(long, env = "ARBE_PUBLIC_URL", value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// How other servers on the same store reach this one [default: the listening address]
    #[arg(long, env = "ARBE_ADVERTISE_URL", value_name = "URL")]
    pub(crate) advertise_url: Option<String>,
    /// Bearer token that guards /v1/stream. Better given as a variable or in the file than as a flag
    #[arg(long, env = "ARBE_SERVICE_SECRET", value_name = "SECRET", hide_env_values = true)]
    pub(crate) service_secret: Option<String>,
    /// How long a long-poll waits [default: 30s]
    #[arg(long, env = "ARBE_LONG_POLL_TIMEOUT", value_name = "DURATION")]
    pub(crate) long_poll_timeout: Option<humantime::Duration>,
    /// MiB of recent data kept in memory [default: 128]
    #[arg(long, env = "ARBE_MEMORY_MIB", value_name = "MIB")]
    pub(crate) memory_mib: Option<usize>,
    /// MiB that a request body may have [default: 32]
    #[arg(long, env = "ARBE_BODY_LIMIT_MIB", value_name = "MIB")]
    pub(crate) body_limit_mib: Option<usize>,
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
