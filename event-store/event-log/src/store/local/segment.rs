//! One file of slot frames.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use bytes::Bytes;

use super::{RUNWAY_MAX, RUNWAY_MIN};

const FRAME_HEADER: u64 = 8;
/// Direct writes are made of whole blocks.
const BLOCK: usize = 4096;
const STRIDE: usize = 256 << 10;
/// No slot is larger; a broken length is not believed.
const FRAME_MAX: u32 = 80 << 20;

#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    first: u64,
    /// Where each known frame begins, and where the last one ends.
    starts: Vec<u64>,
    end: u64,
    /// Bytes of the file that are allocated.
    allocated: u64,
}

pub(super) enum Frame {
    Whole(Bytes),
    Absent,
    /// Slot `n` is cut short or altered. `last`: nothing whole follows it, so it may be a write that a crash cut off.
    Broken {
        n: u64,
        at: u64,
        last: bool,
    },
}

enum Header {
    Frame { len: u32 },
    Zeros,
    Broken,
}

impl Segment {
    pub(super) fn open(path: &Path, first: u64) -> io::Result<Option<Self>> {
        let writable = OpenOptions::new().read(true).write(true).open(path);
        let file = match writable.or_else(|_| File::open(path)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let allocated = file.metadata()?.len();
        Ok(Some(Self { file, first, starts: Vec::new(), end: 0, allocated }))
    }

    pub(super) fn create(path: &Path, first: u64) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.sync_all()?;
        if let Some(parent) = path.parent() {
            File::open(parent)?.sync_all()?;
        }
        let allocated = file.metadata()?.len();
        Ok(Self { file, first, starts: Vec::new(), end: 0, allocated })
    }

    /// Walks forward to slot `n` if it is not known yet, over acknowledged frames by their length alone. A frame that is given out
    /// counts only with its checksum right.
    pub(super) fn read(&mut self, n: u64, acknowledged: u64) -> io::Result<Frame> {
        let index = (n - self.first) as usize;
        while self.starts.len() < index {
            if self.first + (self.starts.len() as u64) < acknowledged
                && let Header::Frame { len } = self.header_at(self.end)?
            {
                self.push(u64::from(len));
                continue;
            }
            match self.frame_at(self.starts.len(), self.end)? {
                Frame::Whole(bytes) => self.push(bytes.len() as u64),
                stopped @ (Frame::Absent | Frame::Broken { .. }) => return Ok(stopped),
            }
        }
        let at = self.starts.get(index).copied().unwrap_or(self.end);
        let frame = self.frame_at(index, at)?;
        if let Frame::Whole(bytes) = &frame
            && index == self.starts.len()
        {
            self.push(bytes.len() as u64);
        }
        Ok(frame)
    }

    /// Makes a frame durable that another process may have left unsynced.
    pub(super) fn rewrite(&mut self, n: u64, bytes: &Bytes) -> io::Result<()> {
        if let Some(at) = self.starts.get((n - self.first) as usize) {
            self.file.write_all_at(bytes, at + FRAME_HEADER)?;
        }
        self.file.sync_data()
    }

    fn push(&mut self, len: u64) {
        self.starts.push(self.end);
        self.end += FRAME_HEADER + len;
    }

    /// Slot `n` comes next: every slot of this file before it is known.
    pub(super) fn awaits(&self, n: u64) -> bool {
        self.first + self.starts.len() as u64 == n
    }

    fn frame_at(&self, index: usize, at: u64) -> io::Result<Frame> {
        match self.parse_at(at)? {
            Some(Some(bytes)) => Ok(Frame::Whole(bytes)),
            Some(None) => Ok(Frame::Absent),
            None => Ok(Frame::Broken { n: self.first + index as u64, at, last: !self.whole_frame_after(at)? }),
        }
    }

    fn header_at(&self, at: u64) -> io::Result<Header> {
        let mut header = [0; FRAME_HEADER as usize];
        let read = read_up_to(&self.file, &mut header, at)?;
        if header[..read].iter().all(|byte| *byte == 0) {
            return Ok(Header::Zeros);
        }
        let len = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let check = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let sound = read == header.len() && check == length_check(len) && len <= FRAME_MAX;
        Ok(if sound { Header::Frame { len } } else { Header::Broken })
    }

    /// `None`: broken; `Some(None)`: zeros.
    fn parse_at(&self, at: u64) -> io::Result<Option<Option<Bytes>>> {
        let len = match self.header_at(at)? {
            Header::Frame { len } => len,
            Header::Zeros => return Ok(Some(None)),
            Header::Broken => return Ok(None),
        };
        let mut bytes = vec![0; len as usize];
        let read = read_up_to(&self.file, &mut bytes, at + FRAME_HEADER)?;
        let bytes = Bytes::from(bytes);
        if read < bytes.len() || !crate::slot::is_whole(&bytes) {
            return Ok(None);
        }
        Ok(Some(Some(bytes)))
    }

    /// Looks behind a broken frame for one that is whole: then the broken one was acknowledged, whatever `tail` says.
    fn whole_frame_after(&self, at: u64) -> io::Result<bool> {
        let mut rest = vec![0; self.file.metadata()?.len().saturating_sub(at) as usize];
        let read = read_up_to(&self.file, &mut rest, at)?;
        rest.truncate(read);
        for start in 1..rest.len().saturating_sub(FRAME_HEADER as usize) {
            let len = u32::from_le_bytes([rest[start], rest[start + 1], rest[start + 2], rest[start + 3]]);
            let check = u32::from_le_bytes([rest[start + 4], rest[start + 5], rest[start + 6], rest[start + 7]]);
            if len > 0 && check == length_check(len) && matches!(self.parse_at(at + start as u64)?, Some(Some(_))) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn count(&mut self) -> io::Result<u64> {
        while let Some(Some(bytes)) = self.parse_at(self.end)? {
            self.push(bytes.len() as u64);
        }
        Ok(self.starts.len() as u64)
    }

    fn runway(&self) -> u64 {
        (self.end / 4).clamp(RUNWAY_MIN, RUNWAY_MAX)
    }

    /// Time to lay the next runway.
    pub(super) fn is_low(&self) -> bool {
        self.allocated.saturating_sub(self.end) < self.runway() / 4
    }

    /// Writes the frame of slot `n` behind the last one and syncs it. What a crash left there is overwritten.
    pub(super) fn append(&mut self, n: u64, bytes: &Bytes) -> io::Result<u64> {
        debug_assert_eq!(n - self.first, self.starts.len() as u64);
        let mut frame = Vec::with_capacity(bytes.len() + FRAME_HEADER as usize);
        let len = bytes.len() as u32;
        frame.extend_from_slice(&len.to_le_bytes());
        frame.extend_from_slice(&length_check(len).to_le_bytes());
        frame.extend_from_slice(bytes);
        let end = self.end + frame.len() as u64;
        self.clear_remains(end)?;
        // Zeros follow anyway; a last page that is written whole need not be read first.
        let whole = (end.next_multiple_of(BLOCK as u64)).min(self.allocated.max(end));
        frame.resize((whole - self.end) as usize, 0);
        self.file.write_all_at(&frame, self.end)?;
        self.file.sync_data()?;
        self.allocated = self.allocated.max(end);
        self.push(u64::from(len));
        Ok(end)
    }

    /// The header behind the new frame must read as absent, whatever a torn write left there.
    fn clear_remains(&self, end: u64) -> io::Result<()> {
        let mut behind = [0; FRAME_HEADER as usize];
        let mut here = behind;
        read_up_to(&self.file, &mut here, self.end)?;
        if end >= self.allocated && here == [0; 8] {
            return Ok(());
        }
        read_up_to(&self.file, &mut behind, end)?;
        if here == [0; 8] && behind == [0; 8] {
            return Ok(());
        }
        let len = self.file.metadata()?.len();
        self.file.set_len(self.end)?;
        self.file.set_len(len.max(end))?;
        self.file.sync_all()
    }

    /// One stride of runway; `true` when it is long enough. Other processes may have written frames we do not know of, but never
    /// beyond the end of the file.
    pub(super) fn extend(&mut self, zeros: &mut Zeros) -> io::Result<bool> {
        let len = self.file.metadata()?.len();
        let wanted = self.end + self.runway();
        if len < wanted {
            zeros.write(len)?;
        }
        self.allocated = self.file.metadata()?.len();
        Ok(self.allocated >= wanted)
    }
}

/// Writes zeros past the page cache where it can: a commit's sync would have to wait for every page of them that is still dirty.
pub(super) struct Zeros {
    direct: File,
    cached: File,
    buffer: Vec<u8>,
}

impl Zeros {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let cached = OpenOptions::new().write(true).open(path)?;
        let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let direct = OpenOptions::new().write(true).custom_flags(flags).open(path).or_else(|_| cached.try_clone())?;
        Ok(Self { direct, cached, buffer: vec![0; STRIDE + BLOCK] })
    }

    /// One stride from `at` on, or up to the next block if that comes first.
    fn write(&mut self, at: u64) -> io::Result<()> {
        let odd = (at % BLOCK as u64) as usize;
        if odd != 0 {
            return self.cached.write_all_at(&self.buffer[..BLOCK - odd], at);
        }
        let skip = self.buffer.as_ptr().align_offset(BLOCK);
        let zeros = &self.buffer[skip..skip + STRIDE];
        match self.direct.write_all_at(zeros, at) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.cached.write_all_at(zeros, at),
            written => written,
        }
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.cached.sync_data()
    }
}

fn length_check(len: u32) -> u32 {
    !len.rotate_left(16)
}

fn read_up_to(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
