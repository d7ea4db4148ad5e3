//! How much a machine may use, and who holds it to that.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use commands::ports::Limits;
use rustix::fs::{Access, access};
use rustix::process::Signal;

use super::helper::Rlimit;
use super::procs::{self, Process};

/// What the recipe says, else the default, and never more than the most.
pub(crate) fn settle(asked: &Limits, default: &Limits, most: &Limits) -> Limits {
    fn least<T: Ord + Copy>(asked: Option<T>, default: Option<T>, most: Option<T>) -> Option<T> {
        let wanted = asked.or(default);
        wanted.zip(most).map(|(wanted, most)| wanted.min(most)).or(wanted).or(most)
    }
    Limits {
        cpus: least(asked.cpus, default.cpus, most.cpus),
        memory_mib: least(asked.memory_mib, default.memory_mib, most.memory_mib),
        disk_mib: least(asked.disk_mib, default.disk_mib, most.disk_mib),
        pids: least(asked.pids, default.pids, most.pids),
        seconds: least(asked.seconds, default.seconds, most.seconds),
    }
}

/// Control groups hold a machine as a whole. Without them each process is held by itself, and no share of the processors is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Keeper {
    Unified(PathBuf),
    Split { memory: PathBuf, pids: PathBuf, cpu: Option<PathBuf> },
    Rlimits,
}

const MOUNT: &str = "/sys/fs/cgroup";
const OURS: &str = "arbe";
/// Microseconds, as the kernel has it by default.
const PERIOD: u64 = 100_000;

impl Keeper {
    /// The best that this server may use.
    pub(crate) fn find() -> Self {
        let mount = Path::new(MOUNT);
        Self::unified(mount).or_else(|| Self::split(mount)).unwrap_or(Self::Rlimits)
    }

    fn unified(mount: &Path) -> Option<Self> {
        // Without this file it is a mere directory in which the hierarchies of the older kind are mounted.
        let offered = fs::read_to_string(mount.join("cgroup.controllers")).ok()?;
        let ours = mount.join(OURS);
        (offered.contains("memory") && can_have(&ours)).then_some(())?;
        for (directory, controller) in [mount, &ours].into_iter().flat_map(|at| ["+memory", "+pids", "+cpu"].map(|on| (at, on))) {
            // One that cannot be had is missed below, or when somebody asks for its limit.
            let _ = fs::write(directory.join("cgroup.subtree_control"), controller);
        }
        let on = fs::read_to_string(ours.join("cgroup.subtree_control")).unwrap_or_default();
        let held = ["memory", "pids"].iter().all(|controller| on.split_whitespace().any(|word| word == *controller));
        held.then_some(Self::Unified(ours))
    }

    fn split(mount: &Path) -> Option<Self> {
        let group = |controller: &str| {
            let root = mount.join(controller);
            let ours = root.join(OURS);
            (root.join("cgroup.procs").exists() && can_have(&ours)).then_some(ours)
        };
        Some(Self::Split { memory: group("memory")?, pids: group("pids")?, cpu: group("cpu").or_else(|| group("cpu,cpuacct")) })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Unified(_) => "cgroup v2",
            Self::Split { .. } => "cgroup v1",
            Self::Rlimits => "rlimits",
        }
    }

    fn groups(&self, machine: &str) -> Vec<PathBuf> {
        match self {
            Self::Unified(ours) => vec![ours.join(machine)],
            Self::Split { memory, pids, cpu } => {
                [Some(memory), Some(pids), cpu.as_ref()].into_iter().flatten().map(|ours| ours.join(machine)).collect()
            }
            Self::Rlimits => Vec::new(),
        }
    }

    /// The groups that a process of the machine joins: those that hold it to anything, since each takes its time. Made anew if the host
    /// was started since.
    pub(crate) fn hold(&self, machine: &str, limits: &Limits) -> io::Result<Vec<PathBuf>> {
        let bytes = limits.memory_mib.map(|mib| mib << 20);
        let quota = limits.cpus.map(|cpus| u64::from(cpus) * PERIOD);
        let group = |ours: &Path| fs::create_dir_all(ours.join(machine)).map(|()| ours.join(machine));
        let mut groups = Vec::new();
        match self {
            Self::Unified(ours) => {
                let group = group(ours)?;
                put(&group, "memory.max", bytes)?;
                // Not every kernel counts swap.
                let _ = put(&group, "memory.swap.max", bytes.map(|_| 0));
                put(&group, "pids.max", limits.pids)?;
                put(&group, "cpu.max", quota.map(|quota| format!("{quota} {PERIOD}")))?;
                groups.push(group);
            }
            Self::Split { memory, pids, cpu } => {
                if bytes.is_some() {
                    groups.push(group(memory)?);
                    put(&memory.join(machine), "memory.limit_in_bytes", bytes)?;
                    let _ = put(&memory.join(machine), "memory.memsw.limit_in_bytes", bytes);
                }
                if limits.pids.is_some() {
                    groups.push(group(pids)?);
                    put(&pids.join(machine), "pids.max", limits.pids)?;
                }
                if let Some(cpu) = cpu.as_ref().filter(|_| quota.is_some()) {
                    groups.push(group(cpu)?);
                    put(&cpu.join(machine), "cpu.cfs_quota_us", quota)?;
                }
            }
            Self::Rlimits => {}
        }
        Ok(groups)
    }

    /// Those of each process. There is never a core dump: it would hold every secret.
    pub(crate) fn rlimits(&self, limits: &Limits, user: Option<u32>) -> Vec<(Rlimit, u64)> {
        let mut rlimits = vec![(Rlimit::Core, 0)];
        rlimits.extend(limits.disk_mib.map(|mib| (Rlimit::FileSize, mib << 20)));
        if *self == Self::Rlimits {
            // What is only reserved does not count as data. Runtimes reserve far more than they use.
            rlimits.extend(limits.memory_mib.map(|mib| (Rlimit::Data, mib << 20)));
            // The kernel counts all processes of a user. One that is not the machine's own has others.
            let others = if user.is_none() { procs::of_user(nix::unistd::getuid().as_raw()).len() as u64 } else { 0 };
            rlimits.extend(limits.pids.map(|pids| (Rlimit::Processes, pids + others)));
        }
        rlimits
    }

    /// Whatever is in the groups of the machine ends now.
    pub(crate) fn kill(&self, machine: &str) {
        for group in self.groups(machine) {
            let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            for process in members.lines().filter_map(|line| Process::of(line.parse().ok()?)) {
                process.signal(Signal::KILL);
            }
        }
    }

    pub(crate) fn release(&self, machine: &str) -> io::Result<()> {
        for group in self.groups(machine) {
            match fs::remove_dir(group) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// It may be there and be another user's.
fn can_have(group: &Path) -> bool {
    fs::create_dir_all(group).is_ok() && access(group, Access::WRITE_OK).is_ok()
}

fn put(group: &Path, file: &str, value: Option<impl ToString>) -> io::Result<()> {
    value.map_or(Ok(()), |value| fs::write(group.join(file), value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_may_ask_for_less_than_the_most() {
        let most = Limits { memory_mib: Some(1000), pids: Some(100), ..Limits::default() };
        let default = Limits { memory_mib: Some(500), ..Limits::default() };
        let settled = |memory_mib| settle(&Limits { memory_mib, ..Limits::default() }, &default, &most);
        assert_eq!(settled(Some(200)).memory_mib, Some(200));
        assert_eq!(settled(Some(2000)).memory_mib, Some(1000));
        assert_eq!(settled(None).memory_mib, Some(500));
        assert_eq!(settled(None).pids, Some(100));
        assert_eq!(settled(None).cpus, None);
    }
}
