//! The shell around `decide`: load, decide, append; on a conflict, load and decide again.

use std::sync::Arc;
use std::time::Duration;

use event_log::{From, Log, Offset, Receipt, SubmitError};
use events::{Entry, StreamName};
use tokio::task::JoinHandle;

use crate::actor::Actor;
use crate::attempt::{Attempt, Commit};
use crate::command::{Command, Made};
use crate::decide::{decide_all, without_effect};
use crate::decision::Decision;
use crate::error::{CommandError, Stopped};
use crate::fold::{Known, Span};
use crate::follow::Shared;
use crate::locks::{Locks, Needs};
use crate::rejection::Rejection;
use crate::source::Source;
use crate::world::World;

const TRIES: u32 = 16;

/// The command is durable.
#[derive(Clone, Debug)]
pub struct Done {
    /// Whoever waits for this position sees what the command did.
    pub position: u64,
    pub made: Made,
    /// In commit order; none if everything was already as asked.
    pub entries: Vec<Recorded>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub stream: StreamName,
    pub seq: u64,
    pub entry: Entry,
}

/// Clones share one fold, which stops with the last of them.
#[derive(Clone, Debug)]
pub struct Commands {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    log: Log,
    source: Arc<dyn Source>,
    shared: Arc<Shared>,
    locks: Locks,
    follower: JoinHandle<()>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

impl Commands {
    /// Starts to fold the log from its beginning.
    #[must_use]
    pub fn start(log: Log, source: Arc<dyn Source>) -> Self {
        let shared = Shared::new();
        let follower = tokio::spawn(shared.clone().follow(log.clone()));
        Self { inner: Arc::new(Inner { log, source, shared, locks: Locks::default(), follower }) }
    }

    /// Everything below this is folded.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.inner.shared.position()
    }

    /// Returns when everything below `position` is folded.
    pub async fn wait(&self, position: u64) -> Result<(), Stopped> {
        self.inner.shared.wait(position).await
    }

    /// Returns when everything this server has seen of the log is folded.
    pub async fn caught_up(&self) -> Result<(), Stopped> {
        self.wait(self.inner.log.position()).await
    }

    #[must_use]
    pub fn is_caught_up(&self) -> bool {
        self.position() >= self.inner.log.position()
    }

    /// Why the fold goes no further, if it does not.
    #[must_use]
    pub fn stopped(&self) -> Option<Stopped> {
        self.inner.shared.stopped()
    }

    /// Looks at the world as it is folded now. The look must be short: the fold waits for it.
    pub fn with_world<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&self.inner.shared.fold.read().world)
    }

    /// Commits a command. With an idempotency key a retry by the same actor is answered with what the first attempt did.
    pub async fn execute(
        &self,
        actor: Actor,
        command: impl Into<Command>,
        idempotency_key: Option<&str>,
    ) -> Result<Done, CommandError> {
        self.execute_all(actor, vec![command.into()], idempotency_key).await
    }

    /// The same for several, which happen together or not at all. See [`decide_all`] for what may go together.
    #[tracing::instrument(level = "debug", skip_all, fields(%actor))]
    pub async fn execute_all(
        &self,
        actor: Actor,
        commands: Vec<Command>,
        idempotency_key: Option<&str>,
    ) -> Result<Done, CommandError> {
        let attempt = Attempt::new(&*self.inner.source, actor, commands, idempotency_key)?;
        let mut confirmed = false;
        for tried in 0..TRIES {
            // What is said depends on the house alone, which is expected: an older view is found out by the log or by the refusal.
            let content = tried == 0 && attempt.is_content();
            self.wait(if content { 0 } else { self.inner.log.position() }).await?;
            if let Some(done) = self.known(&attempt).await? {
                return Ok(done);
            }
            let (position, decided) = self.decide(&attempt);
            match decided {
                Ok(decision) if decision.appends.is_empty() => {
                    return Ok(Done { position, made: attempt.made, entries: Vec::new() });
                }
                Ok(decision) => {
                    if let Some(done) = self.commit(&attempt, decision, position).await? {
                        return Ok(done);
                    }
                    self.back_off(tried).await;
                }
                // What is refused here may have become possible elsewhere.
                Err(rejection) => {
                    let moved = !confirmed && self.refreshed().await? > position;
                    if !moved {
                        return Err(rejection.into());
                    }
                    confirmed = true;
                }
            }
        }
        Err(CommandError::Conflict)
    }

    fn decide(&self, attempt: &Attempt) -> (u64, Result<Decision, Rejection>) {
        let fold = self.inner.shared.fold.read();
        (fold.position, decide_all(&fold.world, &attempt.actor, &attempt.commands))
    }

    /// `None`: what was read has changed.
    async fn commit(&self, attempt: &Attempt, decision: Decision, at: u64) -> Result<Option<Done>, CommandError> {
        let held = self.inner.locks.hold(Needs::of(&decision)).await;
        let (commit, changes_state) = {
            let fold = self.inner.shared.fold.read();
            let decision = if fold.position == at {
                decision
            } else {
                match decide_all(&fold.world, &attempt.actor, &attempt.commands) {
                    Ok(decision) if !decision.appends.is_empty() && held.covers(&Needs::of(&decision)) => decision,
                    Ok(_) | Err(_) => return Ok(None),
                }
            };
            let changes_state = decision.changes_state();
            (attempt.commit(&*self.inner.source, &fold.world, decision), changes_state)
        };
        let Commit { command, entries } = commit;
        let receipt = match self.inner.log.submit(command).await {
            Ok(receipt) => receipt,
            Err(error) => return self.failed(error).await.map(|()| None),
        };
        if attempt.key.is_some() || changes_state {
            // Before the next in turn decides. It is written, whatever keeps it from being folded.
            self.wait(receipt.position).await.map_err(|stopped| CommandError::Unknown(stopped.to_string()))?;
        }
        if attempt.key.is_some() {
            // Neither what cannot be read back nor being sent away meanwhile makes it unwritten.
            let known = match self.known(attempt).await {
                Err(CommandError::Unknown(_) | CommandError::Rejected(Rejection::NotFound { .. })) => None,
                known => known?,
            };
            return Ok(Some(known.unwrap_or_else(|| done(attempt, &receipt, entries))));
        }
        let first = entries.first().and_then(|(_, entries)| entries.first()).map(|entry| entry.id);
        if changes_state && first.is_some_and(|id| self.inner.shared.fold.read().had_no_effect(&id)) {
            attempt.commands.iter().find_map(without_effect).map_or(Ok(()), Err)?;
        }
        Ok(Some(done(attempt, &receipt, entries)))
    }

    /// The command is in the log already, from an earlier attempt or from another server.
    async fn known(&self, attempt: &Attempt) -> Result<Option<Done>, CommandError> {
        let Some(key) = attempt.key else { return Ok(None) };
        let known = self.inner.shared.fold.read().known(key.id).cloned();
        let Some(Known { position, first_event, spans }) = known else { return Ok(None) };
        if first_event != key.event_id(0) {
            return Err(CommandError::IdempotencyKeyReused);
        }
        self.still_there(attempt, &spans)?;
        if self.inner.shared.fold.read().had_no_effect(&first_event) {
            attempt.commands.iter().find_map(without_effect).map_or(Ok(()), Err)?;
        }
        let mut entries = Vec::new();
        for span in &spans {
            let read = self.read(span).await;
            entries.extend(read.map_err(CommandError::Unknown)?);
        }
        Ok(Some(Done { position, made: attempt.made.clone(), entries }))
    }

    /// A receipt holds contents, so who has left the house since is refused like any outsider. Only the leaving itself is confirmed.
    fn still_there(&self, attempt: &Attempt, spans: &[Span]) -> Result<(), Rejection> {
        let Some(agent) = attempt.actor.agent() else { return Ok(()) };
        let leaves = |command: &Command| matches!(command, Command::RemoveMember(it) if it.agent_id == agent);
        let fold = self.inner.shared.fold.read();
        if attempt.commands.iter().any(leaves) || spans.iter().all(|span| fold.world.may_read(&span.stream, agent)) {
            return Ok(());
        }
        match decide_all(&fold.world, &attempt.actor, &attempt.commands) {
            Err(rejection @ Rejection::NotFound { .. }) => Err(rejection),
            Ok(_) | Err(_) => Err(Rejection::NotFound { what: "house" }),
        }
    }

    async fn read(&self, span: &Span) -> Result<Vec<Recorded>, String> {
        let from = From::At(Offset { generation: 0, position: span.first });
        let page = self.inner.log.read(&span.stream.to_string(), from, span.bytes).await;
        let page = page.map_err(|error| error.to_string())?;
        let text = [b"[".as_slice(), &page.chunks.join(&b','), b"]"].concat();
        let entries: Vec<Entry> = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let placed = (span.first..span.first + span.count).zip(entries);
        Ok(placed.map(|(seq, entry)| Recorded { stream: span.stream.clone(), seq, entry }).collect())
    }

    /// `Ok`: nothing was written and it is worth deciding again.
    async fn failed(&self, error: SubmitError) -> Result<(), CommandError> {
        use event_log::Rejection as Refused;
        match error {
            SubmitError::Rejected(Refused::Conflict { .. }) => self.refreshed().await.map(|_| ()),
            SubmitError::Rejected(Refused::TooLarge(_)) => {
                Err(Rejection::TooLarge { field: "command", max: crate::bounds::PAYLOAD_MAX }.into())
            }
            SubmitError::Rejected(refused) => Err(CommandError::Unavailable(refused.to_string())),
            SubmitError::NotWritten(why) => Err(CommandError::Unavailable(why)),
            SubmitError::Overloaded | SubmitError::NotOwner => Err(CommandError::Unavailable(error.to_string())),
            SubmitError::Unknown(why) => Err(CommandError::Unknown(why)),
        }
    }

    /// Folds everything that was durable before the call, whoever wrote it.
    pub(crate) async fn refreshed(&self) -> Result<u64, CommandError> {
        self.inner.log.looked().await.map_err(|error| CommandError::Unavailable(error.to_string()))?;
        self.caught_up().await?;
        Ok(self.position())
    }

    /// Servers that ran into each other do not do so again at once.
    async fn back_off(&self, tried: u32) {
        if tried > 0 {
            let most = 1_u128 << tried.min(6);
            tokio::time::sleep(Duration::from_millis((self.inner.source.random() % most) as u64)).await;
        }
    }
}

fn done(attempt: &Attempt, receipt: &Receipt, entries: Vec<(StreamName, Vec<Entry>)>) -> Done {
    let mut recorded = Vec::new();
    for (outcome, (stream, entries)) in receipt.outcomes.iter().zip(entries) {
        let first = outcome.tail.position - entries.len() as u64;
        let placed = (first..).zip(entries);
        recorded.extend(placed.map(|(seq, entry)| Recorded { stream: stream.clone(), seq, entry }));
    }
    Done { position: receipt.position, made: attempt.made.clone(), entries: recorded }
}
