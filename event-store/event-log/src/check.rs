//! The checker: walks everything the store holds and says precisely what is wrong.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use serde::Serialize;

use crate::blobs;
use crate::chain::Verdict;
use crate::checkpoint;
use crate::core::{Core, FetchError};
use crate::open::OpenLogError;
use crate::pack;
use crate::record::{Body, Op, Record};
use crate::store::cluster::ClusterError;
use crate::store::{Cluster, Store, get_object};
use crate::stream::Place;
use crate::world::RealWorld;

const READ_AHEAD: usize = 16;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub slots: u64,
    pub void_slots: u64,
    pub records: u64,
    pub streams: u64,
    pub packs: u64,
    pub checkpoints: u64,
    pub blobs: u64,
    pub bytes: u64,
    pub damages: Vec<Finding>,
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub key: String,
    pub what: String,
}

#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub phase: &'static str,
    pub done: u64,
    pub of: u64,
}

struct Checker<'a> {
    core: Core,
    report: Report,
    /// Appends of valid slots, by slot, as digests; what packs are held against.
    appends: BTreeMap<u64, Vec<[u8; 32]>>,
    blobs: BTreeSet<([u8; 32], u32)>,
    progress: &'a mut (dyn FnMut(Progress) + Send),
}

/// Reads the whole log. `progress` is called now and then.
pub async fn check(store: Store, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Report, OpenLogError> {
    let cluster = Cluster::load(store.objects.as_ref()).await?.ok_or(ClusterError::Absent)?;
    let core = Core::bare(store, cluster.id(), Arc::new(RealWorld), 0);
    let mut checker = Checker { core, report: Report::default(), appends: BTreeMap::new(), blobs: BTreeSet::new(), progress };
    let reached = checker.slots().await?;
    checker.packs(reached).await?;
    checker.checkpoints(reached).await?;
    checker.check_blobs().await?;
    Ok(checker.report)
}

impl Checker<'_> {
    fn found(&mut self, key: impl ToString, what: impl ToString) {
        self.report.damages.push(Finding { key: key.to_string(), what: what.to_string() });
    }

    fn say(&mut self, phase: &'static str, done: u64, of: u64) {
        (self.progress)(Progress { phase, done, of });
    }

    /// Folds the slots from zero; returns the first number that could not be folded.
    async fn slots(&mut self) -> Result<u64, FetchError> {
        let present = match self.core.store.slots.list().await {
            Ok(present) => present,
            Err(error) => return Err(error.into()),
        };
        let last = present.last().map_or(0, |n| n + 1);
        let (mut n, mut sound) = (0, true);
        loop {
            self.say("slots", n, last);
            let bytes = match self.core.fetch_bytes(n).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) if n >= last => break,
                Ok(None) => {
                    self.hole(n, &present).await?;
                    break;
                }
                Err(FetchError::Damaged(damage)) => {
                    self.found(damage.key, damage.what);
                    sound = false;
                    break;
                }
                Err(error) => return Err(error),
            };
            self.report.bytes += bytes.len() as u64;
            match self.core.decode(n, &bytes) {
                Ok(slot) => {
                    if let Err(damage) = self.fold(slot) {
                        self.found(damage.key, damage.what);
                        sound = false;
                        break;
                    }
                }
                Err(damage) => {
                    self.found(damage.key, damage.what);
                    sound = false;
                    break;
                }
            }
            n += 1;
        }
        if !sound {
            self.rest(n + 1, &present).await;
        }
        self.report.streams = self.core.state.read().streams.len() as u64;
        Ok(n)
    }

    fn fold(&mut self, slot: crate::slot::Slot) -> Result<(), crate::core::Damage> {
        let n = slot.header.n;
        let slot = Arc::new(slot);
        self.report.slots += 1;
        match self.core.absorb(slot.clone(), 0)? {
            Verdict::Data => {
                self.report.records += slot.records.len() as u64;
                let digests = slot.records.iter().filter(|r| matches!(r.op, Op::Appended(_))).map(digest).collect();
                self.appends.insert(n, digests);
                for record in &slot.records {
                    if let Op::Appended(appended) = &record.op
                        && let Body::Blob { sha256, len } = &appended.payload.body
                    {
                        self.blobs.insert((*sha256, *len));
                    }
                }
            }
            Verdict::Claim => {}
            Verdict::Void => self.report.void_slots += 1,
        }
        Ok(())
    }

    /// Slots exist beyond an absent one: it is damage if one of them knew it as durable, or else one that never got its turn.
    async fn hole(&mut self, n: u64, present: &[u64]) -> Result<(), FetchError> {
        for later in present.iter().filter(|later| **later > n) {
            let Some(bytes) = self.core.fetch_bytes(*later).await? else { continue };
            if self.core.decode(*later, &bytes).is_ok_and(|slot| slot.header.durable > n) {
                let key = self.core.store.slots.key(n);
                self.found(key, format!("an acknowledged slot is missing: slot {later} was written after it"));
                self.rest(n + 1, present).await;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Beyond the first damage nothing can be folded, but each slot can still be looked at.
    async fn rest(&mut self, from: u64, present: &[u64]) {
        for n in present.iter().copied().filter(|n| *n >= from) {
            match self.core.fetch_bytes(n).await {
                Ok(Some(bytes)) => {
                    self.report.bytes += bytes.len() as u64;
                    if let Err(damage) = self.core.decode(n, &bytes) {
                        self.found(damage.key, damage.what);
                    }
                }
                Ok(None) => {}
                Err(FetchError::Damaged(damage)) => self.found(damage.key, damage.what),
                Err(error) => self.found(self.core.store.slots.key(n), error),
            }
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Path>, FetchError> {
        let listed: Result<Vec<_>, _> = self.core.store.objects.list(Some(&Path::from(prefix))).try_collect().await;
        let mut paths: Vec<Path> =
            listed.map_err(|error| FetchError::Unavailable(error.to_string()))?.into_iter().map(|meta| meta.location).collect();
        paths.sort_unstable();
        Ok(paths)
    }

    /// Holds every pack, index and content, against the slots it covers.
    async fn packs(&mut self, reached: u64) -> Result<(), FetchError> {
        let paths = self.list("pack/00").await?;
        let of = paths.len() as u64;
        for (done, path) in paths.iter().enumerate() {
            self.say("packs", done as u64, of);
            let Some((from, to)) = pack::range(path) else { continue };
            let Some(bytes) = get_object(self.core.store.objects.as_ref(), path).await? else { continue };
            self.report.packs += 1;
            self.report.bytes += bytes.len() as u64;
            if to > reached {
                self.found(path, format!("covers slots {from}..{to}, but the log can be followed only to {reached}"));
                continue;
            }
            if let Err(what) = self.compare_pack(&bytes, from, to) {
                self.found(path, what);
            }
        }
        Ok(())
    }

    fn compare_pack(&self, bytes: &bytes::Bytes, from: u64, to: u64) -> Result<(), String> {
        let index = pack::decode_index(bytes).map_err(|error| format!("index: {error}"))?;
        let mut packed: HashMap<[u8; 32], u64> = HashMap::new();
        for entry in &index {
            for block in &entry.blocks {
                let range = block.offset as usize..(block.offset as usize + block.len as usize);
                let at = || format!("block of {:?} at bytes {}..{}", entry.stream, range.start, range.end);
                if range.end > bytes.len() {
                    return Err(format!("{} is cut off", at()));
                }
                let records = pack::decode_block(&bytes.slice(range.clone())).map_err(|error| format!("{}: {error}", at()))?;
                let first = records.first().map(|record| match &record.op {
                    Op::Appended(appended) => (appended.first, appended.generation),
                    Op::Created(_) | Op::Closed { .. } | Op::Deleted { .. } | Op::Renewed => (0, 0),
                });
                if first != Some((block.start, entry.generation)) || records.iter().any(|r| r.stream != entry.stream) {
                    return Err(format!("{}: the index does not match its content", at()));
                }
                for record in &records {
                    *packed.entry(digest(record)).or_default() += 1;
                }
            }
        }
        let mut wanted: HashMap<[u8; 32], u64> = HashMap::new();
        for digest in self.appends.range(from..to).flat_map(|(_, digests)| digests) {
            *wanted.entry(*digest).or_default() += 1;
        }
        if packed == wanted { Ok(()) } else { Err(format!("stale: it does not hold the appends of slots {from}..{to}")) }
    }

    /// The newest checkpoint must say what the slots say. Older ones are only held against their checksum.
    async fn checkpoints(&mut self, reached: u64) -> Result<(), FetchError> {
        let paths = self.list("ckpt/00").await?;
        let of = paths.len() as u64;
        for (done, path) in paths.iter().enumerate() {
            self.say("checkpoints", done as u64, of);
            let Some(bytes) = get_object(self.core.store.objects.as_ref(), path).await? else { continue };
            let Some(n) = checkpoint::number(path) else {
                self.latest(path, &bytes, &paths, reached);
                continue;
            };
            self.report.checkpoints += 1;
            self.report.bytes += bytes.len() as u64;
            let state = match checkpoint::decode(self.core.cluster, &bytes) {
                Ok(state) => state,
                Err(error) => {
                    self.found(path, error);
                    continue;
                }
            };
            if state.chain.next != n {
                self.found(path, format!("stale: it is of slot {}", state.chain.next));
            } else if n > reached {
                self.found(path, format!("is of slot {n}, but the log can be followed only to {reached}"));
            } else if let Some(what) = self.compare_checkpoint(&state, n).await? {
                self.found(path, what);
            }
        }
        Ok(())
    }

    fn latest(&mut self, path: &Path, bytes: &bytes::Bytes, paths: &[Path], reached: u64) {
        let n = std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse::<u64>().ok());
        match n {
            None => self.found(path, "is not a number"),
            Some(n) if n > reached || !paths.contains(&checkpoint::path(n)) => {
                self.found(path, format!("points at slot {n}, for which there is no usable checkpoint"));
            }
            Some(_) => {}
        }
    }

    /// Folds the slots again up to the checkpoint and compares stream by stream.
    async fn compare_checkpoint(&self, saved: &crate::state::State, n: u64) -> Result<Option<String>, FetchError> {
        let fresh = Core::bare(self.core.store.clone(), self.core.cluster, Arc::new(RealWorld), 0);
        let core = &self.core;
        let mut slots = stream::iter(0..n).map(|n| async move { (n, core.fetch_bytes(n).await) }).buffered(READ_AHEAD);
        while let Some((n, bytes)) = slots.next().await {
            let Some(bytes) = bytes? else { return Ok(Some(format!("slot {n} is missing"))) };
            fresh.absorb(Arc::new(fresh.decode(n, &bytes)?), 0)?;
        }
        let state = fresh.state.read();
        if state.chain != saved.chain {
            return Ok(Some("stale: its head is not the log's".into()));
        }
        if state.streams.len() != saved.streams.len() {
            return Ok(Some(format!("stale: {} streams instead of {}", saved.streams.len(), state.streams.len())));
        }
        for (name, stream) in &state.streams {
            let same = saved.stream(name).is_some_and(|other| {
                let slots = |s: &crate::stream::Stream| -> Vec<u64> { s.extents.iter().map(|e| e.start).collect() };
                let unpacked = other.extents.iter().all(|e| matches!(e.place, Place::Slot { .. }));
                other.head == stream.head && other.producers == stream.producers && (!unpacked || slots(other) == slots(stream))
            });
            if !same {
                return Ok(Some(format!("stale: stream {name:?} is not as the log has it")));
            }
        }
        Ok(None)
    }

    async fn check_blobs(&mut self) -> Result<(), FetchError> {
        let blobs: Vec<_> = std::mem::take(&mut self.blobs).into_iter().collect();
        let of = blobs.len() as u64;
        for (done, (sha256, len)) in blobs.into_iter().enumerate() {
            self.say("blobs", done as u64, of);
            let payload = crate::record::Payload { body: Body::Blob { sha256, len }, cuts: None };
            match blobs::load(&self.core, &payload).await {
                Ok(data) => {
                    self.report.blobs += 1;
                    self.report.bytes += data.len() as u64;
                }
                Err(FetchError::Damaged(damage)) => self.found(damage.key, damage.what),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn digest(record: &Record) -> [u8; 32] {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    *blake3::hash(&bytes).as_bytes()
}
