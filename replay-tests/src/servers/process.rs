use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(30);
const LOCAL_URL: &str = "http://127.0.0.1:";

/// A server that names its URL on standard output. Killed when dropped.
pub(super) struct Process {
    child: Child,
    pub(super) url: String,
}

impl Process {
    pub(super) fn spawn(mut command: Command, log: &Path) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::options().create(true).append(true).open(log)?);
        let mut child = command.spawn().with_context(|| format!("start {name}"))?;
        let stdout = child.stdout.take().context("standard output is piped")?;
        let mut process = Self { child, url: String::new() };
        process.url = url_on(stdout).with_context(|| {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            format!("{name} did not print its URL; its log:\n{log}")
        })?;
        Ok(process)
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends SIGTERM and waits for the end.
    pub(super) fn terminate(&mut self) -> Result<ExitStatus> {
        // Once reaped, its id may belong to another process.
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let deadline = Instant::now() + STOP;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("still running {STOP:?} after SIGTERM")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill().ok();
    }
}

/// Reads on after the URL is found, so that the server never blocks on a full pipe.
fn url_on(stdout: ChildStdout) -> Result<String> {
    let (found, url) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(url) = local_url(&line) {
                found.send(url).ok();
            }
        }
    });
    Ok(url.recv_timeout(START)?)
}

fn local_url(line: &str) -> Option<String> {
    let rest = &line[line.find(LOCAL_URL)? + LOCAL_URL.len()..];
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (!port.is_empty()).then(|| format!("{LOCAL_URL}{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_found_in_any_line_that_has_one() {
        assert_eq!(local_url("arbe listens on http://127.0.0.1:4437/ now").as_deref(), Some("http://127.0.0.1:4437"));
        assert_eq!(local_url("opening the log"), None);
        assert_eq!(local_url("http://127.0.0.1:"), None);
    }

    #[test]
    fn a_process_that_ends_without_a_url_is_reported_with_its_log() {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such bucket >&2"]);
        let error = Process::spawn(command, &directory.path().join("log")).err().unwrap();
        assert!(error.to_string().contains("no such bucket"), "{error:#}");
    }
}
