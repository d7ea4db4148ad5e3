//! Reading ahead of the sink: commits are gathered, decoded and projected while the sink is busy with the ones before.

use std::sync::Arc;

use event_log::{Commit, Cursor, FollowError, Follower, Log};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::project::{Failure, Projector, Stop, for_each_event};
use crate::replay::Until;
use crate::sink::Checkpoint;

/// A batch ends at the first commit that goes beyond one of these.
const BATCH_EVENTS: u64 = 20_000;
const BATCH_CHANGES: usize = 20_000;
const BATCH_BYTES: usize = 8 << 20;

pub(crate) struct Batch<C> {
    pub commits: Vec<Commit>,
    pub changes: Vec<C>,
    pub events: u64,
    pub to: Checkpoint,
    /// The log held nothing more below this position: slots without records count as applied.
    pub seen: u64,
    /// The event after this batch that cannot be projected.
    pub stop: Option<Stop>,
}

impl<C> Batch<C> {
    fn new(at: Checkpoint) -> Self {
        Self { commits: Vec::new(), changes: Vec::new(), events: 0, to: at, seen: at.position(), stop: None }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadAheadError {
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error(transparent)]
    Read(event_log::ReadError),
}

/// How far to read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach {
    Forever,
    Until(Until),
}

/// Batches from a checkpoint on, in order. Ends at its reach, after an error and after a batch with a stop.
pub(crate) struct ReadAhead<C> {
    batches: mpsc::Receiver<Result<Batch<C>, ReadAheadError>>,
    task: JoinHandle<()>,
}

impl<C> Drop for ReadAhead<C> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<C: Send + 'static> ReadAhead<C> {
    pub fn start<P: Projector<Change = C>>(log: &Log, projector: &Arc<P>, from: Checkpoint, reach: Reach) -> Self {
        let (sender, batches) = mpsc::channel(1);
        let (log, projector) = (log.clone(), projector.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = read(&log, projector.as_ref(), from, reach, &sender).await {
                let _ = sender.send(Err(error)).await;
            }
        });
        Self { batches, task }
    }

    pub async fn next(&mut self) -> Option<Result<Batch<C>, ReadAheadError>> {
        self.batches.recv().await
    }
}

async fn read<P: Projector>(
    log: &Log,
    projector: &P,
    from: Checkpoint,
    reach: Reach,
    out: &mpsc::Sender<Result<Batch<P::Change>, ReadAheadError>>,
) -> Result<(), ReadAheadError> {
    let mut follower = log.follow(from.cursor).await?;
    let mut at = from;
    let mut seen = at.position();
    let mut ended = false;
    while !ended {
        let mut batch = Batch::new(at);
        batch.seen = batch.seen.max(seen);
        ended = fill(log, projector, &mut follower, reach, &mut batch).await?;
        let news = !batch.commits.is_empty() || batch.stop.is_some() || batch.seen > seen;
        (at, seen) = (batch.to, batch.seen);
        if news && out.send(Ok(batch)).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Takes what is ready, waiting only for the first commit. Returns whether nothing may follow.
async fn fill<P: Projector>(
    log: &Log,
    projector: &P,
    follower: &mut Follower,
    reach: Reach,
    batch: &mut Batch<P::Change>,
) -> Result<bool, ReadAheadError> {
    let mut bytes = 0;
    let mut handed_on: Option<Instant> = None;
    while batch.events < BATCH_EVENTS && batch.changes.len() < BATCH_CHANGES && bytes < BATCH_BYTES {
        // Not the log's: it moves on before the follower is told.
        let head = follower.head();
        let commit = match (follower.try_next().await?, reach) {
            (Some(commit), Reach::Until(until)) if !until.includes(&commit) => return Ok(true),
            (Some(commit), Reach::Forever | Reach::Until(_)) => commit,
            (None, Reach::Until(_)) => return Ok(true),
            (None, Reach::Forever) if !batch.commits.is_empty() => {
                let until = *handed_on.get_or_insert_with(|| Instant::now() + P::LINGER);
                match timeout_at(until, follower.next()).await {
                    Ok(commit) => commit?,
                    Err(_) => {
                        batch.seen = head;
                        return Ok(false);
                    }
                }
            }
            (None, Reach::Forever) if head > batch.seen => {
                batch.seen = head;
                return Ok(false);
            }
            (None, Reach::Forever) => follower.next().await?,
        };
        bytes += weight(&commit);
        let before = batch.changes.len();
        let projected = for_each_event::<P>(log, &commit, |recorded| {
            batch.changes.extend(projector.project(recorded).map_err(|error| error.to_string())?);
            Ok(())
        });
        match projected.await {
            Ok(events) => batch.events += events,
            Err(Failure::Read(error)) => return Err(ReadAheadError::Read(error)),
            Err(Failure::Stop(stop)) => {
                batch.changes.truncate(before);
                batch.stop = Some(stop);
                return Ok(true);
            }
        }
        batch.to = after(&commit);
        batch.seen = batch.to.position();
        batch.commits.push(commit);
    }
    Ok(false)
}

fn after(commit: &Commit) -> Checkpoint {
    let Cursor { next, digest } = commit.cursor;
    let records = commit.before() + commit.records().len() as u64;
    Checkpoint { cursor: Cursor { next, digest }, records, time: commit.time() }
}

fn weight(commit: &Commit) -> usize {
    let payload = |op: &event_log::Op| match op {
        event_log::Op::Appended(appended) => appended.payload.len(),
        event_log::Op::Created(_) | event_log::Op::Closed { .. } | event_log::Op::Deleted { .. } | event_log::Op::Renewed => 0,
    };
    commit.records().iter().map(|record| payload(&record.op) + 64).sum()
}

/// Finds the event that made change number `change`, and the commits before its own.
pub(crate) async fn blame<P: Projector>(
    log: &Log,
    projector: &P,
    batch: &[Commit],
    change: usize,
    why: &str,
) -> Option<(usize, Stop)> {
    let mut made = 0;
    for (index, commit) in batch.iter().enumerate() {
        let found = for_each_event::<P>(log, commit, |recorded| {
            made += projector.project(recorded).map_or(0, |changes| changes.len());
            if made > change { Err(why.to_owned()) } else { Ok(()) }
        });
        if let Err(Failure::Stop(stop)) = found.await {
            return Some((index, stop));
        }
    }
    None
}

/// The changes of some commits that were projected before.
pub(crate) async fn again<P: Projector>(log: &Log, projector: &P, commits: &[Commit]) -> Option<(Vec<P::Change>, Checkpoint)> {
    let mut changes = Vec::new();
    for commit in commits {
        let projected = for_each_event::<P>(log, commit, |recorded| {
            changes.extend(projector.project(recorded).map_err(|error| error.to_string())?);
            Ok(())
        });
        projected.await.ok()?;
    }
    commits.last().map(|last| (changes, after(last)))
}

#[cfg(test)]
mod tests {
    use event_log::{Change, Command, Create, Options, StoreUrl};

    use super::*;
    use crate::project::{Recorded, Unprojectable};

    struct Nothing;

    impl Projector for Nothing {
        const NAME: &'static str = "nothing";
        const VERSION: u32 = 1;
        type Change = ();

        fn project(&self, _: &Recorded) -> Result<Vec<()>, Unprojectable> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn a_batch_claims_no_position_that_its_follower_has_not_come_to() {
        let store = StoreUrl::Memory.open(&[], true).expect("a store");
        let here = Log::open(store.clone(), Options::default()).await.expect("a log");
        let ahead = Log::open(store, Options::default()).await.expect("the same log");
        let mut follower = here.follow(Cursor::default()).await.expect("a follower");
        let create = Create { content_type: Some("application/json".into()), ..Create::default() };
        let written = ahead.submit(Command::one("arbe-thread-t", Change::Create(create))).await.expect("a commit").position;
        let mut batch = Batch::new(Checkpoint::default());
        fill(&ahead, &Nothing, &mut follower, Reach::Forever, &mut batch).await.expect("a batch");
        assert!(batch.seen < written || batch.to.position() == written, "{} of {written}", batch.seen);
    }
}
