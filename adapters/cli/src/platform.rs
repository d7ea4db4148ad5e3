//! The platform of a server: commands over the log, rows that follow it, and the API's access to both.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use commands::ports::{Hands, Vault};
use commands::{Commands, RealSource};
use entry_index::EntriesProjector;
use event_log::{Log, Store};
use http_api::{App, auth};
use lance_sessions::SessionsProjector;
use postgres_rows::RowsProjector;
use projector::{Copies, Pace, Projector, Runner};
use queries::Queries;
use queries::library::Library;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::config::Config;
use crate::database::{self, Database};
use crate::datasets::{self, Shelf};
use crate::seeker::{self, Seeker};
use crate::work::{Around, Work};
use crate::{mcp, owner, vaultverbs};

const ROWS_PATIENCE: Duration = Duration::from_secs(5);
/// Of the threads that give way: next to nothing, if others have something to do.
const NICE: i32 = 19;

/// Where this server listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    pub(crate) by_all: SocketAddr,
    /// For local machines, which get no further than a thread's stream.
    pub(crate) by_machines: SocketAddr,
}

#[derive(Debug)]
pub(crate) struct Platform {
    database: Database,
    runners: [JoinHandle<()>; 5],
    work: Option<Work>,
    _behind: Behind,
    pub(crate) owner_token: Option<PathBuf>,
}

impl Platform {
    /// `None` if the server is to serve streams only. The app tells how far this is while it lasts.
    pub(crate) async fn start(
        log: &Log,
        store: &Store,
        config: &Config,
        app: &Arc<App>,
        reached: Reached,
    ) -> anyhow::Result<Option<Self>> {
        if config.database_url.as_deref() == Some(database::NONE) {
            app.started(None);
            return Ok(None);
        }
        let issuer = issuer(config);
        std::fs::create_dir_all(&config.data_dir).with_context(|| config.data_dir.display().to_string())?;
        let auth = auth::Options { key: owner::signing_key(config.token_key.as_deref(), &config.data_dir)?, issuer };
        let vault = vaultverbs::open(config, store).await?;
        let database = Database::open(config).await?;
        let runner = Runner::new(log.clone(), Arc::new(RowsProjector), database.rows.clone(), Pace::default());
        let model = seeker::model(config).await.context("the embedding model")?;
        let datasets = datasets::open_with(config, log, model.as_ref())?;
        let index = seeker::open(config, log)?;
        let entries = Runner::new(log.clone(), Arc::new(EntriesProjector), index.clone(), Pace::default());
        let seeker = Seeker::new(config, log, index, datasets.clone(), model).following(entries.monitor());
        let sessions = Runner::new(log.clone(), Arc::new(SessionsProjector), datasets.clone(), Pace::default());
        let queries = Queries::new(database.rows.clone(), runner.monitor()).beside(vec![sessions.monitor(), entries.monitor()]);
        let library: Arc<dyn Library> = Arc::new(Shelf::new(datasets, log, Some(sessions.monitor().watermark())));
        let behind = Behind::start()?;
        let embedding = behind.spawn(embed(seeker.clone()));
        let search = http_api::Search {
            entries: Arc::new(seeker.clone()),
            messages: Arc::new(seeker),
            door: Some(Arc::new(mcp::HttpDoor::default())),
        };
        let commands = Commands::start(log.clone(), Arc::new(RealSource));
        let sweeping = tokio::spawn(vaultverbs::keep_clean(vault.clone(), log.clone(), commands.clone()));
        let runners =
            [tokio::spawn(keep(runner)), behind.spawn(keep(sessions)), tokio::spawn(keep(entries)), embedding, sweeping];
        let vault: Arc<dyn Vault> = Arc::new(vault);
        let around = Around { log, store, commands: &commands, vault: vault.clone(), auth: &auth, reached };
        let work = Work::start(config, around).await?;
        app.started(Some(http_api::Platform {
            commands: commands.clone(),
            queries: queries.clone(),
            library: Some(library),
            search: Some(search),
            hands: work.as_ref().map(|work| Arc::new(work.dispatcher.clone()) as Arc<dyn Hands>),
            secrets: Some(http_api::Secrets { vault, resolve_token: config.resolve_token.clone() }),
            auth,
        }));
        commands.caught_up().await?;
        let owner_token = owner::welcome(&commands, log.cluster().id(), &config.data_dir).await.context("the first start")?;
        // A moment for the rows; a long rebuild goes on behind the open door.
        let _ = queries.wait(log.position(), ROWS_PATIENCE).await;
        Ok(Some(Self { database, runners, work, _behind: behind, owner_token }))
    }

    pub(crate) async fn close(self) {
        if let Some(work) = self.work {
            work.close().await;
        }
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

/// Between looks for messages without a vector.
const EMBED_EVERY: Duration = Duration::from_secs(10);

/// What was recorded before the model was configured, and what a slow model has not come to yet.
async fn embed(seeker: Seeker) {
    while seeker.model().is_some() {
        let began = Instant::now();
        let houses = seeker.datasets.houses().unwrap_or_else(|error| {
            tracing::warn!(%error, "messages could not be embedded; trying again");
            Vec::new()
        });
        let mut left = houses.clone();
        // Those that were done may have more by then.
        while !left.is_empty() && began.elapsed() < EMBED_EVERY {
            left = seeker.datasets.embed_in_turn(left).await;
        }
        seeker.count_vectors(&houses).await;
        if left.is_empty() {
            tokio::time::sleep(EMBED_EVERY).await;
        }
    }
}

fn issuer(config: &Config) -> Option<auth::Issuer> {
    let verify = match (&config.auth_hs256_secret, &config.auth_jwks) {
        (Some(secret), _) => auth::Verify::Secret(secret.clone()),
        (None, Some(keys)) => auth::Verify::Jwks(keys.clone()),
        (None, None) => return None,
    };
    Some(auth::Issuer { verify, name: config.auth_issuer.clone(), audience: config.auth_audience.clone() })
}
