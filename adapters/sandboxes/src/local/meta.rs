//! A machine as a directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use commands::ports::Limits;
use events::{EnvironmentId, HouseId, SandboxId, ThreadId};
use serde::{Deserialize, Serialize};

use super::doors::Door;

/// What a machine was made of. Read by servers of later versions: fields are only added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meta {
    pub(crate) house: HouseId,
    pub(crate) sandbox: SandboxId,
    pub(crate) environment: EnvironmentId,
    pub(crate) thread: Option<ThreadId>,
    /// The user of the host as whom all of it runs; none if the server is not root, and all runs as the server does.
    pub(crate) user: Option<u32>,
    pub(crate) limits: Limits,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) doors: Vec<Door>,
    /// A repository of this host that it was cloned from, and may fetch from.
    pub(crate) repository: Option<PathBuf>,
    pub(crate) printed: String,
}

/// Where the parts of a machine are. Only the tree, the home and the sockets can be seen from inside.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) root: PathBuf,
}

impl Place {
    pub(crate) fn tree(&self) -> PathBuf {
        self.root.join("work")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    pub(crate) fn sockets(&self) -> PathBuf {
        self.root.join("run")
    }

    pub(crate) fn etc(&self) -> PathBuf {
        self.root.join("etc")
    }

    /// Records of processes that outlive the server.
    pub(crate) fn launched(&self) -> PathBuf {
        self.root.join("launched")
    }

    /// Records of commands that end with the server.
    pub(crate) fn executed(&self) -> PathBuf {
        self.root.join("executed")
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.root.join("log")
    }

    fn meta(&self) -> PathBuf {
        self.root.join("meta.json")
    }

    /// None if there is no machine, or only one that was not finished or is being taken away.
    pub(crate) fn load(&self) -> io::Result<Option<Meta>> {
        match fs::read(self.meta()) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// From here on the machine is made.
    pub(crate) fn store(&self, meta: &Meta) -> io::Result<()> {
        let draft = self.root.join("meta.draft");
        let mut file = File::create(&draft)?;
        file.write_all(&serde_json::to_vec_pretty(meta)?)?;
        file.sync_all()?;
        fs::rename(draft, self.meta())?;
        File::open(&self.root)?.sync_all()
    }

    /// From here on the machine is gone, whatever is still to be removed.
    pub(crate) fn forget(&self) -> io::Result<()> {
        match fs::remove_file(self.meta()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Every record there is, by its path.
    pub(crate) fn records(&self) -> Vec<PathBuf> {
        [self.launched(), self.executed()].iter().flat_map(|directory| files(directory)).collect()
    }
}

/// Drafts left out.
fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_none_or(|extension| extension != "draft")).collect()
}
