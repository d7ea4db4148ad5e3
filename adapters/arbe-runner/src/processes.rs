//! Everything that a harness started ends with it. Its tools run in sessions of their own, out of reach of its process group, so the
//! runner takes in whoever loses its parent, and finds all of them again among its descendants.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, kill_process, kill_process_group, set_child_subreaper, set_dumpable_behavior,
    waitpid,
};

/// For processes that were killed to be gone.
const GONE: Duration = Duration::from_secs(5);

/// Orphans come to us. Without it they would go to whoever is first in the machine.
pub fn adopt_orphans() {
    // An old kernel has no such thing; then the machine's own bounds have to do.
    let _ = set_child_subreaper(rustix::process::getpid().into());
}

/// Nobody of the same user can read our environment any more, which holds the token. Whoever is started from here can be read again.
pub fn hide() {
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

pub fn signal_group(leader: Pid, signal: Signal) {
    // It may be gone already.
    let _ = kill_process_group(leader, signal);
}

pub fn signal(pid: Pid, signal: Signal) {
    let _ = kill_process(pid, signal);
}

/// Kills every descendant, again until there is none: one may have been forking.
pub async fn sweep() {
    let end = tokio::time::Instant::now() + GONE;
    loop {
        let left = descendants();
        if left.is_empty() || tokio::time::Instant::now() > end {
            return;
        }
        left.into_iter().for_each(|pid| signal(pid, Signal::KILL));
        reap(None);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Orphans that ended wait for us to take note, and count against the machine's bounds until we do. The harness is waited for elsewhere.
pub fn reap(harness: Option<Pid>) {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let dead = all().into_iter().filter(|process| process.parent == own && process.dead);
    for pid in dead.filter_map(|process| Pid::from_raw(process.pid)).filter(|pid| Some(*pid) != harness) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Whether it was begun here, by whichever way. A process of another namespace has no number in this one.
#[must_use]
pub fn is_ours(pid: i32) -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut at = pid;
    while at > 0 && at != own {
        let found = fs::read_to_string(format!("/proc/{at}/stat")).ok().and_then(|stat| parse(&stat));
        at = found.map_or(0, |process| process.parent);
    }
    at == own
}

fn descendants() -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for Process { pid, parent, .. } in all().into_iter().filter(|process| !process.dead) {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut next = vec![rustix::process::getpid().as_raw_nonzero().get()];
    while let Some(pid) = next.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(below.iter().filter_map(|pid| Pid::from_raw(*pid)));
        next.extend(below);
    }
    found
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    dead: bool,
}

fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<i32>().is_ok()));
    pids.filter_map(|entry| parse(&fs::read_to_string(entry.path().join("stat")).ok()?)).collect()
}

/// The name may hold anything, but ends with the last bracket.
fn parse(stat: &str) -> Option<Process> {
    let (before, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    Some(Process { pid: before.split_once(' ')?.0.parse().ok()?, parent: fields.next()?.parse().ok()?, dead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parse("12 (a) 3 (b)) S 7 12 12 0"), Some(Process { pid: 12, parent: 7, dead: false }));
        assert_eq!(parse("12 (x) Z 7 12 12 0"), Some(Process { pid: 12, parent: 7, dead: true }));
        assert_eq!(parse("12"), None);
    }
}
