//! Sprites of Fly.io, through their published REST interface and the socket for commands.
//!
//! A sprite pauses when nobody talks to it, and its files stay. A process that goes on by itself holds its sprite with a task that
//! expires unless it is refreshed, so that it is not paused in the middle of its work. A checkpoint cannot leave its sprite and dies
//! with it, so a snapshot is an archive of the working tree.

mod api;
mod exec;
mod shapes;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use commands::ports::{
    Created, Execute, Exit, Launch, Listed, Machine, MachineError, Machines, OutputSink, Plain, ProcessState, Verdict, Wanted,
};
use events::dispatch::OutputStream;
use parking_lot::Mutex;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Url};

use self::api::verdict;
use self::exec::{AfterDisconnect, Frame};
use self::shapes::Sprite as Shape;
use crate::bounded::LARGEST_TREE;
use crate::remote::http::{Effect, Failure, Http};
use crate::remote::script::{NAME_TAKEN, NOT_HELD};
use crate::remote::{self, Hold, Layout, Ran, Reach};

// Labels and names are found again by servers of later versions. Never renamed.
const LABEL_HOUSE: &str = "arbe.house";
const LABEL_THREAD: &str = "arbe.thread";
const LABEL_ENVIRONMENT: &str = "arbe.environment";
const LABEL_SANDBOX: &str = "arbe.sandbox";
const NAME_PREFIX: &str = "arbe-";

/// What one request may write; more goes through a command.
const LARGEST_WRITE: usize = 8 << 20;
const PATIENCE_WITH_FILES: Duration = Duration::from_secs(600);
/// The hold of a server that hears heartbeats.
const SERVER_HOLD: &str = "server";

#[derive(Clone, Debug)]
pub struct Options {
    /// Without `/v1`.
    pub base_url: Url,
    pub token: Plain,
    pub region: Option<String>,
    /// Of one request.
    pub patience: Duration,
    /// Until a sprite is made or woken.
    pub start_patience: Duration,
    /// Between two looks at a sprite that may have been made.
    pub poll: Duration,
    /// Where a sprite's own interface is, in the sprite.
    pub task_socket: String,
    /// How long a sprite goes on after its last hold was refreshed. An hour at most.
    pub hold: Duration,
    pub hold_refresh: Duration,
    /// Of a working tree as an archive, before that is compressed.
    pub largest_tree: usize,
}

impl Options {
    #[must_use]
    pub fn new(base_url: Url, token: Plain) -> Self {
        Self {
            base_url,
            token,
            region: None,
            patience: Duration::from_secs(30),
            start_patience: Duration::from_secs(120),
            poll: Duration::from_secs(1),
            task_socket: "/.sprite/api.sock".to_owned(),
            hold: Duration::from_secs(300),
            hold_refresh: Duration::from_secs(60),
            largest_tree: LARGEST_TREE,
        }
    }
}

#[derive(Debug)]
struct Inner {
    options: Options,
    http: Http,
    homes: Mutex<HashMap<String, Layout>>,
}

#[derive(Clone, Debug)]
pub struct Sprite {
    inner: Arc<Inner>,
}

impl Sprite {
    pub fn new(options: Options) -> Result<Self, MachineError> {
        if options.base_url.cannot_be_a_base() {
            return Err(MachineError::Refused("the address of the sprites is none".to_owned()));
        }
        let http = Http::new(&options.token, options.patience)?;
        Ok(Self { inner: Arc::new(Inner { options, http, homes: Mutex::default() }) })
    }

    async fn remove(&self, machine: &str) -> Result<(), MachineError> {
        self.inner.homes.lock().remove(machine);
        match self.inner.delete(machine).await {
            Ok(()) | Err(Failure { error: MachineError::Gone(_), .. }) => Ok(()),
            Err(failure) => match self.probe(machine).await {
                Verdict::Dead { .. } => Ok(()),
                Verdict::Live | Verdict::Resumable | Verdict::Unknown { .. } => Err(failure.error),
            },
        }
    }

    async fn prepared(&self, sprite: &str, wanted: &Wanted) -> Result<String, MachineError> {
        self.inner.confine(sprite, &wanted.recipe.egress).await?;
        remote::set_up(&self.inner, sprite, wanted, self.inner.options.largest_tree).await
    }
}

impl Inner {
    fn held(&self) -> Hold {
        let Options { task_socket, hold, hold_refresh, .. } = &self.options;
        Hold { socket: task_socket.clone(), expiry: *hold, refresh: *hold_refresh }
    }

    /// Goes on when this returns: its process has begun.
    async fn begin(&self, machine: &str, name: &str, words: &[String]) -> Result<(), MachineError> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut running = self.exec(machine, &words, None, AfterDisconnect::GoesOn).await?;
        let mut printed = Vec::new();
        let started = async {
            loop {
                match running.next().await? {
                    Frame::Output(OutputStream::Stdout, bytes) => printed.extend_from_slice(&bytes),
                    Frame::Output(OutputStream::Stderr, _) | Frame::Other => {}
                    Frame::Exit(NAME_TAKEN) => return Err(remote::taken(name)),
                    Frame::Exit(NOT_HELD) => {
                        return Err(MachineError::Unavailable("the sprite cannot be kept from pausing".to_owned()));
                    }
                    Frame::Exit(code) => return Err(MachineError::Refused(format!("it cannot be begun: {code}"))),
                }
                if printed.starts_with(b"started\n") {
                    return Ok(());
                }
            }
        };
        let late = |_| MachineError::Unknown("no answer in time".to_owned());
        tokio::time::timeout(self.options.patience, started).await.map_err(late)??;
        running.leave().await;
        Ok(())
    }

    fn file(&self, machine: &str, verb: &str, path: &str) -> Url {
        let mut url = self.url(&["sprites", machine, "fs", verb]);
        url.query_pairs_mut().append_pair("path", path).append_pair("workingDir", "/");
        url
    }
}

#[async_trait]
impl Reach for Arc<Inner> {
    async fn layout(&self, machine: &str) -> Result<Layout, MachineError> {
        if let Some(layout) = self.homes.lock().get(machine) {
            return Ok(layout.clone());
        }
        let words = ["sh", "-c", "printf %s \"$HOME\""];
        let (code, home) = self.exec_short(machine, &words, None, self.options.start_patience).await?;
        let home = String::from_utf8(home).ok().filter(|home| code == 0 && home.starts_with('/'));
        let home = home.ok_or_else(|| MachineError::Unavailable("the sprite has no home directory".to_owned()))?;
        let layout = Layout::new(&home);
        self.homes.lock().insert(machine.to_owned(), layout.clone());
        Ok(layout)
    }

    async fn run(&self, machine: &str, script: &str, patience: Duration) -> Result<Ran, MachineError> {
        let (code, printed) = self.exec_short(machine, &["sh"], Some(script.as_bytes()), patience).await?;
        Ok(Ran { code, printed: String::from_utf8_lossy(&printed).into_owned() })
    }

    async fn put(&self, machine: &str, path: &str, mode: &str, contents: Bytes) -> Result<(), MachineError> {
        if contents.len() <= LARGEST_WRITE {
            let mut url = self.file(machine, "write", path);
            url.query_pairs_mut().append_pair("mkdirParents", "true").append_pair("mode", &format!("0{mode}"));
            let request = self.http.request(Method::PUT, url).header(CONTENT_TYPE, "application/octet-stream").body(contents);
            self.http.send(request.timeout(PATIENCE_WITH_FILES), Effect::Changes).await?;
            return Ok(());
        }
        let receive = "umask 077; mkdir -p -- \"$(dirname -- \"$1\")\" && cat >\"$1\" && chmod -- \"$2\" \"$1\"";
        let words = ["sh", "-c", receive, "arbe", path, mode];
        match self.exec_short(machine, &words, Some(&contents), PATIENCE_WITH_FILES).await? {
            (0, _) => Ok(()),
            (code, _) => Err(MachineError::Refused(format!("the file cannot be written: {code}"))),
        }
    }

    async fn get(&self, machine: &str, path: &str, largest: usize) -> Result<Bytes, MachineError> {
        let request = self.http.request(Method::GET, self.file(machine, "read", path)).timeout(PATIENCE_WITH_FILES);
        let response = self.http.send(request, Effect::Asks).await?;
        Ok(self.http.body(response, largest, Effect::Asks).await?)
    }

    async fn follow(&self, machine: &str, _id: &str, file: &str, output: OutputSink<'_>) -> Result<i32, MachineError> {
        self.exec(machine, &["sh", file], None, AfterDisconnect::Ends).await?.wait(output).await
    }

    async fn tidy(&self, _machine: &str, _id: &str) -> Result<(), MachineError> {
        Ok(())
    }
}

fn listed(sprite: Shape) -> Listed {
    let labels = sprite.labels.unwrap_or_default();
    let value = |name: &str| labels.iter().find_map(|label| label.strip_prefix(name)?.strip_prefix('='));
    Listed {
        house: value(LABEL_HOUSE).and_then(|id| id.parse().ok()),
        sandbox: value(LABEL_SANDBOX).and_then(|id| id.parse().ok()),
        thread: value(LABEL_THREAD).and_then(|id| id.parse().ok()),
        environment: value(LABEL_ENVIRONMENT).and_then(|id| id.parse().ok()),
        state: sprite.status.unwrap_or_default(),
        provider_ref: sprite.name,
    }
}

#[async_trait]
impl Machines for Sprite {
    fn provider(&self) -> &'static str {
        "sprite"
    }

    async fn create(&self, wanted: &Wanted) -> Result<Created, MachineError> {
        let sprite = match self.inner.find(&api::name(wanted)?).await? {
            Some(sprite) => sprite.name,
            None => self.inner.make(wanted).await?.name,
        };
        match self.prepared(&sprite, wanted).await {
            Ok(printed) => Ok(Created { provider_ref: sprite, printed }),
            Err(MachineError::Setup(why)) => match self.remove(&sprite).await {
                Ok(()) => Err(MachineError::Setup(why)),
                Err(error) => Err(MachineError::Unknown(format!("{why}; and it is still there: {error}"))),
            },
            Err(error) => Err(error),
        }
    }

    async fn probe(&self, machine: &Machine) -> Verdict {
        match self.inner.sought(machine).await {
            Ok(sprite) => verdict(&sprite),
            Err(Failure { error: MachineError::Gone(why), .. }) => Verdict::Dead { why },
            Err(failure) => Verdict::Unknown { why: failure.error.to_string() },
        }
    }

    /// A command wakes it.
    async fn wake(&self, machine: &Machine) -> Result<(), MachineError> {
        match self.inner.exec_short(machine, &["true"], None, self.inner.options.start_patience).await? {
            (0, _) => Ok(()),
            (code, _) => Err(MachineError::Unknown(format!("it does not answer: {code}"))),
        }
    }

    async fn tree(&self, machine: &Machine) -> Result<String, MachineError> {
        remote::tree(&self.inner, machine).await
    }

    async fn keep_alive(&self, machine: &Machine) -> Result<(), MachineError> {
        let take = self.inner.held().take(SERVER_HOLD);
        match self.inner.run(machine, &take, self.inner.options.patience).await?.code {
            0 => Ok(()),
            code => Err(MachineError::Unavailable(format!("the sprite cannot be kept from pausing: {code}"))),
        }
    }

    async fn execute(&self, machine: &Machine, execute: &Execute, output: OutputSink<'_>) -> Result<Exit, MachineError> {
        remote::execute(&self.inner, machine, execute, output).await
    }

    /// A directory in the sprite is the claim to the name: whatever answer is lost, the process runs once.
    async fn launch(&self, machine: &Machine, launch: &Launch) -> Result<(), MachineError> {
        remote::require_free(&self.inner, machine, &launch.name).await?;
        let (words, file) = remote::prepare_launch(&self.inner, machine, launch, Some(&self.inner.held())).await?;
        match self.inner.begin(machine, &launch.name, &words).await {
            Ok(()) => Ok(()),
            Err(error) => remote::begun_after_all(&self.inner, machine, &launch.name, &file, error).await,
        }
    }

    async fn process(&self, machine: &Machine, name: &str) -> Result<ProcessState, MachineError> {
        remote::process(&self.inner, machine, name).await
    }

    async fn stop(&self, machine: &Machine, name: &str, patience: Duration) -> Result<(), MachineError> {
        remote::stop(&self.inner, machine, name, patience).await
    }

    async fn write(&self, machine: &Machine, path: &str, contents: Bytes) -> Result<(), MachineError> {
        remote::write(&self.inner, machine, path, contents).await
    }

    async fn read(&self, machine: &Machine, path: &str) -> Result<Bytes, MachineError> {
        remote::read(&self.inner, machine, path, self.inner.options.largest_tree).await
    }

    async fn snapshot(&self, machine: &Machine) -> Result<Bytes, MachineError> {
        remote::snapshot(&self.inner, machine, self.inner.options.largest_tree).await
    }

    async fn destroy(&self, machine: &Machine) -> Result<(), MachineError> {
        self.remove(machine).await
    }

    async fn list(&self) -> Result<Vec<Listed>, MachineError> {
        let mut sprites = self.inner.list().await?;
        let ours = |sprite: &Shape| sprite.labels.iter().flatten().any(|label| label.starts_with(LABEL_SANDBOX));
        sprites.retain(ours);
        Ok(sprites.into_iter().map(listed).collect())
    }
}
