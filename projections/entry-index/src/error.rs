use projector::SinkError;
use tantivy::directory::error::OpenReadError;

#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("the index is damaged: {0}; `arbe rebuild entries` makes it anew")]
    Damaged(String),
    #[error("the index cannot be used now: {0}")]
    Unavailable(String),
}

impl From<tantivy::TantivyError> for IndexError {
    fn from(error: tantivy::TantivyError) -> Self {
        use tantivy::TantivyError as E;
        let damaged = matches!(error, E::DataCorruption(_) | E::IncompatibleIndex(_) | E::SchemaError(_))
            || matches!(&error, E::IoError(error) if is_damage(error))
            || matches!(error, E::OpenReadError(OpenReadError::FileDoesNotExist(_) | OpenReadError::IncompatibleIndex(_)))
            || matches!(&error, E::OpenReadError(OpenReadError::IoError { io_error, .. }) if is_damage(io_error));
        if damaged { Self::Damaged(error.to_string()) } else { Self::Unavailable(error.to_string()) }
    }
}

impl From<std::io::Error> for IndexError {
    fn from(error: std::io::Error) -> Self {
        if is_damage(&error) { Self::Damaged(error.to_string()) } else { Self::Unavailable(error.to_string()) }
    }
}

/// The file can be read, and is not what was written.
pub(crate) fn is_damage(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput)
}

impl From<IndexError> for SinkError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Damaged(_) => Self::Damaged(error.to_string()),
            IndexError::Unavailable(_) => Self::Unavailable(error.to_string()),
        }
    }
}
