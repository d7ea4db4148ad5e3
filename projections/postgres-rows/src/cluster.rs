//! A private Postgres: started on a unix socket in a directory of ours, by us, for nobody else.
//!
//! A server that is killed leaves its Postgres running; the next one finds and keeps it. Servers that share a directory share the
//! Postgres: the one that holds the lock starts and stops it, the others are its guests and take the lock when it is free.

mod binaries;
mod home;
mod process;

use std::fs::{File, OpenOptions, TryLockError};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{Connection, PgConnection};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use binaries::Binaries;
use home::Home;
use process::Postmaster;

const ADMIN: &str = "arbe_admin";
const OWNER: &str = "arbe";
const DATABASE: &str = "arbe";
const PORT: u16 = 5432;

/// Recovery after a crash may take a while; a Postgres that is gone is noticed at once.
const START_PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const WATCH_EVERY: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// Where the cluster lives. Made if it does not exist.
    pub directory: PathBuf,
    /// The directory of `initdb` and `postgres`. Without it the usual places are looked at.
    pub binaries: Option<PathBuf>,
}

impl ClusterOptions {
    /// Whether there is a PostgreSQL to start. Starts and makes nothing.
    pub fn check(&self) -> Result<(), ClusterError> {
        Binaries::find(self.binaries.as_deref()).map(|_| ())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "no PostgreSQL of version 15 or newer was found{looked}\n\
         install it with `apt-get install postgresql` (Debian, Ubuntu), `dnf install postgresql-server` (Fedora) or \
         `brew install postgresql@17` (macOS), or set database_url to a server that exists"
    )]
    NoBinaries { looked: String },
    #[error("{directory} (pg_bin) {why}; name the directory of initdb and postgres, or leave pg_bin out to have it looked for")]
    NotBinaries { directory: String, why: String },
    #[error("Postgres does not run as root and there is no user `postgres` or `nobody` to run it as")]
    NoUser,
    #[error("{path}: {source}")]
    Directory {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{command} failed: {output}")]
    Command { command: String, output: String },
    #[error("Postgres did not start: {0}")]
    NotStarted(String),
    #[error("Postgres does not answer as it should")]
    Sql(#[from] sqlx::Error),
}

/// A running cluster. Stop it with [`Cluster::stop`]; dropping it stops it as well, without waiting.
#[derive(Debug)]
pub struct Cluster {
    site: Arc<Site>,
    stop: watch::Sender<bool>,
    keeper: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Site {
    binaries: Binaries,
    home: Home,
}

/// `Some` holds the lock on the directory, and with it the duty to keep Postgres running and to stop it.
type Duty = Option<File>;

impl Cluster {
    pub async fn start(options: ClusterOptions) -> Result<Self, ClusterError> {
        let site = tokio::task::spawn_blocking(move || {
            let binaries = Binaries::find(options.binaries.as_deref())?;
            let home = Home::prepare(&options.directory)?;
            Ok::<_, ClusterError>(Arc::new(Site { binaries, home }))
        });
        let site = site.await.map_err(|error| ClusterError::NotStarted(error.to_string()))??;
        let duty = site.lock()?;
        let postmaster = site.settle(duty.is_some()).await?;
        if duty.is_some() {
            site.furnish().await?;
        }
        let (stop, stopping) = watch::channel(false);
        let keeper = tokio::spawn(keep(site.clone(), duty, postmaster, stopping));
        Ok(Self { site, stop, keeper: Some(keeper) })
    }

    /// How to reach the database of the platform, as its owner and not as a superuser.
    #[must_use]
    pub fn options(&self) -> PgConnectOptions {
        self.site.options(OWNER, DATABASE)
    }

    /// How to reach any database as a superuser.
    #[must_use]
    pub fn admin(&self, database: &str) -> PgConnectOptions {
        self.site.options(ADMIN, database)
    }

    /// The process id of the running postmaster.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        process::running(&self.site.home)
    }

    /// Ends sessions, writes a checkpoint and stops, unless another server still uses it and this one is its guest.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.await;
        }
    }
}

impl Cluster {
    /// Leaves Postgres as a server that is killed leaves it.
    #[doc(hidden)]
    pub async fn abandon(mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.abort();
            let _ = keeper.await;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

impl Site {
    fn options(&self, user: &str, database: &str) -> PgConnectOptions {
        let options = PgConnectOptions::new_without_pgpass().socket(&self.home.socket).port(PORT);
        options.ssl_mode(PgSslMode::Disable).username(user).database(database)
    }

    fn lock(&self) -> Result<Duty, ClusterError> {
        let path = self.home.lock();
        let failed = |source| ClusterError::Directory { path: path.clone(), source };
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Finds the Postgres that a killed server left behind, or starts one.
    async fn bring_up(self: &Arc<Self>) -> Result<Postmaster, ClusterError> {
        let site = self.clone();
        let started = tokio::task::spawn_blocking(move || {
            process::initialize(&site.binaries, &site.home)?;
            match process::running(&site.home) {
                Some(pid) => Ok(Postmaster::Found(pid)),
                None => process::spawn(&site.binaries, &site.home),
            }
        });
        started.await.map_err(|error| ClusterError::NotStarted(error.to_string()))?
    }

    /// Tried again for a while: the backends of a postmaster that was killed may keep a new one from coming up.
    async fn settle(self: &Arc<Self>, duty: bool) -> Result<Option<Postmaster>, ClusterError> {
        let started = Instant::now();
        loop {
            let postmaster = if duty { Some(self.bring_up().await?) } else { None };
            match self.answer(postmaster.as_ref()).await {
                Ok(()) => return Ok(postmaster),
                Err(ClusterError::NotStarted(_)) if duty && started.elapsed() < process::SETTLE => sleep(WATCH_EVERY).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until it takes connections.
    async fn answer(&self, postmaster: Option<&Postmaster>) -> Result<(), ClusterError> {
        let started = Instant::now();
        loop {
            let failure = match PgConnection::connect_with(&self.options(ADMIN, "postgres")).await {
                Ok(conn) => return Ok(conn.close().await?),
                Err(error) => error,
            };
            let gone = postmaster.is_some() && process::running(&self.home).is_none() && started.elapsed() > WATCH_EVERY;
            if gone || started.elapsed() > START_PATIENCE {
                return Err(ClusterError::NotStarted(format!("{failure}\n{}", self.home.log_tail())));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// The roles and the database.
    async fn furnish(&self) -> Result<(), ClusterError> {
        let mut conn = PgConnection::connect_with(&self.options(ADMIN, "postgres")).await?;
        let exists: bool =
            sqlx::query_scalar("select exists (select from pg_database where datname = 'arbe')").fetch_one(&mut conn).await?;
        if !exists {
            sqlx::raw_sql(
                "do $$ begin
                    if not exists (select from pg_roles where rolname = 'arbe') then create role arbe login noinherit; end if;
                    if not exists (select from pg_roles where rolname = 'arbe_reader') then create role arbe_reader; end if;
                    if not exists (select from pg_roles where rolname = 'arbe_projector') then create role arbe_projector; end if;
                end $$;
                grant arbe_reader, arbe_projector to arbe",
            )
            .execute(&mut conn)
            .await?;
            sqlx::raw_sql("create database arbe owner arbe").execute(&mut conn).await?;
        }
        Ok(conn.close().await?)
    }
}

/// Starts Postgres again when it is gone, and stops it at the end.
async fn keep(site: Arc<Site>, mut duty: Duty, mut postmaster: Option<Postmaster>, mut stopping: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => break,
            () = sleep(WATCH_EVERY) => {}
        }
        if duty.is_none() {
            duty = site.lock().unwrap_or_default();
        }
        let alive = postmaster.as_mut().map_or_else(|| process::running(&site.home).is_some(), Postmaster::alive);
        if duty.is_none() || (alive && postmaster.is_some()) {
            continue;
        }
        match site.bring_up().await {
            Ok(up) => {
                tracing::warn!(pid = up.pid(), "took charge of postgres");
                postmaster = Some(up);
            }
            Err(error) => tracing::error!(%error, "postgres cannot be started"),
        }
    }
    if let (Some(_lock), Some(postmaster)) = (duty, postmaster) {
        let _ = tokio::task::spawn_blocking(move || postmaster.stop()).await;
    }
}
