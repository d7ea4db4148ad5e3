//! Processes of this host, as `/proc` tells of them.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// One process, and no other that gets its number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// When it began, in the kernel's ticks since the boot.
    pub(crate) since: u64,
}

struct Stat {
    parent: i32,
    zombie: bool,
    since: u64,
}

impl Process {
    pub(crate) fn of(pid: i32) -> Option<Self> {
        stat(pid).map(|stat| Self { pid, since: stat.since })
    }

    pub(crate) fn me() -> Option<Self> {
        Self::of(i32::try_from(std::process::id()).ok()?)
    }

    pub(crate) fn lives(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.since == self.since && !stat.zombie)
    }

    /// Reaches this process or nobody.
    pub(crate) fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if self.lives() {
            // One that ended meanwhile needs no signal.
            let _ = pidfd_send_signal(handle, signal);
        }
    }

    pub(crate) fn children(self) -> Vec<Self> {
        let child = |pid| stat(pid).filter(|stat| stat.parent == self.pid).map(|stat| Self { pid, since: stat.since });
        all().into_iter().filter_map(child).collect()
    }
}

/// Those that run as one user of this host, in whatever namespace.
pub(crate) fn of_user(user: u32) -> Vec<Process> {
    let owned = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
        line.split_whitespace().any(|id| id.parse() == Ok(user))
    };
    all().into_iter().filter(owned).filter_map(Process::of).filter(|process| process.lives()).collect()
}

/// Another one after each start of the host.
pub(crate) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn all() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The name of the program may hold anything, also a parenthesis; the numbers begin after the last one.
fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<_> = rest.split_whitespace().collect();
    Some(Stat {
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        since: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_itself_and_not_another_of_its_number() {
        let me = Process::me().unwrap();
        assert!(me.lives());
        assert!(!Process { since: me.since + 1, ..me }.lives());
        assert_eq!(Process::of(0), None);
    }

    #[test]
    fn a_child_is_found_while_it_lives() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = Process::me().unwrap().children();
        let process = found.iter().find(|process| process.pid == i32::try_from(child.id()).unwrap());
        let process = *process.expect("the child is among the children");
        process.signal(Signal::KILL);
        child.wait().unwrap();
        assert!(!process.lives());
    }
}
