//! Records: everything one append changes, in one piece.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::codec::{DecodeError, Put, Reader};

/// Given by the caller to make a retry harmless: a command id is answered with its first receipt.
pub type CommandId = u128;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub stream: Arc<str>,
    /// Server time at append in unix milliseconds; never decreases within the log.
    pub time: u64,
    pub command: Option<CommandId>,
    pub op: Op,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Created(Created),
    Appended(Appended),
    Closed {
        producer: Option<Stamp>,
    },
    Deleted {
        expired: bool,
    },
    /// A read pushed the sliding lifetime forward.
    Renewed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    pub generation: u64,
    pub content_type: Arc<str>,
    pub ttl_seconds: Option<u64>,
    pub expires_at: Option<u64>,
    pub fork: Option<Fork>,
}

/// Where a fork begins: it reads its source below `at` and its own records from there on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    pub source: Arc<str>,
    pub at: u64,
    /// Units copied out of the source's append at `at`; they are the fork's own first record.
    pub sub: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The incarnation of the stream it belongs to.
    pub generation: u64,
    pub first: u64,
    pub payload: Payload,
    pub producer: Option<Stamp>,
    pub stream_seq: Option<Arc<str>>,
    pub close: bool,
}

/// An idempotent producer's claim on one append.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub id: Arc<str>,
    pub epoch: u64,
    pub seq: u64,
}

/// What one append adds. A stream counts its positions in units: messages if it is JSON, bytes otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    pub body: Body,
    /// JSON only: the end of each message in the comma-joined text.
    pub cuts: Option<Box<[u32]>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    Inline(#[serde(with = "crate::command::raw_bytes")] Bytes),
    /// Too large for a slot: an object of its own, written before the record that names it.
    Blob {
        sha256: [u8; 32],
        len: u32,
    },
}

/// Puts a payload of messages together.
#[derive(Debug, Default)]
pub struct Joiner {
    joined: Vec<u8>,
    cuts: Vec<u32>,
}

impl Joiner {
    pub fn push(&mut self, text: &str) {
        if !self.cuts.is_empty() {
            self.joined.push(b',');
        }
        self.joined.extend_from_slice(text.as_bytes());
        self.cuts.push(self.joined.len() as u32);
    }

    /// `None` without messages.
    #[must_use]
    pub fn finish(self) -> Option<Payload> {
        let cuts = (!self.cuts.is_empty()).then(|| self.cuts.into());
        cuts.map(|cuts| Payload { body: Body::Inline(self.joined.into()), cuts: Some(cuts) })
    }
}

impl Payload {
    #[must_use]
    pub fn bytes(data: Bytes) -> Self {
        Self { body: Body::Inline(data), cuts: None }
    }

    /// Messages are kept as their exact text, joined by commas, so that any run of them is one contiguous slice.
    #[must_use]
    pub fn messages<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut joiner = Joiner::default();
        texts.into_iter().for_each(|text| joiner.push(text));
        joiner.finish().unwrap_or(Self { body: Body::Inline(Bytes::new()), cuts: Some(Box::default()) })
    }

    #[must_use]
    pub fn len(&self) -> usize {
        match &self.body {
            Body::Inline(data) => data.len(),
            Body::Blob { len, .. } => *len as usize,
        }
    }

    /// Bytes it takes in a record.
    pub(crate) fn weight(&self) -> usize {
        let body = match &self.body {
            Body::Inline(data) => data.len(),
            Body::Blob { .. } => 40,
        };
        body + self.cuts.as_ref().map_or(0, |cuts| cuts.len() * std::mem::size_of::<u32>())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.units() == 0
    }

    #[must_use]
    pub fn units(&self) -> u64 {
        self.cuts.as_ref().map_or(self.len(), |cuts| cuts.len()) as u64
    }

    /// The byte range of units `from..to` in the body.
    #[must_use]
    pub fn span(&self, from: u64, to: u64) -> std::ops::Range<usize> {
        let (from, to) = (from as usize, to as usize);
        match &self.cuts {
            None => from..to,
            Some(_) if from >= to => 0..0,
            Some(cuts) => {
                let start = if from == 0 { 0 } else { cuts[from - 1] as usize + 1 };
                start..cuts[to - 1] as usize
            }
        }
    }
}

mod kind {
    //! Persisted; never renumber.
    pub(super) const CREATED: u8 = 1;
    pub(super) const APPENDED: u8 = 2;
    pub(super) const CLOSED: u8 = 3;
    pub(super) const DELETED: u8 = 4;
    pub(super) const EXPIRED: u8 = 5;
    pub(super) const RENEWED: u8 = 6;
}

mod flag {
    //! Persisted; never renumber. Bit 7 is reserved for a key id (crypto-shredding).
    pub(super) const COMMAND: u8 = 1;
    pub(super) const PRODUCER: u8 = 2;
    pub(super) const STREAM_SEQ: u8 = 4;
    pub(super) const CLOSE: u8 = 8;
    pub(super) const TTL: u8 = 16;
    pub(super) const EXPIRES: u8 = 32;
    pub(super) const FORK: u8 = 64;

    pub(super) fn known(kind: u8) -> u8 {
        COMMAND
            | match kind {
                super::kind::CREATED => TTL | EXPIRES | FORK,
                super::kind::APPENDED => PRODUCER | STREAM_SEQ | CLOSE,
                super::kind::CLOSED => PRODUCER,
                _ => 0,
            }
    }
}

impl Record {
    /// Bytes it holds in memory.
    pub(crate) fn weight(&self) -> usize {
        let payload = match &self.op {
            Op::Appended(a) => a.payload.weight(),
            Op::Created(_) | Op::Closed { .. } | Op::Deleted { .. } | Op::Renewed => 0,
        };
        std::mem::size_of::<Self>() + self.stream.len() + payload
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, mut flags) = match &self.op {
            Op::Created(c) => (kind::CREATED, c.flags()),
            Op::Appended(a) => (kind::APPENDED, a.flags()),
            Op::Closed { producer } => (kind::CLOSED, if producer.is_some() { flag::PRODUCER } else { 0 }),
            Op::Deleted { expired: false } => (kind::DELETED, 0),
            Op::Deleted { expired: true } => (kind::EXPIRED, 0),
            Op::Renewed => (kind::RENEWED, 0),
        };
        if self.command.is_some() {
            flags |= flag::COMMAND;
        }
        out.extend_from_slice(&[kind, flags]);
        out.put_blob(self.stream.as_bytes());
        out.put_varint(self.time);
        if let Some(command) = self.command {
            out.extend_from_slice(&command.to_le_bytes());
        }
        match &self.op {
            Op::Created(created) => created.encode(out),
            Op::Appended(appended) => appended.encode(out),
            Op::Closed { producer: Some(stamp) } => stamp.encode(out),
            Op::Closed { producer: None } | Op::Deleted { .. } | Op::Renewed => {}
        }
    }

    pub(crate) fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let kind = input.byte()?;
        let flags = input.byte()?;
        if flags & !flag::known(kind) != 0 {
            return Err(DecodeError::Malformed("unknown record flag: written by a newer version?"));
        }
        let stream = input.text()?.into();
        let time = input.varint()?;
        let command = if flags & flag::COMMAND == 0 { None } else { Some(u128::from_le_bytes(input.array()?)) };
        let op = match kind {
            kind::CREATED => Op::Created(Created::decode(input, flags)?),
            kind::APPENDED => Op::Appended(Appended::decode(input, flags)?),
            kind::CLOSED => Op::Closed { producer: Stamp::decode_if(input, flags)? },
            kind::DELETED => Op::Deleted { expired: false },
            kind::EXPIRED => Op::Deleted { expired: true },
            kind::RENEWED => Op::Renewed,
            _ => return Err(DecodeError::Malformed("unknown record kind: written by a newer version?")),
        };
        Ok(Self { stream, time, command, op })
    }
}

impl Created {
    fn flags(&self) -> u8 {
        let ttl = if self.ttl_seconds.is_some() { flag::TTL } else { 0 };
        let expires = if self.expires_at.is_some() { flag::EXPIRES } else { 0 };
        ttl | expires | if self.fork.is_some() { flag::FORK } else { 0 }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.generation);
        out.put_blob(self.content_type.as_bytes());
        for lifetime in [self.ttl_seconds, self.expires_at].into_iter().flatten() {
            out.put_varint(lifetime);
        }
        if let Some(fork) = &self.fork {
            out.put_blob(fork.source.as_bytes());
            out.put_varint(fork.at);
            out.put_varint(fork.sub);
        }
    }

    fn decode(input: &mut Reader, flags: u8) -> Result<Self, DecodeError> {
        Ok(Self {
            generation: input.varint()?,
            content_type: input.text()?.into(),
            ttl_seconds: if flags & flag::TTL == 0 { None } else { Some(input.varint()?) },
            expires_at: if flags & flag::EXPIRES == 0 { None } else { Some(input.varint()?) },
            fork: if flags & flag::FORK == 0 {
                None
            } else {
                Some(Fork { source: input.text()?.into(), at: input.varint()?, sub: input.varint()? })
            },
        })
    }
}

impl Appended {
    fn flags(&self) -> u8 {
        let producer = if self.producer.is_some() { flag::PRODUCER } else { 0 };
        let seq = if self.stream_seq.is_some() { flag::STREAM_SEQ } else { 0 };
        producer | seq | if self.close { flag::CLOSE } else { 0 }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.generation);
        out.put_varint(self.first);
        if let Some(stamp) = &self.producer {
            stamp.encode(out);
        }
        if let Some(seq) = &self.stream_seq {
            out.put_blob(seq.as_bytes());
        }
        self.payload.encode(out);
    }

    fn decode(input: &mut Reader, flags: u8) -> Result<Self, DecodeError> {
        let generation = input.varint()?;
        let first = input.varint()?;
        let producer = Stamp::decode_if(input, flags)?;
        let stream_seq = if flags & flag::STREAM_SEQ == 0 { None } else { Some(input.text()?.into()) };
        let payload = Payload::decode(input)?;
        Ok(Self { generation, first, payload, producer, stream_seq, close: flags & flag::CLOSE != 0 })
    }
}

impl Stamp {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_blob(self.id.as_bytes());
        out.put_varint(self.epoch);
        out.put_varint(self.seq);
    }

    fn decode_if(input: &mut Reader, flags: u8) -> Result<Option<Self>, DecodeError> {
        if flags & flag::PRODUCER == 0 {
            return Ok(None);
        }
        Ok(Some(Self { id: input.text()?.into(), epoch: input.varint()?, seq: input.varint()? }))
    }
}

mod shape {
    //! Persisted; never renumber.
    pub(super) const BLOB: u8 = 1;
    pub(super) const MESSAGES: u8 = 2;
}

impl Payload {
    fn encode(&self, out: &mut Vec<u8>) {
        let blob = if matches!(self.body, Body::Blob { .. }) { shape::BLOB } else { 0 };
        out.push(blob | if self.cuts.is_some() { shape::MESSAGES } else { 0 });
        if let Some(cuts) = &self.cuts {
            out.put_varint(cuts.len() as u64);
            let mut last = 0;
            for cut in cuts {
                out.put_varint(u64::from(cut - last));
                last = *cut;
            }
        }
        match &self.body {
            Body::Inline(data) => out.put_blob(data),
            Body::Blob { sha256, len } => {
                out.extend_from_slice(sha256);
                out.put_varint(u64::from(*len));
            }
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let shape = input.byte()?;
        if shape & !(shape::BLOB | shape::MESSAGES) != 0 {
            return Err(DecodeError::Malformed("unknown payload shape: written by a newer version?"));
        }
        let cuts = if shape & shape::MESSAGES == 0 { None } else { Some(decode_cuts(input)?) };
        let body = if shape & shape::BLOB == 0 {
            Body::Inline(input.blob()?)
        } else {
            Body::Blob { sha256: input.array()?, len: input.varint32()? }
        };
        let payload = Self { body, cuts };
        match &payload.cuts {
            Some(cuts) if cuts.last().map_or(0, |c| *c as usize) != payload.len() => {
                Err(DecodeError::Malformed("messages do not cover the payload"))
            }
            _ => Ok(payload),
        }
    }
}

fn decode_cuts(input: &mut Reader) -> Result<Box<[u32]>, DecodeError> {
    let count = input.count()?;
    let mut cuts = Vec::with_capacity(count);
    let mut last = 0u32;
    for index in 0..count {
        let step = input.varint32()?;
        // A message is at least one byte, and each but the first is preceded by its comma.
        if step < 1 + u32::from(index > 0) {
            return Err(DecodeError::Malformed("empty message"));
        }
        last = last.checked_add(step).ok_or(DecodeError::Malformed("messages overflow the payload"))?;
        cuts.push(last);
    }
    Ok(cuts.into())
}

#[cfg(test)]
pub(crate) mod tests;
