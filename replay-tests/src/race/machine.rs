use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::samples::Samples;
use super::usage;

const BLOCK: usize = 4096;
const SYNCS: u64 = 300;
const SETTLE_LIMIT: Duration = Duration::from_secs(20);
const SETTLE_PERIOD: Duration = Duration::from_millis(300);
const SETTLED_CORES: f64 = 0.2;
const OPEN_FILES: u64 = 262_144;

#[derive(Debug, serde::Serialize)]
pub(super) struct Machine {
    pub cores: usize,
    pub processor: String,
    pub load: String,
    pub open_files: u64,
    /// Milliseconds: the least a commit can take on this file system.
    pub overwrite_fdatasync_p50: f64,
    pub append_fdatasync_p50: f64,
}

pub(super) fn describe(directory: &Path) -> anyhow::Result<Machine> {
    Ok(Machine {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        processor: processor(),
        load: fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned(),
        open_files: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
        overwrite_fdatasync_p50: fdatasync_p50(directory, Growth::Overwrite)?,
        append_fdatasync_p50: fdatasync_p50(directory, Growth::Append)?,
    })
}

/// Servers inherit the limit, and some keep a file open for every stream.
pub(super) fn raise_open_file_limit() {
    let hard = getrlimit(Resource::Nofile).maximum;
    let wanted = Rlimit { current: Some(OPEN_FILES), maximum: Some(OPEN_FILES) };
    if hard.is_some_and(|hard| hard < OPEN_FILES) && setrlimit(Resource::Nofile, wanted).is_ok() {
        return;
    }
    let _ = setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard });
}

/// Waits, but not forever, for earlier writes to reach the disk and for other work to pause.
pub(super) async fn settle() {
    rustix::fs::sync();
    let given_up = Instant::now() + SETTLE_LIMIT;
    while Instant::now() < given_up && usage::busy_cores(SETTLE_PERIOD).await > SETTLED_CORES {}
}

enum Growth {
    Overwrite,
    Append,
}

fn fdatasync_p50(directory: &Path, growth: Growth) -> anyhow::Result<f64> {
    let path = directory.join(format!("race-fdatasync-{}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&path);
    let file = file.with_context(|| format!("creating {}", path.display()))?;
    let measured = sync_repeatedly(&file, growth);
    fs::remove_file(&path)?;
    Ok(measured?.sorted().milliseconds(0.5))
}

fn sync_repeatedly(mut file: &File, growth: Growth) -> std::io::Result<Samples> {
    let block = [7; BLOCK];
    file.write_all(&block)?;
    file.sync_all()?;
    let mut samples = Samples::default();
    for _ in 0..SYNCS {
        let started = Instant::now();
        match growth {
            Growth::Overwrite => file.write_all_at(&block, 0)?,
            Growth::Append => file.write_all(&block)?,
        }
        file.sync_data()?;
        samples.record(started.elapsed());
    }
    Ok(samples)
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(|| "unknown".to_owned(), |(_, name)| name.to_owned())
}
