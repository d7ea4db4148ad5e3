//! A machine seen from the host: its files, and what runs in it.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::scene::until;

pub struct Machine {
    pub sandbox: String,
    pub directory: PathBuf,
}

impl Machine {
    /// A file of the working tree.
    pub fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.directory.join("work").join(name)).ok()
    }

    pub fn is_made(&self) -> bool {
        self.directory.join("meta.json").exists()
    }

    /// The lines of pi's own file.
    pub fn session(&self, thread: &str) -> Vec<Value> {
        session_in(&self.directory.join("home"), thread)
    }

    /// What a run is to do is written down, which is the last thing before it is launched.
    pub fn has_task(&self, run: &str) -> bool {
        self.directory.join(format!("home/.arbe/runs/{run}/prompt")).exists()
    }

    /// Its runner has written down how it ended.
    pub fn knows_the_end(&self, thread: &str, run: &str) -> bool {
        self.directory.join(format!("home/.arbe/sessions/{thread}/run/{run}.json")).exists()
    }

    pub fn was_launched(&self, run: &str) -> bool {
        self.directory.join("launched").join(run).exists()
    }

    /// The process outside that answers for a run.
    pub fn supervisor(&self, run: &str) -> Process {
        let record = fs::read(self.directory.join("launched").join(run)).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        let found = processes().into_iter().find(|process| record["supervisor"]["pid"] == process.pid);
        found.expect("a run has a supervisor")
    }

    /// What is written down of a run, as if the host had been restarted since.
    pub fn belongs_to_an_earlier_boot(&self, run: &str) {
        let path = self.directory.join("launched").join(run);
        let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        record["boot"] = "an earlier one".into();
        fs::write(path, record.to_string()).unwrap();
    }

    /// What runs inside: whoever has its tree for a working tree.
    pub fn processes(&self) -> Vec<Process> {
        let tree = format!("/{}/work /work ", self.sandbox);
        let inside = |process: &Process| process.read("mountinfo").is_some_and(|mounts| mounts.contains(&tree));
        processes().into_iter().filter(inside).collect()
    }

    pub fn process(&self, name: &str) -> Process {
        let processes = self.processes();
        processes.iter().find(|process| process.name == name).cloned().unwrap_or_else(|| panic!("no {name} in {processes:?}"))
    }

    pub fn child_of(&self, parent: &Process) -> Process {
        processes().into_iter().find(|process| process.parent == parent.pid).expect("it has a child")
    }

    /// Everything in it at once, as when a host burns down.
    pub fn destroy(&self) {
        let launched = fs::read_dir(self.directory.join("launched")).unwrap().flatten();
        let records = launched.filter_map(|entry| serde_json::from_slice::<Value>(&fs::read(entry.path()).ok()?).ok());
        let supervisors: Vec<_> = records.filter(|record| record["ended"].is_null()).collect();
        let is_one = |process: &Process| supervisors.iter().any(|record| record["supervisor"]["pid"] == process.pid);
        processes().iter().filter(|process| is_one(process)).for_each(Process::kill);
        until("nothing runs in it", || self.processes().is_empty().then_some(()));
        fs::remove_dir_all(&self.directory).unwrap();
    }
}

pub fn session_in(home: &Path, thread: &str) -> Vec<Value> {
    let directory = home.join(".arbe/sessions").join(thread);
    let ending = format!("_{thread}.jsonl");
    let files = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(&ending)).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let text = fs::read_to_string(files.remove(0)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[derive(Clone, Debug)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub name: String,
}

impl Process {
    pub fn kill(&self) {
        let pid = Pid::from_raw(self.pid).unwrap();
        kill_process(pid, Signal::KILL).ok();
    }

    /// It lives, and does nothing.
    pub fn stop(&self) {
        kill_process(Pid::from_raw(self.pid).unwrap(), Signal::STOP).unwrap();
    }

    pub fn go_on(&self) {
        kill_process(Pid::from_raw(self.pid).unwrap(), Signal::CONT).unwrap();
    }

    /// What `/proc` says of it, if it may be asked.
    pub fn read(&self, file: &str) -> Option<String> {
        let bytes = fs::read(format!("/proc/{}/{file}", self.pid)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// All that live on this host.
pub fn processes() -> Vec<Process> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// The name stands in brackets and may hold some itself.
fn parse(stat: &str) -> Option<Process> {
    let (before, after) = stat.rsplit_once(')')?;
    let (pid, name) = before.split_once(" (")?;
    let mut fields = after.split_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    (!dead).then_some(Process { pid: pid.parse().ok()?, parent, name: name.to_owned() })
}
