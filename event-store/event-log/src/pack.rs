//! Packs: the appends of a run of slots, sorted by stream, so that one stream is read with few ranged GETs.
//!
//! Derived and deterministic: made from valid slots alone. A pack that is missing or damaged costs time, never data.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;

use crate::codec::{DecodeError, Put, Reader};
use crate::record::{Op, Record};

const MAGIC: &[u8; 8] = b"ARBEPAK1";
/// Records of one stream are compressed together up to this size.
const BLOCK_BYTES: usize = 256 << 10;
/// One record can be as large as a slot lets it be.
const BLOCK_MAX: usize = 64 << 20;
const COMPRESSION_LEVEL: i32 = 3;
const CHECK_LEN: usize = 16;
const FOOTER_LEN: usize = 8 + 4 + 32;

/// Where one incarnation of a stream lies in a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub stream: Arc<str>,
    pub generation: u64,
    pub blocks: Vec<Block>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub start: u64,
    pub offset: u32,
    pub len: u32,
}

#[must_use]
pub fn path(from: u64, to: u64) -> Path {
    Path::from(format!("pack/00/{from:016x}-{to:016x}.pack"))
}

/// The slots a pack covers, from its key.
pub(crate) fn range(path: &Path) -> Option<(u64, u64)> {
    let (from, to) = path.filename()?.strip_suffix(".pack")?.split_once('-')?;
    Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
}

/// Collects appends, in log order, and turns them into a pack.
#[derive(Debug, Default)]
pub struct Builder {
    streams: BTreeMap<(Arc<str>, u64), Vec<Part>>,
}

#[derive(Debug)]
enum Part {
    Record(Record),
    /// Of another pack. Opened when its turn comes, so that no more than one is open at a time.
    Block(Bytes),
}

impl Builder {
    pub fn add(&mut self, record: &Record) {
        if let Op::Appended(appended) = &record.op {
            let part = Part::Record(record.clone());
            self.streams.entry((record.stream.clone(), appended.generation)).or_default().push(part);
        }
    }

    /// Takes what another pack holds: all of it, or nothing if any of it is damaged.
    pub(crate) fn add_pack(&mut self, pack: &Bytes) -> Result<(), DecodeError> {
        let index = decode_index(pack)?;
        let blocks = |entry: &Entry| -> Result<Vec<Part>, DecodeError> {
            let block = |block: &Block| {
                let bytes = block.slice(pack)?;
                decode_block(&bytes).map(|_| Part::Block(bytes))
            };
            entry.blocks.iter().map(block).collect()
        };
        let parts: Vec<_> = index.iter().map(blocks).collect::<Result<_, _>>()?;
        for (entry, parts) in index.into_iter().zip(parts) {
            self.streams.entry((entry.stream, entry.generation)).or_default().extend(parts);
        }
        Ok(())
    }

    #[must_use]
    pub fn finish(self) -> (Bytes, Vec<Entry>) {
        let mut packing = Packing::new(self);
        while packing.step() {}
        packing.seal()
    }

    /// The same, letting others have the thread between blocks.
    pub(crate) async fn finish_gently(self) -> (Bytes, Vec<Entry>) {
        let mut packing = Packing::new(self);
        while packing.step() {
            tokio::task::yield_now().await;
        }
        packing.seal()
    }
}

/// A pack half made.
struct Packing {
    streams: std::collections::btree_map::IntoIter<(Arc<str>, u64), Vec<Part>>,
    parts: std::vec::IntoIter<Part>,
    records: std::vec::IntoIter<Record>,
    out: Vec<u8>,
    index: Vec<Entry>,
}

impl Packing {
    fn new(builder: Builder) -> Self {
        let (streams, index) = (builder.streams.into_iter(), Vec::new());
        Self { streams, parts: Vec::new().into_iter(), records: Vec::new().into_iter(), out: Vec::new(), index }
    }

    /// The next of the stream at hand.
    fn record(&mut self) -> Option<Record> {
        loop {
            if let Some(record) = self.records.next() {
                return Some(record);
            }
            match self.parts.next()? {
                Part::Record(record) => return Some(record),
                Part::Block(bytes) => self.records = decode_block(&bytes).expect("it was opened when it was taken").into_iter(),
            }
        }
    }

    /// Writes the next block; false when there is none.
    fn step(&mut self) -> bool {
        let first = loop {
            if let Some(record) = self.record() {
                break record;
            }
            let Some(((stream, generation), parts)) = self.streams.next() else { return false };
            self.index.push(Entry { stream, generation, blocks: Vec::new() });
            self.parts = parts.into_iter();
        };
        let start = first_of(&first);
        let mut raw = Vec::new();
        first.encode(&mut raw);
        while raw.len() < BLOCK_BYTES
            && let Some(record) = self.record()
        {
            record.encode(&mut raw);
        }
        if let Some(entry) = self.index.last_mut() {
            entry.blocks.push(write_block(&mut self.out, start, &raw));
        }
        true
    }

    fn seal(mut self) -> (Bytes, Vec<Entry>) {
        let bytes = encode_index(&self.index);
        let digest = blake3::hash(&bytes);
        self.out.extend_from_slice(&bytes);
        self.out.extend_from_slice(digest.as_bytes());
        self.out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.out.extend_from_slice(MAGIC);
        (self.out.into(), self.index)
    }
}

fn first_of(record: &Record) -> u64 {
    match &record.op {
        Op::Appended(appended) => appended.first,
        Op::Created(_) | Op::Closed { .. } | Op::Deleted { .. } | Op::Renewed => 0,
    }
}

fn write_block(out: &mut Vec<u8>, start: u64, raw: &[u8]) -> Block {
    let offset = out.len() as u32;
    out.extend_from_slice(&(raw.len() as u32).to_le_bytes());
    let stored = zstd::bulk::compress(raw, COMPRESSION_LEVEL).expect("compressing into memory does not fail");
    out.extend_from_slice(&stored);
    let check = blake3::hash(&out[offset as usize..]);
    out.extend_from_slice(&check.as_bytes()[..CHECK_LEN]);
    Block { start, offset, len: out.len() as u32 - offset }
}

pub fn decode_block(bytes: &Bytes) -> Result<Vec<Record>, DecodeError> {
    let Some(body) = bytes.len().checked_sub(CHECK_LEN).filter(|body| *body >= 4) else {
        return Err(DecodeError::Truncated);
    };
    if blake3::hash(&bytes[..body]).as_bytes()[..CHECK_LEN] != bytes[body..] {
        return Err(DecodeError::Checksum);
    }
    let raw_len = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    if raw_len > BLOCK_MAX {
        return Err(DecodeError::Malformed("block is larger than any writer makes"));
    }
    let raw =
        zstd::bulk::decompress(&bytes[4..body], raw_len).map_err(|_| DecodeError::Malformed("block does not decompress"))?;
    let mut input = Reader::new(raw.into());
    let mut records = Vec::new();
    while input.remaining() > 0 {
        records.push(Record::decode(&mut input)?);
    }
    Ok(records)
}

/// Every record of a whole pack, by stream.
pub fn decode(pack: &Bytes) -> Result<Vec<Record>, DecodeError> {
    let mut records = Vec::new();
    for block in decode_index(pack)?.iter().flat_map(|entry| &entry.blocks) {
        records.extend(decode_block(&block.slice(pack)?)?);
    }
    Ok(records)
}

impl Block {
    pub(crate) fn slice(&self, pack: &Bytes) -> Result<Bytes, DecodeError> {
        let (start, len) = (self.offset as usize, self.len as usize);
        if start + len > pack.len() {
            return Err(DecodeError::Truncated);
        }
        Ok(pack.slice(start..start + len))
    }
}

fn encode_index(index: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_varint(index.len() as u64);
    for entry in index {
        out.put_blob(entry.stream.as_bytes());
        out.put_varint(entry.generation);
        out.put_varint(entry.blocks.len() as u64);
        for block in &entry.blocks {
            out.put_varint(block.start);
            out.put_varint(u64::from(block.offset));
            out.put_varint(u64::from(block.len));
        }
    }
    out
}

/// The index of a whole pack, checked.
pub fn decode_index(pack: &Bytes) -> Result<Vec<Entry>, DecodeError> {
    let footer = pack.len().checked_sub(FOOTER_LEN).ok_or(DecodeError::Truncated)?;
    if pack[footer + 36..] != MAGIC[..] {
        return Err(DecodeError::Malformed("not a pack"));
    }
    let len = u32::from_le_bytes([pack[footer + 32], pack[footer + 33], pack[footer + 34], pack[footer + 35]]) as usize;
    let start = footer.checked_sub(len).ok_or(DecodeError::Truncated)?;
    let bytes = pack.slice(start..footer);
    if blake3::hash(&bytes).as_bytes()[..] != pack[footer..footer + 32] {
        return Err(DecodeError::Checksum);
    }
    let mut input = Reader::new(bytes);
    let mut index = Vec::new();
    for _ in 0..input.count()? {
        let stream = input.text()?.into();
        let generation = input.varint()?;
        let mut blocks = Vec::new();
        for _ in 0..input.count()? {
            blocks.push(Block { start: input.varint()?, offset: input.varint32()?, len: input.varint32()? });
        }
        index.push(Entry { stream, generation, blocks });
    }
    input.finish()?;
    Ok(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Appended, Payload};

    fn append(stream: &str, generation: u64, first: u64, text: &str) -> Record {
        let payload = Payload::bytes(Bytes::copy_from_slice(text.as_bytes()));
        let appended = Appended { generation, first, payload, producer: None, stream_seq: None, close: false };
        Record { stream: stream.into(), time: 5, command: None, op: Op::Appended(appended) }
    }

    fn built() -> (Bytes, Vec<Entry>, Vec<Record>) {
        let records = vec![
            append("b", 2, 0, "one"),
            append("a", 1, 7, "two"),
            append("b", 2, 3, &"x".repeat(BLOCK_BYTES)),
            append("b", 2, 9, "z"),
        ];
        let mut builder = Builder::default();
        records.iter().for_each(|r| builder.add(r));
        let (bytes, index) = builder.finish();
        (bytes, index, records)
    }

    #[test]
    fn packs_become_the_pack_that_their_records_would_have_made() {
        let records: Vec<_> =
            (0..200).map(|n| append(["a", "b", "c"][n as usize % 3], 1, n, &format!("{n}").repeat(3_000))).collect();
        let of = |records: &[Record]| {
            let mut builder = Builder::default();
            records.iter().for_each(|record| builder.add(record));
            builder.finish()
        };
        let mut merged = Builder::default();
        records.chunks(50).for_each(|part| merged.add_pack(&of(part).0).unwrap());
        assert_eq!(merged.finish(), of(&records));

        let mut damaged = of(&records[..50]).0.to_vec();
        damaged[40] ^= 1;
        let mut builder = Builder::default();
        assert!(builder.add_pack(&damaged.into()).is_err());
        assert_eq!(builder.finish(), of(&[]));
    }

    #[test]
    fn every_append_is_found_through_the_index() {
        let (bytes, index, records) = built();
        assert_eq!(decode_index(&bytes).unwrap(), index);
        let mut found = Vec::new();
        for block in index.iter().flat_map(|e| &e.blocks) {
            let slice = bytes.slice(block.offset as usize..(block.offset + block.len) as usize);
            let records = decode_block(&slice).unwrap();
            assert_eq!(first_of(&records[0]), block.start);
            found.extend(records);
        }
        assert_eq!(found, [records[1].clone(), records[0].clone(), records[2].clone(), records[3].clone()]);
        assert_eq!(index[1].blocks.len(), 2, "a full block is closed");
    }

    proptest::proptest! {
        #[test]
        fn an_index_or_block_that_was_altered_and_sealed_again_never_panics(
            at in 0.0..1.0f64, value in proptest::prelude::any::<u8>(), again in 0.0..1.0f64,
        ) {
            let (_, index, records) = built();
            let mut bytes = encode_index(&index);
            for at in [at, again] {
                let at = (bytes.len() as f64 * at) as usize;
                bytes[at] = value;
            }
            let mut pack = bytes.clone();
            pack.extend_from_slice(blake3::hash(&bytes).as_bytes());
            pack.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            pack.extend_from_slice(MAGIC);
            let _ = decode(&pack.into());

            let mut raw = Vec::new();
            records[..2].iter().for_each(|record| record.encode(&mut raw));
            let at = (raw.len() as f64 * at) as usize;
            raw[at] = value;
            let mut block = Vec::new();
            write_block(&mut block, 0, &raw);
            let _ = decode_block(&block.into());
        }
    }

    #[test]
    fn a_flipped_byte_anywhere_in_block_or_index_is_found() {
        let (bytes, index, _) = built();
        for at in 0..bytes.len() {
            let mut broken = bytes.to_vec();
            broken[at] ^= 1;
            let broken = Bytes::from(broken);
            let in_blocks = index.iter().flat_map(|e| &e.blocks).find(|b| (b.offset..b.offset + b.len).contains(&(at as u32)));
            match in_blocks {
                Some(block) => {
                    assert!(decode_block(&broken.slice(block.offset as usize..(block.offset + block.len) as usize)).is_err())
                }
                None => assert!(decode_index(&broken).is_err(), "byte {at}"),
            }
        }
    }
}
