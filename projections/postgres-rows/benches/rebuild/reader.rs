//! Somebody who reads the live copy all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postgres_rows::Rows;
use tokio::task::JoinHandle;

use crate::log::{HOUSES, house};

const PAUSE: Duration = Duration::from_millis(5);
const NEWEST: &str = "select id || coalesce(name, '') || status from threads order by created_at desc, id desc limit 50";

pub struct Reader {
    stop: Arc<AtomicBool>,
    task: JoinHandle<(Vec<Duration>, Vec<String>)>,
}

impl Reader {
    pub fn start(rows: Rows) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let (mut took, mut failures) = (Vec::new(), Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                let started = Instant::now();
                match read(&rows, took.len() as u64 % HOUSES).await {
                    Ok(50) => took.push(started.elapsed()),
                    Ok(found) => failures.push(format!("{found} threads")),
                    Err(error) => failures.push(error.to_string()),
                }
                tokio::time::sleep(PAUSE).await;
            }
            (took, failures)
        });
        Self { stop, task }
    }

    pub async fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        let (mut took, failures) = self.task.await.unwrap();
        took.sort_unstable();
        let at = |part: f64| took[(took.len() as f64 * part) as usize].as_secs_f64() * 1_000.0;
        println!(
            "read      {} times meanwhile: p50 {:.1} ms, p99 {:.1} ms, {} failures",
            took.len(),
            at(0.5),
            at(0.99),
            failures.len()
        );
        assert!(failures.is_empty(), "{failures:?}");
    }
}

async fn read(rows: &Rows, n: u64) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
    let mut tx = rows.read(&house(n)).await?;
    let found: Vec<String> = sqlx::query_scalar(NEWEST).fetch_all(&mut *tx).await?;
    Ok(found.len())
}
