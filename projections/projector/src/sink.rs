//! Where changes go.

use std::future::Future;

use event_log::Cursor;

/// How far a copy has come. Stored by the sink in the transaction of the changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    pub cursor: Cursor,
    /// Records of the log below the cursor.
    pub records: u64,
    /// Log time of the last commit applied, in unix milliseconds.
    pub time: u64,
}

impl Checkpoint {
    /// Comparable with the position of a receipt.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.cursor.next
    }
}

/// A run of whole commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: Checkpoint,
    pub to: Checkpoint,
}

#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Another runner took over, or another copy was put in this one's place: look again.
    #[error("the checkpoint moved")]
    Moved,
    /// The store will never take this change.
    #[error("change {change} was refused: {why}")]
    Refused { change: usize, why: String },
    /// What is there cannot be read, and a rebuild makes it anew.
    #[error("{0}")]
    Damaged(String),
    #[error("the store of the projection does not answer: {0}")]
    Unavailable(String),
}

pub trait Sink<C>: Send {
    fn checkpoint(&mut self) -> impl Future<Output = Result<Checkpoint, SinkError>> + Send;

    /// Whether this sink is the one that feeds its copy. A claim ends with the sink; it saves work, the checkpoint keeps order.
    fn claim(&mut self) -> impl Future<Output = Result<bool, SinkError>> + Send;

    /// All of it and the checkpoint, or nothing. `Moved` unless the checkpoint is at `span.from`, so that committing a span
    /// twice leaves the same contents as once.
    fn commit(&mut self, span: &Span, changes: Vec<C>) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Leaves a note of why the copy is not fed any more; the next commit takes it away.
    fn stopped(&mut self, why: &str) -> impl Future<Output = Result<(), SinkError>> + Send;
}
