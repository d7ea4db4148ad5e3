//! How far the read models are.

use std::time::Duration;

use event_log::Log;
use projector::{Monitor, RunState};
use schemars::JsonSchema;
use serde::Serialize;

use crate::view::Queries;

/// Who asks how far the rows are does not wait for a database that is away.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Projection {
    pub name: String,
    pub version: u32,
    pub state: ProjectionState,
    /// Everything below it is applied.
    pub position: u64,
    /// Where the log ends.
    pub head: u64,
    /// Commits of the log that are not applied yet.
    pub lag: u64,
    /// How long the oldest of them has been waiting.
    pub lag_seconds: f64,
    /// Events that this server applied.
    pub events: u64,
    /// Events per second, lately.
    pub rate: f64,
    /// Why it is not fed, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProjectionState {
    Starting,
    /// This server feeds it.
    Active,
    /// Another server feeds it.
    Passive,
    Rebuilding,
    /// Tried again by itself.
    Waiting,
    /// An event cannot be applied; the last good state keeps serving.
    Stopped,
    /// Tables are gone that somebody else dropped.
    Damaged,
}

impl Queries {
    /// The rows first.
    pub async fn projections(&self, log: &Log) -> Vec<Projection> {
        let mut rows = Projection::of(&self.feeding, log).await;
        if let Some(damage) = self.damage().await
            && rows.state != ProjectionState::Rebuilding
        {
            (rows.state, rows.error) = (ProjectionState::Damaged, Some(damage));
        }
        let mut projections = vec![rows];
        for monitor in self.others.iter() {
            projections.push(Projection::of(monitor, log).await);
        }
        projections
    }
}

impl Projection {
    async fn of(monitor: &Monitor, log: &Log) -> Self {
        let head = log.position();
        let status = monitor.status(head);
        let (lag, since) = match monitor.waiting_since(log).await {
            Ok(None) => (0, None),
            Ok(since) => (status.lag, since),
            Err(_) => (status.lag, (status.lag > 0).then_some(status.time)),
        };
        let lag_seconds = since.map_or(0.0, |since| log.now_ms().saturating_sub(since) as f64 / 1_000.0);
        let (state, error) = match status.state {
            RunState::Starting => (ProjectionState::Starting, None),
            RunState::Active => (ProjectionState::Active, None),
            RunState::Passive => (ProjectionState::Passive, None),
            RunState::Rebuilding { why } => (ProjectionState::Rebuilding, Some(why)),
            RunState::Waiting { error } => (ProjectionState::Waiting, Some(error)),
            RunState::Stopped { stop } => (ProjectionState::Stopped, Some(told(&stop))),
        };
        Self {
            name: status.name.to_owned(),
            version: status.version,
            state,
            position: if lag == 0 { head } else { status.position },
            head,
            lag,
            lag_seconds,
            events: status.events,
            rate: status.events_per_second,
            error,
        }
    }
}

impl Queries {
    /// `None` also if the database does not say so at once.
    async fn damage(&self) -> Option<String> {
        tokio::time::timeout(PATIENCE, self.rows.damage()).await.ok()?.ok()?
    }
}

/// Without the stream and the reason, which may be of a house that the reader is not in. The server's log says both.
fn told(stop: &projector::Stop) -> String {
    format!("cannot apply {} at position {}; the server's log says where and why", stop.kind, stop.position)
}
