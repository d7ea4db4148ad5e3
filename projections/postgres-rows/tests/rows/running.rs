//! A runner as a server has one.

use std::sync::Arc;
use std::time::Duration;

use event_log::Log;
use postgres_rows::{Rows, RowsProjector};
use projector::{Checkpoint, Copies, Monitor, Pace, Runner, Sums};
use tokio::task::JoinHandle;

pub const PACE: Pace =
    Pace { look_every: Duration::from_millis(5), patience: Duration::from_secs(5), retry_after: Duration::from_millis(20) };

pub struct Running {
    pub monitor: Monitor,
    pub task: JoinHandle<projector::Stop>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn run(log: &Log, rows: &Rows) -> Running {
    let runner = Runner::new(log.clone(), Arc::new(RowsProjector), rows.clone(), PACE);
    let monitor = runner.monitor();
    Running { monitor, task: tokio::spawn(async move { runner.run().await }) }
}

impl Running {
    pub async fn reaches(&self, position: u64) {
        let reached = self.monitor.watermark().reached(position, Duration::from_secs(30)).await;
        assert!(reached, "{:?}", self.monitor.status(position));
    }
}

pub async fn live_sums(rows: &Rows) -> (Checkpoint, Sums) {
    rows.live_sums().await.expect("sums").expect("a live copy")
}
