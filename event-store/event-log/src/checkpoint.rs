//! Checkpoints: the stream table at a slot, so that a start does not read history. Derived; `LATEST` is only a hint.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use object_store::path::Path;

use crate::chain::Chain;
use crate::codec::{DecodeError, Put, Reader};
use crate::command::{Outcome, Receipt, Status};
use crate::offset::Offset;
use crate::record::{Fork, Stamp};
use crate::state::{PackRef, State};
use crate::stream::{Config, Extent, Head, Place, Producer, Stream};

const MAGIC: &[u8; 8] = b"ARBECKP1";
const COMPRESSION_LEVEL: i32 = 1;
const DIGEST_LEN: usize = 32;
const RAW_MAX: u64 = 8 << 30;

pub(crate) const LATEST: &str = "ckpt/00/LATEST";

#[must_use]
pub fn path(n: u64) -> Path {
    Path::from(format!("ckpt/00/{n:016x}.ckpt"))
}

pub(crate) fn number(path: &Path) -> Option<u64> {
    u64::from_str_radix(path.filename()?.strip_suffix(".ckpt")?, 16).ok()
}

#[must_use]
pub fn encode(cluster: u128, state: &State) -> Bytes {
    let raw = encode_state(state);
    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&cluster.to_le_bytes());
    out.extend_from_slice(&(raw.len() as u64).to_le_bytes());
    out.extend_from_slice(&zstd::bulk::compress(&raw, COMPRESSION_LEVEL).expect("compressing into memory does not fail"));
    let digest = blake3::hash(&out);
    out.extend_from_slice(digest.as_bytes());
    out.into()
}

fn encode_state(state: &State) -> Vec<u8> {
    let mut raw = Vec::with_capacity(state.streams.len() * 160 + 256);
    encode_chain(&mut raw, &state.chain);
    raw.put_varint(state.packs.len() as u64);
    for pack in &state.packs {
        for field in [pack.from, pack.to, pack.bytes] {
            raw.put_varint(field);
        }
    }
    raw.put_varint(state.skips.len() as u64);
    for n in &state.skips {
        raw.put_varint(*n);
    }
    raw.put_varint(state.streams.len() as u64);
    let mut streams: Vec<_> = state.streams.iter().collect();
    streams.sort_unstable_by_key(|(name, _)| *name);
    for (name, stream) in streams {
        raw.put_blob(name.as_bytes());
        encode_stream(&mut raw, stream);
    }
    raw.put_varint(state.commands.forgotten);
    raw.put_varint(state.commands.in_order().len() as u64);
    for (id, receipt) in state.commands.in_order() {
        raw.extend_from_slice(&id.to_le_bytes());
        encode_receipt(&mut raw, receipt);
    }
    raw
}

pub fn decode(cluster: u128, bytes: &Bytes) -> Result<State, DecodeError> {
    let body = bytes.len().checked_sub(DIGEST_LEN).ok_or(DecodeError::Truncated)?;
    if !is_whole(bytes) {
        return Err(DecodeError::Checksum);
    }
    let mut input = Reader::new(bytes.slice(..body));
    if &input.array::<8>()? != MAGIC {
        return Err(DecodeError::Malformed("not a checkpoint of this version"));
    }
    if u128::from_le_bytes(input.array()?) != cluster {
        return Err(DecodeError::Malformed("belongs to another log"));
    }
    let raw_len = u64::from_le_bytes(input.array()?);
    if raw_len > RAW_MAX {
        return Err(DecodeError::Malformed("checkpoint is larger than any writer makes"));
    }
    let stored = input.bytes(input.remaining())?;
    let raw = zstd::bulk::decompress(&stored, raw_len as usize).map_err(|_| DecodeError::Malformed("does not decompress"))?;
    decode_state(&mut Reader::new(raw.into()))
}

pub(crate) fn is_whole(bytes: &Bytes) -> bool {
    bytes.len().checked_sub(DIGEST_LEN).is_some_and(|body| blake3::hash(&bytes[..body]).as_bytes()[..] == bytes[body..])
}

fn decode_state(input: &mut Reader) -> Result<State, DecodeError> {
    let mut state = State { chain: decode_chain(input)?, ..State::default() };
    for _ in 0..input.count()? {
        state.packs.push(PackRef { from: input.varint()?, to: input.varint()?, bytes: input.varint()? });
    }
    for _ in 0..input.count()? {
        state.skips.insert(input.varint()?);
    }
    let count = input.count()?;
    state.streams.reserve(count);
    let mut names = Interner::default();
    for _ in 0..count {
        let name: Arc<str> = input.text()?.into();
        let stream = decode_stream(input, &mut names)?;
        if stream.head.config.ttl_seconds.is_some() || stream.head.config.expires_at.is_some() {
            state.mortal.insert(name.clone());
        }
        state.streams.insert(name, stream);
    }
    state.commands.forgotten = input.varint()?;
    for _ in 0..input.count()? {
        let id = u128::from_le_bytes(input.array()?);
        state.commands.remember(id, decode_receipt(input)?);
    }
    input.finish()?;
    Ok(state)
}

/// Content types repeat; one copy of each is enough.
#[derive(Default)]
struct Interner(BTreeMap<String, Arc<str>>);

impl Interner {
    fn get(&mut self, text: String) -> Arc<str> {
        self.0.entry(text).or_insert_with_key(|text| text.as_str().into()).clone()
    }
}

fn encode_chain(out: &mut Vec<u8>, chain: &Chain) {
    for field in [chain.next, chain.epoch, chain.writer, chain.records, chain.time] {
        out.put_varint(field);
    }
    out.extend_from_slice(&chain.digest);
    out.put_blob(chain.url.as_bytes());
}

fn decode_chain(input: &mut Reader) -> Result<Chain, DecodeError> {
    let [next, epoch, writer, records, time] =
        [input.varint()?, input.varint()?, input.varint()?, input.varint()?, input.varint()?];
    Ok(Chain { next, epoch, writer, records, time, digest: input.array()?, url: input.text()? })
}

fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    match value {
        Some(value) => {
            out.push(1);
            out.put_varint(value);
        }
        None => out.push(0),
    }
}

fn option(input: &mut Reader) -> Result<Option<u64>, DecodeError> {
    Ok(if input.byte()? == 0 { None } else { Some(input.varint()?) })
}

fn encode_stamp(out: &mut Vec<u8>, stamp: &Stamp) {
    out.put_blob(stamp.id.as_bytes());
    out.put_varint(stamp.epoch);
    out.put_varint(stamp.seq);
}

fn decode_stamp(input: &mut Reader) -> Result<Stamp, DecodeError> {
    Ok(Stamp { id: input.text()?.into(), epoch: input.varint()?, seq: input.varint()? })
}

fn encode_stream(out: &mut Vec<u8>, stream: &Stream) {
    let Head { config, tail, bytes, closed, closed_by, stream_seq, forks, deleted, touched } = &stream.head;
    out.put_varint(config.generation);
    out.put_blob(config.content_type.as_bytes());
    put_option(out, config.ttl_seconds);
    put_option(out, config.expires_at);
    put_option(out, config.fork.as_ref().map(|fork| fork.at));
    if let Some(fork) = &config.fork {
        out.put_varint(fork.sub);
        out.put_blob(fork.source.as_bytes());
    }
    for field in [config.created_at, *tail, *bytes, u64::from(*forks), *touched] {
        out.put_varint(field);
    }
    let flags = [*closed, closed_by.is_some(), stream_seq.is_some(), *deleted];
    out.push(flags.iter().enumerate().map(|(bit, set)| u8::from(*set) << bit).sum());
    if let Some(stamp) = closed_by {
        encode_stamp(out, stamp);
    }
    if let Some(seq) = stream_seq {
        out.put_blob(seq.as_bytes());
    }
    out.put_varint(stream.producers.as_ref().map_or(0, |p| p.len()) as u64);
    for (id, producer) in stream.producers.iter().flat_map(|p| p.iter()) {
        encode_stamp(out, &Stamp { id: id.clone(), epoch: producer.epoch, seq: producer.seq });
    }
    out.put_varint(stream.extents.len() as u64);
    for extent in &stream.extents {
        out.put_varint(extent.start);
        let (tag, fields) = match extent.place {
            Place::Slot { n, index } => (0, [n, u64::from(index), 0]),
            Place::Pack { from, offset, len } => (1, [from, u64::from(offset), u64::from(len)]),
        };
        out.push(tag);
        for field in &fields[..2 + usize::from(tag)] {
            out.put_varint(*field);
        }
    }
}

fn decode_stream(input: &mut Reader, names: &mut Interner) -> Result<Stream, DecodeError> {
    let generation = input.varint()?;
    let content_type = names.get(input.text()?);
    let ttl_seconds = option(input)?;
    let expires_at = option(input)?;
    let fork = match option(input)? {
        Some(at) => Some(Fork { at, sub: input.varint()?, source: input.text()?.into() }),
        None => None,
    };
    let created_at = input.varint()?;
    let config = Arc::new(Config { generation, content_type, ttl_seconds, expires_at, fork, created_at });
    let (tail, bytes, forks, touched) = (input.varint()?, input.varint()?, input.varint32()?, input.varint()?);
    let flags = input.byte()?;
    let closed_by = if flags & 2 == 0 { None } else { Some(Arc::new(decode_stamp(input)?)) };
    let stream_seq = if flags & 4 == 0 { None } else { Some(input.text()?.into()) };
    let head =
        Head { config, tail, bytes, closed: flags & 1 != 0, closed_by, stream_seq, forks, deleted: flags & 8 != 0, touched };
    let mut producers = BTreeMap::new();
    for _ in 0..input.count()? {
        let stamp = decode_stamp(input)?;
        producers.insert(stamp.id, Producer { epoch: stamp.epoch, seq: stamp.seq });
    }
    let count = input.count()?;
    let mut extents = Vec::with_capacity(count);
    for _ in 0..count {
        let start = input.varint()?;
        let place = match input.byte()? {
            0 => Place::Slot { n: input.varint()?, index: input.varint32()? },
            1 => Place::Pack { from: input.varint()?, offset: input.varint32()?, len: input.varint32()? },
            _ => return Err(DecodeError::Malformed("unknown place")),
        };
        extents.push(Extent { start, place });
    }
    let producers = if producers.is_empty() { None } else { Some(Box::new(producers)) };
    Ok(Stream { head, producers, extents, last_read: AtomicU64::new(0) })
}

fn encode_receipt(out: &mut Vec<u8>, receipt: &Receipt) {
    out.put_varint(receipt.position);
    out.put_varint(receipt.outcomes.len() as u64);
    for outcome in &receipt.outcomes {
        out.put_blob(outcome.stream.as_bytes());
        out.put_varint(outcome.tail.generation);
        out.put_varint(outcome.tail.position);
        out.push(u8::from(outcome.closed) | u8::from(outcome.producer.is_some()) << 1);
        if let Some(producer) = outcome.producer {
            out.put_varint(producer.epoch);
            out.put_varint(producer.seq);
        }
    }
}

fn decode_receipt(input: &mut Reader) -> Result<Receipt, DecodeError> {
    let position = input.varint()?;
    let mut outcomes = Vec::new();
    for _ in 0..input.count()? {
        let stream = input.text()?.into();
        let tail = Offset { generation: input.varint()?, position: input.varint()? };
        let flags = input.byte()?;
        let producer = if flags & 2 == 0 { None } else { Some(Producer { epoch: input.varint()?, seq: input.varint()? }) };
        outcomes.push(Outcome { stream, status: Status::Done, tail, closed: flags & 1 != 0, producer });
    }
    Ok(Receipt { position, outcomes })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::golden;

    #[test]
    fn a_checkpoint_reads_back_as_it_was() {
        let state = golden::state();
        let bytes = encode(7, &state);
        let read = decode(7, &bytes).unwrap();
        assert_eq!(encode_state(&read), encode_state(&state));
        assert!(decode(8, &bytes).is_err(), "of another log");
    }

    proptest! {
        #[test]
        fn a_table_that_was_altered_is_an_error_or_another_table_but_never_a_panic(
            edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut in any::<prop::sample::Index>(),
            shorten in any::<bool>(),
        ) {
            let mut raw = encode_state(&golden::state());
            for (at, value) in edits {
                let at = at.index(raw.len());
                raw[at] = value;
            }
            if shorten {
                raw.truncate(cut.index(raw.len()));
            }
            let _ = decode_state(&mut Reader::new(raw.into()));
        }
    }
}
