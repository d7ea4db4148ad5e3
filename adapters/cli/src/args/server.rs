//! Verbs that run on the log and the database themselves.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::platform::Remote;
use super::secrets::VaultKeys;
use super::values::Until;
use super::work::Work;

/// Over what a server is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    #[default]
    Http,
    /// MCP on stdin and stdout, as `arbe mcp`; nothing else is served.
    Stdio,
}

#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct Serve {
    /// How it is reached
    #[arg(long, value_enum, default_value_t, value_name = "TRANSPORT")]
    pub(crate) transport: Transport,
    /// With --transport stdio: the house, by id or name [default: the only one]
    #[arg(long, env = "ARBE_HOUSE", value_name = "HOUSE")]
    pub(crate) house: Option<String>,
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
    #[command(flatten)]
    pub(crate) database: Database,
    #[command(flatten)]
    pub(crate) auth: Auth,
    #[command(flatten)]
    pub(crate) vault: VaultKeys,
    /// Bearer token that opens /api/secrets/resolve, which gives out values: for dispatchers that run elsewhere. Better given as a
    /// variable or in the file than as a flag [default: there is no such path]
    #[arg(long, env = "ARBE_RESOLVE_TOKEN", value_name = "TOKEN", hide_env_values = true, help_heading = "Vault")]
    pub(crate) resolve_token: Option<String>,
    #[command(flatten)]
    pub(crate) work: Work,
}

#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct Database {
    /// A PostgreSQL server (15 or newer) for the rows, as postgres://user:password@host/database; `none` serves streams only.
    /// With ?sslmode=verify-full it is reached by TLS and must be who it says, by public roots or those of &sslrootcert=FILE
    /// [default: a private one in the data directory]
    #[arg(long, env = "ARBE_DATABASE_URL", value_name = "URL", hide_env_values = true, help_heading = "Database")]
    pub(crate) database_url: Option<String>,
    /// Where initdb and postgres are, for the private server [default: looked for in the usual places]
    #[arg(long, env = "ARBE_PG_BIN", value_name = "DIR", help_heading = "Database")]
    pub(crate) pg_bin: Option<PathBuf>,
}

/// Whose tokens are accepted beside API keys and the server's own.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct Auth {
    /// Shared secret of an issuer that signs its tokens with HS256. `sub` is the agent's id
    #[arg(long, env = "ARBE_AUTH_HS256_SECRET", value_name = "SECRET", hide_env_values = true, help_heading = "Authentication")]
    pub(crate) auth_hs256_secret: Option<String>,
    /// Public keys of an issuer: URL or file of a JWKS
    #[arg(long, env = "ARBE_AUTH_JWKS", value_name = "URL|FILE", help_heading = "Authentication")]
    pub(crate) auth_jwks: Option<String>,
    /// The `iss` that such tokens must carry [default: any]
    #[arg(long, env = "ARBE_AUTH_ISSUER", value_name = "ISSUER", help_heading = "Authentication")]
    pub(crate) auth_issuer: Option<String>,
    /// The `aud` that such tokens must carry [default: any]
    #[arg(long, env = "ARBE_AUTH_AUDIENCE", value_name = "AUDIENCE", help_heading = "Authentication")]
    pub(crate) auth_audience: Option<String>,
    /// Key that the server signs its own tokens with; the same on all servers of one log [default: made at first start]
    #[arg(long, env = "ARBE_TOKEN_KEY", value_name = "KEY", hide_env_values = true, help_heading = "Authentication")]
    pub(crate) token_key: Option<String>,
}

#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct Rebuild {
    /// Which read models; all of them if none is named
    #[arg(value_name = "PROJECTION")]
    pub(crate) projections: Vec<String>,
    /// Stop there: a position of the log, or a time such as 2026-11-16T08:00:00Z
    #[arg(long, value_name = "POSITION|TIME")]
    pub(crate) until: Option<Until>,
    #[command(flatten)]
    pub(crate) database: Database,
}

#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct Verify {
    /// Which read models; all of them if none is named
    #[arg(value_name = "PROJECTION")]
    pub(crate) projections: Vec<String>,
    #[command(flatten)]
    pub(crate) database: Database,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Projections {
    #[command(flatten)]
    pub(crate) remote: Remote,
    #[command(subcommand)]
    pub(crate) verb: Option<CopyVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CopyVerb {
    /// List the copies there are: the live one, what is being built, and what `arbe rebuild --until` left
    Copies {
        #[command(flatten)]
        database: Database,
    },
    /// Drop a copy that does not serve
    Drop {
        /// The copy, as `arbe projections copies` lists it
        copy: String,
        #[command(flatten)]
        database: Database,
    },
}

impl CopyVerb {
    pub(super) fn database(&self) -> &Database {
        match self {
            Self::Copies { database } | Self::Drop { database, .. } => database,
        }
    }
}
