//! What the log knows of one stream, and how a record changes it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::offset::Offset;
use crate::record::{Fork, Op, Record, Stamp};

/// Fixed at creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub generation: u64,
    pub content_type: Arc<str>,
    pub ttl_seconds: Option<u64>,
    pub expires_at: Option<u64>,
    pub fork: Option<Fork>,
    pub created_at: u64,
}

impl Config {
    #[must_use]
    pub fn is_json(&self) -> bool {
        media_type(&self.content_type).eq_ignore_ascii_case("application/json")
    }

    /// Where the stream's own records begin.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.fork.as_ref().map_or(0, |fork| fork.at)
    }
}

#[must_use]
pub fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// The part of a stream that appends change; cheap to copy, so that a writer can think ahead of what is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub config: Arc<Config>,
    pub tail: u64,
    /// Bytes of the stream's own appends.
    pub bytes: u64,
    pub closed: bool,
    /// The producer stamp that closed it; a retry of it is a duplicate and not an error.
    pub closed_by: Option<Arc<Stamp>>,
    pub stream_seq: Option<Arc<str>>,
    /// Forks that read through this stream.
    pub forks: u32,
    /// Deleted or expired, and kept only for its forks.
    pub deleted: bool,
    /// Last durable activity, from which the sliding lifetime counts.
    pub touched: u64,
}

impl Head {
    /// Positions of the stream itself; those up to a fork's base are its source's.
    #[must_use]
    pub fn owns(&self, position: u64) -> bool {
        self.config.fork.is_none() || position > self.config.base()
    }

    #[must_use]
    pub fn deadline(&self, last_read: u64) -> Option<u64> {
        let sliding = self.config.ttl_seconds.map(|ttl| self.touched.max(last_read).saturating_add(ttl.saturating_mul(1_000)));
        match (sliding, self.config.expires_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Producer {
    pub epoch: u64,
    pub seq: u64,
}

/// Where a run of a stream's units is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub start: u64,
    pub place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Record `index` of slot `n`.
    Slot { n: u64, index: u32 },
    /// A block of the pack that begins at slot `from`.
    Pack { from: u64, offset: u32, len: u32 },
}

#[derive(Debug)]
pub struct Stream {
    pub head: Head,
    pub producers: Option<Box<BTreeMap<Arc<str>, Producer>>>,
    pub extents: Vec<Extent>,
    /// When this server last served a read; not persisted, so that reading costs no write.
    pub last_read: AtomicU64,
}

impl Stream {
    #[must_use]
    pub fn new(head: Head) -> Self {
        Self { head, producers: None, extents: Vec::new(), last_read: AtomicU64::new(0) }
    }

    #[must_use]
    pub fn expired(&self, now: u64) -> bool {
        self.head.deadline(self.last_read.load(Ordering::Relaxed)).is_some_and(|deadline| deadline <= now)
    }
}

/// Streams as a record changes them: the durable table, or a writer's draft on top of it.
pub trait Table {
    fn head(&self, name: &str) -> Option<Head>;
    fn set_head(&mut self, name: &Arc<str>, head: Option<Head>);
    fn set_producer(&mut self, name: &Arc<str>, head: &Head, stamp: &Stamp);
}

/// A valid slot carried a record that cannot follow from what came before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stream {stream:?}: {what}")]
pub struct Impossible {
    pub stream: Arc<str>,
    pub what: &'static str,
}

/// The only way a stream changes.
pub fn evolve(table: &mut impl Table, record: &Record) -> Result<(), Impossible> {
    let impossible = |what| Impossible { stream: record.stream.clone(), what };
    let existing = table.head(&record.stream);
    if let Op::Created(created) = &record.op {
        if existing.is_some() {
            return Err(impossible("created twice"));
        }
        if let Some(fork) = &created.fork {
            let mut source = table.head(&fork.source).ok_or_else(|| impossible("fork of an absent stream"))?;
            source.forks += 1;
            table.set_head(&fork.source, Some(source));
        }
        table.set_head(&record.stream, Some(born(created, record.time)));
        return Ok(());
    }
    let mut head = existing.ok_or_else(|| impossible("changed but absent"))?;
    head.touched = head.touched.max(record.time);
    match &record.op {
        Op::Appended(appended) => {
            if appended.generation != head.config.generation {
                return Err(impossible("append to another incarnation"));
            }
            if appended.first != head.tail {
                return Err(impossible("append does not start at the tail"));
            }
            head.tail += appended.payload.units();
            head.bytes += appended.payload.len() as u64;
            if let Some(seq) = &appended.stream_seq {
                head.stream_seq = Some(seq.clone());
            }
            if appended.close {
                close(&mut head, appended.producer.as_ref());
            }
            if let Some(stamp) = &appended.producer {
                table.set_producer(&record.stream, &head, stamp);
            }
        }
        Op::Closed { producer } => {
            close(&mut head, producer.as_ref());
            if let Some(stamp) = producer {
                table.set_producer(&record.stream, &head, stamp);
            }
        }
        Op::Deleted { .. } => {
            delete(table, &record.stream, head);
            return Ok(());
        }
        Op::Renewed | Op::Created(_) => {}
    }
    table.set_head(&record.stream, Some(head));
    Ok(())
}

fn born(created: &crate::record::Created, time: u64) -> Head {
    let config = Config {
        generation: created.generation,
        content_type: created.content_type.clone(),
        ttl_seconds: created.ttl_seconds,
        expires_at: created.expires_at,
        fork: created.fork.clone(),
        created_at: time,
    };
    Head {
        tail: config.base(),
        config: Arc::new(config),
        bytes: 0,
        closed: false,
        closed_by: None,
        stream_seq: None,
        forks: 0,
        deleted: false,
        touched: time,
    }
}

fn close(head: &mut Head, producer: Option<&Stamp>) {
    head.closed = true;
    head.closed_by = producer.cloned().map(Arc::new);
}

/// A stream that forks read through stays until the last of them goes; then the whole chain of such streams goes.
fn delete(table: &mut impl Table, name: &Arc<str>, mut head: Head) {
    if head.forks > 0 {
        head.deleted = true;
        table.set_head(name, Some(head));
        return;
    }
    table.set_head(name, None);
    let mut orphan = head.config.fork.as_ref().map(|fork| fork.source.clone());
    while let Some(source) = orphan.take() {
        let Some(mut head) = table.head(&source) else { return };
        head.forks = head.forks.saturating_sub(1);
        if head.deleted && head.forks == 0 {
            orphan = head.config.fork.as_ref().map(|fork| fork.source.clone());
            table.set_head(&source, None);
        } else {
            table.set_head(&source, Some(head));
        }
    }
}

/// The token of `position` in the stream `head`, looking up sources of forks with `table`.
pub fn token(table: &impl Table, head: &Head, position: u64) -> Offset {
    let mut head = head.clone();
    while !head.owns(position) {
        let source = head.config.fork.as_ref().and_then(|fork| table.head(&fork.source));
        match source {
            Some(source) => head = source,
            None => break,
        }
    }
    Offset { generation: head.config.generation, position }
}
