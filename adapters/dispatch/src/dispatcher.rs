//! The loop: what is due is begun, each thing by one task at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use commands::command::AppendEntry;
use commands::ports::{Machines, Vault};
use commands::{Actor, Command, CommandError, Commands, Done, Rejection};
use event_log::Log;
use events::{AgentId, Entry, Event, EventId, RunId, SandboxId, ThreadId, Ulid};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::desk::Desk;
use crate::due::{self, Job};
use crate::follow::follow;
use crate::keep::Unkept;
use crate::load::Tally;
use crate::options::Options;
use crate::ports::{Rebuild, Tokens, Trees};
use crate::sayable::{said, without_words};
use crate::sweep::Swept;

const TICK: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const TREES_AT_ONCE: usize = 2;

/// What the drivers reach.
#[derive(Clone)]
pub struct Outside {
    pub log: Log,
    pub commands: Commands,
    /// By the name of their provider.
    pub machines: BTreeMap<String, Arc<dyn Machines>>,
    pub vault: Arc<dyn Vault>,
    pub tokens: Arc<dyn Tokens>,
    pub rebuild: Arc<dyn Rebuild>,
    pub trees: Arc<dyn Trees>,
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside").field("machines", &self.machines.keys()).finish_non_exhaustive()
    }
}

/// Clones share one desk.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) outside: Outside,
    pub(crate) options: Options,
    pub(crate) desk: Mutex<Desk>,
    pub(crate) changed: Notify,
    /// Somebody waits for the desk at a slot that holds nothing, which is passed without a word.
    pub(crate) poke: Notify,
    /// The desk was up with the log once, so that what is open is truly open.
    ready: AtomicBool,
    /// One at a time works on a sandbox's being.
    pub(crate) making: Mutex<BTreeMap<SandboxId, Arc<tokio::sync::Mutex<()>>>>,
    /// Commands that this process waits for, and their threads.
    pub(crate) executing: Mutex<BTreeMap<String, ThreadId>>,
    pub(crate) executed: AtomicU64,
    /// When each sandbox's tree was last taken.
    pub(crate) kept: Mutex<BTreeMap<SandboxId, u64>>,
    /// Trees that could not be taken.
    pub(crate) unkept: Mutex<BTreeMap<SandboxId, Unkept>>,
    /// A tree is whole in memory while it is taken.
    pub(crate) taking: Semaphore,
    /// When this process first tried to bring a thread's run onto its machine.
    pub(crate) tried: Mutex<BTreeMap<ThreadId, (RunId, u64)>>,
    /// For whoever watches.
    pub(crate) tally: Tally,
    /// One at a time takes a machine's tree, or the machine.
    pub(crate) keeping: Mutex<BTreeMap<SandboxId, Arc<tokio::sync::Mutex<()>>>>,
    /// Those who wait for the next look at a thread's run, and can be called earlier.
    pub(crate) called: Mutex<BTreeMap<ThreadId, Arc<Notify>>>,
    pub(crate) swept: Mutex<Swept>,
    /// When this process was first there to look.
    pub(crate) began: u64,
}

/// A job is left for later. What is final is said on the thread instead.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Later {
    #[error("{0}")]
    Outside(String),
    #[error(transparent)]
    Command(#[from] CommandError),
}

impl Later {
    pub(crate) fn of(why: impl fmt::Display) -> Self {
        Self::Outside(why.to_string())
    }
}

impl Dispatcher {
    #[must_use]
    pub fn new(outside: Outside, options: Options) -> Self {
        let began = outside.log.now_ms();
        let inner = Inner {
            outside,
            options,
            desk: Mutex::default(),
            changed: Notify::new(),
            poke: Notify::new(),
            ready: AtomicBool::new(false),
            making: Mutex::default(),
            executing: Mutex::default(),
            executed: AtomicU64::new(0),
            kept: Mutex::default(),
            unkept: Mutex::default(),
            taking: Semaphore::new(TREES_AT_ONCE),
            tried: Mutex::default(),
            tally: Tally::default(),
            keeping: Mutex::default(),
            called: Mutex::default(),
            swept: Mutex::new(Swept { at: began, unmade: 0, counted: 0 }),
            began,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Drives until `stop` becomes true. What is under way is left where it stands: another start goes on with it.
    pub async fn run(&self, mut stop: watch::Receiver<bool>) {
        let inner = &self.inner;
        let mut agenda = Agenda::default();
        let following = follow(inner);
        tokio::pin!(following);
        loop {
            tokio::select! {
                () = &mut following => return,
                _ = stop.wait_for(|stop| *stop) => break,
                Some(ended) = agenda.tasks.join_next_with_id() => agenda.ended(ended),
                () = inner.changed.notified() => {}
                () = tokio::time::sleep(TICK) => {}
            }
            let position = inner.desk.lock().position;
            if inner.ready.load(Ordering::Acquire) && inner.outside.commands.wait(position).await.is_ok() {
                inner.hear();
                agenda.begin(inner);
            }
        }
        agenda.tasks.shutdown().await;
    }
}

/// What is under way, and what has to wait after it failed.
#[derive(Default)]
struct Agenda {
    tasks: JoinSet<(String, Result<(), Later>)>,
    under_way: BTreeSet<String>,
    /// Of tasks that cannot tell any more, because they panicked.
    keys: HashMap<tokio::task::Id, String>,
    pauses: BTreeMap<String, (Instant, Duration)>,
    /// Jobs that ended well and may be due all the same: what they said was not taken, or is not folded yet.
    again: BTreeMap<String, (Instant, Duration)>,
}

impl Agenda {
    fn begin(&mut self, inner: &Arc<Inner>) {
        let now = Instant::now();
        self.again.retain(|_, (until, _)| *until + LONGEST_PAUSE * 2 > now);
        for job in due::due(inner) {
            let key = job.key();
            let paused = self.pauses.get(&key).is_some_and(|(until, _)| *until > now);
            if paused || self.under_way.contains(&key) || !self.is_due_again(&job, now) {
                continue;
            }
            self.under_way.insert(key.clone());
            let (inner, of_task) = (inner.clone(), key.clone());
            let task = self.tasks.spawn(async move { (key, inner.perform(job).await) });
            self.keys.insert(task.id(), of_task);
        }
    }

    /// The same job at once, and then ever more seldom. A look at a run takes its time by itself.
    fn is_due_again(&mut self, job: &Job, now: Instant) -> bool {
        if matches!(job, Job::Watch { .. }) {
            return true;
        }
        let (until, pause) = self.again.entry(format!("{job:?}")).or_insert((now, FIRST_PAUSE));
        if *until > now {
            return false;
        }
        (*until, *pause) = (now + *pause, (*pause * 2).min(LONGEST_PAUSE));
        true
    }

    fn ended(&mut self, ended: Result<(tokio::task::Id, (String, Result<(), Later>)), tokio::task::JoinError>) {
        let (id, outcome) = match ended {
            Ok((id, (_, outcome))) => (id, outcome),
            Err(error) => {
                tracing::error!(%error, "a driver has panicked");
                (error.id(), Err(Later::of("the driver panicked")))
            }
        };
        let Some(key) = self.keys.remove(&id) else { return };
        self.under_way.remove(&key);
        match outcome {
            Ok(()) => drop(self.pauses.remove(&key)),
            Err(later) => {
                tracing::warn!(job = %key, error = %later, "a driver tries again later");
                let pause = self.pauses.get(&key).map_or(FIRST_PAUSE, |(_, pause)| (*pause * 2).min(LONGEST_PAUSE));
                self.pauses.insert(key, (Instant::now() + pause, pause));
            }
        }
    }
}

impl Inner {
    pub(crate) fn now(&self) -> u64 {
        self.outside.log.now_ms()
    }

    pub(crate) fn horizon(&self) -> u64 {
        self.now().saturating_sub(self.options.manners.answer_within.as_millis() as u64)
    }

    pub(crate) fn reached_end(&self) {
        if !self.ready.swap(true, Ordering::AcqRel) {
            self.changed.notify_one();
        }
    }

    async fn perform(self: Arc<Self>, job: Job) -> Result<(), Later> {
        let _driving = self.tally.begin(&job);
        match job {
            Job::Drive { thread, run } => self.drive(&thread, &run).await,
            Job::Watch { thread, run } => self.watch(&thread, &run).await,
            Job::Next { thread, said } => self.next_run(&thread, &said).await,
            Job::Reply { thread, turn } => self.reply(&thread, &turn).await,
            Job::Notice { thread, finished } => self.notice(&thread, &finished).await,
            Job::Lost { thread, command } => self.lost_command(&thread, &command).await,
            Job::GiveUp { thread, run } => self.give_up(&thread, &run).await,
            Job::Unclaimed { thread, run } => self.warn_unclaimed(&thread, &run).await,
            Job::Stray { thread, run, sandbox } => self.stop_stray(&thread, &run, &sandbox).await,
            Job::Keep { sandbox } => self.keep_tree(&sandbox).await,
            Job::Reap { sandbox } => self.reap(&sandbox).await,
            Job::Sweep => self.sweep_up().await,
        }
    }

    /// As the system. A retry with the same key is the same.
    pub(crate) async fn execute(&self, command: impl Into<Command>, key: &str) -> Result<Done, CommandError> {
        self.outside.commands.execute(Actor::System, command, Some(key)).await
    }

    /// The same, and what is refused because it is so already, or cannot be any more, is as good as done. A command that is refused for
    /// its words is told without them.
    pub(crate) async fn settle(&self, command: impl Into<Command>, key: &str) -> Result<(), Later> {
        let command = command.into();
        let plain = without_words(&command);
        let Some(refused) = self.refused(command, key).await? else { return Ok(()) };
        let refused = if let Some(plain) = plain {
            tracing::error!(key, error = %refused, "what a driver said was refused");
            self.refused(plain, key).await?
        } else {
            tracing::warn!(key, error = %refused, "what a driver asked for was refused");
            Some(refused)
        };
        refused.map_or(Ok(()), |refused| Err(CommandError::from(refused).into()))
    }

    async fn refused(&self, command: Command, key: &str) -> Result<Option<Rejection>, Later> {
        match self.execute(command, key).await {
            Ok(_) => Ok(None),
            Err(CommandError::Rejected(refused)) if !is_settled(&refused) => Ok(Some(refused)),
            Err(error @ (CommandError::Rejected(_) | CommandError::IdempotencyKeyReused)) => {
                tracing::debug!(key, code = error.code(), "settled already");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Appends one event. Without an author it is the system's own word.
    pub(crate) async fn say(
        &self,
        thread: &ThreadId,
        author: Option<AgentId>,
        event: impl Into<Event>,
        key: Option<&str>,
    ) -> Result<Done, CommandError> {
        let entry = Entry::of(EventId(Ulid(0)), 0, None, &said(event.into()));
        let Entry { kind, v, payload, .. } = entry;
        let append = AppendEntry { thread_id: thread.clone(), author_agent_id: author, kind, v, payload };
        self.outside.commands.execute(Actor::System, append, key).await
    }

    /// The same for what need not be said if the thread does not take it.
    pub(crate) async fn tell(
        &self,
        thread: &ThreadId,
        author: Option<AgentId>,
        event: impl Into<Event> + Send,
        key: &str,
    ) -> Result<(), Later> {
        match self.say(thread, author, event, Some(key)).await {
            Ok(_) | Err(CommandError::Rejected(_) | CommandError::IdempotencyKeyReused) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether this server drives it now: the first to claim it under this number.
    pub(crate) async fn claim(
        &self,
        thread: &ThreadId,
        author: Option<AgentId>,
        run: &RunId,
        number: u32,
    ) -> Result<bool, Later> {
        let claimed = events::dispatch::Claimed { run_id: run.clone(), server: self.options.server.clone() };
        match self.say(thread, author, claimed, Some(&format!("{run}:claim:{number}"))).await {
            Ok(_) => Ok(true),
            Err(CommandError::IdempotencyKeyReused) => Ok(false),
            Err(CommandError::Rejected(Rejection::NotFound { .. } | Rejection::ThreadClosed)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_settled(refused: &Rejection) -> bool {
    matches!(
        refused,
        Rejection::NotFound { .. }
            | Rejection::SandboxStatus { .. }
            | Rejection::ThreadClosed
            | Rejection::WrongStatus { .. }
            | Rejection::WrongRun
    )
}
