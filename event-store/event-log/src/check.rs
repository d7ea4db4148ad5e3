//! The checker: walks everything the store holds and says precisely what is wrong.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path;
use serde::Serialize;

use crate::blobs;
use crate::chain::Verdict;
use crate::checkpoint;
use crate::core::{Core, FetchError};
use crate::open::OpenLogError;
use crate::pack;
use crate::record::{Body, Op, Record};
use crate::state::State;
use crate::store::cluster::{self, ClusterError};
use crate::store::{Cluster, Store, get_object};
use crate::stream::{Place, Stream};
use crate::world::RealWorld;

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
    /// Harmless, and mended by the next server: hints that are missing or behind.
    pub notes: Vec<Finding>,
}

impl Report {
    /// Without the log's identity nothing else can be judged.
    fn only(what: String) -> Self {
        Self { damages: vec![Finding { key: cluster::KEY.into(), what }], ..Self::default() }
    }
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
    /// Checkpoints not yet held against the slots, by number.
    saved: BTreeMap<u64, Path>,
    /// Packs that a start from the newest checkpoint reads through.
    named: BTreeSet<Path>,
    progress: &'a mut (dyn FnMut(Progress) + Send),
}

/// Reads the whole log. `progress` is called now and then.
pub async fn check(store: Store, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Report, OpenLogError> {
    let cluster = match Cluster::load(store.objects.as_ref()).await {
        Ok(Some(cluster)) => cluster,
        Ok(None) if store.slots.get(0).await.map_err(FetchError::from)?.is_none() => return Err(ClusterError::Absent.into()),
        Ok(None) => return Ok(Report::only(ClusterError::Lost.to_string())),
        Err(error @ (ClusterError::Unreadable(_) | ClusterError::Altered)) => return Ok(Report::only(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let core = Core::bare(store, cluster.id(), Arc::new(RealWorld), 0);
    let mut checker = Checker {
        core,
        report: Report::default(),
        appends: BTreeMap::new(),
        blobs: BTreeSet::new(),
        saved: BTreeMap::new(),
        named: BTreeSet::new(),
        progress,
    };
    let paths = checker.list("ckpt/00").await?;
    checker.saved = paths.iter().filter_map(|path| Some((checkpoint::number(path)?, path.clone()))).collect();
    // Listed before the slots are read: a server at work adds only what the slots read later account for.
    let latest = get_object(checker.core.store.objects.as_ref(), &Path::from(checkpoint::LATEST)).await;
    let latest = latest.map_err(FetchError::from)?;
    let packs = checker.list("pack/00").await?;
    let reached = checker.slots().await?;
    if let Some(hint) = checker.core.store.slots.audit(reached).filter(|_| checker.report.damages.is_empty()) {
        checker.report.notes.push(hint);
    }
    checker.unreached_checkpoints(reached);
    if let Some(latest) = latest {
        checker.latest(&latest, reached).await?;
    }
    checker.packs(&packs, reached).await?;
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
            if let Some(path) = self.saved.remove(&n) {
                self.checkpoint(&path).await?;
            }
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
    async fn packs(&mut self, paths: &[Path], reached: u64) -> Result<(), FetchError> {
        for named in std::mem::take(&mut self.named) {
            if paths.contains(&named) || get_object(self.core.store.objects.as_ref(), &named).await?.is_some() {
                continue;
            }
            self.found(named, "the newest checkpoint reads through this pack, but it is missing; reads fall back to the slots");
        }
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

    /// Holds a checkpoint against the slots, which have just been folded up to it.
    async fn checkpoint(&mut self, path: &Path) -> Result<(), FetchError> {
        let Some(bytes) = get_object(self.core.store.objects.as_ref(), path).await? else { return Ok(()) };
        self.report.checkpoints += 1;
        self.report.bytes += bytes.len() as u64;
        let wrong = match checkpoint::decode(self.core.cluster, &bytes) {
            Ok(saved) => {
                self.named = saved.packs.iter().map(|pack| pack::path(pack.from, pack.to)).collect();
                stale(&saved, &self.core.state.read())
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(what) = wrong {
            self.found(path, what);
        }
        Ok(())
    }

    fn unreached_checkpoints(&mut self, reached: u64) {
        for (n, path) in std::mem::take(&mut self.saved) {
            self.report.checkpoints += 1;
            self.found(path, format!("is of slot {n}, but the log can be followed only to {reached}"));
        }
    }

    async fn latest(&mut self, bytes: &bytes::Bytes, reached: u64) -> Result<(), FetchError> {
        let path = Path::from(checkpoint::LATEST);
        let n = std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse::<u64>().ok());
        match n {
            None => self.found(path, "is not a number"),
            Some(n) => {
                let there = get_object(self.core.store.objects.as_ref(), &checkpoint::path(n)).await?.is_some();
                if n > reached || !there {
                    self.found(path, format!("points at slot {n}, for which there is no usable checkpoint"));
                }
            }
        }
        Ok(())
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

/// What a checkpoint says otherwise than the slots.
fn stale(saved: &State, folded: &State) -> Option<String> {
    if saved.chain != folded.chain {
        return Some(format!("stale: it is of another slot {}", saved.chain.next));
    }
    if saved.streams.len() != folded.streams.len() {
        return Some(format!("stale: {} streams instead of {}", saved.streams.len(), folded.streams.len()));
    }
    if saved.skips != folded.skips || !saved.commands.in_order().eq(folded.commands.in_order()) {
        return Some("stale: it remembers other commands or void slots".into());
    }
    let other = folded.streams.iter().find(|(name, stream)| !saved.stream(name).is_some_and(|own| same(own, stream)));
    other.map(|(name, _)| format!("stale: stream {name:?} is not as the log has it"))
}

fn same(saved: &Stream, folded: &Stream) -> bool {
    // What lies in packs is held against the packs; the rest must lie where the slots have it.
    let tail = saved.extents.iter().skip_while(|extent| matches!(extent.place, Place::Pack { .. }));
    let tail: Vec<_> = tail.collect();
    let in_slots = folded.extents.iter().rev().take(tail.len()).rev();
    saved.head == folded.head && saved.producers == folded.producers && tail.into_iter().eq(in_slots)
}

fn digest(record: &Record) -> [u8; 32] {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    *blake3::hash(&bytes).as_bytes()
}
