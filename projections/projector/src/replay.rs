//! Feeding a copy that nobody reads yet, as fast as it goes.

use std::sync::Arc;
use std::time::Duration;

use event_log::{Commit, FollowError, Log};
use tokio::time::Instant;

use crate::batch::{Batch, Reach, ReadAhead, ReadAheadError, again, blame};
use crate::project::{Projector, Stop};
use crate::sink::{Checkpoint, Sink, SinkError, Span};

/// Where a replay ends. It never waits for commits that do not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Head,
    /// Everything below this slot number, as a receipt names it.
    Position(u64),
    /// Everything committed at or before this moment, in unix milliseconds.
    Time(u64),
}

impl Until {
    pub(crate) fn includes(self, commit: &Commit) -> bool {
        match self {
            Self::Head => true,
            Self::Position(position) => commit.cursor.next <= position,
            Self::Time(time) => commit.time() <= time,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub position: u64,
    pub records: u64,
    /// How much of the way to the end that was asked for lies behind, 0 to 1.
    pub done: f64,
    /// Of this run, as is the rest of the time.
    pub events_per_second: f64,
    pub eta: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("{0}")]
    Stopped(Stop),
    #[error("the copy belongs to another history of the log")]
    OtherHistory,
    #[error("the same copy is being built elsewhere")]
    Busy,
    #[error("there is no live copy")]
    NothingLive,
    #[error("the log as seen here ends before the live copy does")]
    Behind,
    #[error("the log cannot be read: {0}")]
    Log(String),
    #[error(transparent)]
    Sink(#[from] SinkError),
}

impl From<ReadAheadError> for ReplayError {
    fn from(error: ReadAheadError) -> Self {
        match error {
            ReadAheadError::Follow(FollowError::OtherHistory(_)) => Self::OtherHistory,
            ReadAheadError::Follow(FollowError::Fetch(error)) => Self::Log(error.to_string()),
            ReadAheadError::Read(error) => Self::Log(error.to_string()),
        }
    }
}

/// Applies a batch. What comes before an event that cannot be applied is kept.
pub(crate) async fn apply<P: Projector>(
    log: &Log,
    projector: &P,
    sink: &mut impl Sink<P::Change>,
    from: Checkpoint,
    batch: Batch<P::Change>,
) -> Result<Checkpoint, ReplayError> {
    let Batch { commits, changes, to, stop, .. } = batch;
    if !commits.is_empty() {
        match sink.commit(&Span { from, to }, changes).await {
            Ok(()) => {}
            Err(SinkError::Refused { change, why }) => {
                let stop = keep_the_good_part(log, projector, sink, from, &commits, change, why).await?;
                return stopped(sink, stop).await;
            }
            Err(error @ (SinkError::Moved | SinkError::Damaged(_) | SinkError::Unavailable(_))) => return Err(error.into()),
        }
    }
    match stop {
        None => Ok(to),
        Some(stop) => stopped(sink, stop).await,
    }
}

async fn stopped<C>(sink: &mut impl Sink<C>, stop: Stop) -> Result<Checkpoint, ReplayError> {
    sink.stopped(&stop.to_string()).await?;
    Err(ReplayError::Stopped(stop))
}

async fn keep_the_good_part<P: Projector>(
    log: &Log,
    projector: &P,
    sink: &mut impl Sink<P::Change>,
    from: Checkpoint,
    commits: &[Commit],
    change: usize,
    why: String,
) -> Result<Stop, ReplayError> {
    let Some((good, stop)) = blame(log, projector, commits, change, &why).await else {
        return Err(SinkError::Refused { change, why }.into());
    };
    if let Some((changes, to)) = again(log, projector, &commits[..good]).await {
        sink.commit(&Span { from, to }, changes).await?;
    }
    Ok(stop)
}

/// From the sink's checkpoint until `until`.
pub(crate) async fn replay<P: Projector>(
    log: &Log,
    projector: &Arc<P>,
    sink: &mut impl Sink<P::Change>,
    until: Until,
    progress: &mut impl FnMut(Progress),
) -> Result<Checkpoint, ReplayError> {
    let mut at = sink.checkpoint().await?;
    let mut meter = Meter::new(log, at, until);
    let mut batches = ReadAhead::start(log, projector, at, Reach::Until(until));
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let events = batch.events;
        at = apply(log, projector.as_ref(), sink, at, batch).await?;
        progress(meter.progress(log, at, events));
    }
    Ok(at)
}

struct Meter {
    until: Until,
    started: Instant,
    events: u64,
    /// Log time of the first commit of this run.
    first: Option<u64>,
    done_before: f64,
}

impl Meter {
    fn new(log: &Log, from: Checkpoint, until: Until) -> Self {
        let first = (from.time > 0).then_some(from.time);
        let mut meter = Self { until, started: Instant::now(), events: 0, first, done_before: 0.0 };
        meter.done_before = meter.done(log, from);
        meter
    }

    /// A replay until a moment ends there or with the log, whichever comes first.
    fn done(&self, log: &Log, at: Checkpoint) -> f64 {
        let head = log.position();
        match self.until {
            Until::Head => share(at.position(), head),
            Until::Position(position) => share(at.position(), position.min(head)),
            Until::Time(time) => {
                let first = self.first.unwrap_or(at.time);
                share(at.position(), head).max(share(at.time.saturating_sub(first), time.saturating_sub(first)))
            }
        }
    }

    fn progress(&mut self, log: &Log, at: Checkpoint, events: u64) -> Progress {
        self.first.get_or_insert(at.time);
        self.events += events;
        let spent = self.started.elapsed().as_secs_f64().max(1e-6);
        let done = self.done(log, at);
        let eta = (done > self.done_before).then(|| Duration::from_secs_f64(spent * (1.0 - done) / (done - self.done_before)));
        Progress { position: at.position(), records: at.records, done, events_per_second: self.events as f64 / spent, eta }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if part >= whole { 1.0 } else { part as f64 / whole as f64 }
}
