//! One Postgres for all tests that run at the same time, and a database for each.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use postgres_rows::{Cluster, ClusterError, ClusterOptions, Rows};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use tokio::runtime::Runtime;

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
    ClusterOptions { directory: directory.path().join("cluster"), binaries: Vec::new() }
}

/// `None`, and says so, on a machine without Postgres.
pub fn unless_missing<T>(started: Result<T, ClusterError>) -> Option<T> {
    match started {
        Ok(started) => Some(started),
        Err(error @ ClusterError::NoBinaries { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn shared() -> Option<Arc<Shared>> {
    let mut slot = SHARED.lock().expect("no test dies here");
    if let Some(shared) = slot.upgrade() {
        return Some(shared);
    }
    let directory = directory();
    let cluster = unless_missing(RUNTIME.block_on(Cluster::start(options(&directory))))?;
    let shared = Arc::new(Shared { cluster: Some(cluster), _directory: directory });
    *slot = Arc::downgrade(&shared);
    Some(shared)
}

pub struct Database {
    pub rows: Rows,
    _shared: Arc<Shared>,
}

pub async fn database() -> Option<Database> {
    let shared = tokio::task::spawn_blocking(shared).await.expect("a cluster")?;
    let name = format!("t{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    let cluster = shared.cluster.as_ref().expect("a running cluster");
    let mut conn = PgConnection::connect_with(&cluster.admin("postgres")).await.expect("a connection");
    let create = format!("drop database if exists {name}; create database {name} owner arbe");
    for statement in create.split("; ") {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut conn).await.expect("a database");
    }
    let options = cluster.options().database(&name);
    let rows = Rows::connect(options, 8).await.expect("a migrated database");
    Some(Database { rows, _shared: shared })
}
