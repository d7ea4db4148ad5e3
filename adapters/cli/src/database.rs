//! The Postgres that holds the rows: a private one in the data directory, or the one that is configured.

use anyhow::{Context, bail};
use postgres_rows::{Cluster, ClusterOptions, Rows};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use url::Url;

use crate::config::Config;

/// As `database_url`: streams only, without the platform.
pub(crate) const NONE: &str = "none";
const CONNECTIONS: u32 = 16;

#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) rows: Rows,
    cluster: Option<Cluster>,
}

impl Database {
    pub(crate) async fn open(config: &Config) -> anyhow::Result<Self> {
        let (cluster, options) = match &config.database_url {
            Some(url) => (None, reach(url).context("database_url")?),
            None => {
                let binaries = config.pg_bin.clone().into_iter().collect();
                let options = ClusterOptions { directory: config.data_dir.join("postgres"), binaries };
                let cluster = Cluster::start(options).await?;
                let reach = cluster.options();
                (Some(cluster), reach)
            }
        };
        let rows = Rows::connect(options, CONNECTIONS).await.map_err(explained);
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

/// Refuses what would connect with less protection than it says, and files that cannot be read while that can be said by name.
fn reach(url: &str) -> anyhow::Result<PgConnectOptions> {
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
