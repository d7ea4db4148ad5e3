//! Sandboxes of Daytona, through its published REST interface.
//!
//! A sandbox that is stopped keeps its files and is woken; one that Daytona does not know, or says is beyond repair, is dead; all else
//! is unknown and changes nothing. Daytona stops a sandbox that nobody asks for anything, so whoever hears a heartbeat calls
//! `keep_alive`; the interval is a backstop for servers that are gone.

mod api;
mod logs;
mod shapes;
mod state;
mod toolbox;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use commands::ports::{
    Created, Execute, Exit, Launch, Listed, Machine, MachineError, Machines, OutputSink, Plain, ProcessState, Verdict, Wanted,
};
use parking_lot::Mutex;
use reqwest::Url;

use self::shapes::{Command, Sandbox};
use self::state::verdict;
use crate::bounded::LARGEST_TREE;
use crate::remote;
use crate::remote::http::{Failure, Http};
use crate::remote::script::{Layout, NAME_TAKEN};

// Labels and names are found again by servers of later versions. Never renamed.
const LABEL_HOUSE: &str = "arbe.house";
const LABEL_THREAD: &str = "arbe.thread";
const LABEL_ENVIRONMENT: &str = "arbe.environment";
const LABEL_SANDBOX: &str = "arbe.sandbox";
const NAME_PREFIX: &str = "arbe-";

#[derive(Clone, Debug)]
pub struct Options {
    /// Up to and with `/api`.
    pub base_url: Url,
    pub token: Plain,
    /// Only for tokens of people.
    pub organization: Option<String>,
    /// The region.
    pub target: Option<String>,
    /// For environments that name no image.
    pub snapshot: Option<String>,
    /// Of one request.
    pub patience: Duration,
    /// Until a sandbox is made or woken.
    pub start_patience: Duration,
    /// Between two looks at a sandbox that is on its way.
    pub poll: Duration,
    /// How long a sandbox goes on that nobody asks for anything. What runs in it is no such question, so this is longer than a run that
    /// hangs is let go on: a run must not end with the server that it waits for.
    pub auto_stop: Duration,
    /// How long a stopped sandbox is kept.
    pub auto_delete: Duration,
    /// Of a working tree as an archive, before that is compressed.
    pub largest_tree: usize,
}

impl Options {
    #[must_use]
    pub fn new(base_url: Url, token: Plain) -> Self {
        Self {
            base_url,
            token,
            organization: None,
            target: None,
            snapshot: None,
            patience: Duration::from_secs(30),
            start_patience: Duration::from_secs(300),
            poll: Duration::from_secs(1),
            auto_stop: Duration::from_secs(3 * 24 * 3600 + 3600),
            auto_delete: Duration::from_secs(3 * 24 * 3600),
            largest_tree: LARGEST_TREE,
        }
    }
}

/// Where a sandbox's toolbox answers, and where things are in it.
#[derive(Clone, Debug)]
struct Place {
    toolbox: Url,
    layout: Layout,
}

#[derive(Debug)]
struct Inner {
    options: Options,
    http: Http,
    places: Mutex<HashMap<String, Place>>,
}

#[derive(Clone, Debug)]
pub struct Daytona {
    inner: Arc<Inner>,
}

impl Daytona {
    pub fn new(options: Options) -> Result<Self, MachineError> {
        if options.base_url.cannot_be_a_base() {
            return Err(MachineError::Refused("the address of Daytona is none".to_owned()));
        }
        let http = Http::new(&options.token, options.patience)?;
        Ok(Self { inner: Arc::new(Inner { options, http, places: Mutex::default() }) })
    }

    async fn remove(&self, machine: &str) -> Result<(), MachineError> {
        self.inner.places.lock().remove(machine);
        match self.inner.delete(machine).await {
            Ok(()) | Err(Failure { error: MachineError::Gone(_), .. }) => Ok(()),
            Err(failure) => match self.probe(machine).await {
                Verdict::Dead { .. } => Ok(()),
                Verdict::Live | Verdict::Resumable | Verdict::Unknown { .. } => Err(failure.error),
            },
        }
    }

    /// A sandbox that cannot be set up is taken away again.
    async fn undone(&self, machine: &str, why: String) -> MachineError {
        match self.remove(machine).await {
            Ok(()) => MachineError::Setup(why),
            Err(error) => MachineError::Unknown(format!("{why}; and it is still there: {error}")),
        }
    }
}

fn session(name: &str) -> String {
    format!("arbe-{name}")
}

fn listed(sandbox: Sandbox) -> Listed {
    let label = |name: &str| sandbox.labels.get(name).map(String::as_str);
    Listed {
        house: label(LABEL_HOUSE).and_then(|id| id.parse().ok()),
        sandbox: label(LABEL_SANDBOX).and_then(|id| id.parse().ok()),
        thread: label(LABEL_THREAD).and_then(|id| id.parse().ok()),
        environment: label(LABEL_ENVIRONMENT).and_then(|id| id.parse().ok()),
        state: sandbox.state.clone().unwrap_or_default(),
        provider_ref: sandbox.id,
    }
}

#[async_trait]
impl Machines for Daytona {
    fn provider(&self) -> &'static str {
        "daytona"
    }

    async fn create(&self, wanted: &Wanted) -> Result<Created, MachineError> {
        let inner = &self.inner;
        let sandbox = match inner.find(wanted).await? {
            Some(sandbox) => sandbox,
            None => inner.make(wanted).await?,
        };
        match inner.started(&sandbox.id).await {
            Ok(_) => {}
            Err(MachineError::Gone(why)) => return Err(self.undone(&sandbox.id, why).await),
            Err(error) => return Err(error),
        }
        match remote::set_up(inner, &sandbox.id, wanted, inner.options.largest_tree).await {
            Ok(printed) => Ok(Created { provider_ref: sandbox.id, printed }),
            Err(MachineError::Setup(why)) => Err(self.undone(&sandbox.id, why).await),
            Err(error) => Err(error),
        }
    }

    async fn probe(&self, machine: &Machine) -> Verdict {
        match self.inner.sought(machine).await {
            Ok(sandbox) => verdict(&sandbox),
            Err(Failure { error: MachineError::Gone(why), .. }) => Verdict::Dead { why },
            Err(failure) => Verdict::Unknown { why: failure.error.to_string() },
        }
    }

    async fn wake(&self, machine: &Machine) -> Result<(), MachineError> {
        self.inner.places.lock().remove(machine);
        self.inner.started(machine).await.map(drop)
    }

    async fn tree(&self, machine: &Machine) -> Result<String, MachineError> {
        remote::tree(&self.inner, machine).await
    }

    async fn keep_alive(&self, machine: &Machine) -> Result<(), MachineError> {
        Ok(self.inner.change(machine, "last-activity").await?)
    }

    async fn execute(&self, machine: &Machine, execute: &Execute, output: OutputSink<'_>) -> Result<Exit, MachineError> {
        remote::execute(&self.inner, machine, execute, output).await
    }

    /// The session is the process's name to Daytona, and a directory in the sandbox is its claim: whatever answer is lost, it runs once.
    async fn launch(&self, machine: &Machine, launch: &Launch) -> Result<(), MachineError> {
        let inner = &self.inner;
        // A command that was accepted may not have begun.
        let known = inner.session(machine, &session(&launch.name)).await?;
        if known.is_some_and(|session| !session.commands.is_empty()) {
            return Err(remote::taken(&launch.name));
        }
        remote::require_free(inner, machine, &launch.name).await?;
        let (words, file) = remote::prepare_launch(inner, machine, launch, None).await?;
        let session = session(&launch.name);
        let begun = async {
            inner.open_session(machine, &session).await?;
            inner.begin(machine, &session, &words).await
        };
        match begun.await {
            Ok(_) => Ok(()),
            Err(error) => remote::begun_after_all(inner, machine, &launch.name, &file, error).await,
        }
    }

    async fn process(&self, machine: &Machine, name: &str) -> Result<ProcessState, MachineError> {
        let session = self.inner.session(machine, &session(name)).await?;
        match session.as_ref().and_then(|session| session.commands.last()) {
            // Whoever was to tell the code may have been killed.
            Some(Command { exit_code: None }) => remote::process_of_accepted(&self.inner, machine, name).await,
            Some(Command { exit_code: Some(code) }) if *code != NAME_TAKEN => Ok(ProcessState::Exited(remote::exit(*code))),
            Some(Command { exit_code: Some(_) }) | None => remote::process(&self.inner, machine, name).await,
        }
    }

    async fn stop(&self, machine: &Machine, name: &str, patience: Duration) -> Result<(), MachineError> {
        match remote::stop(&self.inner, machine, name, patience).await {
            // One that was accepted and has not begun must not begin now.
            Err(gone @ MachineError::Gone(_)) => {
                self.inner.close_session(machine, &session(name)).await?;
                Err(gone)
            }
            stopped => stopped,
        }
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
        let mut sandboxes = self.inner.list(("name", NAME_PREFIX)).await?;
        sandboxes.retain(|sandbox| sandbox.labels.contains_key(LABEL_SANDBOX));
        Ok(sandboxes.into_iter().map(listed).collect())
    }
}
