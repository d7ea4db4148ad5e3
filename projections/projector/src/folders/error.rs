use std::io;
use std::path::{Path, PathBuf};

use crate::sink::SinkError;

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A rebuild makes it anew.
    #[error("a copy of the {projection} is damaged: {why}; `arbe rebuild {projection}` makes it anew")]
    Damaged { projection: &'static str, why: String },
    #[error("{}: {error}", path.display())]
    Unavailable { path: PathBuf, error: io::Error },
}

impl FolderError {
    pub(super) fn io(path: &Path, error: io::Error) -> Self {
        Self::Unavailable { path: path.to_owned(), error }
    }
}

impl From<FolderError> for SinkError {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::Damaged { .. } => Self::Damaged(error.to_string()),
            FolderError::Unavailable { .. } => Self::Unavailable(error.to_string()),
        }
    }
}
