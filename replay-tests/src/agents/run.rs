use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How a command ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// Runs to the end, without input. What takes longer than `limit` is killed with all that it started, and is an error.
pub fn run(mut command: Command, limit: Duration) -> Result<Ended> {
    let directory = tempfile::tempdir()?;
    let (out, err) = (directory.path().join("out"), directory.path().join("err"));
    command.stdin(Stdio::null()).stdout(fs::File::create(&out)?).stderr(fs::File::create(&err)?).process_group(0);
    let mut group = Group(command.spawn()?);
    let deadline = Instant::now() + limit;
    while !group.ended()? && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let in_time = group.ended()?;
    let status = group.kill()?;
    let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let (stdout, stderr) = (read(&out), read(&err));
    ensure!(in_time, "{command:?} was killed after {limit:?}\n{stdout}\n{stderr}");
    Ok(Ended { status, stdout, stderr })
}

/// A process and its descendants, killed when dropped.
struct Group(Child);

impl Group {
    /// It is not reaped: once it is, its id may belong to others.
    fn ended(&self) -> Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(Pid::from_child(&self.0)), options)?.is_some())
    }

    fn kill(&mut self) -> Result<ExitStatus> {
        kill_process_group(Pid::from_child(&self.0), Signal::KILL).ok();
        Ok(self.0.wait()?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.kill().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_killed_with_what_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let late = directory.path().join("late");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo begun; (sleep 1; : >\"$0\") & wait"]).arg(&late);
        let error = run(command, Duration::from_millis(300)).unwrap_err();
        assert!(error.to_string().contains("begun"), "{error}");
        std::thread::sleep(Duration::from_secs(1));
        assert!(!late.exists());
    }
}
