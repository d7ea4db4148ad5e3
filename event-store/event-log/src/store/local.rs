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
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{FlockOperation, flock};

use crate::check::Finding;

use super::{Creation, PACK_SLOTS, Pace, SlotStore, StoreError};

mod segment;

use segment::{Frame, Segment};

const SLOTS_PER_FILE: u64 = 4096;
/// For writers of other processes, which no lock of ours is fair to.
const BETWEEN_STRIDES: Duration = Duration::from_micros(100);
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
    /// A runway is being laid.
    laying: AtomicBool,
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
        Ok(Self {
            inner: Arc::new(Inner {
                directory,
                tail: Mutex::new(tail),
                segments: Mutex::default(),
                writable: create,
                laying: AtomicBool::new(false),
            }),
        })
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
        if !self.still_ours(tail) {
            let what = "the log's files were moved or removed under the server".to_owned();
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

    /// A whole slot beyond the acknowledged ones was left by a writer that died before its sync or just after, or `tail` is behind
    /// after a power cut. It counts, and so whoever may write makes it durable before anybody is shown it.
    fn confirm(&self, n: u64, found: Option<Bytes>, tail: &File) -> Result<Option<Bytes>, StoreError> {
        let Some(bytes) = found else { return Ok(None) };
        if n < Self::acknowledged(tail) || !self.writable {
            return Ok(Some(bytes));
        }
        let mut segments = self.segments.lock();
        if let Some(segment) = segments.get(n / SLOTS_PER_FILE, || Ok(None))? {
            let next = segment.confirm(n).map_err(|e| fatal(n, &e))?;
            tail.write_all_at(&next.to_le_bytes(), 0).map_err(|e| fatal(n, &e))?;
        }
        Ok(Some(bytes))
    }

    /// Lays the next runway of the file that slot `n` went to, in strides between which commits take their turn.
    fn extend(&self, n: u64) -> io::Result<()> {
        loop {
            let tail = self.tail.lock();
            flock(&*tail, FlockOperation::LockExclusive)?;
            let mut segments = self.segments.lock();
            let laid = match segments.get(n / SLOTS_PER_FILE, || Ok(None)) {
                Ok(Some(segment)) => segment.extend(),
                Ok(None) | Err(_) => Ok(true),
            };
            let _ = flock(&*tail, FlockOperation::Unlock);
            drop(segments);
            MutexGuard::unlock_fair(tail);
            if laid? {
                return Ok(());
            }
            std::thread::sleep(BETWEEN_STRIDES);
        }
    }

    fn lay_runway(&self, n: u64) {
        let tail = self.tail.lock().try_clone();
        // A power cut then leaves few slots behind the mark.
        if let Err(error) = self.extend(n).and_then(|()| tail?.sync_data()) {
            tracing::warn!(file = %self.file(n).display(), %error, "no runway could be laid; commits are slower");
        }
        self.laying.store(false, Ordering::Release);
    }

    /// The files at our path are the ones we hold open.
    fn still_ours(&self, tail: &File) -> bool {
        let identity = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let there = std::fs::metadata(self.directory.join("tail")).map(identity);
        matches!((there, tail.metadata().map(identity)), (Ok(there), Ok(here)) if there == here)
    }
}

#[async_trait]
impl SlotStore for LocalSlots {
    async fn create(&self, n: u64, bytes: Bytes) -> Result<Creation, StoreError> {
        match self.inner.create(n, &bytes)? {
            Written::Exists => Ok(Creation::Exists),
            Written::Created => Ok(Creation::Created),
            Written::NeedsRunway => {
                // Off the commit path: the answer is out while the next runway is laid. Without one, commits are only slower.
                if !self.inner.laying.swap(true, Ordering::Acquire) {
                    let inner = self.inner.clone();
                    tokio::task::spawn_blocking(move || inner.lay_runway(n));
                }
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

    fn audit(&self, slots: u64) -> Option<Finding> {
        let mark = Inner::acknowledged(&self.inner.tail.lock());
        let what = format!("counts {mark} acknowledged slots of {slots}; the next server mends it");
        (mark + 1 < slots).then(|| Finding { key: "j/00/tail".into(), what })
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
    let advice = if error.kind() == io::ErrorKind::StorageFull { " (make room first)" } else { "" };
    StoreError::Fatal { key: name(n), what: format!("{error}{advice}") }
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

    #[test]
    fn a_server_whose_files_were_moved_writes_neither_there_nor_to_what_took_their_place() {
        let directory = tempfile::tempdir().unwrap();
        let (live, old) = (directory.path().join("live"), directory.path().join("old"));
        let before = LocalSlots::open(&live, true).unwrap().inner;
        before.create(0, &slot(0)).map(drop).unwrap();
        std::fs::rename(&live, &old).unwrap();
        let after = LocalSlots::open(&live, true).unwrap().inner;
        for n in 0..3_000 {
            after.create(n, &slot(n)).map(drop).unwrap();
        }
        before.extend(0).unwrap();
        assert!(matches!(before.create(1, &slot(1)), Err(StoreError::Fatal { .. })));
        for n in 0..3_000 {
            assert_eq!(after.get(n).unwrap(), Some(slot(n)));
        }
        assert_eq!(after.get(3_000).unwrap(), None);
    }

    #[test]
    fn runways_and_commits_of_two_processes_leave_every_slot_whole() {
        let directory = tempfile::tempdir().unwrap();
        let handles = [0, 1].map(|_| LocalSlots::open(directory.path(), true).unwrap().inner);
        let laying = handles.clone().map(|inner| {
            std::thread::spawn(move || {
                for n in 0..2_000 {
                    inner.extend(n).unwrap();
                }
            })
        });
        for n in 0..2_000 {
            handles[(n % 3 == 0) as usize].create(n, &slot(n)).map(drop).unwrap();
        }
        for thread in laying {
            thread.join().unwrap();
        }
        for inner in &handles {
            for n in 0..2_000 {
                assert_eq!(inner.get(n).unwrap(), Some(slot(n)), "{n}");
            }
        }
    }

    fn frame_of(bytes: &Bytes) -> Vec<u8> {
        let len = bytes.len() as u32;
        [&len.to_le_bytes()[..], &(!len.rotate_left(16)).to_le_bytes(), bytes].concat()
    }

    #[test]
    fn a_torn_write_that_holds_a_frame_in_its_payload_is_still_only_a_torn_write() {
        let directory = tempfile::tempdir().unwrap();
        let inner = LocalSlots::open(directory.path(), true).unwrap().inner;
        inner.create(0, &slot(0)).map(drop).unwrap();
        let file = OpenOptions::new().write(true).open(inner.file(0)).unwrap();
        let end = frame_of(&slot(0)).len() as u64;
        let inside = [&[7; 100][..], &frame_of(&slot(5)), &[7; 100]].concat();
        let torn = frame_of(&Bytes::from([&inside[..], &[9; 5_000]].concat()));
        file.write_all_at(&torn[..inside.len() + 8], end).unwrap();
        let reopened = LocalSlots::open(directory.path(), true).unwrap().inner;
        assert_eq!(reopened.get(1).unwrap(), None);
        reopened.create(1, &slot(1)).map(drop).unwrap();
        assert_eq!(reopened.get(1).unwrap(), Some(slot(1)));
        assert_eq!(reopened.get(2).unwrap(), None);
    }

    #[test]
    fn slots_that_a_lost_mark_does_not_count_are_shown_and_counted_again() {
        let directory = tempfile::tempdir().unwrap();
        let slots = LocalSlots::open(directory.path(), true).unwrap();
        for n in 0..300 {
            slots.inner.create(n, &slot(n)).map(drop).unwrap();
        }
        File::create(directory.path().join("j/00/tail")).unwrap();
        let looking = LocalSlots::open(directory.path(), false).unwrap();
        assert_eq!(looking.inner.get(299).unwrap(), Some(slot(299)));
        assert_eq!(looking.audit(300).unwrap().key, "j/00/tail");
        let serving = LocalSlots::open(directory.path(), true).unwrap();
        assert_eq!(serving.inner.get(0).unwrap(), Some(slot(0)));
        assert!(serving.audit(300).is_none());
    }

    #[test]
    fn a_slot_file_that_was_replaced_or_cut_takes_no_more_slots() {
        for harm in [|path: &Path| std::fs::remove_file(path), |path: &Path| File::create(path).map(drop)] {
            let directory = tempfile::tempdir().unwrap();
            let inner = LocalSlots::open(directory.path(), true).unwrap().inner;
            inner.create(0, &slot(0)).map(drop).unwrap();
            harm(&inner.file(0)).unwrap();
            assert!(inner.create(1, &slot(1)).is_err());
        }
    }
}
