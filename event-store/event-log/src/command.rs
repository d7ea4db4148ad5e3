//! What a caller may ask of the log, and what it is told.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::offset::Offset;
use crate::record::{CommandId, Op, Payload, Record, Stamp};
use crate::stream::{Producer, Table, token};

/// A slot takes 4 MiB and one command more, and must stay well below what a reader accepts.
const COMMAND_MAX: usize = 16 << 20;
pub const MESSAGES_MAX: usize = 1 << 20;

/// A command id made of names: the same names, the same command.
#[must_use]
pub fn command_id(parts: &[&str]) -> CommandId {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let mut id = [0; 16];
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    u128::from_le_bytes(id)
}

/// Changes to one or more streams that happen together or not at all. Each stream is named once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Command {
    pub id: Option<CommandId>,
    /// Set when an earlier attempt may have been written: the log's head before that attempt.
    pub since: Option<u64>,
    /// Streams that were read to make this command, and where they then stood.
    pub expect: Vec<Expect>,
    pub changes: Vec<(Arc<str>, Change)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Expect {
    pub stream: Arc<str>,
    /// `None`: the stream does not exist.
    pub tail: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Change {
    Create(Create),
    Append(Append),
    Close {
        producer: Option<Stamp>,
    },
    Delete,
    /// A read that pushes the sliding lifetime forward.
    Renew,
    /// Deletes the stream if its lifetime is over.
    Expire,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Create {
    /// `None`: the fork source's, or `application/octet-stream`.
    pub content_type: Option<Arc<str>>,
    pub ttl_seconds: Option<u64>,
    pub expires_at: Option<u64>,
    pub closed: bool,
    pub fork: Option<ForkFrom>,
    pub payload: Option<Result<Payload, BadBody>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForkFrom {
    pub source: Arc<str>,
    /// `None`: the source's tail.
    pub at: Option<Offset>,
    pub sub: u64,
    /// The `sub` units that follow `at`, read from the source beforehand; with the source's generation they cannot change.
    pub prefix: Option<(u64, Payload)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Append {
    /// `None`: whatever the stream's is.
    pub content_type: Option<Arc<str>>,
    /// A body that cannot be used is still judged in the protocol's order of checks.
    pub payload: Result<Payload, BadBody>,
    pub producer: Option<Stamp>,
    pub stream_seq: Option<Arc<str>>,
    pub close: bool,
}

impl Command {
    #[must_use]
    pub fn one(stream: impl Into<Arc<str>>, change: Change) -> Self {
        Self { id: None, since: None, expect: Vec::new(), changes: vec![(stream.into(), change)] }
    }

    /// Payload bytes carried, for bounding queues and slots.
    #[must_use]
    pub fn weight(&self) -> usize {
        let text = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        let stamp = |stamp: &Option<Stamp>| stamp.as_ref().map_or(0, |stamp| stamp.id.len() + 20);
        let bytes = |change: &Change| match change {
            Change::Create(create) => {
                let prefix =
                    create.fork.as_ref().and_then(|fork| fork.prefix.as_ref()).map_or(0, |(_, payload)| payload.weight());
                let source = create.fork.as_ref().map_or(0, |fork| fork.source.len());
                let payload = create.payload.as_ref().and_then(|p| p.as_ref().ok()).map_or(0, Payload::weight);
                prefix + source + payload + text(&create.content_type)
            }
            Change::Append(append) => {
                let payload = append.payload.as_ref().map_or(0, Payload::weight);
                payload + text(&append.content_type) + text(&append.stream_seq) + stamp(&append.producer)
            }
            Change::Close { producer } => stamp(producer),
            Change::Delete | Change::Renew | Change::Expire => 0,
        };
        self.changes.iter().map(|(name, change)| 2 * name.len() + bytes(change) + 128).sum()
    }

    pub(crate) fn check_messages(&self) -> Result<(), Rejection> {
        let messages = |payload: Option<&Payload>| payload.and_then(|p| p.cuts.as_ref()).map_or(0, |cuts| cuts.len());
        let most = self.changes.iter().map(|(_, change)| match change {
            Change::Create(create) => messages(create.payload.as_ref().and_then(|p| p.as_ref().ok())),
            Change::Append(append) => messages(append.payload.as_ref().ok()),
            Change::Close { .. } | Change::Delete | Change::Renew | Change::Expire => 0,
        });
        if most.max().unwrap_or(0) > MESSAGES_MAX {
            return Err(Rejection::TooLarge(format!("one append holds at most {MESSAGES_MAX} messages")));
        }
        Ok(())
    }

    /// Bounds what one command can make of a slot, however it is put together. Large payloads are objects of their own by now.
    pub(crate) fn check_size(&self) -> Result<(), Rejection> {
        if self.weight() > COMMAND_MAX {
            return Err(Rejection::TooLarge(format!("one command holds at most {COMMAND_MAX} bytes besides large payloads")));
        }
        Ok(())
    }
}

/// The command is durable, in every stream it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Everything below this slot number includes the command; readers and projections can wait for it.
    pub position: u64,
    /// One per changed stream, in the order of the command.
    pub outcomes: Vec<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub stream: Arc<str>,
    pub status: Status,
    pub tail: Offset,
    pub closed: bool,
    pub producer: Option<Producer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    Done,
    /// It already was as asked, so nothing was written: an existing stream, a repeated close, a producer's retry.
    Already,
}

impl Receipt {
    /// Rebuilds from its records what the command's caller was told.
    pub(crate) fn note(&mut self, table: &impl Table, record: &Record) {
        let head = table.head(&record.stream);
        let tail = head.as_ref().map_or_else(Offset::default, |head| token(table, head, head.tail));
        let closed = head.is_some_and(|head| head.closed);
        let producer = match &record.op {
            Op::Appended(appended) => appended.producer.as_ref(),
            Op::Closed { producer } => producer.as_ref(),
            Op::Created(_) | Op::Deleted { .. } | Op::Renewed => None,
        };
        let producer = producer.map(|stamp| Producer { epoch: stamp.epoch, seq: stamp.seq });
        let outcome = Outcome { stream: record.stream.clone(), status: Status::Done, tail, closed, producer };
        match self.outcomes.last_mut().filter(|last| last.stream == record.stream) {
            Some(last) => *last = outcome,
            None => self.outcomes.push(outcome),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum BadBody {
    #[error("the body is not valid JSON")]
    InvalidJson,
    #[error("an empty array appends nothing")]
    EmptyArray,
}

/// Nothing was written, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejection {
    #[error("no such stream")]
    NotFound,
    #[error("the stream was deleted; forks still read through it")]
    Gone,
    #[error("the path still belongs to a deleted stream that forks read through")]
    Retired,
    #[error("the stream exists with another configuration")]
    ConfigDiffers,
    #[error("the stream is closed")]
    Closed { tail: Offset },
    #[error("the stream has another content type")]
    ContentType,
    #[error("producer epoch is older than {current}")]
    StaleEpoch { current: u64 },
    #[error("a new producer epoch starts at sequence 0")]
    EpochStart,
    #[error("producer sequence {received} leaves a gap after {expected}")]
    ProducerGap { expected: u64, received: u64 },
    #[error("Stream-Seq does not follow the last accepted one")]
    StreamSeq,
    #[error(transparent)]
    BadBody(BadBody),
    #[error("the fork's source does not exist")]
    SourceMissing,
    #[error("the fork's source was deleted")]
    SourceGone,
    #[error("the fork offset is not in the source")]
    ForkOffset,
    #[error("a fork keeps its source's content type")]
    ForkContentType,
    #[error("stream {stream} is at {actual:?}, not at {expected:?}")]
    Conflict { stream: Arc<str>, expected: Option<u64>, actual: Option<u64> },
    #[error("a command names stream {stream} more than once")]
    Repeated { stream: Arc<str> },
    #[error("{0}")]
    TooLarge(String),
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum SubmitError {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    #[error("nothing was written: {0}")]
    NotWritten(String),
    #[error("the write may or may not have landed: {0}")]
    Unknown(String),
    #[error("too much is waiting to be written; nothing was written")]
    Overloaded,
    /// Only said to another server, which then looks for the owner again.
    #[error("another server owns the log")]
    NotOwner,
}

pub(crate) mod raw_bytes {
    use super::Bytes;
    use serde::{Deserializer, Serializer, de::Visitor};

    pub(crate) fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        struct Raw;
        impl Visitor<'_> for Raw {
            type Value = Bytes;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes::copy_from_slice(bytes))
            }

            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Bytes, E> {
                Ok(bytes.into())
            }
        }
        deserializer.deserialize_byte_buf(Raw)
    }
}
