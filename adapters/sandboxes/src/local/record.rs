//! What is written down of a process, so that every later server can tell what became of it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use commands::ports::{Exit, ProcessState};
use serde::{Deserialize, Serialize};

use super::procs::{self, Process};

/// Written by the supervisor alone. Read by servers of later versions: fields are only added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Numbers of processes mean something until the next start of the host.
    pub(crate) boot: String,
    pub(crate) supervisor: Process,
    /// The first process of the namespace. Nothing in it outlives this one.
    pub(crate) init: Option<Process>,
    pub(crate) ended: Option<Ended>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
    /// Bubblewrap was.
    Sandbox(i32),
    TimedOut,
    /// The command was never run.
    Failed(i32),
}

impl Ended {
    /// A shell tells of signals in the same way, so a code above 128 is taken for one.
    pub(crate) fn from_code(code: i32) -> Self {
        if (129..=192).contains(&code) { Self::Signal(code - 128) } else { Self::Code(code) }
    }

    pub(crate) fn exit(&self) -> Exit {
        match *self {
            Self::Code(code) | Self::Failed(code) => Exit::Code(code),
            Self::Signal(signal) => Exit::Signal(signal),
            Self::Sandbox(signal) => Exit::Sandbox(signal),
            Self::TimedOut => Exit::TimedOut,
        }
    }
}

impl Record {
    pub(crate) fn load(path: &Path) -> io::Result<Option<Self>> {
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// False if the name is taken. Whoever is first has it, also among processes.
    pub(crate) fn claim(&self, path: &Path) -> io::Result<bool> {
        let draft = self.draft(path)?;
        let linked = fs::hard_link(&draft, path);
        fs::remove_file(&draft)?;
        match linked {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn store(&self, path: &Path) -> io::Result<()> {
        fs::rename(self.draft(path)?, path)
    }

    /// Outlasts the host too.
    pub(crate) fn settle(&self, path: &Path) -> io::Result<()> {
        let draft = self.draft(path)?;
        File::open(&draft)?.sync_all()?;
        fs::rename(draft, path)
    }

    fn draft(&self, path: &Path) -> io::Result<PathBuf> {
        let draft = path.with_added_extension(format!("{}.draft", self.supervisor.pid));
        fs::write(&draft, serde_json::to_vec(self)?)?;
        Ok(draft)
    }

    pub(crate) fn runs(&self) -> bool {
        self.ended.is_none() && self.processes().any(Process::lives)
    }

    /// Without an end of its own, what was supervised ended with its supervisor, which the kernel sees to, or with the host.
    pub(crate) fn state(&self) -> ProcessState {
        match &self.ended {
            Some(ended) => ProcessState::Exited(ended.exit()),
            None if self.runs() => ProcessState::Running,
            None if self.boot == procs::boot() => ProcessState::Exited(Exit::Sandbox(9)),
            None => ProcessState::Absent,
        }
    }

    /// Those that are there to be signalled. None if they are of an earlier boot.
    pub(crate) fn processes(&self) -> impl Iterator<Item = Process> + use<> {
        let ours = self.boot == procs::boot();
        [Some(self.supervisor), self.init].into_iter().flatten().filter(move |_| ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record { boot: procs::boot(), supervisor: Process::me().unwrap(), init: None, ended: None }
    }

    #[test]
    fn a_name_is_claimed_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run_1");
        assert!(record().claim(&path).unwrap());
        assert!(!record().claim(&path).unwrap());
        assert_eq!(Record::load(&path).unwrap(), Some(record()));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_has_no_end_and_no_process_was_killed_or_went_with_the_host() {
        let lost = Record { supervisor: Process { pid: 1, since: u64::MAX }, ..record() };
        assert_eq!(record().state(), ProcessState::Running);
        assert_eq!(lost.state(), ProcessState::Exited(Exit::Sandbox(9)));
        assert_eq!(Record { boot: "another".to_owned(), ..lost }.state(), ProcessState::Absent);
        assert_eq!(Record { boot: "another".to_owned(), ..record() }.state(), ProcessState::Absent);
    }

    #[test]
    fn the_form_on_disk_stays() {
        let record = Record {
            boot: "b".to_owned(),
            supervisor: Process { pid: 7, since: 70 },
            init: Some(Process { pid: 8, since: 80 }),
            ended: Some(Ended::Code(3)),
        };
        let text = r#"{"boot":"b","supervisor":{"pid":7,"since":70},"init":{"pid":8,"since":80},"ended":{"code":3}}"#;
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
        assert_eq!(serde_json::from_str::<Record>(text).unwrap(), record);
    }

    #[test]
    fn codes_above_128_are_signals() {
        assert_eq!(Ended::from_code(137), Ended::Signal(9));
        assert_eq!(Ended::from_code(128), Ended::Code(128));
        assert_eq!(Ended::from_code(255), Ended::Code(255));
    }
}
