//! Who feeds a copy, and how a commit moves its checkpoint.

use std::fs::File;

use super::folder::FEEDER;
use super::{Folder, FolderError};
use crate::sink::{Checkpoint, SinkError, Span};

/// One who feeds a copy, or would. What a claim gives ends with it.
#[derive(Debug)]
pub struct Feeder {
    folder: Folder,
    claim: Option<File>,
}

/// A commit that has begun. The copy stands still for everybody else, and its checkpoint moves at the end or not at all.
#[derive(Debug)]
#[must_use = "the checkpoint moves at its end"]
pub struct FolderCommit {
    folder: Folder,
    to: Checkpoint,
    _standing: File,
}

impl Feeder {
    #[must_use]
    pub fn new(folder: Folder) -> Self {
        Self { folder, claim: None }
    }

    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Whether this is the one who feeds.
    pub fn claim(&mut self) -> Result<bool, FolderError> {
        if self.claim.is_none() {
            self.claim = self.folder.try_lock(FEEDER)?;
        }
        Ok(self.claim.is_some())
    }

    /// `Moved` unless the copy is still wanted and at `span.from`.
    pub async fn begin(&mut self, span: &Span) -> Result<FolderCommit, SinkError> {
        if !self.claim()? {
            return Err(SinkError::Unavailable("another process feeds the copy".into()));
        }
        let standing = self.folder.stand_still().await?;
        if !self.folder.is_wanted()? || self.folder.checkpoint()? != span.from {
            return Err(SinkError::Moved);
        }
        Ok(FolderCommit { folder: self.folder.clone(), to: span.to, _standing: standing })
    }

    /// Leaves a note of why the copy is not fed any more; the next commit takes it away.
    pub async fn stopped(&mut self, why: &str) -> Result<(), FolderError> {
        if !self.claim()? {
            return Ok(());
        }
        let _standing = self.folder.stand_still().await?;
        self.folder.write_state(&self.folder.state()?.stopped(Some(why)))
    }
}

impl FolderCommit {
    /// When everything that belongs to the commit is on the disk. `made` names what the commit made, or all there is.
    pub fn end(self, made: impl IntoIterator<Item = String>) -> Result<(), FolderError> {
        let state = self.folder.state()?.stopped(None).at(&self.to).with(made);
        self.folder.write_state(&state)
    }
}
