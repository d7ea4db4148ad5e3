//! Primitives shared by every persisted format: LEB128 integers and length-prefixed bytes.

use bytes::{Buf, Bytes};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("ends early")]
    Truncated,
    #[error("checksum mismatch")]
    Checksum,
    #[error("{0}")]
    Malformed(&'static str),
}

pub(crate) trait Put {
    fn put_varint(&mut self, value: u64);
    fn put_blob(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn put_blob(&mut self, bytes: &[u8]) {
        self.put_varint(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

/// Reads forward through shared bytes; slices it hands out keep the buffer alive instead of copying.
#[derive(Clone, Debug)]
pub(crate) struct Reader(Bytes);

impl Reader {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub(crate) fn remaining(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        if self.0.is_empty() {
            return Err(DecodeError::Truncated);
        }
        Ok(self.0.get_u8())
    }

    pub(crate) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError::Malformed("integer overflows 64 bits"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Malformed("integer overflows 64 bits"))
    }

    pub(crate) fn varint32(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.varint()?).map_err(|_| DecodeError::Malformed("integer overflows 32 bits"))
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<Bytes, DecodeError> {
        if self.0.len() < len {
            return Err(DecodeError::Truncated);
        }
        Ok(self.0.split_to(len))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let bytes = self.bytes(N)?;
        <[u8; N]>::try_from(bytes.as_ref()).map_err(|_| DecodeError::Truncated)
    }

    pub(crate) fn blob(&mut self) -> Result<Bytes, DecodeError> {
        let len = self.varint()?;
        self.bytes(usize::try_from(len).map_err(|_| DecodeError::Truncated)?)
    }

    pub(crate) fn text(&mut self) -> Result<String, DecodeError> {
        String::from_utf8(self.blob()?.to_vec()).map_err(|_| DecodeError::Malformed("text is not UTF-8"))
    }

    /// A count of items that take at least one byte each, so a damaged count cannot reserve the machine's memory.
    pub(crate) fn count(&mut self) -> Result<usize, DecodeError> {
        let count = self.varint()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.remaining() => Ok(count),
            _ => Err(DecodeError::Truncated),
        }
    }

    pub(crate) fn finish(&self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError::Malformed("bytes after the end")) }
    }
}
