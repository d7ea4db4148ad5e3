//! Sessions of other clients: `arbe sync`, `arbe sessions`, `arbe get`, `arbe search`, `arbe find`, `arbe eval`, `arbe mcp`, `arbe status`, `arbe restore`, `arbe resume`, `arbe export`,
//! `arbe import` and `arbe codec check`. They work on the log itself, with or without a running server.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use codecs::lineage::Lineage;
use codecs::registry::{self, Codec};
use commands::sessions::Sessions;
use commands::{Commands, RealSource};
use event_log::{Cluster, Log, Options, RealWorld, World as _};
use events::HouseId;
use events::session::{Message, Session, SessionId};
use http_api::HttpPeers;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{LibraryVerb, SessionList, Which};
use crate::config::Config;
use crate::output::{self, NotFound, Refused, Usage};
use crate::{logverbs, owner};

mod archive;
mod check;
mod eval;
mod reading;
mod restoring;
mod searching;
pub(crate) mod stages;
mod sync;
mod thread;

const CACHE: usize = 16 << 20;

pub(crate) async fn run(verb: LibraryVerb, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    match verb {
        LibraryVerb::Sync(args) => sync::sync(*args, config, json).await,
        LibraryVerb::Sessions(args) => list(*args, config, json).await,
        LibraryVerb::Get(args) => reading::get(*args, config, json).await,
        LibraryVerb::Search(args) => searching::search(*args, config, json).await,
        LibraryVerb::Find(args) => searching::find(*args, config, json).await,
        LibraryVerb::Eval(args) => eval::eval(*args, config, json).await,
        LibraryVerb::Mcp(args) => crate::mcp::stdio(*args, config).await,
        LibraryVerb::Status(args) => reading::status(*args, config, json).await,
        LibraryVerb::Restore(args) => restoring::restore(*args, config, json).await,
        LibraryVerb::Resume(args) => restoring::resume(*args, config, json).await,
        LibraryVerb::Export(args) => archive::export(*args, config, json).await,
        LibraryVerb::Import(args) => sync::sync((*args).into(), config, json).await,
        LibraryVerb::Codec { verb } => check::run(verb, json),
    }
}

/// The log and the house that is meant.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) log: Log,
    pub(crate) sessions: Sessions,
    pub(crate) house: HouseId,
}

impl Library {
    pub(crate) async fn open(config: &Config, house: Option<&str>) -> anyhow::Result<Self> {
        Self::on(logverbs::open(config).await?, config, house).await
    }

    /// A log is made where there is none. What a running server owns is written through it.
    pub(crate) async fn open_to_write(config: &Config, house: Option<&str>) -> anyhow::Result<Self> {
        let context = || config.store.to_string();
        let store = config.store.open(&config.store_options, true).with_context(context)?;
        let cluster = Cluster::load_or_create(&store, &|| RealWorld.random()).await.with_context(context)?;
        let peers = Arc::new(HttpPeers::new(cluster.peer_secret)?);
        // What is written here is not read again; a server beside this has a cache of its own.
        let options = Options { memory: config.memory.min(CACHE), peers, ..Options::default() };
        Self::on(Log::open(store, options).await.with_context(context)?, config, house).await
    }

    async fn on(log: Log, config: &Config, house: Option<&str>) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&config.data_dir).with_context(|| config.data_dir.display().to_string())?;
        let source = Arc::new(RealSource);
        let sessions = Sessions::new(log.clone(), source.clone());
        let mut houses = sessions.houses().await?;
        if houses.is_empty() {
            welcome(&log, source, config).await?;
            houses = sessions.houses().await?;
        }
        let named = |wanted: &str| houses.iter().find(|(id, name)| id.as_str() == wanted || name == wanted);
        let house = match (house, houses.as_slice()) {
            (Some(wanted), _) => named(wanted).ok_or_else(|| NotFound(format!("there is no house {wanted:?}")))?.0.clone(),
            (None, [(only, _)]) => only.clone(),
            (None, _) => bail!("there are several houses; name one with --house"),
        };
        Ok(Self { sessions, log, house })
    }

    pub(crate) async fn close(self) {
        self.log.close().await;
    }

    /// A session, or a live thread, with those that hang on it unless it is wanted alone.
    async fn lineage(&self, id: &str, alone: bool) -> anyhow::Result<Lineage> {
        let all = self.sessions.list(&self.house).await?;
        let Some(wanted) = all.iter().find(|session| session.id.as_str() == id) else {
            let missing = || NotFound(format!("there is no session and no thread {id:?}; `arbe sessions` lists the sessions"));
            return self.thread(id, alone).await?.ok_or_else(|| missing().into());
        };
        let (session, messages) = self.read(&wanted.id).await?;
        let mut known = vec![wanted.id.clone()];
        let mut children = Vec::new();
        // Those that hang deeper are found as well, to be refused rather than left out.
        let mut at = 0;
        while at < known.len() && !alone {
            let parent = known[at].clone();
            for child in all.iter().filter(|it| it.parent_session_id.as_ref() == Some(&parent)) {
                if known.contains(&child.id) {
                    continue;
                }
                known.push(child.id.clone());
                children.push(self.read(&child.id).await?);
            }
            at += 1;
        }
        let bases = self.bases(&all, &session, &messages).await?;
        let lineage = Lineage::new(session, messages, children)
            .map_err(|error| Refused(format!("{error}; --alone restores it without them")))?;
        Ok(lineage.on(bases))
    }

    /// How many sessions or threads hang on one.
    async fn hanging(&self, id: &str) -> anyhow::Result<usize> {
        let sessions = self.sessions.list(&self.house).await?;
        let of_session = sessions.iter().filter(|it| it.parent_session_id.as_ref().is_some_and(|parent| parent.as_str() == id));
        let threads = self.threads().await?;
        let of_thread = threads.iter().filter(|it| it.parent_thread_id.as_ref().is_some_and(|parent| parent.as_str() == id));
        Ok(of_session.count() + of_thread.count())
    }

    /// What is not recorded, or comes again, ends it; restoring says so.
    async fn bases(
        &self,
        all: &[Session],
        session: &Session,
        messages: &[Message],
    ) -> anyhow::Result<Vec<(Session, Vec<Message>)>> {
        let mut bases: Vec<(Session, Vec<Message>)> = Vec::new();
        let mut next = codecs::restore::base(session, messages);
        while let Some(base) = next {
            let again = session.id == base || bases.iter().any(|(known, _)| known.id == base);
            if again || !all.iter().any(|known| known.id == base) {
                break;
            }
            let (session, messages) = self.read(&base).await?;
            next = codecs::restore::base(&session, &messages);
            bases.push((session, messages));
        }
        Ok(bases)
    }

    async fn read(&self, id: &SessionId) -> anyhow::Result<(Session, Vec<Message>)> {
        self.sessions.read(&self.house, id).await?.with_context(|| format!("session {id} is gone"))
    }
}

/// A log without a house gets its first, as a server would give it.
async fn welcome(log: &Log, source: Arc<RealSource>, config: &Config) -> anyhow::Result<()> {
    let commands = Commands::start(log.clone(), source);
    commands.caught_up().await?;
    owner::welcome(&commands, log.cluster().id(), &config.data_dir).await.context("the first start")?;
    Ok(())
}

pub(crate) fn codec(client: &str) -> anyhow::Result<&'static Codec> {
    registry::find(client).ok_or_else(|| NotFound(no_client(client, &BTreeSet::new())).into())
}

fn no_client(client: &str, others: &BTreeSet<&str>) -> String {
    let known: BTreeSet<&str> = registry::CODECS.iter().map(|codec| codec.origin).chain(others.iter().copied()).collect();
    format!("there is no client {client:?}; known are {}", known.into_iter().collect::<Vec<_>>().join(", "))
}

/// A client that nobody knows and of which nothing is recorded is a slip, and not one without sessions. Others than ours record theirs, too.
fn known(client: &str, recorded: &BTreeSet<&str>) -> Result<(), Usage> {
    if registry::find(client).is_some() || recorded.contains(client) {
        return Ok(());
    }
    Err(Usage(no_client(client, recorded)))
}

fn chosen(mut sessions: Vec<Session>, which: &Which) -> anyhow::Result<Vec<Session>> {
    if let Some(client) = &which.client {
        known(client, &sessions.iter().map(|session| session.source_agent.as_str()).collect())?;
    }
    sessions.retain(|session| which.wants(session));
    Ok(sessions)
}

fn progress(what: &'static str, sessions: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} sessions, {eta} left");
    let bar = ProgressBar::new(sessions).with_prefix(what).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[derive(serde::Serialize)]
struct Listed<'a> {
    session: &'a SessionId,
    client: &'a str,
    project: &'a str,
    created_at: String,
    parent: Option<&'a SessionId>,
}

async fn list(args: SessionList, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let library = Library::open(config, args.house.as_deref()).await?;
    let listed = library.sessions.list(&library.house).await;
    library.close().await;
    let mut sessions = chosen(listed?, &args.which)?;
    sessions.sort_by(|one, two| (two.created_at, &two.id).cmp(&(one.created_at, &one.id)));
    let rows: Vec<_> = sessions
        .iter()
        .map(|session| Listed {
            session: &session.id,
            client: &session.source_agent,
            project: &session.project,
            created_at: session.created_at.to_string(),
            parent: session.parent_session_id.as_ref(),
        })
        .collect();
    if json {
        rows.iter().try_for_each(output::print_json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let cells = |row: &Listed<'_>| {
        let parent = row.parent.map(ToString::to_string).unwrap_or_default();
        vec![row.session.to_string(), row.client.to_owned(), output::clean(row.project), row.created_at.clone(), parent]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    output::print(output::table(&["SESSION", "CLIENT", "PROJECT", "CREATED", "PARENT"], &rows))?;
    output::note("threads are listed by `arbe thread list`");
    Ok(ExitCode::SUCCESS)
}
