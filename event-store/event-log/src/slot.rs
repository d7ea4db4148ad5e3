//! Slots: the numbered, hash-chained objects that are the log.

use bytes::{Buf, Bytes};

use crate::codec::{DecodeError, Put, Reader};
use crate::record::Record;

pub type Digest = [u8; 32];

/// Bodies below this are not worth the compressor's time: they are a page on the disk, whatever becomes of them.
const COMPRESS_FROM: usize = 4 << 10;
const COMPRESSION_LEVEL: i32 = 1;
/// No writer makes a larger body; a decoder refuses to allocate one.
const BODY_MAX: usize = 64 << 20;

const MAGIC: &[u8; 4] = b"ARBE";
const FORMAT: u8 = 1;
const FLAG_ZSTD: u8 = 1;
const DIGEST_LEN: usize = 32;

/// Persisted; never renumber. 3 is reserved for SEAL (resharding).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Data = 1,
    Claim = 2,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub cluster: u128,
    pub shard: u16,
    pub n: u64,
    pub epoch: u64,
    pub writer: u64,
    pub nonce: u64,
    /// Digest of the previous valid slot.
    pub prev: Digest,
    /// Records in valid slots before this one.
    pub before: u64,
    /// Every slot below this number was durable when this slot was written. A reader that finds a hole below it knows of damage.
    pub durable: u64,
    pub time: u64,
    /// Where other servers reach the writer; empty if they cannot.
    pub url: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    pub header: Header,
    pub records: Vec<Record>,
    pub digest: Digest,
    /// Bytes held in memory by `records`.
    pub weight: usize,
}

/// Encodes a slot; the digest over all of it is its last 32 bytes.
#[must_use]
pub fn encode(header: &Header, records: &[Record]) -> Bytes {
    let mut body = Vec::with_capacity(weight(records));
    for record in records {
        record.encode(&mut body);
    }
    let compressed = (body.len() >= COMPRESS_FROM)
        .then(|| zstd::bulk::compress(&body, COMPRESSION_LEVEL).ok())
        .flatten()
        .filter(|small| small.len() < body.len() - body.len() / 8);
    let stored = compressed.as_deref().unwrap_or(&body);

    let mut out = Vec::with_capacity(stored.len() + header.url.len() + 192);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[FORMAT, header.kind as u8, if compressed.is_some() { FLAG_ZSTD } else { 0 }, 0]);
    out.extend_from_slice(&header.cluster.to_le_bytes());
    out.extend_from_slice(&header.shard.to_le_bytes());
    for field in [header.n, header.epoch, header.writer, header.nonce, header.before, header.durable, header.time] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    out.extend_from_slice(&header.prev);
    out.put_blob(header.url.as_bytes());
    out.put_varint(records.len() as u64);
    out.put_varint(body.len() as u64);
    out.put_blob(stored);
    let digest = blake3::hash(&out);
    out.extend_from_slice(digest.as_bytes());
    out.into()
}

pub fn decode(bytes: &Bytes) -> Result<Slot, DecodeError> {
    let (content, digest) = verified(bytes)?;
    let mut input = Reader::new(content);
    let (header, compressed) = decode_header(&mut input)?;
    let count = input.varint()?;
    let body_len = usize::try_from(input.varint()?).unwrap_or(usize::MAX);
    if body_len > BODY_MAX {
        return Err(DecodeError::Malformed("slot body is larger than any writer makes"));
    }
    let stored = input.blob()?;
    input.finish()?;
    let body = if compressed {
        zstd::bulk::decompress(&stored, body_len).map_err(|_| DecodeError::Malformed("body does not decompress"))?.into()
    } else {
        stored
    };
    if body.len() != body_len {
        return Err(DecodeError::Malformed("body length differs from the header"));
    }
    let mut input = Reader::new(body);
    let mut records = Vec::with_capacity(usize::try_from(count).unwrap_or(0).min(body_len));
    for _ in 0..count {
        records.push(Record::decode(&mut input)?);
    }
    input.finish()?;
    let weight = weight(&records);
    Ok(Slot { header, records, digest, weight })
}

/// The same for who wrote the slot and for who read it, so that all cut packs alike.
pub(crate) fn weight(records: &[Record]) -> usize {
    std::mem::size_of::<Slot>() + records.iter().map(Record::weight).sum::<usize>()
}

/// The digest a well-formed slot carries, without decoding its records.
pub(crate) fn digest_of(bytes: &Bytes) -> Digest {
    let mut digest = Digest::default();
    digest.copy_from_slice(&bytes[bytes.len() - DIGEST_LEN..]);
    digest
}

/// The log and the number of a slot, from its header alone.
pub(crate) fn identity(bytes: &Bytes) -> Option<(u128, u64)> {
    let (header, _) = decode_header(&mut Reader::new(bytes.clone())).ok()?;
    Some((header.cluster, header.n))
}

pub(crate) fn is_whole(bytes: &Bytes) -> bool {
    verified(bytes).is_ok()
}

fn verified(bytes: &Bytes) -> Result<(Bytes, Digest), DecodeError> {
    if bytes.len() < DIGEST_LEN {
        return Err(DecodeError::Truncated);
    }
    let content = bytes.slice(..bytes.len() - DIGEST_LEN);
    let digest = digest_of(bytes);
    if blake3::hash(&content) != digest {
        return Err(DecodeError::Checksum);
    }
    Ok((content, digest))
}

fn decode_header(input: &mut Reader) -> Result<(Header, bool), DecodeError> {
    if &input.array::<4>()? != MAGIC {
        return Err(DecodeError::Malformed("not a slot"));
    }
    let [format, kind, flags, _] = input.array::<4>()?;
    if format != FORMAT {
        return Err(DecodeError::Malformed("unknown slot format: written by a newer version?"));
    }
    let kind = match kind {
        1 => Kind::Data,
        2 => Kind::Claim,
        _ => return Err(DecodeError::Malformed("unknown slot kind: written by a newer version?")),
    };
    if flags & !FLAG_ZSTD != 0 {
        return Err(DecodeError::Malformed("unknown slot flag: written by a newer version?"));
    }
    let cluster = u128::from_le_bytes(input.array()?);
    let shard = u16::from_le_bytes(input.array()?);
    let mut fields = input.bytes(7 * 8)?;
    let header = Header {
        kind,
        cluster,
        shard,
        n: fields.get_u64_le(),
        epoch: fields.get_u64_le(),
        writer: fields.get_u64_le(),
        nonce: fields.get_u64_le(),
        before: fields.get_u64_le(),
        durable: fields.get_u64_le(),
        time: fields.get_u64_le(),
        prev: input.array()?,
        url: input.text()?,
    };
    Ok((header, flags & FLAG_ZSTD != 0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::tests::record;

    fn header() -> Header {
        Header {
            kind: Kind::Data,
            cluster: 7,
            shard: 0,
            n: 3,
            epoch: 1,
            writer: 9,
            nonce: 11,
            prev: [5; 32],
            before: 40,
            durable: 3,
            time: 1_000,
            url: "http://127.0.0.1:1".into(),
        }
    }

    proptest! {
        #[test]
        fn a_slot_decodes_to_what_was_encoded(records in proptest::collection::vec(record(), 0..40)) {
            let slot = decode(&encode(&header(), &records)).unwrap();
            prop_assert_eq!(slot.header, header());
            prop_assert_eq!(slot.records, records);
        }

        #[test]
        fn any_flipped_bit_is_found(records in proptest::collection::vec(record(), 0..4), at in 0.0..1.0f64, bit in 0..8u8) {
            let mut bytes = encode(&header(), &records).to_vec();
            let index = (bytes.len() as f64 * at) as usize;
            bytes[index] ^= 1 << bit;
            prop_assert_eq!(decode(&bytes.into()), Err(DecodeError::Checksum));
        }

        #[test]
        fn a_truncated_slot_is_found(records in proptest::collection::vec(record(), 0..4), keep in 0.0..1.0f64) {
            let bytes = encode(&header(), &records);
            prop_assert!(decode(&bytes.slice(..(bytes.len() as f64 * keep) as usize)).is_err());
        }
    }

    #[test]
    fn a_large_body_is_stored_compressed() {
        let text = "the same words again ".repeat(4_000);
        let records = vec![Record {
            stream: "s".into(),
            time: 1,
            command: None,
            op: crate::record::Op::Appended(crate::record::Appended {
                generation: 1,
                first: 0,
                payload: crate::record::Payload::bytes(text.into()),
                producer: None,
                stream_seq: None,
                close: false,
            }),
        }];
        let bytes = encode(&header(), &records);
        assert!(bytes.len() < 2_000, "{}", bytes.len());
        assert_eq!(decode(&bytes).unwrap().records, records);
    }
}
