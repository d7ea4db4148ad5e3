use projector::SinkError;

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
    pub(crate) fn io(what: &std::path::Path, error: &std::io::Error) -> Self {
        Self::Unavailable(format!("{}: {error}", what.display()))
    }
}

impl From<DatasetError> for SinkError {
    fn from(error: DatasetError) -> Self {
        Self::Unavailable(error.to_string())
    }
}
