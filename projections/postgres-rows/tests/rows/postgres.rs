//! One Postgres for all tests that run at the same time, and a database for each.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use postgres_rows::{Cluster, ClusterOptions, Rows};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use tokio::runtime::Runtime;

#[path = "missing.rs"]
mod missing;
pub use missing::unless_missing;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
static SHARED: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
static DATABASES: AtomicU32 = AtomicU32::new(0);

struct Shared {
    cluster: Option<Cluster>,
    _directory: TempDir,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(cluster) = self.cluster.take() {
            let stop = std::thread::spawn(|| RUNTIME.block_on(cluster.stop()));
            stop.join().expect("the cluster stops");
        }
    }
}

/// A directory that every user can get to.
pub fn directory() -> TempDir {
    let directory = tempfile::Builder::new().prefix("rows-").tempdir_in("/tmp").expect("a directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).expect("its permissions");
    directory
}

pub fn options(directory: &TempDir) -> ClusterOptions {
    ClusterOptions { directory: directory.path().join("cluster"), binaries: None }
}

fn shared() -> Option<Arc<Shared>> {
    let mut slot = SHARED.lock().expect("no test dies here");
    if let Some(shared) = slot.upgrade() {
        return Some(shared);
    }
    let directory = directory();
    let cluster = unless_missing(RUNTIME.block_on(Cluster::start(options(&directory))))?;
    RUNTIME.block_on(hurry(&cluster));
    let shared = Arc::new(Shared { cluster: Some(cluster), _directory: directory });
    *slot = Arc::downgrade(&shared);
    Some(shared)
}

/// No test cuts the power.
async fn hurry(cluster: &Cluster) {
    let mut conn = PgConnection::connect_with(&cluster.admin("postgres")).await.expect("a connection");
    for set in ["alter system set fsync = off", "alter system set full_page_writes = off", "select pg_reload_conf()"] {
        sqlx::raw_sql(AssertSqlSafe(set)).execute(&mut conn).await.expect("a setting");
    }
}

/// An empty database.
pub struct Ground {
    pub options: PgConnectOptions,
    _shared: Arc<Shared>,
}

pub async fn ground() -> Option<Ground> {
    let shared = tokio::task::spawn_blocking(shared).await.expect("a cluster")?;
    let name = format!("t{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    let cluster = shared.cluster.as_ref().expect("a running cluster");
    let mut conn = PgConnection::connect_with(&cluster.admin("postgres")).await.expect("a connection");
    let create = format!("drop database if exists {name}; create database {name} owner arbe");
    for statement in create.split("; ") {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut conn).await.expect("a database");
    }
    let options = cluster.options().database(&name);
    Some(Ground { options, _shared: shared })
}

pub struct Database {
    pub rows: Rows,
    _ground: Ground,
}

pub async fn database() -> Option<Database> {
    let ground = ground().await?;
    let rows = Rows::connect(ground.options.clone(), 8).await.expect("a migrated database");
    Some(Database { rows, _ground: ground })
}
