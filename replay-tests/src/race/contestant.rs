use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tempfile::TempDir;

use super::http1::{Connection, SMALL};
use super::node;
use super::options::Options;
use super::process::{self, Process};
use super::wire::{self, Dialect};

#[derive(Debug)]
enum Kind {
    ArbeFile { arbe: PathBuf },
    ArbeS3 { arbe: PathBuf, store: PathBuf, latency: String },
    OfficialRust { server: PathBuf },
    OfficialNode { modules: PathBuf },
    S2Lite { server: PathBuf },
}

#[derive(Debug)]
pub(super) struct Contestant {
    kind: Kind,
    pub version: Option<String>,
}

#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Absent {
    pub server: &'static str,
    pub reason: String,
}

/// What outlives a restart: the data directory and, for one contestant, its object store.
pub(super) struct Home {
    directory: TempDir,
    store: Option<(Process, String)>,
}

pub(super) struct Server {
    pub process: Process,
    pub address: SocketAddr,
    pub dialect: Dialect,
}

pub(super) const BASELINE: &str = "arbe-file";
/// In the bucket that `honest-s3` starts with.
const STORE: &str = "s3://arbe/race";

pub(super) fn find(options: &Options) -> (Vec<Contestant>, Vec<Absent>) {
    let arbe = options.arbe.clone().or_else(|| beside("arbe"));
    let peer = |name: &str| match &options.peers {
        Some(directory) => existing(directory.join(name)),
        None => in_path(name),
    };
    let reference = options.node_modules.clone().filter(|one| one.join("@durable-streams/server").is_dir());
    let candidates = [
        (BASELINE, arbe.clone().map(|arbe| Kind::ArbeFile { arbe }), "no arbe binary"),
        (
            "arbe-s3",
            arbe.zip(beside("honest-s3")).map(|(arbe, store)| Kind::ArbeS3 { arbe, store, latency: options.s3_latency.clone() }),
            "no arbe or honest-s3 binary",
        ),
        (
            "ds-rust",
            peer("durable-streams-server").map(|server| Kind::OfficialRust { server }),
            "no durable-streams-server binary",
        ),
        ("ds-node", reference.map(|modules| Kind::OfficialNode { modules }), "no @durable-streams/server in --node-modules"),
        (
            "s2-lite",
            options.peers.as_ref().and_then(|_| peer("server")).map(|server| Kind::S2Lite { server }),
            "no server binary in --peers",
        ),
    ];
    let (mut found, mut absent) = (Vec::new(), Vec::new());
    for (server, kind, reason) in candidates {
        match kind {
            _ if !options.wants_server(server) => {}
            Some(kind) => found.push(Contestant::new(kind)),
            None => absent.push(Absent { server, reason: reason.to_owned() }),
        }
    }
    (found, absent)
}

impl Contestant {
    fn new(kind: Kind) -> Self {
        let version = match &kind {
            Kind::ArbeFile { arbe } => process::version_of(arbe),
            Kind::ArbeS3 { arbe, latency, .. } => {
                process::version_of(arbe).map(|version| format!("{version} on honest-s3, {latency} added to a PUT"))
            }
            Kind::OfficialRust { server } | Kind::S2Lite { server } => process::version_of(server),
            Kind::OfficialNode { modules } => node::version(modules),
        };
        Self { kind, version }
    }

    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            Kind::ArbeFile { .. } => BASELINE,
            Kind::ArbeS3 { .. } => "arbe-s3",
            Kind::OfficialRust { .. } => "ds-rust",
            Kind::OfficialNode { .. } => "ds-node",
            Kind::S2Lite { .. } => "s2-lite",
        }
    }

    pub(super) fn dialect(&self) -> Dialect {
        match self.kind {
            Kind::S2Lite { .. } => Dialect::S2,
            Kind::ArbeFile { .. } | Kind::ArbeS3 { .. } | Kind::OfficialRust { .. } | Kind::OfficialNode { .. } => {
                Dialect::DurableStreams
            }
        }
    }

    pub(super) async fn home(&self, options: &Options) -> anyhow::Result<Home> {
        let directory =
            tempfile::Builder::new().prefix("race-").tempdir_in(options.directory()).context("creating a data directory")?;
        let store = match &self.kind {
            Kind::ArbeS3 { store, latency, .. } => {
                let mut command = Command::new(store);
                command.args(["--listen", "127.0.0.1:0", "--put-latency", latency]);
                let mut process = Process::spawn(command, directory.path().join("store-log"))?;
                let url = process.announced().await.context("honest-s3")?;
                Some((process, url))
            }
            Kind::ArbeFile { .. } | Kind::OfficialRust { .. } | Kind::OfficialNode { .. } | Kind::S2Lite { .. } => None,
        };
        Ok(Home { directory, store })
    }

    /// Starts the server and waits until it answers `probe` with success.
    pub(super) async fn start(&self, home: &Home, probe: Option<&[u8]>) -> anyhow::Result<(Server, Duration)> {
        let port = process::free_port()?;
        let log = home.directory.path().join("server-log");
        let mut process = Process::spawn(self.command(home, port)?, log)?;
        let address = match self.kind {
            Kind::ArbeFile { .. } | Kind::ArbeS3 { .. } => process::address_of(&process.announced().await?)?,
            Kind::OfficialRust { .. } | Kind::OfficialNode { .. } | Kind::S2Lite { .. } => {
                SocketAddr::from(([127, 0, 0, 1], port))
            }
        };
        let ready = wire::get(self.ready_target());
        answers(&mut process, address, &ready, self.ready_status()).await?;
        if let Some(probe) = probe {
            answers(&mut process, address, probe, 200).await?;
        }
        let elapsed = process.started.elapsed();
        Ok((Server { process, address, dialect: self.dialect() }, elapsed))
    }

    /// A fresh server on a fresh directory, ready to take streams.
    pub(super) async fn fresh(&self, options: &Options) -> anyhow::Result<(Server, Home)> {
        let home = self.home(options).await?;
        let (server, _) = self.start(&home, None).await?;
        if let Some(request) = self.dialect().prepare() {
            let head = Connection::open(server.address, SMALL).await?.call(&request).await?;
            ensure!(head.status / 100 == 2, "preparing was answered with {}", head.status);
        }
        Ok((server, home))
    }

    fn ready_target(&self) -> &'static str {
        match self.kind {
            Kind::ArbeFile { .. } | Kind::ArbeS3 { .. } => "/readyz",
            Kind::OfficialRust { .. } | Kind::OfficialNode { .. } => "/v1/stream/race-absent",
            Kind::S2Lite { .. } => "/health",
        }
    }

    fn ready_status(&self) -> u16 {
        match self.kind {
            Kind::OfficialRust { .. } | Kind::OfficialNode { .. } => 404,
            Kind::ArbeFile { .. } | Kind::ArbeS3 { .. } | Kind::S2Lite { .. } => 200,
        }
    }

    fn command(&self, home: &Home, port: u16) -> anyhow::Result<Command> {
        let data = home.directory.path().join("data");
        std::fs::create_dir_all(&data)?;
        Ok(match &self.kind {
            Kind::ArbeFile { arbe } => {
                let store = home.directory.path().join("store");
                std::fs::create_dir_all(&store)?;
                arbe_command(arbe, &format!("file://{}", store.display()), &data)
            }
            Kind::ArbeS3 { arbe, .. } => {
                let (_, url) = home.store.as_ref().context("no object store was started")?;
                let mut command = arbe_command(arbe, STORE, &data);
                command.envs([
                    ("AWS_ENDPOINT", url.as_str()),
                    ("AWS_ACCESS_KEY_ID", "test"),
                    ("AWS_SECRET_ACCESS_KEY", "test"),
                    ("AWS_REGION", "us-east-1"),
                    ("AWS_ALLOW_HTTP", "true"),
                ]);
                command
            }
            Kind::OfficialRust { server } => {
                let mut command = Command::new(server);
                command.args(["--port", &port.to_string(), "--durability", "wal", "--data-dir"]).arg(data);
                command
            }
            Kind::OfficialNode { modules } => node::command(modules, &data, port),
            Kind::S2Lite { server } => {
                let mut command = Command::new(server);
                command.args(["--port", &port.to_string(), "--no-dashboard", "--local-root"]).arg(data);
                command.env("SL8_FLUSH_INTERVAL", "5ms").env("RUST_LOG", "warn");
                command
            }
        })
    }
}

impl Home {
    pub(super) fn store_id(&self) -> Option<u32> {
        self.store.as_ref().map(|(process, _)| process.id())
    }
}

fn arbe_command(arbe: &Path, store: &str, data: &Path) -> Command {
    let mut command = Command::new(arbe);
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", store, "--database-url", "none", "--data-dir"]).arg(data);
    command
}

async fn answers(process: &mut Process, address: SocketAddr, request: &[u8], expected: u16) -> anyhow::Result<()> {
    let asked = Instant::now();
    loop {
        let answer = async { Connection::open(address, SMALL).await?.call(request).await };
        match tokio::time::timeout(Duration::from_secs(60), answer).await {
            Ok(Ok(head)) if head.status == expected => return Ok(()),
            Ok(_) | Err(_) => {}
        }
        process.still_starting().with_context(|| format!("after {} ms", asked.elapsed().as_millis()))?;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn beside(name: &str) -> Option<PathBuf> {
    existing(std::env::current_exe().ok()?.with_file_name(name))
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

fn existing(file: PathBuf) -> Option<PathBuf> {
    file.is_file().then_some(file)
}
