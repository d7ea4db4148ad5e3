use projector::{FolderError, SinkError};

#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// Somebody else wrote first, every time.
    #[error("the datasets were written by others {attempts} times in a row")]
    Conflict { attempts: u32 },
    #[error("a dataset is damaged: {0}; `arbe rebuild sessions` makes it anew")]
    Damaged(String),
    #[error("the datasets do not answer: {0}")]
    Unavailable(String),
}

impl DatasetError {
    /// Of a copy that was whole when it was written: what cannot be read of it is damaged.
    pub(crate) fn in_what_was_written(self) -> Self {
        match self {
            Self::Unavailable(why) => Self::Damaged(why),
            other @ (Self::Conflict { .. } | Self::Damaged(_)) => other,
        }
    }

    pub(crate) fn io(what: &std::path::Path, error: &std::io::Error) -> Self {
        Self::Unavailable(format!("{}: {error}", what.display()))
    }
}

impl From<FolderError> for DatasetError {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::Damaged { why, .. } => Self::Damaged(why),
            FolderError::Unavailable { .. } => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<DatasetError> for SinkError {
    fn from(error: DatasetError) -> Self {
        match error {
            DatasetError::Damaged(_) => Self::Damaged(error.to_string()),
            DatasetError::Conflict { .. } | DatasetError::Unavailable(_) => Self::Unavailable(error.to_string()),
        }
    }
}
