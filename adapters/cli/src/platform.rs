//! The platform of a server: commands over the log, rows that follow it, and the API's access to both.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use commands::{Commands, RealSource};
use event_log::Log;
use http_api::{App, auth};
use lance_sessions::SessionsProjector;
use postgres_rows::RowsProjector;
use projector::{Copies, Pace, Projector, Runner};
use queries::Queries;
use queries::library::Library;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::database::{self, Database};
use crate::datasets::{self, Shelf};
use crate::owner;

const ROWS_PATIENCE: Duration = Duration::from_secs(5);
/// Of the threads that give way: next to nothing, if others have something to do.
const NICE: i32 = 19;

#[derive(Debug)]
pub(crate) struct Platform {
    database: Database,
    runners: [JoinHandle<()>; 2],
    _behind: Behind,
    pub(crate) owner_token: Option<PathBuf>,
}

impl Platform {
    /// `None` if the server is to serve streams only. The app tells how far this is while it lasts.
    pub(crate) async fn start(log: &Log, config: &Config, app: &Arc<App>) -> anyhow::Result<Option<Self>> {
        if config.database_url.as_deref() == Some(database::NONE) {
            app.started(None);
            return Ok(None);
        }
        let issuer = issuer(config)?;
        std::fs::create_dir_all(&config.data_dir).with_context(|| config.data_dir.display().to_string())?;
        let auth = auth::Options { key: owner::signing_key(config.token_key.as_deref(), &config.data_dir)?, issuer };
        let database = Database::open(config).await?;
        let runner = Runner::new(log.clone(), Arc::new(RowsProjector), database.rows.clone(), Pace::default());
        let datasets = datasets::open(config, log)?;
        let sessions = Runner::new(log.clone(), Arc::new(SessionsProjector), datasets.clone(), Pace::default());
        let queries = Queries::new(database.rows.clone(), runner.monitor()).beside(vec![sessions.monitor()]);
        let library: Arc<dyn Library> = Arc::new(Shelf::new(datasets, log, Some(sessions.monitor().watermark())));
        let behind = Behind::start()?;
        let runners = [tokio::spawn(keep(runner)), behind.spawn(keep(sessions))];
        let commands = Commands::start(log.clone(), Arc::new(RealSource));
        app.started(Some(http_api::Platform {
            commands: commands.clone(),
            queries: queries.clone(),
            library: Some(library),
            auth,
        }));
        commands.caught_up().await?;
        let owner_token = owner::welcome(&commands, log.cluster().id(), &config.data_dir).await.context("the first start")?;
        // A moment for the rows; a long rebuild goes on behind the open door.
        let _ = queries.wait(log.position(), ROWS_PATIENCE).await;
        Ok(Some(Self { database, runners, _behind: behind, owner_token }))
    }

    pub(crate) async fn close(self) {
        for runner in self.runners {
            runner.abort();
            let _ = runner.await;
        }
        self.database.close().await;
    }
}

/// Threads that give way to those that answer requests and keep the rows: a dataset may be late.
#[derive(Debug)]
struct Behind(Option<Runtime>);

impl Behind {
    fn start() -> io::Result<Self> {
        let mut threads = Builder::new_multi_thread();
        threads.worker_threads(2).thread_name("behind").enable_all();
        // Where it may not be, they are as good as any.
        threads.on_thread_start(|| {
            let _ = rustix::process::setpriority_process(None, NICE);
        });
        Ok(Self(Some(threads.build()?)))
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        match &self.0 {
            Some(threads) => threads.spawn(work),
            None => tokio::spawn(work),
        }
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        if let Some(threads) = self.0.take() {
            threads.shutdown_background();
        }
    }
}

async fn keep<P: Projector, K: Copies<P::Change>>(runner: Runner<P, K>) {
    runner.keep().await;
}

fn issuer(config: &Config) -> anyhow::Result<Option<auth::Issuer>> {
    let verify = match (&config.auth_hs256_secret, &config.auth_jwks) {
        (Some(secret), _) => auth::Verify::Secret(secret.clone()),
        (None, Some(keys)) => {
            if !keys.contains("://") {
                std::fs::File::open(keys).with_context(|| format!("the issuer's keys (--auth-jwks) in {keys}"))?;
            }
            auth::Verify::Jwks(keys.clone())
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(auth::Issuer { verify, name: config.auth_issuer.clone(), audience: config.auth_audience.clone() }))
}
