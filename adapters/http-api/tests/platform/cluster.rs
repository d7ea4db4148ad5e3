//! One Postgres for all tests that run at the same time, and a database for each.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use postgres_rows::{Cluster, ClusterOptions, Rows};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use tokio::runtime::Runtime;

#[path = "../../../../projections/postgres-rows/tests/rows/missing.rs"]
mod missing;
use missing::unless_missing;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static SHARED: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// Stops with the last test that uses it.
pub struct Shared {
    cluster: Option<Cluster>,
    _directory: TempDir,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(cluster) = self.cluster.take() {
            std::thread::spawn(|| RUNTIME.block_on(cluster.stop())).join().unwrap();
        }
    }
}

impl Shared {
    fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().unwrap()
    }

    /// As a superuser.
    pub fn admin(&self, database: &str) -> PgConnectOptions {
        self.cluster().admin(database)
    }

    pub fn options(&self, database: &str) -> PgConnectOptions {
        self.cluster().options().database(database)
    }
}

fn shared() -> Option<Arc<Shared>> {
    let mut slot = SHARED.lock().unwrap();
    if let Some(shared) = slot.upgrade() {
        return Some(shared);
    }
    let directory = tempfile::Builder::new().prefix("api-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let options = ClusterOptions { directory: directory.path().join("cluster"), binaries: None };
    let cluster = unless_missing(RUNTIME.block_on(Cluster::start(options)))?;
    RUNTIME.block_on(hasten(&cluster));
    let shared = Arc::new(Shared { cluster: Some(cluster), _directory: directory });
    *slot = Arc::downgrade(&shared);
    Some(shared)
}

/// Nothing here need outlive a crash.
async fn hasten(cluster: &Cluster) {
    let mut conn = PgConnection::connect_with(&cluster.admin("postgres")).await.unwrap();
    for statement in ["alter system set fsync = off", "select pg_reload_conf()"] {
        sqlx::raw_sql(statement).execute(&mut conn).await.unwrap();
    }
}

pub async fn database() -> Option<(Arc<Shared>, String, Rows)> {
    let shared = tokio::task::spawn_blocking(shared).await.unwrap()?;
    let name = format!("t{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    let mut conn = PgConnection::connect_with(&shared.admin("postgres")).await.unwrap();
    for statement in [format!("drop database if exists {name}"), format!("create database {name} owner arbe")] {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut conn).await.unwrap();
    }
    let rows = Rows::connect(shared.options(&name), 8).await.unwrap();
    Some((shared, name, rows))
}
