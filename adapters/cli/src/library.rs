//! Sessions of other clients: `arbe sync`, `arbe sessions`, `arbe get`, `arbe status`, `arbe restore`, `arbe resume` and `arbe codec check`. They work on the log
//! itself, with or without a running server.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use codecs::lineage::Lineage;
use codecs::registry::{self, Codec};
use commands::sessions::Sessions;
use commands::{Commands, RealSource};
use event_log::{Cluster, Log, Options, RealWorld, World as _};
use events::HouseId;
use events::session::{Message, Session, SessionId};
use http_api::HttpPeers;

use crate::args::{LibraryVerb, SessionList};
use crate::config::Config;
use crate::output::{self, NotFound};
use crate::{logverbs, owner};

mod check;
mod reading;
mod restoring;
mod stages;
mod sync;

pub(crate) async fn run(verb: LibraryVerb, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    match verb {
        LibraryVerb::Sync(args) => sync::sync(*args, config, json).await,
        LibraryVerb::Sessions(args) => list(*args, config, json).await,
        LibraryVerb::Get(args) => reading::get(*args, config, json).await,
        LibraryVerb::Status(args) => reading::status(*args, config, json).await,
        LibraryVerb::Restore(args) => restoring::restore(*args, config, json).await,
        LibraryVerb::Resume(args) => restoring::resume(*args, config, json).await,
        LibraryVerb::Codec { verb } => check::run(verb, json),
    }
}

/// The log and the house that is meant.
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
        let options = Options { memory: config.memory, peers, ..Options::default() };
        Self::on(Log::open(store, options).await.with_context(context)?, config, house).await
    }

    /// A log without a house gets its first, as a server would give it.
    async fn on(log: Log, config: &Config, house: Option<&str>) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&config.data_dir).with_context(|| config.data_dir.display().to_string())?;
        let source = Arc::new(RealSource);
        let commands = Commands::start(log.clone(), source.clone());
        commands.caught_up().await?;
        owner::welcome(&commands, log.cluster().id(), &config.data_dir).await.context("the first start")?;
        let houses: Vec<_> =
            commands.with_world(|world| world.houses().map(|(id, house)| (id.clone(), house.name.clone())).collect());
        let named = |wanted: &str| houses.iter().find(|(id, name)| id.as_str() == wanted || name == wanted);
        let house = match (house, houses.as_slice()) {
            (Some(wanted), _) => named(wanted).ok_or_else(|| NotFound(format!("there is no house {wanted:?}")))?.0.clone(),
            (None, [(only, _)]) => only.clone(),
            (None, _) => bail!("there are several houses; name one with --house"),
        };
        Ok(Self { sessions: Sessions::new(log.clone(), source), log, house })
    }

    pub(crate) async fn close(self) {
        self.log.close().await;
    }

    /// A session with those that hang on it.
    async fn lineage(&self, id: &str) -> anyhow::Result<Lineage> {
        let missing = || NotFound(format!("there is no session {id:?}; `arbe sessions` lists them"));
        let all = self.sessions.list(&self.house).await?;
        let wanted = all.iter().find(|session| session.id.as_str() == id).ok_or_else(missing)?;
        let (session, messages) = self.read(&wanted.id).await?;
        let mut known = vec![wanted.id.clone()];
        let mut children = Vec::new();
        // Those that hang deeper are found as well, to be refused rather than left out.
        let mut at = 0;
        while at < known.len() {
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
        Ok(Lineage::new(session, messages, children)?)
    }

    async fn read(&self, id: &SessionId) -> anyhow::Result<(Session, Vec<Message>)> {
        self.sessions.read(&self.house, id).await?.with_context(|| format!("session {id} is gone"))
    }
}

pub(crate) fn codec(client: &str) -> anyhow::Result<&'static Codec> {
    let known = || registry::CODECS.iter().map(|codec| codec.origin).collect::<Vec<_>>().join(", ");
    registry::find(client).ok_or_else(|| NotFound(format!("there is no client {client:?}; known are {}", known())).into())
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
    let mut sessions = listed?;
    sessions.retain(|session| {
        let client = args.client.as_ref().is_none_or(|client| session.source_agent == *client);
        let project = args.project.as_ref().is_none_or(|project| session.project.starts_with(project.as_str()));
        let since = args.since.is_none_or(|since| session.created_at.millis() >= since.0);
        client && project && since
    });
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
    Ok(ExitCode::SUCCESS)
}
