//! `arbe serve`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use event_log::store::cluster::Cluster;
use event_log::{Log, Options, RealWorld, StoreUrl, World};
use http_api::{App, HttpPeers, Server};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::config::Config;
use crate::database;
use crate::endpoint::URL_FILE;
use crate::output::Usage;
use crate::platform::{Platform, Reached};
use crate::{exit, output};

/// For what is queued, and a checkpoint.
const CLOSING: Duration = Duration::from_secs(20);
/// For another server of this machine to take a connection.
const ANSWERING: Duration = Duration::from_millis(500);

pub(crate) async fn serve(config: Config) -> anyhow::Result<ExitCode> {
    // Clearing two megabytes at a touch makes a commit wait for milliseconds. Children inherit it.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    check(&config)?;
    let store = config.store.open(&config.store_options, true).with_context(|| config.store.to_string())?;
    let listener = TcpListener::bind(&config.listen).await.with_context(|| format!("cannot listen on {}", config.listen))?;
    let address = listener.local_addr()?;
    let url = config.advertise_url.clone().unwrap_or_else(|| format!("http://{address}"));

    if matches!(config.store, StoreUrl::Remote(_)) && config.advertise_url.is_none() && !reachable(&address) {
        tracing::warn!(%url, "servers on other machines cannot reach this one: set --advertise-url if there are any");
    }
    let cluster = Cluster::load_or_create(&store, &|| RealWorld.random()).await;
    let cluster = cluster.with_context(|| config.store.to_string())?;
    let peers = Arc::new(HttpPeers::new(cluster.peer_secret)?);
    let options = Options { url, memory: config.memory, peers, ..Options::default() };
    let log = Log::open(store.clone(), options).await.with_context(|| config.store.to_string())?;
    let app = App::starting(
        log.clone(),
        http_api::Options {
            secret: config.service_secret.clone(),
            public_url: config.public_url.clone(),
            long_poll_timeout: config.long_poll_timeout,
            body_limit: config.body_limit,
            ..http_api::Options::default()
        },
    );
    let app = app.await?;
    let (stop, stopped) = watch::channel(false);
    let served = tokio::spawn(http_api::serve(Server::new(listener, address, app.clone()), stopped.clone()));
    let (door, for_machines) = door(&app).await?;
    let let_in = tokio::spawn(http_api::serve(for_machines, stopped));
    let platform = Platform::start(&log, &store, &config, &app, Reached { by_all: address, by_machines: door }).await?;
    let reach = publish(&config, address)?;
    // Whoever reads the greeting may ask to stop at once.
    let signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    output::print(greeting(&config, address, platform.as_ref()))?;

    let failure = wait(&log, signals).await;
    stop.send_replace(true);
    served.await?;
    let_in.await?;
    app.close().await;
    drop(reach);
    if let Some(platform) = platform {
        platform.close().await;
    }
    if tokio::time::timeout(CLOSING, log.close()).await.is_err() {
        tracing::warn!("the store did not answer in time; what was not acknowledged may or may not be written");
    }
    match failure {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => {
            eprintln!("arbe: {why}");
            Ok(ExitCode::from(exit::FAILED))
        }
    }
}

/// What a setting names must be there. Later it would be passed over, or end a server that has begun.
fn check(config: &Config) -> anyhow::Result<()> {
    database::check(config)?;
    if let Some(keys) = config.auth_jwks.as_deref().filter(|keys| !keys.contains("://")) {
        let opened = std::fs::File::open(keys);
        opened.map_err(|error| Usage(format!("the issuer's keys (--auth-jwks) in {keys}: {error}")))?;
    }
    for (flag, directories) in [("tools", &config.work.tools), ("repositories", &config.work.repositories)] {
        if let Some(missing) = directories.iter().find(|it| !it.is_dir()) {
            return Err(Usage(format!("{} (--{flag}) is not a directory", missing.display())).into());
        }
    }
    match config.work.runner.as_deref().filter(|runner| !runner.is_file()) {
        Some(missing) => Err(Usage(format!("{} (--runner) is not a file", missing.display())).into()),
        None => Ok(()),
    }
}

/// Local machines are led here.
async fn door(app: &Arc<App>) -> anyhow::Result<(SocketAddr, Server)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("the door for machines")?;
    let address = listener.local_addr()?;
    Ok((address, Server::new(listener, address, app.clone()).for_machines()))
}

fn greeting(config: &Config, address: SocketAddr, platform: Option<&Platform>) -> String {
    let mut text = format!("arbe {} on http://{address}, log in {}\n", env!("CARGO_PKG_VERSION"), config.store);
    match platform.map(|platform| platform.owner_token.as_deref()) {
        Some(Some(path)) => text.push_str(&format!("the owner's token is in {}; `arbe whoami` uses it\n", path.display())),
        Some(None) => text.push_str("the owner's token is not in this data directory; verbs need ARBE_TOKEN\n"),
        None => text.push_str("streams only: there is no database, so no houses and threads\n"),
    }
    text
}

/// The file by which verbs find this server; it goes when the server does, unless it names another by then. Where another was named before,
/// and still answers, it is named again.
struct Reach {
    path: PathBuf,
    url: String,
    before: Option<String>,
}

impl Reach {
    fn write(path: PathBuf, url: String) -> std::io::Result<Self> {
        let before = std::fs::read_to_string(&path).ok().filter(|before| *before != url);
        std::fs::write(&path, &url)?;
        Ok(Self { path, url, before })
    }
}

impl Drop for Reach {
    fn drop(&mut self) {
        if std::fs::read_to_string(&self.path).is_ok_and(|named| named == self.url) {
            let _ = match self.before.as_deref().filter(|before| answers(before)) {
                Some(before) => std::fs::write(&self.path, before),
                None => std::fs::remove_file(&self.path),
            };
        }
    }
}

fn answers(url: &str) -> bool {
    let address = url.trim().strip_prefix("http://").and_then(|address| address.parse().ok());
    address.is_some_and(|address| std::net::TcpStream::connect_timeout(&address, ANSWERING).is_ok())
}

fn publish(config: &Config, address: SocketAddr) -> anyhow::Result<Option<Reach>> {
    if config.database_url.as_deref() == Some(database::NONE) {
        return Ok(None);
    }
    let host = match (address.ip().is_unspecified(), address.is_ipv4()) {
        (false, _) => address.ip(),
        (true, true) => Ipv4Addr::LOCALHOST.into(),
        (true, false) => Ipv6Addr::LOCALHOST.into(),
    };
    let path = config.data_dir.join(URL_FILE);
    let url = format!("http://{}\n", SocketAddr::new(host, address.port()));
    let reach = Reach::write(path.clone(), url).with_context(|| path.display().to_string())?;
    Ok(Some(reach))
}

fn reachable(address: &SocketAddr) -> bool {
    !address.ip().is_loopback() && !address.ip().is_unspecified()
}

/// Until somebody asks the server to stop, or the log can not be written any more.
async fn wait(log: &Log, (mut terminate, mut interrupt): (Signal, Signal)) -> Option<String> {
    let mut failed = log.failed();
    tokio::select! {
        _ = terminate.recv() => tracing::info!("asked to stop"),
        _ = interrupt.recv() => tracing::info!("asked to stop"),
        failure = failed.wait_for(Option::is_some) => return failure.ok().and_then(|why| why.clone()),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_servers_of_a_directory_the_one_that_stays_is_the_one_that_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(URL_FILE);
        let named = || std::fs::read_to_string(&path).ok();
        let first = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let [first_url, second_url] = [format!("http://{}\n", first.local_addr().unwrap()), "http://127.0.0.1:1\n".to_owned()];
        let one = Reach::write(path.clone(), first_url.clone()).unwrap();
        let two = Reach::write(path.clone(), second_url.clone()).unwrap();
        assert_eq!(named(), Some(second_url.clone()));
        drop(two);
        assert_eq!(named(), Some(first_url), "the second has gone");
        let two = Reach::write(path.clone(), second_url.clone()).unwrap();
        drop(one);
        assert_eq!(named(), Some(second_url), "the first has gone, and the file is not its own any more");
        drop(first);
        drop(two);
        assert_eq!(named(), None, "nobody is left");
    }
}
