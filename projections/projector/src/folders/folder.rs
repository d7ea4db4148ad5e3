//! One copy: a directory with its state.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use event_log::{Cursor, Digest};
use serde::{Deserialize, Serialize};

use super::{FolderError, files, live_name};
use crate::sink::Checkpoint;

const STATE: &str = "state.json";
const COMMIT: &str = "commit";
pub(super) const RETIRED: &str = "retired";
pub(super) const READERS: &str = "readers";
/// Locked by the one who feeds a copy.
pub(super) const FEEDER: &str = "feeder";

/// One copy, be its directory there or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    projection: &'static str,
}

/// How far a copy is, and what it is for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FolderState {
    next: u64,
    digest: Digest,
    records: u64,
    time: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stopped: Option<String>,
    /// Tables or indexes that were made, by name: one that is gone is missed.
    #[serde(default)]
    made: BTreeSet<String>,
    /// Of a copy that is being built, or of the past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<String>,
    /// Since when the machine had been running. What was written beyond the checkpoint of an earlier run was never synced.
    #[serde(default)]
    boot: String,
}

impl FolderState {
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { cursor: Cursor { next: self.next, digest: self.digest }, records: self.records, time: self.time }
    }

    /// What was made in the copy, by the names its feeder gave.
    #[must_use]
    pub fn made(&self) -> &BTreeSet<String> {
        &self.made
    }

    /// Whether the machine was started again since: what is beyond the checkpoint may not have come to the disk.
    #[must_use]
    pub fn is_of_an_earlier_run(&self) -> bool {
        !self.boot.is_empty() && self.boot != boot()
    }

    pub(super) fn labelled(self, label: Option<&str>) -> Self {
        Self { label: label.map(str::to_owned), ..self }
    }

    pub(super) fn stopped(self, why: Option<&str>) -> Self {
        Self { stopped: why.map(str::to_owned), ..self }
    }

    pub(super) fn at(self, checkpoint: &Checkpoint) -> Self {
        let Checkpoint { cursor: Cursor { next, digest }, records, time } = *checkpoint;
        Self { next, digest, records, time, boot: boot(), ..self }
    }

    pub(super) fn with(mut self, made: impl IntoIterator<Item = String>) -> Self {
        self.made.extend(made);
        self
    }
}

/// Changes with every start of the machine; empty where the system does not say.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

pub(super) fn version_of(name: &str) -> Option<(u32, u64)> {
    let (version, number) = name.strip_prefix('v')?.split_once('_')?;
    Some((version.parse().ok()?, number.parse().ok()?))
}

impl Folder {
    pub(super) fn new(path: PathBuf, projection: &'static str) -> Self {
        Self { path, projection }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    pub(super) fn version(&self) -> u32 {
        version_of(self.name()).map_or(0, |(version, _)| version)
    }

    pub fn state(&self) -> Result<FolderState, FolderError> {
        let path = self.path.join(STATE);
        let damaged = |why: String| FolderError::Damaged { projection: self.projection, why };
        let text = files::read(&path)?.ok_or_else(|| damaged(format!("{} is missing", path.display())))?;
        serde_json::from_str(&text).map_err(|error| damaged(format!("{}: {error}", path.display())))
    }

    pub(super) fn write_state(&self, state: &FolderState) -> Result<(), FolderError> {
        let path = self.path.join(STATE);
        let text = serde_json::to_string(state).map_err(|error| FolderError::io(&path, error.into()))?;
        files::write(&path, &text)
    }

    pub fn checkpoint(&self) -> Result<Checkpoint, FolderError> {
        Ok(self.state()?.checkpoint())
    }

    /// Whether the copy may still be fed: it serves, or it is being built. Every other one was replaced.
    pub fn is_wanted(&self) -> Result<bool, FolderError> {
        let directory = self.path.parent().unwrap_or(&self.path);
        Ok(live_name(directory)?.as_deref() == Some(self.name()) || self.state()?.label.is_some())
    }

    /// Nothing is committed as long as the lock is there.
    pub async fn stand_still(&self) -> Result<File, FolderError> {
        files::lock(&self.path.join(COMMIT)).await
    }

    /// The copy is not removed as long as the lock is there.
    pub fn reading(&self) -> Result<File, FolderError> {
        files::lock_shared(&self.path.join(READERS))
    }

    /// `None`: somebody reads. Nobody begins to as long as the lock is there.
    pub fn unread(&self) -> Result<Option<File>, FolderError> {
        self.try_lock(READERS)
    }

    pub(super) fn try_lock(&self, file: &str) -> Result<Option<File>, FolderError> {
        files::try_lock(&self.path.join(file))
    }

    pub(super) fn remove(&self) -> Result<(), FolderError> {
        std::fs::remove_dir_all(&self.path).map_err(|error| FolderError::io(&self.path, error))
    }
}
