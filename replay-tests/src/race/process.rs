use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

const POLL: Duration = Duration::from_millis(2);
const START_LIMIT: Duration = Duration::from_secs(300);
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// A server process; it does not outlive this value.
pub(super) struct Process {
    child: Child,
    log: PathBuf,
    pub started: Instant,
}

impl Process {
    /// What it prints goes to `log` with the extensions `out` and `err`.
    pub(super) fn spawn(mut command: Command, log: PathBuf) -> anyhow::Result<Self> {
        let create = |file: PathBuf| File::create(&file).with_context(|| format!("creating {}", file.display()));
        command.stdin(Stdio::null()).stdout(create(log.with_extension("out"))?).stderr(create(log.with_extension("err"))?);
        let started = Instant::now();
        let child = command.spawn().with_context(|| format!("starting {}", command.get_program().display()))?;
        Ok(Self { child, log, started })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the line in which the server says where it listens.
    pub(super) async fn announced(&mut self) -> anyhow::Result<String> {
        self.poll(|process| Ok(find_url(&process.printed("out")))).await
    }

    /// Polls until the check gives a value; fails when the process ends or the time is over.
    pub(super) async fn poll<T>(&mut self, mut check: impl FnMut(&Self) -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
        loop {
            if let Some(value) = check(self)? {
                return Ok(value);
            }
            self.still_starting()?;
            tokio::time::sleep(POLL).await;
        }
    }

    pub(super) fn still_starting(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let printed = self.printed("out") + &self.printed("err");
            bail!("ended with {status}: {}", last_line(&printed));
        }
        if self.started.elapsed() > START_LIMIT {
            bail!("not ready after {} s", START_LIMIT.as_secs());
        }
        Ok(())
    }

    pub(super) fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    pub(super) async fn terminate(mut self) -> anyhow::Result<Duration> {
        let asked = Instant::now();
        self.signal(Signal::TERM)?;
        while self.exited()?.is_none() {
            if asked.elapsed() > STOP_LIMIT {
                bail!("still running {} s after SIGTERM", STOP_LIMIT.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(asked.elapsed())
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(id.ok_or_else(|| anyhow!("no process id"))?, signal)?;
        Ok(())
    }

    fn exited(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    fn printed(&self, extension: &str) -> String {
        let bytes = fs::read(self.log.with_extension(extension)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

pub(super) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

pub(crate) fn address_of(url: &str) -> anyhow::Result<SocketAddr> {
    let authority = url.trim_start_matches("http://").trim_end_matches('/');
    authority.parse().with_context(|| format!("no socket address in {url}"))
}

/// What `program` prints when asked for its version, if it answers at all.
pub(super) fn version_of(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn find_url(output: &str) -> Option<String> {
    let complete = &output[..=output.rfind('\n')?];
    let start = complete.find("http://127.0.0.1:")?;
    let rest = &complete[start..];
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || ":/.".contains(c)));
    Some(rest[..end.unwrap_or(rest.len())].trim_end_matches(['/', '.']).to_owned())
}

fn last_line(output: &str) -> &str {
    output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_counts_once_its_line_is_complete() {
        assert_eq!(find_url("listening on http://127.0.0.1:80"), None);
        let url = find_url("warm\nlistening on http://127.0.0.1:8080 (data)\n");
        assert_eq!(url.as_deref(), Some("http://127.0.0.1:8080"));
    }

    #[test]
    fn an_announced_url_is_an_address() {
        assert_eq!(address_of("http://127.0.0.1:8080/").unwrap().port(), 8080);
    }
}
