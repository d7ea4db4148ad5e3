//! Keeps the fold up with the log, from its first slot on.

use std::sync::Arc;
use std::time::Duration;

use event_log::{Body, Commit, Cursor, FetchError, FollowError, Follower, Log, Op, ReadError};
use events::StreamName;
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};

use crate::error::Stopped;
use crate::fold::{Batch, Fold};
use crate::world::Unapplied;

const RETRY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) fold: RwLock<Fold>,
    progress: watch::Sender<Progress>,
    /// Somebody waits for a slot that holds no records, which the follower passes without a word.
    poke: Notify,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    position: u64,
    stopped: Option<Stopped>,
}

#[derive(Debug, thiserror::Error)]
enum Halt {
    #[error(transparent)]
    Unapplied(#[from] Unapplied),
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Halt {
    fn is_transient(&self) -> bool {
        match self {
            Self::Follow(FollowError::Fetch(FetchError::Unavailable(_)))
            | Self::Read(ReadError::Fetch(FetchError::Unavailable(_))) => true,
            Self::Unapplied(_) | Self::Follow(_) | Self::Read(_) => false,
        }
    }
}

impl Shared {
    pub(crate) fn new() -> Arc<Self> {
        let progress = watch::Sender::new(Progress::default());
        Arc::new(Self { fold: RwLock::default(), progress, poke: Notify::new() })
    }

    pub(crate) fn position(&self) -> u64 {
        self.progress.borrow().position
    }

    pub(crate) fn stopped(&self) -> Option<Stopped> {
        self.progress.borrow().stopped.clone()
    }

    /// Returns when everything below `position` is folded.
    pub(crate) async fn wait(&self, position: u64) -> Result<(), Stopped> {
        let reached = |progress: &Progress| progress.position >= position || progress.stopped.is_some();
        let mut progress = self.progress.subscribe();
        if !reached(&progress.borrow_and_update()) {
            self.poke.notify_one();
        }
        let stopped = progress.wait_for(reached).await.map(|now| now.stopped.clone());
        match stopped.unwrap_or_else(|_| Some(Stopped("the follower is gone".into()))) {
            Some(stopped) => Err(stopped),
            None => Ok(()),
        }
    }

    fn reached(&self, position: u64) {
        self.progress.send_if_modified(|progress| {
            let further = position > progress.position;
            progress.position = progress.position.max(position);
            further
        });
    }

    pub(crate) async fn follow(self: Arc<Self>, log: Log) {
        let mut cursor = Cursor::default();
        loop {
            let halt = match log.follow(cursor).await {
                Ok(follower) => self.run(&log, follower, &mut cursor).await,
                Err(error) => error.into(),
            };
            if !halt.is_transient() {
                tracing::error!(error = %halt, "the fold of the control plane has stopped");
                let stopped = Stopped(halt.to_string().into());
                self.progress.send_modify(|progress| progress.stopped = Some(stopped));
                return;
            }
            tracing::warn!(error = %halt, "the fold of the control plane waits for the store");
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn run(&self, log: &Log, mut follower: Follower, cursor: &mut Cursor) -> Halt {
        loop {
            if let Err(halt) = self.step(log, &mut follower, cursor).await {
                return halt;
            }
        }
    }

    async fn step(&self, log: &Log, follower: &mut Follower, cursor: &mut Cursor) -> Result<(), Halt> {
        let head = log.position();
        let commit = match follower.try_next().await? {
            Some(commit) => commit,
            None => {
                self.fold.write().position = head.max(cursor.next);
                self.reached(head);
                tokio::select! {
                    biased;
                    commit = follower.next() => commit?,
                    () = self.poke.notified() => return Ok(()),
                }
            }
        };
        let batches = read(log, &commit).await?;
        self.fold.write().apply(batches, commit.cursor.next)?;
        *cursor = commit.cursor;
        self.reached(commit.cursor.next);
        Ok(())
    }
}

async fn read(log: &Log, commit: &Commit) -> Result<Vec<Batch>, Halt> {
    let mut batches = Vec::new();
    for record in commit.records() {
        let Some(stream) = StreamName::parse(&record.stream) else { continue };
        // No decision on the control plane depends on what was imported.
        if matches!(stream, StreamName::Session(..)) {
            continue;
        }
        let batch = match &record.op {
            Op::Appended(appended) => match &appended.payload.body {
                Body::Inline(data) => Batch::parse(stream, record, data)?,
                Body::Blob { .. } => Batch::parse(stream, record, &log.payload(appended).await?)?,
            },
            Op::Created(_) | Op::Closed { .. } | Op::Deleted { .. } | Op::Renewed => Batch::parse(stream, record, &[])?,
        };
        batches.extend(batch);
    }
    Ok(batches)
}
