//! The Postgres that holds the rows: a private one in the data directory, or the one that is configured.

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::{Context, bail};
use postgres_rows::{Cluster, ClusterError, ClusterOptions, Rows};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio::time::{Instant, sleep};
use url::Url;

use crate::config::Config;
use crate::output::Usage;

/// As `database_url`: streams only, without the platform.
pub(crate) const NONE: &str = "none";
const CONNECTIONS: u32 = 16;
const START_PATIENCE: Duration = Duration::from_secs(30);
const RETRY_AFTER: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) rows: Rows,
    cluster: Option<Cluster>,
}

/// Whether the settings name a Postgres that could be used. Nothing is started, made or asked.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    // A directory that is named is looked at, even where another server makes it idle.
    if config.database_url.is_none() || config.pg_bin.is_some() {
        private(config).check().map_err(|error| {
            let named = matches!(error, ClusterError::NotBinaries { .. });
            if named { Usage(error.to_string()).into() } else { anyhow::Error::from(error) }
        })?;
    }
    match config.database_url.as_deref() {
        Some(NONE) | None => Ok(()),
        Some(url) => reach(url).map(|_| ()),
    }
}

fn private(config: &Config) -> ClusterOptions {
    ClusterOptions { directory: config.data_dir.join("postgres"), binaries: config.pg_bin.clone() }
}

impl Database {
    pub(crate) async fn open(config: &Config) -> anyhow::Result<Self> {
        let (cluster, options) = match &config.database_url {
            Some(url) => (None, reach(url)?),
            None => {
                let cluster = Cluster::start(private(config)).await?;
                let reach = cluster.options();
                (Some(cluster), reach)
            }
        };
        let rows = connect(options, cluster.is_some()).await.map_err(explained);
        let rows = rows.context("the database for the rows cannot be used")?;
        Ok(Self { rows, cluster })
    }

    pub(crate) async fn close(self) {
        self.rows.close().await;
        if let Some(cluster) = self.cluster {
            cluster.stop().await;
        }
    }
}

/// A database that is starting is waited for; a private one, too, that another process is about to furnish.
async fn connect(options: PgConnectOptions, private: bool) -> Result<Rows, sqlx::Error> {
    let (started, mut told) = (Instant::now(), false);
    loop {
        match Rows::connect(options.clone(), CONNECTIONS).await {
            Err(error) if (is_starting(&error) || (private && is_bare(&error))) && started.elapsed() < START_PATIENCE => {
                if !told && !private {
                    tracing::warn!(%error, "the database takes no connections; trying again for {} s", START_PATIENCE.as_secs());
                    told = true;
                }
            }
            done => return done,
        }
        sleep(RETRY_AFTER).await;
    }
}

/// Nobody listens yet, or one who does says so itself (`cannot_connect_now`).
fn is_starting(error: &sqlx::Error) -> bool {
    if let sqlx::Error::Io(error) = error {
        return matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound);
    }
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("57P03"))
}

/// There is no such role or database, or somebody else is making them at this moment.
fn is_bare(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| matches!(&*code, "28000" | "3D000"))
}

/// Refuses what would connect with less protection than it says, and files that cannot be read while that can be said by name.
fn reach(url: &str) -> anyhow::Result<PgConnectOptions> {
    options(url).map_err(|error| Usage(format!("database_url: {error:#}")).into())
}

fn options(url: &str) -> anyhow::Result<PgConnectOptions> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        bail!("not of the form postgres://user:password@host/database, and not `none`");
    }
    let options: PgConnectOptions = url.parse()?;
    let verified = matches!(options.get_ssl_mode(), PgSslMode::VerifyCa | PgSslMode::VerifyFull);
    for (key, value) in Url::parse(url)?.query_pairs() {
        let root = matches!(&*key, "sslrootcert" | "ssl-root-cert" | "ssl-ca");
        if root && !verified {
            bail!("sslrootcert is looked at only with sslmode=verify-full (or verify-ca)");
        }
        let file = root || matches!(&*key, "sslcert" | "ssl-cert" | "sslkey" | "ssl-key");
        if file && !value.trim_start().starts_with("-----BEGIN") {
            std::fs::File::open(&*value).with_context(|| format!("{key}={value}"))?;
        }
    }
    Ok(options)
}

fn explained(error: sqlx::Error) -> anyhow::Error {
    let unknown = error.to_string().contains("UnknownIssuer");
    let error = anyhow::Error::from(error);
    if unknown {
        return error.context(
            "the server's certificate is signed by nobody who is trusted here; name who signed it with sslrootcert=FILE in database_url",
        );
    }
    error
}
