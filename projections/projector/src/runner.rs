//! Keeping the live copy current.

use std::sync::Arc;
use std::time::Duration;

use event_log::Log;
use tokio::time::{Instant, sleep};

use crate::batch::{Reach, ReadAhead};
use crate::copies::{Copies, Live};
use crate::monitor::{Monitor, RunState};
use crate::project::{Projector, Stop};
use crate::rebuild::rebuild;
use crate::replay::{ReplayError, Until, apply};
use crate::sink::{Checkpoint, Sink, SinkError};

const LONGEST_REST: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How often a passive runner looks at the checkpoint.
    pub look_every: Duration,
    /// A runner that leaves commits lying for this long is taken for dead, whatever it has claimed.
    pub patience: Duration,
    /// Between attempts while something does not answer.
    pub retry_after: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            look_every: Duration::from_millis(100),
            patience: Duration::from_secs(10),
            retry_after: Duration::from_millis(500),
        }
    }
}

/// Feeds one projection. Run it in every process: one of them is active, the others stand by.
#[derive(Debug)]
pub struct Runner<P, K> {
    log: Log,
    projector: Arc<P>,
    copies: K,
    pace: Pace,
    monitor: Monitor,
}

impl<P: Projector, K: Copies<P::Change>> Runner<P, K> {
    pub fn new(log: Log, projector: Arc<P>, copies: K, pace: Pace) -> Self {
        Self { log, projector, copies, pace, monitor: Monitor::new(P::NAME, P::VERSION) }
    }

    #[must_use]
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// Runs until an event cannot be applied. May be dropped at any point.
    pub async fn run(&self) -> Stop {
        loop {
            match self.feed().await {
                ReplayError::Stopped(stop) => {
                    tracing::error!(projection = P::NAME, %stop, "the projection stopped; its last good state keeps serving");
                    self.monitor.state(RunState::Stopped { stop: stop.clone() });
                    return stop;
                }
                ReplayError::Sink(SinkError::Moved) => {}
                ReplayError::OtherHistory => self.replace("the copy belongs to another history of the log").await,
                error @ (ReplayError::Busy
                | ReplayError::NothingLive
                | ReplayError::Behind
                | ReplayError::Log(_)
                | ReplayError::Sink(SinkError::Refused { .. } | SinkError::Damaged(_) | SinkError::Unavailable(_))) => {
                    self.wait(&error).await
                }
            }
        }
    }

    /// Runs for ever: after a stop it goes on when a copy is live that has come further, as a rebuild leaves one.
    pub async fn keep(&self) -> std::convert::Infallible {
        loop {
            let stop = self.run().await;
            while !self.is_beyond(&stop).await {
                sleep(self.pace.retry_after * 4).await;
            }
            tracing::info!(projection = P::NAME, "another copy is live; following it");
        }
    }

    async fn is_beyond(&self, stop: &Stop) -> bool {
        match self.copies.live().await {
            Ok(Live::Current(mut sink)) => sink.checkpoint().await.is_ok_and(|at| at.position() >= stop.position),
            Ok(Live::Outdated { .. }) => true,
            Err(_) => false,
        }
    }

    async fn wait(&self, error: &ReplayError) {
        tracing::warn!(projection = P::NAME, %error, "the projection waits");
        self.monitor.state(RunState::Waiting { error: error.to_string() });
        sleep(self.pace.retry_after).await;
    }

    async fn replace(&self, why: &str) {
        tracing::warn!(projection = P::NAME, why, "building a new copy");
        self.monitor.state(RunState::Rebuilding { why: why.to_owned() });
        match rebuild(&self.log, &self.projector, &self.copies, Until::Head, |_| {}).await {
            Ok(_) | Err(ReplayError::Sink(SinkError::Moved)) => {}
            Err(error) => self.wait(&error).await,
        }
    }

    async fn feed(&self) -> ReplayError {
        match self.try_feed().await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn try_feed(&self) -> Result<std::convert::Infallible, ReplayError> {
        let mut sink = match self.copies.live().await? {
            Live::Current(sink) => sink,
            Live::Outdated { version } => {
                self.replace(&format!("the live copy has version {version}")).await;
                return Err(SinkError::Moved.into());
            }
        };
        let mut at = self.stand_by(&mut sink).await?;
        self.monitor.at(RunState::Active, at);
        let mut batches = ReadAhead::start(&self.log, &self.projector, at, Reach::Forever);
        loop {
            let batch = batches.next().await.ok_or_else(|| ReplayError::Log("following ended".into()))??;
            let (events, seen) = (batch.events, batch.seen);
            let (began, head) = (Instant::now(), self.log.position());
            match apply(&self.log, self.projector.as_ref(), &mut sink, at, batch).await {
                Ok(to) => at = to,
                Err(stopped @ ReplayError::Stopped(_)) => {
                    self.monitor.at(RunState::Active, sink.checkpoint().await?);
                    return Err(stopped);
                }
                Err(error) => return Err(error),
            }
            self.monitor.applied(at, events, seen);
            if self.log.position() > head {
                sleep((began.elapsed() * P::REST).min(LONGEST_REST)).await;
            }
        }
    }

    /// Returns when it is this runner's turn.
    async fn stand_by(&self, sink: &mut K::Sink) -> Result<Checkpoint, ReplayError> {
        let mut last = sink.checkpoint().await?;
        let mut moved = Instant::now();
        while !sink.claim().await? {
            let head = self.log.position();
            let now = sink.checkpoint().await?;
            let idle = now.position() >= head || (now == last && self.idle(now).await);
            if now != last || idle {
                moved = Instant::now();
            }
            last = now;
            self.monitor.passive(now, if idle { head } else { now.position() });
            if moved.elapsed() > self.pace.patience {
                tracing::warn!(projection = P::NAME, "the active runner is silent; taking over");
                break;
            }
            sleep(self.pace.look_every).await;
        }
        Ok(sink.checkpoint().await?)
    }

    async fn idle(&self, at: Checkpoint) -> bool {
        is_current(&self.log, at).await
    }
}

/// About the bytes of what follows in the log, counted no further than to `most`.
pub async fn backlog(log: &Log, at: Checkpoint, most: usize) -> usize {
    let Ok(mut follower) = log.follow(at.cursor).await else { return most };
    let mut bytes = 0;
    while bytes < most {
        match follower.try_next().await {
            Ok(Some(commit)) => bytes += commit.weight(),
            Ok(None) => return bytes,
            Err(_) => return most,
        }
    }
    most
}

/// Whether nothing follows in the log but slots without records.
pub async fn is_current(log: &Log, at: Checkpoint) -> bool {
    let Ok(mut follower) = log.follow(at.cursor).await else { return false };
    matches!(follower.try_next().await, Ok(None))
}
