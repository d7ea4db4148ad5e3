//! One file of slot frames.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;

const FRAME_HEADER: u64 = 8;
/// Direct writes are made of whole blocks.
const BLOCK: usize = 4096;
const STRIDE: usize = 256 << 10;
const WINDOW: usize = 1 << 20;
/// Zeros written ahead of the frames, so that a commit overwrites allocated blocks and the sync moves no metadata. The busier a writer
/// has been, the longer its runway: a quarter of what it wrote to the file, between these.
const RUNWAY_MIN: u64 = 512 << 10;
const RUNWAY_MAX: u64 = 8 << 20;
/// More than a file system reads ahead of what was asked for.
const READ_AHEAD: u64 = 4 << 20;
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
    /// Bytes of frames appended from here.
    written: u64,
    path: PathBuf,
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
        Ok(Some(Self { file, first, starts: Vec::new(), end: 0, allocated, written: 0, path: path.to_owned() }))
    }

    pub(super) fn create(path: &Path, first: u64) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.sync_all()?;
        if let Some(parent) = path.parent() {
            File::open(parent)?.sync_all()?;
        }
        let allocated = file.metadata()?.len();
        Ok(Self { file, first, starts: Vec::new(), end: 0, allocated, written: 0, path: path.to_owned() })
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
            match self.frame_at(self.starts.len(), self.end, acknowledged)? {
                Frame::Whole(bytes) => self.push(bytes.len() as u64),
                stopped @ (Frame::Absent | Frame::Broken { .. }) => return Ok(stopped),
            }
        }
        let at = self.starts.get(index).copied().unwrap_or(self.end);
        let frame = self.frame_at(index, at, acknowledged)?;
        if let Frame::Whole(bytes) = &frame
            && index == self.starts.len()
        {
            self.push(bytes.len() as u64);
        }
        Ok(frame)
    }

    /// Makes the whole frames from slot `n` on durable, which another process may have left unsynced; returns the slot behind them.
    pub(super) fn confirm(&mut self, n: u64) -> io::Result<u64> {
        let mut next = n;
        while let Frame::Whole(bytes) = self.read(next, 0)? {
            if let Some(at) = self.starts.get((next - self.first) as usize) {
                self.file.write_all_at(&bytes, at + FRAME_HEADER)?;
            }
            next += 1;
        }
        self.file.sync_data()?;
        Ok(next)
    }

    /// The file is where it was and holds what was written to it.
    fn check_in_place(&self) -> io::Result<()> {
        let meta = self.file.metadata()?;
        if meta.nlink() == 0 || meta.len() < self.end {
            return Err(io::Error::other("the file was removed, replaced or cut short under the server"));
        }
        Ok(())
    }

    fn push(&mut self, len: u64) {
        self.starts.push(self.end);
        self.end += FRAME_HEADER + len;
    }

    /// Slot `n` comes next: every slot of this file before it is known.
    pub(super) fn awaits(&self, n: u64) -> bool {
        self.first + self.starts.len() as u64 == n
    }

    fn frame_at(&self, index: usize, at: u64, acknowledged: u64) -> io::Result<Frame> {
        let n = self.first + index as u64;
        match self.parse_at(at)? {
            Some(Some(bytes)) => Ok(Frame::Whole(bytes)),
            Some(None) => Ok(Frame::Absent),
            None => Ok(Frame::Broken { n, at, last: n >= acknowledged && !self.whole_frame_after(n, at)? }),
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

    /// Whether a whole frame lies behind the broken one of slot `n`: then that was acknowledged, whatever `tail` says. With a sound length
    /// the next frame can only begin in one place; without one it is sought, and must be a later slot of the same log: what is found
    /// there may be bytes that a client sent.
    fn whole_frame_after(&self, n: u64, at: u64) -> io::Result<bool> {
        if let Header::Frame { len } = self.header_at(at)? {
            return Ok(matches!(self.parse_at(at + FRAME_HEADER + u64::from(len))?, Some(Some(_))));
        }
        let before = self.starts.len().checked_sub(1).and_then(|last| self.starts.get(last)).map(|start| self.parse_at(*start));
        let cluster = match before.transpose()? {
            Some(Some(Some(bytes))) => crate::slot::identity(&bytes).map(|(cluster, _)| cluster),
            Some(Some(None) | None) | None => None,
        };
        let same_log = |bytes: &Bytes| {
            let found = crate::slot::identity(bytes);
            found.is_some_and(|(log, m)| m > n && cluster.is_none_or(|cluster| cluster == log))
        };
        let end = self.file.metadata()?.len();
        let mut window = vec![0; WINDOW + FRAME_HEADER as usize];
        for from in (at + 1..end).step_by(WINDOW) {
            let read = read_up_to(&self.file, &mut window, from)?;
            for start in 0..read.saturating_sub(FRAME_HEADER as usize).min(WINDOW) {
                let field = |at: usize| u32::from_le_bytes([window[at], window[at + 1], window[at + 2], window[at + 3]]);
                let (len, check) = (field(start), field(start + 4));
                let may_be = len > 0 && check == length_check(len);
                if may_be && matches!(self.parse_at(from + start as u64)?, Some(Some(bytes)) if same_log(&bytes)) {
                    return Ok(true);
                }
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
        (self.written / 4).clamp(RUNWAY_MIN, RUNWAY_MAX)
    }

    /// Time to lay the next runway.
    pub(super) fn is_low(&self) -> bool {
        self.allocated.saturating_sub(self.end) < self.runway() / 4
    }

    /// Writes the frame of slot `n` behind the last one and syncs it. What a crash left there is overwritten.
    pub(super) fn append(&mut self, n: u64, bytes: &Bytes) -> io::Result<u64> {
        debug_assert_eq!(n - self.first, self.starts.len() as u64);
        let mut frame = Vec::with_capacity(bytes.len() + FRAME_HEADER as usize + BLOCK);
        let len = bytes.len() as u32;
        frame.extend_from_slice(&len.to_le_bytes());
        frame.extend_from_slice(&length_check(len).to_le_bytes());
        frame.extend_from_slice(bytes);
        let end = self.end + frame.len() as u64;
        self.check_in_place()?;
        self.clear_remains(end)?;
        if self.written == 0 {
            self.forget_read_ahead();
        }
        // Zeros follow anyway; a last page that is written whole need not be read first.
        let whole = end.next_multiple_of(BLOCK as u64).min(self.allocated.max(end));
        frame.resize((whole - self.end) as usize, 0);
        self.file.write_all_at(&frame, self.end)?;
        self.file.sync_data()?;
        self.allocated = self.allocated.max(end);
        self.written += u64::from(len);
        self.push(u64::from(len));
        Ok(end)
    }

    /// What was read ahead lies in large pieces, each of which a small frame would make the system write back whole.
    fn forget_read_ahead(&self) {
        let from = self.end.saturating_sub(READ_AHEAD);
        // Only costs bytes if the system has no such advice.
        let _ = rustix::fs::fadvise(&self.file, from, None, rustix::fs::Advice::DontNeed);
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

    /// One stride of runway, or the step to the next block; `true` when it is long enough. Other processes may have written frames
    /// we do not know of, but never beyond the end of the file.
    pub(super) fn extend(&mut self) -> io::Result<bool> {
        let len = self.file.metadata()?.len();
        let wanted = self.end + self.runway();
        if len >= wanted {
            self.allocated = len;
            return Ok(true);
        }
        let odd = (len % BLOCK as u64) as usize;
        if odd == 0 {
            self.write_stride(len)?;
        } else {
            self.file.write_all_at(&[0; BLOCK][odd..], len)?;
        }
        self.allocated = self.file.metadata()?.len();
        if self.allocated <= len {
            return Err(io::Error::other("the file did not grow"));
        }
        Ok(false)
    }

    /// Past the page cache where it can be: a commit's sync would have to wait for every page of zeros that is still dirty.
    fn write_stride(&self, at: u64) -> io::Result<()> {
        let buffer = vec![0; STRIDE + BLOCK];
        let skip = buffer.as_ptr().align_offset(BLOCK);
        let zeros = &buffer[skip..skip + STRIDE];
        match self.direct()?.map(|direct| direct.write_all_at(zeros, at)) {
            Some(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => self.file.write_all_at(zeros, at),
            Some(written) => written,
            None => self.file.write_all_at(zeros, at),
        }
    }

    /// The same file once more. Whatever else lies at its path by now is none of ours.
    fn direct(&self) -> io::Result<Option<File>> {
        let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let Ok(direct) = OpenOptions::new().write(true).custom_flags(flags).open(&self.path) else { return Ok(None) };
        let (this, that) = (self.file.metadata()?, direct.metadata()?);
        Ok(((this.dev(), this.ino()) == (that.dev(), that.ino())).then_some(direct))
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
