//! What a runner tells the rest of the process: how far it is, how fast, and whether something is wrong.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use event_log::{FollowError, Log};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::project::Stop;
use crate::sink::Checkpoint;

const RATE_WINDOW: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum RunState {
    Starting,
    /// This process feeds the copy.
    Active,
    /// Another process feeds it; this one takes over when that falls silent.
    Passive,
    /// A new copy is being built because the live one has another version or belongs to another history.
    Rebuilding {
        why: String,
    },
    /// Tried again by itself.
    Waiting {
        error: String,
    },
    /// An event cannot be applied. The last good state keeps serving.
    Stopped {
        stop: Stop,
    },
}

#[derive(Clone, Debug, serde::Serialize)]
pub struct Status {
    pub name: &'static str,
    pub version: u32,
    #[serde(flatten)]
    pub state: RunState,
    pub position: u64,
    pub log_position: u64,
    /// Commits of the log that are not applied yet.
    pub lag: u64,
    /// Log time of the last commit applied, in unix milliseconds.
    pub time: u64,
    /// Events this process applied.
    pub events: u64,
    pub events_per_second: f64,
}

/// A handle to a runner. Clones share it.
#[derive(Clone, Debug)]
pub struct Monitor {
    name: &'static str,
    version: u32,
    position: Arc<watch::Sender<u64>>,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    state: RunState,
    checkpoint: Checkpoint,
    /// At least the checkpoint's; beyond it only slots without records.
    position: u64,
    events: u64,
    recent: VecDeque<(Instant, u64)>,
}

impl Monitor {
    pub(crate) fn new(name: &'static str, version: u32) -> Self {
        let inner = Inner {
            state: RunState::Starting,
            checkpoint: Checkpoint::default(),
            position: 0,
            events: 0,
            recent: VecDeque::new(),
        };
        Self { name, version, position: Arc::new(watch::channel(0).0), inner: Arc::new(Mutex::new(inner)) }
    }

    pub(crate) fn at(&self, state: RunState, checkpoint: Checkpoint) {
        let mut inner = self.inner.lock();
        inner.state = state;
        inner.checkpoint = checkpoint;
        inner.position = checkpoint.position();
        drop(inner);
        self.position.send_replace(checkpoint.position());
    }

    /// `position` is beyond the checkpoint where only slots without records follow it.
    pub(crate) fn passive(&self, checkpoint: Checkpoint, position: u64) {
        let position = position.max(checkpoint.position());
        let mut inner = self.inner.lock();
        (inner.state, inner.checkpoint, inner.position) = (RunState::Passive, checkpoint, position);
        drop(inner);
        self.position.send_replace(position);
    }

    pub(crate) fn state(&self, state: RunState) {
        self.inner.lock().state = state;
    }

    pub(crate) fn applied(&self, checkpoint: Checkpoint, events: u64, position: u64) {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        inner.state = RunState::Active;
        inner.checkpoint = checkpoint;
        inner.position = position;
        inner.events += events;
        inner.recent.push_back((now, events));
        inner.forget(now);
        drop(inner);
        self.position.send_replace(position);
    }

    #[must_use]
    pub fn status(&self, log_position: u64) -> Status {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        inner.forget(now);
        let since = inner.recent.front().map_or(RATE_WINDOW, |(at, _)| now - *at).max(Duration::from_secs(1));
        let recent: u64 = inner.recent.iter().map(|(_, events)| events).sum();
        let position = inner.position;
        Status {
            name: self.name,
            version: self.version,
            state: inner.state.clone(),
            position,
            log_position,
            lag: log_position.saturating_sub(position),
            time: inner.checkpoint.time,
            events: inner.events,
            events_per_second: recent as f64 / since.as_secs_f64(),
        }
    }

    /// Log time, in unix milliseconds, of the oldest commit that is not applied yet; `None` if only slots without records are not.
    pub async fn waiting_since(&self, log: &Log) -> Result<Option<u64>, FollowError> {
        let (position, cursor) = {
            let inner = self.inner.lock();
            (inner.position, inner.checkpoint.cursor)
        };
        if position >= log.position() {
            return Ok(None);
        }
        let oldest = log.follow(cursor).await?.try_next().await?;
        Ok(oldest.map(|commit| commit.time()))
    }

    #[must_use]
    pub fn watermark(&self) -> Watermark {
        Watermark(self.position.subscribe())
    }
}

impl Inner {
    fn forget(&mut self, now: Instant) {
        while self.recent.front().is_some_and(|(at, _)| now - *at > RATE_WINDOW) {
            self.recent.pop_front();
        }
    }
}

/// How far the live copy is. Queries wait on it to read their own writes.
#[derive(Clone, Debug)]
pub struct Watermark(watch::Receiver<u64>);

impl Watermark {
    #[must_use]
    pub fn position(&self) -> u64 {
        *self.0.borrow()
    }

    /// Whether the copy includes everything below `position`, waiting for it up to `patience`.
    pub async fn reached(&mut self, position: u64, patience: Duration) -> bool {
        let reached = self.0.wait_for(|at| *at >= position);
        matches!(tokio::time::timeout(patience, reached).await, Ok(Ok(_)))
    }
}
