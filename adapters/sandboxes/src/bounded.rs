//! The bound of working trees as archives: what is counted are the bytes of the archive before it is compressed, both when a tree is taken
//! and when it is given back, so that whatever could be taken can be given back.

use std::io::{self, Read, Write};

pub(crate) const LARGEST_TREE: usize = 1 << 30;

/// Lets so many bytes pass and no more.
pub(crate) struct Bounded<T> {
    inner: T,
    room: u64,
}

impl<T> Bounded<T> {
    pub(crate) fn new(inner: T, room: u64) -> Self {
        Self { inner, room }
    }

    pub(crate) fn room(&self) -> u64 {
        self.room
    }

    pub(crate) fn into_inner(self) -> T {
        self.inner
    }

    fn spend(&mut self, bytes: usize) -> io::Result<()> {
        self.room = self.room.checked_sub(bytes as u64).ok_or_else(too_large)?;
        Ok(())
    }
}

/// Of all that can go wrong, what will go wrong again.
pub(crate) fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "the tree is larger than a snapshot may be")
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.spend(written)?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.spend(read)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_just_fits_passes_and_one_byte_more_does_not() {
        let read = |room| Bounded::new(&[7; 100][..], room).read_to_end(&mut Vec::new());
        assert_eq!(read(100).unwrap(), 100);
        assert_eq!(read(99).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let mut written = Bounded::new(Vec::new(), 100);
        written.write_all(&[7; 100]).unwrap();
        assert_eq!(written.room(), 0);
        assert_eq!(written.write_all(&[7]).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
