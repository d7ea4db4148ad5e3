//! initdb, the postmaster, and the end of it.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::binaries::Binaries;
use super::home::Home;
use super::{ADMIN, ClusterError, PORT};

const STOP_PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The backends of a postmaster that was killed take a moment to notice; a new one cannot start before.
pub(super) const SETTLE: Duration = Duration::from_secs(10);

const SETTINGS: [&str; 11] = [
    "listen_addresses=",
    "unix_socket_permissions=0700",
    "max_connections=100",
    "shared_buffers=128MB",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=1GB",
    "jit=off",
    "timezone=UTC",
    "log_timezone=UTC",
    "logging_collector=off",
];

#[derive(Debug)]
pub(super) enum Postmaster {
    Ours(Child),
    /// Left behind by a server that was killed.
    Found(u32),
}

impl Postmaster {
    pub(super) fn pid(&self) -> u32 {
        match self {
            Self::Ours(child) => child.id(),
            Self::Found(pid) => *pid,
        }
    }

    pub(super) fn alive(&mut self) -> bool {
        match self {
            Self::Ours(child) => matches!(child.try_wait(), Ok(None)),
            Self::Found(pid) => is_postgres(*pid),
        }
    }

    /// Sessions are ended, then it stops; the hard way if that takes too long.
    pub(super) fn stop(mut self) {
        for signal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGKILL] {
            if !self.alive() {
                return;
            }
            let _ = kill(Pid::from_raw(self.pid() as i32), signal);
            let asked = Instant::now();
            while asked.elapsed() < STOP_PATIENCE {
                if !self.alive() {
                    return;
                }
                std::thread::sleep(LOOK_EVERY);
            }
            tracing::warn!(pid = self.pid(), %signal, "postgres does not stop");
        }
    }
}

fn command(binaries: &Binaries, home: &Home, name: &str) -> Command {
    let mut command = Command::new(binaries.path(name));
    command.env_clear().env("LC_ALL", "C").current_dir(&home.root).stdin(Stdio::null());
    if let Some((uid, gid)) = home.user {
        command.uid(uid.as_raw()).gid(gid.as_raw());
    }
    command
}

/// Makes the cluster if there is none. One of another major version is set aside: its rows are made again from the log.
pub(super) fn initialize(binaries: &Binaries, home: &Home) -> Result<(), ClusterError> {
    let data = home.data();
    let failed = |source| ClusterError::Directory { path: data.clone(), source };
    match fs::read_to_string(data.join("PG_VERSION")) {
        Ok(version) if version.trim() == binaries.major.to_string() => return Ok(()),
        Ok(version) => {
            tracing::warn!(found = version.trim(), wanted = binaries.major, "the rows move to another version of postgres");
            let aside = home.root.join(format!("pg-{}", version.trim()));
            let _ = fs::remove_dir_all(&aside);
            fs::rename(&data, &aside).map_err(failed)?;
        }
        Err(_) => {}
    }
    let unfinished = home.root.join("pg.new");
    let _ = fs::remove_dir_all(&unfinished);
    home.own(&unfinished).map_err(failed)?;
    if initdb(binaries, home, &unfinished, "C.UTF-8").is_err() {
        initdb(binaries, home, &unfinished, "C")?;
    }
    fs::rename(&unfinished, &data).map_err(failed)
}

fn initdb(binaries: &Binaries, home: &Home, at: &Path, locale: &str) -> Result<(), ClusterError> {
    let mut initdb = command(binaries, home, "initdb");
    initdb.arg("-D").arg(at).args(["-U", ADMIN, "--auth=trust", "--no-instructions", "--no-sync", "-E", "UTF8"]);
    initdb.arg(format!("--locale={locale}"));
    let failed = |output: String| ClusterError::Command { command: "initdb".into(), output };
    let output = initdb.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() { Ok(()) } else { Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())) }
}

pub(super) fn spawn(binaries: &Binaries, home: &Home) -> Result<Postmaster, ClusterError> {
    let started = Instant::now();
    loop {
        let mut child = spawn_once(binaries, home)?;
        std::thread::sleep(LOOK_EVERY * 5);
        let ended = child.try_wait().map_err(|error| ClusterError::NotStarted(error.to_string()))?;
        if ended.is_none() {
            return Ok(Postmaster::Ours(child));
        }
        if started.elapsed() > SETTLE {
            return Err(ClusterError::NotStarted(home.log_tail()));
        }
        std::thread::sleep(LOOK_EVERY * 10);
    }
}

fn spawn_once(binaries: &Binaries, home: &Home) -> Result<Child, ClusterError> {
    forget_stale_pid(home);
    let failed = |source| ClusterError::Directory { path: home.log(), source };
    let _ = fs::rename(home.log(), home.log().with_extension("log.old"));
    let log = File::create(home.log()).map_err(failed)?;
    let mut postgres = command(binaries, home, "postgres");
    postgres.arg("-D").arg(home.data()).arg("-p").arg(PORT.to_string());
    postgres.arg("-c").arg(format!("unix_socket_directories={}", home.socket.display()));
    for setting in SETTINGS {
        postgres.args(["-c", setting]);
    }
    // A group of its own: an interrupt at the terminal is for the server, which then stops it in order.
    postgres.process_group(0).stdout(log.try_clone().map_err(failed)?).stderr(log);
    postgres.spawn().map_err(|error| ClusterError::NotStarted(error.to_string()))
}

fn pid_file(home: &Home) -> Option<u32> {
    let text = fs::read_to_string(home.data().join("postmaster.pid")).ok()?;
    text.lines().next()?.trim().parse().ok()
}

/// The postmaster of this directory, if it runs.
pub(super) fn running(home: &Home) -> Option<u32> {
    pid_file(home).filter(|pid| is_postgres(*pid))
}

/// After a crash the number may belong to another process, which would keep Postgres from starting. Who is here holds the lock on the
/// directory, so that both files are either of a postmaster that runs or of none.
fn forget_stale_pid(home: &Home) {
    if running(home).is_none() {
        let _ = fs::remove_file(home.data().join("postmaster.pid"));
        let _ = fs::remove_file(home.socket.join(format!(".s.PGSQL.{PORT}.lock")));
    }
}

fn is_postgres(pid: u32) -> bool {
    if kill(Pid::from_raw(pid as i32), None).is_err() {
        return false;
    }
    // Where there is no /proc, a process of that number is taken at its word.
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return !Path::new("/proc/self").exists() };
    status.starts_with("Name:\tpostgres") && !status.contains("\nState:\tZ")
}
