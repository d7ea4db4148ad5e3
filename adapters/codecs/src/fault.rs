//! What was wrong with a source. The rest of it is read all the same.

use std::fmt;
use std::sync::Arc;

use crate::value::Malformed;

/// `adapter-integrity-no-silent-drops`
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{adapter}: {location}: {what}")]
pub struct Fault {
    pub adapter: &'static str,
    pub location: Location,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Relative to the root that was read.
    pub file: Arc<str>,
    /// From one on; none for the file as a whole.
    pub line: Option<u64>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum What {
    #[error("not JSON: {0}")]
    Malformed(#[from] Malformed),
    #[error("not UTF-8")]
    NotUtf8,
    #[error("a line of {bytes} bytes is more than is read")]
    LineTooLong { bytes: u64 },
    /// `adapter-bounded-values`: that it was there, and how long, is kept in its place.
    #[error("a value of {bytes} bytes is more than is kept; its size stands in its place")]
    Cut { bytes: usize },
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The session is left out: a made-up one would be worse.
    #[error("{0} cannot be told from the source; the session is left out")]
    Missing(&'static str),
    #[error("version {0} is newer than what is known; what it adds is carried as it is")]
    Version(i64),
    #[error("{0}")]
    Unfit(String),
}
