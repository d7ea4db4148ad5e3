//! Slots in local files: 4,096 to a file, one `fdatasync` per commit.
//!
//! A slot is a frame `[length u32][length check u32][bytes]`, and the file is zero beyond the last frame. Processes exclude each
//! other with a lock on `tail`, which a writer holds until its frame is synced, so that no reader sees what a power cut could take
//! back. `tail` also holds (without a sync of its own) the number of slots acknowledged: a broken frame beyond them, with nothing
//! whole behind it, is a write that a crash cut short and nobody was told of; any other broken frame is damage.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use super::{Creation, PACK_SLOTS, Pace, SlotStore, StoreError};

mod segment;

use segment::{Frame, Segment, Zeros};

const SLOTS_PER_FILE: u64 = 4096;
/// Zeros written ahead of the frames, so that a commit overwrites allocated blocks and the sync moves no metadata. The busier a file
/// has been, the longer its runway: a quarter of what it holds, between these.
const RUNWAY_MIN: u64 = 512 << 10;
const RUNWAY_MAX: u64 = 8 << 20;
const OPEN_FILES: usize = 16;

#[derive(Debug)]
pub struct LocalSlots {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    tail: Mutex<File>,
    segments: Mutex<Segments>,
    writable: bool,
}

/// The files in use, each with an open descriptor; the least recently used is closed.
#[derive(Debug, Default)]
struct Segments {
    open: BTreeMap<u64, (u64, Segment)>,
    clock: u64,
}

impl Segments {
    /// The file of slots from `number * SLOTS_PER_FILE` on, opened by `open` if need be.
    fn get(
        &mut self,
        number: u64,
        open: impl FnOnce() -> Result<Option<Segment>, StoreError>,
    ) -> Result<Option<&mut Segment>, StoreError> {
        self.clock += 1;
        if !self.open.contains_key(&number) {
            let Some(segment) = open()? else { return Ok(None) };
            if self.open.len() >= OPEN_FILES
                && let Some(oldest) = self.open.iter().min_by_key(|(_, (used, _))| *used).map(|(number, _)| *number)
            {
                self.open.remove(&oldest);
            }
            self.open.insert(number, (self.clock, segment));
        }
        let clock = self.clock;
        Ok(self.open.get_mut(&number).map(|(used, segment)| {
            *used = clock;
            segment
        }))
    }
}

impl LocalSlots {
    /// Opens the journal below `root`, making its directory if `create`.
    pub fn open(root: &Path, create: bool) -> io::Result<Self> {
        let directory = root.join("j").join("00");
        if create {
            make_durable_dir(root, &directory)?;
        }
        let tail = OpenOptions::new().read(true).write(create).create(create).truncate(false).open(directory.join("tail"));
        let tail = match tail {
            // Who only looks is shown what is there; the checker says that it is missing.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !create => File::open(&directory)?,
            opened => opened?,
        };
        if create {
            File::open(&directory)?.sync_all()?;
        }
        Ok(Self { inner: Arc::new(Inner { directory, tail: Mutex::new(tail), segments: Mutex::default(), writable: create }) })
    }
}

fn make_durable_dir(root: &Path, directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for made in directory.ancestors().take_while(|made| made.starts_with(root)) {
        File::open(made)?.sync_all()?;
    }
    Ok(())
}

enum Written {
    Created,
    NeedsRunway,
    Exists,
}

impl Inner {
    fn file(&self, n: u64) -> PathBuf {
        self.directory.join(format!("{:012x}.slots", n / SLOTS_PER_FILE))
    }

    /// Every slot below this number was acknowledged.
    fn acknowledged(tail: &File) -> u64 {
        let mut mark = [0; 8];
        tail.read_exact_at(&mut mark, 0).map_or(0, |()| u64::from_le_bytes(mark))
    }

    /// The frame of slot `n`: sought by walking the frames of its file, from the last one known.
    fn frame(&self, n: u64, tail: &File) -> Result<Option<Bytes>, StoreError> {
        let number = n / SLOTS_PER_FILE;
        let mut segments = self.segments.lock();
        let opened = segments.get(number, || Segment::open(&self.file(n), number * SLOTS_PER_FILE).map_err(|e| failed(n, e)))?;
        let Some(segment) = opened else { return self.absent(n, tail) };
        match segment.read(n, Self::acknowledged(tail)).map_err(|e| failed(n, e))? {
            Frame::Whole(bytes) => Ok(Some(bytes)),
            Frame::Absent => self.absent(n, tail),
            Frame::Broken { n, last: true, .. } if n >= Self::acknowledged(tail) && !self.file(n + SLOTS_PER_FILE).exists() => {
                Ok(None)
            }
            Frame::Broken { n, at, .. } => {
                Err(StoreError::Damaged { key: name(n), what: format!("the slot at byte {at} is cut short or altered") })
            }
        }
    }

    fn absent(&self, n: u64, tail: &File) -> Result<Option<Bytes>, StoreError> {
        if n < Self::acknowledged(tail) || self.file(n + SLOTS_PER_FILE).exists() {
            return Err(StoreError::Damaged { key: name(n), what: "an acknowledged slot is missing".into() });
        }
        Ok(None)
    }

    fn create(&self, n: u64, bytes: &Bytes) -> Result<Written, StoreError> {
        let tail = self.tail.lock();
        flock(&*tail, FlockOperation::LockExclusive).map_err(|e| failed(n, e.into()))?;
        let result = self.create_locked(n, bytes, &tail);
        let _ = flock(&*tail, FlockOperation::Unlock);
        result
    }

    fn create_locked(&self, n: u64, bytes: &Bytes, tail: &File) -> Result<Written, StoreError> {
        if tail.metadata().is_ok_and(|meta| meta.nlink() == 0) {
            let what = "the log's files were removed under the server".to_owned();
            return Err(StoreError::Fatal { key: "j/00/tail".into(), what });
        }
        let found = self.frame(n, tail)?;
        if self.confirm(n, found, tail)?.is_some() {
            return Ok(Written::Exists);
        }
        let first = n / SLOTS_PER_FILE * SLOTS_PER_FILE;
        let mut segments = self.segments.lock();
        let made = || Segment::create(&self.file(n), first).map(Some).map_err(|e| fatal(n, &e));
        let Some(segment) = segments.get(first / SLOTS_PER_FILE, made)?.filter(|segment| segment.awaits(n)) else {
            return Err(StoreError::transient(name(n), "the slot before it is absent"));
        };
        segment.append(n, bytes).map_err(|e| fatal(n, &e))?;
        tail.write_all_at(&(n + 1).to_le_bytes(), 0).map_err(|e| fatal(n, &e))?;
        Ok(if segment.is_low() { Written::NeedsRunway } else { Written::Created })
    }

    /// A reader waits out a commit under way, and then sees it.
    fn get(&self, n: u64) -> Result<Option<Bytes>, StoreError> {
        let tail = self.tail.lock();
        if n < Self::acknowledged(&tail) {
            return self.frame(n, &tail);
        }
        let lock = if self.writable { FlockOperation::LockExclusive } else { FlockOperation::LockShared };
        flock(&*tail, lock).map_err(|e| failed(n, e.into()))?;
        let result = self.frame(n, &tail).and_then(|found| self.confirm(n, found, &tail));
        let _ = flock(&*tail, FlockOperation::Unlock);
        result
    }

    /// A whole slot beyond the acknowledged ones was left by a writer that died before its sync or just after. It counts, and so it
    /// is made durable before anybody is shown it; who may not write does not see it yet.
    fn confirm(&self, n: u64, found: Option<Bytes>, tail: &File) -> Result<Option<Bytes>, StoreError> {
        let Some(bytes) = found else { return Ok(None) };
        if n < Self::acknowledged(tail) {
            return Ok(Some(bytes));
        }
        if !self.writable {
            return Ok(None);
        }
        let mut segments = self.segments.lock();
        if let Some(segment) = segments.get(n / SLOTS_PER_FILE, || Ok(None))? {
            segment.rewrite(n, &bytes).map_err(|e| fatal(n, &e))?;
        }
        tail.write_all_at(&(n + 1).to_le_bytes(), 0).map_err(|e| fatal(n, &e))?;
        Ok(Some(bytes))
    }

    /// Lays the next runway of the file that slot `n` went to, in strides between which commits take their turn.
    fn extend(&self, n: u64) -> io::Result<()> {
        let mut zeros = Zeros::open(&self.file(n))?;
        loop {
            let tail = self.tail.lock();
            flock(&*tail, FlockOperation::LockExclusive)?;
            let mut segments = self.segments.lock();
            let done = match segments.get(n / SLOTS_PER_FILE, || Ok(None)) {
                Ok(Some(segment)) => segment.extend(&mut zeros),
                Ok(None) | Err(_) => Ok(true),
            };
            let _ = flock(&*tail, FlockOperation::Unlock);
            drop((segments, tail));
            if done? {
                return zeros.sync();
            }
        }
    }
}

#[async_trait]
impl SlotStore for LocalSlots {
    async fn create(&self, n: u64, bytes: Bytes) -> Result<Creation, StoreError> {
        match self.inner.create(n, &bytes)? {
            Written::Exists => Ok(Creation::Exists),
            Written::Created => Ok(Creation::Created),
            Written::NeedsRunway => {
                let inner = self.inner.clone();
                // Off the commit path: the answer is out while the next runway is laid. Without one, commits are only slower.
                tokio::task::spawn_blocking(move || inner.extend(n));
                Ok(Creation::Created)
            }
        }
    }

    async fn get(&self, n: u64) -> Result<Option<Bytes>, StoreError> {
        let inner = self.inner.clone();
        blocking(n, move || inner.get(n)).await
    }

    async fn list(&self) -> Result<Vec<u64>, StoreError> {
        let inner = self.inner.clone();
        blocking(0, move || inner.list()).await
    }

    fn key(&self, n: u64) -> String {
        name(n)
    }

    fn audit(&self, slots: u64) -> Option<(String, String)> {
        let mut mark = [0; 8];
        let tail = self.inner.tail.lock();
        let what = match tail.read_exact_at(&mut mark, 0) {
            Err(_) if slots > 0 => "missing or cut short; the next commit writes it again".to_owned(),
            Ok(()) if !(slots.saturating_sub(1)..=slots).contains(&u64::from_le_bytes(mark)) => {
                format!("says {} slots are acknowledged, but there are {slots}", u64::from_le_bytes(mark))
            }
            Ok(()) | Err(_) => return None,
        };
        Some(("j/00/tail".into(), what))
    }

    fn pace(&self) -> Pace {
        Pace { depth: 1, linger: Duration::ZERO, poll: Duration::from_millis(5), pack: PACK_SLOTS, own_thread: true }
    }
}

impl Inner {
    fn list(&self) -> Result<Vec<u64>, StoreError> {
        let failed = |e: io::Error| StoreError::transient("j/00", e);
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(&self.directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(number) = name.to_str().and_then(|n| n.strip_suffix(".slots")).and_then(|n| u64::from_str_radix(n, 16).ok())
            else {
                continue;
            };
            let first = number * SLOTS_PER_FILE;
            if let Some(mut segment) = Segment::open(&self.directory.join(&name), first).map_err(failed)? {
                numbers.extend(first..first + segment.count().map_err(failed)?);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

fn name(n: u64) -> String {
    format!("j/00/{:012x}.slots#{}", n / SLOTS_PER_FILE, n % SLOTS_PER_FILE)
}

fn failed(n: u64, error: io::Error) -> StoreError {
    StoreError::transient(name(n), error)
}

fn fatal(n: u64, error: &io::Error) -> StoreError {
    StoreError::Fatal { key: name(n), what: error.to_string() }
}

async fn blocking<T: Send + 'static>(
    n: u64,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(StoreError::transient(name(n), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::{Header, Kind, encode};

    fn slot(n: u64) -> Bytes {
        let header = Header {
            kind: Kind::Claim,
            cluster: 1,
            shard: 0,
            n,
            epoch: 1,
            writer: 1,
            nonce: n,
            prev: [0; 32],
            before: 0,
            durable: 0,
            time: 0,
            url: String::new(),
        };
        encode(&header, &[])
    }

    #[test]
    fn a_runway_is_never_laid_over_what_another_process_wrote() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = [0, 1].map(|_| LocalSlots::open(directory.path(), true).unwrap().inner);
        one.create(0, &slot(0)).map(drop).unwrap();
        other.create(1, &slot(1)).map(drop).unwrap();
        one.extend(0).unwrap();
        other.extend(1).unwrap();
        for inner in [&one, &other] {
            assert_eq!(inner.get(1).unwrap(), Some(slot(1)));
            assert_eq!(inner.get(2).unwrap(), None);
        }
    }
}
