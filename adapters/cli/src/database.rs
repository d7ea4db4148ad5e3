//! The Postgres that holds the rows: a private one in the data directory, or the one that is configured.

use anyhow::Context;
use postgres_rows::{Cluster, ClusterOptions, Rows};
use sqlx::postgres::PgConnectOptions;

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
            Some(url) => (None, url.parse::<PgConnectOptions>().context("database_url")?),
            None => {
                let binaries = config.pg_bin.clone().into_iter().collect();
                let options = ClusterOptions { directory: config.data_dir.join("postgres"), binaries };
                let cluster = Cluster::start(options).await?;
                let reach = cluster.options();
                (Some(cluster), reach)
            }
        };
        let rows = Rows::connect(options, CONNECTIONS).await.context("the database for the rows cannot be used")?;
        Ok(Self { rows, cluster })
    }

    pub(crate) async fn close(self) {
        self.rows.close().await;
        if let Some(cluster) = self.cluster {
            cluster.stop().await;
        }
    }
}
