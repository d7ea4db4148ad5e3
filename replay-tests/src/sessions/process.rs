//! `arbe` from outside: how long, how large, and what it wrote.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::Value;

const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Where the clients keep their sessions in a home, and where a directory of several clients has them.
const PLACES: [(&str, &str); 4] =
    [(".claude", "claude"), (".codex", "codex"), (".local/share/opencode", "opencode"), (".pi/agent", "pi/agent")];

/// The directory as a home: itself, or one of links into it.
pub(super) fn as_home(directory: &Path, made: &Path) -> anyhow::Result<PathBuf> {
    if PLACES.iter().any(|(home, _)| directory.join(home).exists()) {
        return Ok(directory.to_owned());
    }
    for (home, beside) in PLACES.iter().filter(|(_, beside)| directory.join(beside).exists()) {
        let link = made.join(home);
        link.parent().map_or(Ok(()), fs::create_dir_all)?;
        symlink(fs::canonicalize(directory.join(beside))?, link)?;
    }
    ensure!(made.exists(), "{} holds no sessions", directory.display());
    Ok(made.to_owned())
}

#[derive(Debug)]
pub(super) struct Sync {
    arbe: PathBuf,
    home: PathBuf,
    data: PathBuf,
}

#[derive(Debug)]
pub(super) struct Measured {
    pub(super) sessions: u64,
    pub(super) messages: u64,
    pub(super) new_messages: u64,
    pub(super) seconds: f64,
    pub(super) peak_mib: f64,
    /// Bytes that went to the disk, or will.
    pub(super) written: u64,
}

impl Sync {
    pub(super) fn new(home: &Path, data: &Path) -> anyhow::Result<Self> {
        Ok(Self { arbe: crate::directories::arbe_binary()?, home: home.to_owned(), data: data.to_owned() })
    }

    /// The vectors of everything.
    pub(super) fn embed(&self, model: &str) -> anyhow::Result<Measured> {
        self.run(&["--only", "embed", "--embed-model", model])
    }

    /// Some stages of a sync, or all.
    pub(super) fn run(&self, stages: &[&str]) -> anyhow::Result<Measured> {
        let started = Instant::now();
        let mut command = Command::new(&self.arbe);
        command.args(["sync", "--json"]).args(stages).arg("--home").arg(&self.home).arg("--data-dir").arg(&self.data);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("arbe")?;
        let id = child.id();
        let pid = Pid::from_raw(id.cast_signed()).context("a process has an id")?;
        let mut peak_mib = 0.0;
        // Left unburied until the kernel has said what it wrote.
        while waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG)?.is_none() {
            peak_mib = number(id, "status", "VmHWM:").map_or(peak_mib, |kib| kib as f64 / 1024.0);
            std::thread::sleep(LOOK_EVERY);
        }
        let seconds = started.elapsed().as_secs_f64();
        let written = number(id, "io", "write_bytes:").context("/proc does not say what was written")?;
        let mut said = String::new();
        child.stdout.take().context("stdout is piped")?.read_to_string(&mut said)?;
        ensure!(child.wait()?.success(), "arbe sync failed: {said}");
        // A line for the embed stage comes after it.
        let summary: Value = serde_json::from_str(said.lines().next().unwrap_or_default())?;
        let sum = |key: &str| summary["clients"].as_object().into_iter().flatten().filter_map(|(_, it)| it[key].as_u64()).sum();
        let (sessions, messages, new_messages) = (sum("sessions"), sum("messages"), sum("new_messages"));
        Ok(Measured { sessions, messages, new_messages, seconds, peak_mib, written })
    }

    pub(super) fn log_bytes(&self) -> anyhow::Result<u64> {
        bytes_below(&self.data.join("log"))
    }

    pub(super) fn dataset_bytes(&self) -> anyhow::Result<u64> {
        bytes_below(&self.data.join("lance"))
    }

    /// Of the index of words.
    pub(super) fn index_bytes(&self) -> anyhow::Result<u64> {
        bytes_below(&self.data.join("index"))
    }

    /// Of the vectors that are kept.
    pub(super) fn vector_bytes(&self) -> anyhow::Result<u64> {
        bytes_below(&self.data.join("vectors"))
    }

    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    pub(super) fn source_bytes(&self) -> anyhow::Result<u64> {
        let places = PLACES.iter().map(|(place, _)| self.home.join(place)).filter(|place| place.exists());
        places.map(|place| bytes_below(&place)).sum()
    }
}

fn number(process: u32, file: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/{file}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}

fn bytes_below(directory: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { bytes_below(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}
