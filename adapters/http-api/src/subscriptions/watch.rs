//! Notices what happens to streams and leases, and has the desk act on it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use event_log::{Commit, FollowError, Follower, Op, ReadError, Record};
use futures::future::join_all;
use tokio::sync::{mpsc, oneshot};

use super::Shared;
use super::decide::{self, Around, Chance, Command};
use super::desk::{Desk, Failure};
use super::event::{DecodeError, Event, Recorded};
use super::journal::{self, JournalError};
use super::state::{State, Subscription, is_reserved};

/// The owner of the log acts at once, others when it has left something undone for this long.
const GRACE_MS: u64 = 3_000;
const RETRY_MS: u64 = 1_000;
const RESTART: Duration = Duration::from_secs(1);
const LONGEST_SLEEP_MS: u64 = 60_000;
/// Commits taken in before acting on them.
const GULP: usize = 1_024;

/// Asks that whatever happened before now to a subscription's streams be acted on.
#[derive(Debug)]
pub(super) struct Nudge {
    pub(super) id: Arc<str>,
    pub(super) done: oneshot::Sender<()>,
}

#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) shared: Arc<Shared>,
    pub(super) desk: Desk,
    pub(super) nudges: mpsc::Receiver<Nudge>,
}

#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// Subscriptions to look at, and the streams that gave reason to.
#[derive(Debug, Default)]
struct Agenda(BTreeMap<Arc<str>, Chore>);

#[derive(Debug)]
struct Chore {
    since: u64,
    paths: BTreeSet<Arc<str>>,
}

impl Agenda {
    fn add(&mut self, id: &Arc<str>, now: u64, paths: impl IntoIterator<Item = Arc<str>>) {
        let chore = self.0.entry(id.clone()).or_insert_with(|| Chore { since: now, paths: BTreeSet::new() });
        chore.paths.extend(paths);
    }

    fn note(&mut self, state: &State, now: u64, record: &Record) {
        let path = &record.stream;
        let (concerns, first_seen) = match &record.op {
            Op::Created(_) => (true, true),
            Op::Appended(appended) => (true, appended.first == 0),
            Op::Deleted { .. } => (true, false),
            Op::Closed { .. } | Op::Renewed => (false, false),
        };
        if concerns && !is_reserved(path) {
            state.concerned(path).for_each(|id| self.add(id, now, [path.clone()]));
            if first_seen {
                state.covering(path).for_each(|id| self.add(id, now, [path.clone()]));
            }
        }
    }

    fn ready(&mut self, by: u64) -> Vec<(Arc<str>, Chore)> {
        self.0.extract_if(.., |_, chore| chore.since <= by).collect()
    }
}

impl Watcher {
    pub(super) async fn run(mut self) {
        loop {
            let Err(error) = self.watch().await;
            tracing::warn!(%error, "subscriptions lost sight of the log, looking again");
            tokio::time::sleep(RESTART).await;
        }
    }

    async fn watch(&mut self) -> Result<Infallible, WatchError> {
        let log = self.shared.log.clone();
        log.refresh().await;
        // First the place to follow from, then everything before it: so nothing falls between the two.
        let mut follower = log.follow(log.end()).await?;
        self.shared.journal.catch_up().await?;
        let mut agenda = Agenda::default();
        self.sweep(&mut agenda);
        loop {
            let wait = self.act(&mut agenda).await;
            tokio::select! {
                commit = follower.next() => {
                    self.take_in(&mut agenda, commit?).await?;
                    self.drain(&mut agenda, &mut follower, GULP).await?;
                }
                Some(nudge) = self.nudges.recv() => {
                    log.refresh().await;
                    self.drain(&mut agenda, &mut follower, usize::MAX).await?;
                    self.hurry(&mut agenda, nudge).await;
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn drain(&self, agenda: &mut Agenda, follower: &mut Follower, most: usize) -> Result<(), WatchError> {
        let mut taken = 0;
        while taken < most
            && let Some(commit) = follower.try_next().await?
        {
            self.take_in(agenda, commit).await?;
            taken += 1;
        }
        Ok(())
    }

    async fn take_in(&self, agenda: &mut Agenda, commit: Commit) -> Result<(), WatchError> {
        // Of the subscriptions that were there at this commit none may be missed; newer ones do not hurt.
        self.shared.journal.catch_up().await?;
        let now = self.shared.log.now_ms();
        for record in commit.records() {
            if &*record.stream == journal::STREAM {
                self.take_in_events(agenda, now, record).await?;
            } else {
                self.shared.journal.with(|state| agenda.note(state, now, record));
            }
        }
        Ok(())
    }

    async fn take_in_events(&self, agenda: &mut Agenda, now: u64, record: &Record) -> Result<(), WatchError> {
        let Op::Appended(appended) = &record.op else { return Ok(()) };
        let data = self.shared.log.payload(appended).await?;
        for recorded in Recorded::decode_run(&data)? {
            let created = matches!(recorded.event, Event::Created { .. });
            let paths = if created { self.uncovered(&recorded.subscription) } else { Vec::new() };
            agenda.add(&recorded.subscription, now, paths);
        }
        Ok(())
    }

    /// Streams that came to be while the subscription was being made.
    fn uncovered(&self, id: &str) -> Vec<Arc<str>> {
        let prefix = self.shared.journal.with(|state| {
            let pattern = state.get(id)?.config.pattern.as_ref()?;
            Some(pattern.prefix())
        });
        let Some(prefix) = prefix else { return Vec::new() };
        let names = self.shared.log.stream_names(&prefix);
        self.shared.journal.with(|state| state.get(id).map(|subscription| unlinked(subscription, &names)).unwrap_or_default())
    }

    /// After a start, everything might have happened.
    fn sweep(&self, agenda: &mut Agenda) {
        let now = self.shared.log.now_ms();
        let names = self.shared.log.stream_names("");
        self.shared.journal.with(|state| {
            for subscription in state.iter() {
                let linked = subscription.links.keys().cloned();
                agenda.add(&subscription.id, now, linked.chain(unlinked(subscription, &names)));
            }
        });
    }

    /// Does what is ready, and says how long nothing else will be.
    async fn act(&self, agenda: &mut Agenda) -> Duration {
        let grace = if self.shared.log.is_owner() { 0 } else { GRACE_MS };
        let by = self.shared.log.now_ms().saturating_sub(grace);
        self.shared.journal.with(|state| state.due_by(by).for_each(|id| agenda.add(id, by, [])));
        for chores in agenda.ready(by).chunks_mut(GULP) {
            let chores = chores.iter_mut().map(|(id, chore)| (id.clone(), std::mem::take(&mut chore.paths)));
            let outcomes = join_all(chores.map(|(id, paths)| self.tend(id, paths))).await;
            let again = self.shared.log.now_ms() + RETRY_MS;
            outcomes.into_iter().flatten().for_each(|(id, paths)| agenda.add(&id, again, paths));
        }
        let now = self.shared.log.now_ms();
        let chore = agenda.0.values().map(|chore| chore.since).min();
        let due = self.shared.journal.with(|state| state.next_due_except(|id| agenda.0.contains_key(id)));
        let next = [chore, due].into_iter().flatten().min().map_or(u64::MAX, |at| at.saturating_add(grace));
        Duration::from_millis(next.saturating_sub(now).min(LONGEST_SLEEP_MS))
    }

    /// What could not be done now comes back.
    async fn tend(&self, id: Arc<str>, paths: BTreeSet<Arc<str>>) -> Option<(Arc<str>, BTreeSet<Arc<str>>)> {
        let command = Command::Tend { paths: paths.clone() };
        self.warn_if_full(&id, &paths);
        if self.is_moot(&id, &command) {
            return None;
        }
        match self.desk.ask(id.clone(), command).await {
            Ok(_) | Err(Failure::Refused(_)) => None,
            Err(Failure::Unavailable(_)) => Some((id, paths)),
        }
    }

    fn warn_if_full(&self, id: &str, paths: &BTreeSet<Arc<str>>) {
        let full = self.shared.journal.with(|state| {
            let full = state.get(id).filter(|subscription| subscription.links.len() >= decide::LINKS_MAX);
            full.is_some_and(|subscription| paths.iter().any(|path| !subscription.links.contains_key(path)))
        });
        if full {
            tracing::warn!(subscription = id, "a subscription has all the streams it can have; new ones do not wake it");
        }
    }

    /// Most of what happens changes nothing; only what might goes to the desk.
    fn is_moot(&self, id: &Arc<str>, command: &Command) -> bool {
        let chance = Chance { wake_id: "".into(), jitter: 0 };
        let around = Around { streams: &self.shared.log, now: self.shared.log.now_ms(), chance: &chance };
        let decided = self.shared.journal.with(|state| decide::decide(state, id, command, around));
        decided.map_or(true, |decision| decision.events.is_empty())
    }

    async fn hurry(&self, agenda: &mut Agenda, nudge: Nudge) {
        if let Some(chore) = agenda.0.remove(&nudge.id)
            && let Some((id, paths)) = self.tend(nudge.id, chore.paths).await
        {
            agenda.add(&id, self.shared.log.now_ms() + RETRY_MS, paths);
        }
        let _ = nudge.done.send(());
    }
}

/// Of sorted `names`, those that the pattern covers and no link has.
fn unlinked(subscription: &Subscription, names: &[Arc<str>]) -> Vec<Arc<str>> {
    let Some(pattern) = &subscription.config.pattern else { return Vec::new() };
    let prefix = pattern.prefix();
    let from = names.partition_point(|name| **name < *prefix);
    let near = names[from..].iter().take_while(|name| name.starts_with(&prefix));
    near.filter(|name| !subscription.links.contains_key(*name) && subscription.covers(name)).cloned().collect()
}
