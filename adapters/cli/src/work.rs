//! What does the work of a server: its machines, the helper inside them, and the drivers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use arbe_runner::harness::Harness;
use commands::Commands;
use commands::ports::{Machines, Reach, Vault};
use dispatch::{Dispatcher, Door, Manners, ObjectTrees, Options, Outside, Patience, Runner, Tokens};
use event_log::{Log, RealWorld, Store, World};
use events::{AgentId, ThreadId};
use http_api::auth;
use sandboxes::daytona::Daytona;
use sandboxes::local::{Local, OpenError};
use sandboxes::sprite::Sprite;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use url::{Host, Url};

use crate::args::Provider;
use crate::config::Config;
use crate::platform::Reached;

mod places;
mod rebuild;

pub(crate) use places::{path, tools, tools_dir};

const LOCAL: &str = "local";
/// What the doors of local machines call this server, whatever port it has.
const SERVER: &str = "server";
const NAME_FILE: &str = "server-name";

/// The drivers, and how they are stopped.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) dispatcher: Dispatcher,
    stop: watch::Sender<bool>,
    driving: JoinHandle<()>,
}

/// What the rest of the server has made already.
pub(crate) struct Around<'a> {
    pub(crate) log: &'a Log,
    pub(crate) store: &'a Store,
    pub(crate) commands: &'a Commands,
    pub(crate) vault: Arc<dyn Vault>,
    pub(crate) auth: &'a auth::Options,
    pub(crate) reached: Reached,
}

impl Work {
    /// `None` if this server is to run nothing.
    pub(crate) async fn start(config: &Config, around: Around<'_>) -> anyhow::Result<Option<Self>> {
        if config.work.provider == Provider::None {
            return Ok(None);
        }
        let (machines, runners, taken) = providers(config, around.reached.by_machines).await?;
        let Around { log, store, commands, vault, auth, reached } = around;
        let outside = Outside {
            log: log.clone(),
            commands: commands.clone(),
            machines,
            vault,
            tokens: Arc::new(Signer { auth: auth.clone(), log: log.clone() }),
            rebuild: Arc::new(rebuild::Transcripts::new(log, commands)),
            trees: Arc::new(ObjectTrees::new(store.objects.clone())),
        };
        let mut options = options(config, reached.by_all, runners)?;
        if taken {
            // What that one claimed is not this one's to go on with.
            options.server = format!("{}-{:08x}", options.server, RealWorld.random() as u32);
        }
        let dispatcher = Dispatcher::new(outside, options);
        let (stop, stopped) = watch::channel(false);
        let driver = dispatcher.clone();
        let driving = tokio::spawn(async move { driver.run(stopped).await });
        Ok(Some(Self { dispatcher, stop, driving }))
    }

    /// What is under way is left where it stands.
    pub(crate) async fn close(self) {
        self.stop.send_replace(true);
        let _ = self.driving.await;
    }
}

fn options(config: &Config, address: SocketAddr, runners: BTreeMap<String, Runner>) -> anyhow::Result<Options> {
    let (work, usual) = (&config.work, Patience::default());
    let urls = [&work.machines_url, &config.public_url, &config.advertise_url];
    let url = urls.into_iter().flatten().next().cloned().unwrap_or_else(|| format!("http://{address}"));
    if (work.daytona.is_some() || work.sprite.is_some()) && is_here(&url) {
        tracing::warn!(%url, "distant machines do not reach this server: set --machines-url or --public-url");
    }
    let provider = match work.provider {
        Provider::Local | Provider::None => LOCAL,
        Provider::Daytona => "daytona",
        Provider::Sprite => "sprite",
    };
    Ok(Options {
        server: server_name(&config.data_dir)?,
        provider: provider.to_owned(),
        relayed: BTreeSet::from([LOCAL.to_owned()]),
        door: Door { url, address: SERVER.to_owned() },
        harnesses: BTreeSet::from([Harness::Pi.descriptor().name.to_owned()]),
        runners,
        model: work.model.clone(),
        reach: reach(config),
        patience: Patience {
            orphan: work.orphan_after.unwrap_or(usual.orphan),
            unreachable: work.unreachable_after.unwrap_or(usual.unreachable),
            reap: work.reap_after.unwrap_or(usual.reap),
            watch: work.watch_every.unwrap_or(usual.watch),
            ..usual
        },
        manners: Manners::default(),
    })
}

/// Nobody on another machine gets here by it.
fn is_here(url: &str) -> bool {
    match Url::parse(url).as_ref().ok().and_then(Url::host) {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => address.is_loopback() || address.is_unspecified(),
        None => false,
    }
}

/// The name by which this server claims work, the same after a restart.
fn server_name(data_dir: &Path) -> anyhow::Result<String> {
    let path = data_dir.join(NAME_FILE);
    match std::fs::read_to_string(&path) {
        Ok(name) if !name.trim().is_empty() => return Ok(name.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    }
    let name = format!("{:016x}", RealWorld.random());
    std::fs::write(&path, &name).with_context(|| path.display().to_string())?;
    Ok(name)
}

type Providers = (BTreeMap<String, Arc<dyn Machines>>, BTreeMap<String, Runner>, bool);

async fn providers(config: &Config, door: SocketAddr) -> anyhow::Result<Providers> {
    let (mut machines, mut runners) = (BTreeMap::<String, Arc<dyn Machines>>::new(), BTreeMap::new());
    let runner = places::runner(config);
    let found = local(config, door).await?;
    let taken = matches!(found, Found::Taken);
    if let Found::Here(local, bin) = found {
        runners
            .extend(places::lay(&runner, &bin).map(|path| (LOCAL.to_owned(), Runner::At(path.to_string_lossy().into_owned()))));
        machines.insert(LOCAL.to_owned(), Arc::new(*local));
    }
    let mut distant: Vec<Arc<dyn Machines>> = Vec::new();
    if let Some(options) = &config.work.daytona {
        distant.push(Arc::new(Daytona::new(options.clone()).context("Daytona")?));
    }
    if let Some(options) = &config.work.sprite {
        distant.push(Arc::new(Sprite::new(options.clone()).context("sprites")?));
    }
    for provider in distant {
        match std::fs::read(&runner) {
            Ok(binary) => drop(runners.insert(provider.provider().to_owned(), Runner::Upload(binary.into()))),
            Err(error) => tracing::warn!(runner = %runner.display(), %error, "nothing can be delegated to distant machines"),
        }
        machines.insert(provider.provider().to_owned(), provider);
    }
    Ok((machines, runners, taken))
}

enum Found {
    Here(Box<Local>, PathBuf),
    /// A server of this data directory runs already, and has its name too.
    Taken,
    Nothing,
}

/// A server that can have no machines here still does everything else.
async fn local(config: &Config, door: SocketAddr) -> anyhow::Result<Found> {
    let directory = places::machines_dir(config);
    let bin = directory.join(".bin");
    let Some(helper) = places::lay(&places::beside("arbe-supervisor"), &bin) else { return Ok(Found::Nothing) };
    let mut options = sandboxes::local::Options::new(directory, helper);
    options.tools = places::tools(config);
    options.path = places::path(&options.tools);
    options.tools.push(bin.clone());
    options.repositories = config.work.repositories.clone();
    options.ways.names.insert(SERVER.to_owned(), door.to_string());
    options.ways.inner = reach(config);
    match Local::open(options).await {
        Ok(local) => Ok(Found::Here(Box::new(local), bin)),
        Err(OpenError::Taken(path)) => {
            tracing::warn!(machines = %path.display(), "another server has the local machines; this one makes none");
            Ok(Found::Taken)
        }
        Err(error) => Err(error).context("local machines (--machines-dir; --sandbox-provider none runs nothing)"),
    }
}

/// The server's own model is always among it.
fn reach(config: &Config) -> Reach {
    let model = config.work.model_url.as_deref().and_then(|url| Url::parse(url).ok());
    let model = model.and_then(|url| Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?)));
    Reach(config.work.reach.iter().cloned().chain(model).collect())
}

struct Signer {
    auth: auth::Options,
    log: Log,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer")
    }
}

impl Tokens for Signer {
    fn thread_token(&self, agent: AgentId, thread: &ThreadId) -> Option<String> {
        self.auth.thread_token(agent, thread, self.log.now_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_host_are_out_of_reach_for_others() {
        for url in
            ["http://127.0.0.1:4437", "http://0.0.0.0:4437", "http://[::1]:4437", "http://localhost", "http://a.localhost:1"]
        {
            assert!(is_here(url), "{url}");
        }
        for url in ["http://10.0.0.5:4437", "https://arbe.example.org", "http://localhost.example.org", "http://[fd00::1]:1"] {
            assert!(!is_here(url), "{url}");
        }
    }
}
