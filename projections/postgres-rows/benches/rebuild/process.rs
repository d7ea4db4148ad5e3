//! The rebuild as a process that can be killed: this program again, with a verb.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use event_log::{Log, Options, StoreUrl};
use postgres_rows::{Rows, RowsProjector};
use projector::{Until, rebuild as rebuild_rows};
use sqlx::postgres::PgConnectOptions;

pub const VERB: &str = "rebuild-in-this-process";
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Arguments: the log, the socket of Postgres. Prints the seconds it took.
pub async fn rebuild(arguments: &[String]) {
    let [log, socket] = arguments else { panic!("{VERB} LOG SOCKET") };
    let options = PgConnectOptions::new_without_pgpass().socket(socket).port(5432).username("arbe").database("arbe");
    let rows = Rows::connect(options, 2).await.unwrap();
    let store = StoreUrl::File(log.into()).open(&[], false).unwrap();
    let log = Log::open_existing(store, Options::default()).await.unwrap();
    let started = Instant::now();
    let rebuilt = rebuild_rows(&log, &Arc::new(RowsProjector), &rows, Until::Head, |_| {}).await.unwrap();
    assert!(rebuilt.swapped);
    println!("{}", started.elapsed().as_secs_f64());
}

/// Where everything is.
pub struct Site {
    pub log: PathBuf,
    pub socket: PathBuf,
}

/// Killed when dropped.
pub struct Rebuild {
    child: Child,
    started: Instant,
}

pub struct Done {
    pub seconds: f64,
    pub whole: f64,
    /// Resident MiB, over time.
    pub memory: Vec<u64>,
}

impl Rebuild {
    pub fn start(site: &Site) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(VERB).arg(&site.log).arg(&site.socket);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        Self { child, started: Instant::now() }
    }

    pub async fn finish(mut self) -> Done {
        let mut memory = Vec::new();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => memory.push(resident_mib(self.child.id())),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        assert!(status.success());
        memory.retain(|mib| *mib > 0);
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        Done { seconds: text.trim().parse().unwrap(), whole: self.started.elapsed().as_secs_f64(), memory }
    }

    /// Whether it was still running.
    pub async fn kill_after(mut self, moment: Duration) -> bool {
        tokio::time::sleep(moment).await;
        let _ = self.child.kill();
        !self.child.wait().unwrap().success()
    }
}

impl Drop for Rebuild {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resident_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() / 1024
}
