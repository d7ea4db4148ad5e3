//! From the server's rights to the machine's, and on into bubblewrap.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::process::{Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit};

use super::Plan;

/// In the place of its descriptor.
pub(super) const NO_FILTER: &str = "none";

/// Comes back only if it failed.
pub(super) fn enter(arguments: &[OsString]) -> io::Result<()> {
    let [options, status, filter, parent] = arguments else {
        return Err(io::Error::other("enter wants three file descriptors and its parent"));
    };
    let plan: Plan = serde_json::from_reader(io::stdin().lock())?;
    for group in &plan.groups {
        fs::write(group.join("cgroup.procs"), "0")?;
    }
    for (rlimit, value) in &plan.rlimits {
        setrlimit(rlimit.resource(), Rlimit { current: Some(*value), maximum: Some(*value) })?;
    }
    if let Some(user) = plan.user {
        become_user(user)?;
    }
    rustix::thread::set_no_new_privs(true)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before the line above.
    if getppid().is_none_or(|pid| OsString::from(pid.as_raw_nonzero().to_string()) != *parent) {
        return Err(io::Error::other("the supervisor is gone"));
    }
    let mut bubblewrap = Command::new(&plan.bubblewrap);
    bubblewrap.arg("--args").arg(options).arg("--json-status-fd").arg(status);
    if filter != NO_FILTER {
        bubblewrap.arg("--seccomp").arg(filter);
    }
    bubblewrap.arg("--").args(&plan.command);
    Err(bubblewrap.env_clear().stdin(Stdio::null()).exec())
}

/// For good, and without the groups of whoever started the server.
pub(super) fn become_user(user: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    setgroups(&[])?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)?;
    Ok(())
}
