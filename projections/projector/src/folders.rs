//! Copies of a projection as directories: `v<version>_<number>`, of which the file `live` names the one that serves. A copy that is not
//! named there and has no label was replaced.
//!
//! Names of files, of directories and of the fields of `state.json` are persisted; never rename one.

mod error;
mod feeder;
pub mod files;
mod folder;
#[cfg(test)]
mod tests;
mod tidy;

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub use error::FolderError;
pub use feeder::{Feeder, FolderCommit};
pub use folder::{Folder, FolderState};

use crate::copies::{Dropped, Live};
use crate::sink::Checkpoint;
use folder::{FEEDER, READERS, RETIRED, version_of};

const LIVE: &str = "live";
const LOCK: &str = "lock";

/// The copies of one projection, in a directory of their own.
#[derive(Clone, Debug)]
pub struct Folders {
    directory: PathBuf,
    projection: &'static str,
    version: u32,
}

/// A copy as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyInfo {
    pub projection: &'static str,
    /// Begins with that of the projection.
    pub name: String,
    pub version: u32,
    /// `live`, `building`, or `retired` until nobody reads it any more.
    pub state: &'static str,
    pub label: String,
    pub position: u64,
    pub records: u64,
    pub stopped: Option<String>,
}

/// While it is there the live copy stands still, and no other becomes the live one.
#[derive(Debug)]
pub struct FolderHold {
    _alone: File,
    _standing: Option<File>,
}

/// The copy that serves, by name.
fn live_name(directory: &Path) -> Result<Option<String>, FolderError> {
    let name = files::read(&directory.join(LIVE))?;
    Ok(name.map(|name| name.trim().to_owned()).filter(|name| version_of(name).is_some()))
}

impl Folders {
    /// Copies under `directory`, which is made if need be. What is said is nobody else's business. New copies are of `version`.
    pub fn open(directory: &Path, projection: &'static str, version: u32) -> Result<Self, FolderError> {
        let made = std::fs::create_dir_all(directory);
        let closed = made.and_then(|()| std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700)));
        closed.map_err(|error| FolderError::io(directory, error))?;
        Ok(Self { directory: directory.to_owned(), projection, version })
    }

    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn folder(&self, name: &str) -> Folder {
        Folder::new(self.directory.join(name), self.projection)
    }

    fn names(&self) -> Result<Vec<String>, FolderError> {
        let fault = |error: std::io::Error| FolderError::io(&self.directory, error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.directory).map_err(fault)? {
            names.extend(entry.map_err(fault)?.file_name().into_string().ok().filter(|name| version_of(name).is_some()));
        }
        names.sort_by_key(|name| version_of(name));
        Ok(names)
    }

    /// The copy that is named as the one that serves, be it there or not. `None`: nothing was ever projected.
    pub fn serving(&self) -> Result<Option<Folder>, FolderError> {
        Ok(live_name(&self.directory)?.map(|name| self.folder(&name)))
    }

    /// How far the copy that serves has come.
    pub fn checkpoint(&self) -> Result<Checkpoint, FolderError> {
        self.serving()?.map_or(Ok(Checkpoint::default()), |copy| copy.checkpoint())
    }

    /// Every copy there is.
    pub fn copies(&self) -> Result<Vec<CopyInfo>, FolderError> {
        let live = live_name(&self.directory)?;
        let info = |name: String| {
            let state = self.folder(&name).state()?;
            let serves = live.as_ref() == Some(&name);
            Ok(CopyInfo {
                projection: self.projection,
                version: version_of(&name).map_or(0, |(version, _)| version),
                name: format!("{}_{name}", self.projection),
                state: match &state.label {
                    _ if serves => LIVE,
                    Some(_) => "building",
                    None => RETIRED,
                },
                position: state.checkpoint().position(),
                records: state.checkpoint().records,
                stopped: state.stopped,
                label: state.label.unwrap_or_default(),
            })
        };
        self.names()?.into_iter().map(info).collect()
    }

    /// Drops a copy that does not serve, by the name that [`Folders::copies`] gives it.
    pub async fn drop_copy(&self, name: &str) -> Result<Dropped, FolderError> {
        let _alone = self.arranging().await?;
        let name = name.strip_prefix(self.projection).and_then(|rest| rest.strip_prefix('_')).unwrap_or_default();
        if !self.names()?.iter().any(|known| known == name) {
            return Ok(Dropped::Unknown);
        }
        if live_name(&self.directory)?.as_deref() == Some(name) {
            return Ok(Dropped::Live);
        }
        let copy = self.folder(name);
        let (unfed, unread) = (copy.try_lock(FEEDER)?, copy.try_lock(READERS)?);
        if unfed.is_none() || unread.is_none() {
            return Ok(Dropped::Busy);
        }
        copy.remove()?;
        Ok(Dropped::Gone)
    }

    /// The copy that serves, made empty if there is none. Nobody else arranges copies while the lock is there, so that there is time
    /// to see whether the copy is sound.
    pub async fn live(&self) -> Result<(Live<Folder>, File), FolderError> {
        let alone = self.arranging().await?;
        self.tidy_up()?;
        let copy = match self.serving()? {
            Some(copy) => copy,
            None => {
                let made = self.make(None)?;
                self.name(&made)?;
                made
            }
        };
        let version = copy.version();
        let live = if version == self.version { Live::Current(copy) } else { Live::Outdated { version } };
        Ok((live, alone))
    }

    /// The unfinished copy of this label, made empty if there is none.
    pub async fn beside(&self, label: &str) -> Result<Folder, FolderError> {
        let _alone = self.arranging().await?;
        self.tidy_up()?;
        let live = live_name(&self.directory)?;
        for name in self.names()?.into_iter().rev().filter(|name| live.as_ref() != Some(name)) {
            let copy = self.folder(&name);
            if copy.version() == self.version && copy.state().is_ok_and(|state| state.label.as_deref() == Some(label)) {
                return Ok(copy);
            }
        }
        self.make(Some(label))
    }

    /// Stops the live copy (if there is one) and says where.
    pub async fn hold(&self) -> Result<(FolderHold, Checkpoint), FolderError> {
        let alone = self.arranging().await?;
        let Some(live) = self.serving()? else {
            return Ok((FolderHold { _alone: alone, _standing: None }, Checkpoint::default()));
        };
        let there = std::fs::exists(live.path()).map_err(|error| FolderError::io(live.path(), error))?;
        let standing = if there { Some(live.stand_still().await?) } else { None };
        let at = live.checkpoint().unwrap_or_default();
        Ok((FolderHold { _alone: alone, _standing: standing }, at))
    }

    /// Puts a copy in the place of the held one. From the first of the two writes on it serves, and the one before is not wanted any more.
    pub fn swap(&self, _hold: FolderHold, copy: &Folder) -> Result<(), FolderError> {
        self.name(copy)?;
        copy.write_state(&copy.state()?.labelled(None))?;
        self.tidy_up()
    }

    pub async fn discard(&self, copy: &Folder) -> Result<(), FolderError> {
        let _alone = self.arranging().await?;
        copy.remove()
    }

    /// Above the number of every other copy, also of one that serves and is lost: what is remembered of a copy is remembered by its name.
    fn make(&self, label: Option<&str>) -> Result<Folder, FolderError> {
        let names = self.names()?.into_iter().chain(live_name(&self.directory)?);
        let highest = names.filter_map(|name| version_of(&name)).map(|(_, number)| number).max();
        let copy = self.folder(&format!("v{}_{}", self.version, highest.unwrap_or_default() + 1));
        std::fs::create_dir(copy.path()).map_err(|error| FolderError::io(copy.path(), error))?;
        copy.write_state(&FolderState::default().labelled(label))?;
        Ok(copy)
    }

    /// From now on this copy serves.
    fn name(&self, copy: &Folder) -> Result<(), FolderError> {
        files::write(&self.directory.join(LIVE), copy.name())
    }

    async fn arranging(&self) -> Result<File, FolderError> {
        files::lock(&self.directory.join(LOCK)).await
    }
}
