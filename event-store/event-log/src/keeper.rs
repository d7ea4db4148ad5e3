//! Makes packs and checkpoints in the background. Everything it writes can be deleted; nothing is lost but time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use object_store::ObjectStoreExt;
use object_store::path::Path;
use tokio::sync::Mutex;

use crate::checkpoint;
use crate::core::{Core, FetchError};
use crate::pack;
use crate::state::PackRef;
use crate::store::{StoreError, get_object, put_once};

/// A first pack covers as many slots as the store's pace says, or fewer if they hold this many bytes.
const PACK_BYTES: usize = 16 << 20;
/// So many neighbours of one size become one pack, as long as it stays below `MERGE_BYTES`.
const MERGE: usize = 16;
const MERGE_BYTES: u64 = 32 << 20;
/// A start replays at most this many packs' worth of slots, or reads about as many bytes as a checkpoint has.
const CHECKPOINT_PACKS: u64 = 4;
const CHECKPOINT_PACKS_MAX: u64 = 64;
/// A start that reads this many bytes of slots, or as many as the checkpoint has, is quick.
const QUICK_BYTES: u64 = 4 << 20;
/// How many times its bytes go by before a small checkpoint is worth another.
const WORTH: u64 = 16;
/// Packs that may be waiting to be made while the log is busy, and bytes of slots since the last checkpoint.
const BACKLOG_PACKS: u64 = 16;
const BACKLOG_BYTES: u64 = 256 << 20;
const REST: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Keeper {
    core: Arc<Core>,
    pack_slots: u64,
    /// One maker at a time.
    busy: Mutex<()>,
}

impl Keeper {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let pack_slots = core.store.slots.pace().pack.max(1);
        Self { core, pack_slots, busy: Mutex::new(()) }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let (mut due, mut seen) = (0, 0);
        loop {
            tokio::time::sleep(REST).await;
            let head = self.core.state.read().chain.next;
            let calm = std::mem::replace(&mut seen, head) == head;
            if head < due || !(calm || self.cannot_wait(head)) {
                continue;
            }
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "packs and checkpoints have to wait");
            }
            due = self.core.state.read().chain.next + (self.pack_slots / 4).max(1);
        }
    }

    /// Writers go first, until so much has piled up that reads and the next start would feel it.
    fn cannot_wait(&self, head: u64) -> bool {
        let behind = head.saturating_sub(self.core.state.read().packed_to());
        behind >= BACKLOG_PACKS * self.pack_slots || self.core.unsaved.load(Ordering::Relaxed) >= BACKLOG_BYTES
    }

    async fn round(&self) -> Result<(), FetchError> {
        let _busy = self.busy.lock().await;
        while self.pack_next().await? {}
        while self.merge_next().await? {}
        let slots = self.unsaved_slots();
        let worth_it = self.core.unsaved.load(Ordering::Relaxed) >= self.core.saved_bytes.load(Ordering::Relaxed);
        if slots >= CHECKPOINT_PACKS_MAX * self.pack_slots || (slots >= CHECKPOINT_PACKS * self.pack_slots && worth_it) {
            self.checkpoint().await?;
        }
        Ok(())
    }

    fn unsaved_slots(&self) -> u64 {
        self.core.state.read().chain.next.saturating_sub(self.core.saved.load(Ordering::Relaxed))
    }

    /// For the next start. Who opens the log often and writes little each time would write checkpoints more than anything else, so the
    /// last one stays while a start from it is quick.
    pub(crate) async fn checkpoint_now(&self) {
        let _busy = self.busy.lock().await;
        let (slots, bytes) = (self.unsaved_slots(), self.core.unsaved.load(Ordering::Relaxed));
        let saved = self.core.saved_bytes.load(Ordering::Relaxed);
        let quick = saved.saturating_mul(WORTH).min(saved.max(QUICK_BYTES));
        if slots == 0 || (slots < self.pack_slots && bytes < quick) {
            return;
        }
        if let Err(error) = self.checkpoint().await {
            tracing::warn!(%error, "no checkpoint was written; the next start takes longer");
        }
    }

    /// Packs the oldest slots that no pack covers, if there are enough of them.
    async fn pack_next(&self) -> Result<bool, FetchError> {
        let (from, head) = {
            let state = self.core.state.read();
            (state.packed_to(), state.chain.next)
        };
        let mut builder = pack::Builder::default();
        let (mut to, mut bytes) = (from, 0);
        while to < head && to - from < self.pack_slots && bytes < PACK_BYTES {
            bytes += self.add_slot(to, &mut builder).await?;
            to += 1;
        }
        if to - from < self.pack_slots && bytes < PACK_BYTES {
            return Ok(false);
        }
        self.install(from, to, builder).await?;
        Ok(true)
    }

    async fn add_slot(&self, n: u64, builder: &mut pack::Builder) -> Result<usize, FetchError> {
        let slot = self.core.slot(n).await?;
        if !self.core.state.read().skips.contains(&n) {
            slot.records.iter().for_each(|record| builder.add(record));
        }
        Ok(slot.weight)
    }

    /// What a missing or damaged pack held is in the slots it covered.
    async fn add_pack(&self, pack: PackRef, builder: &mut pack::Builder) -> Result<(), FetchError> {
        let path = pack::path(pack.from, pack.to);
        let found = get_object(self.core.store.objects.as_ref(), &path).await?;
        match found.as_ref().map(|bytes| builder.add_pack(bytes)) {
            Some(Ok(())) => {}
            other => {
                tracing::error!(key = %path, error = ?other.map(Result::err), "pack unusable, reading its slots instead");
                for n in pack.from..pack.to {
                    self.add_slot(n, builder).await?;
                }
            }
        }
        Ok(())
    }

    /// Two servers make the same pack of the same slots, so it does not matter who was first.
    async fn install(&self, from: u64, to: u64, builder: pack::Builder) -> Result<(), FetchError> {
        let path = pack::path(from, to);
        let objects = self.core.store.objects.as_ref();
        let (bytes, index) = builder.finish_gently().await;
        match get_object(objects, &path).await? {
            Some(existing) if existing == bytes => {}
            Some(_) => {
                tracing::error!(key = %path, "a pack of other content, writing it again");
                objects.put(&path, bytes.clone().into()).await.map_err(|error| StoreError::transient(&path, error))?;
            }
            None => put_once(objects, &path, bytes.clone()).await?,
        }
        self.core.counters.packs.fetch_add(1, Ordering::Relaxed);
        self.core.state.write().install_pack(PackRef { from, to, bytes: bytes.len() as u64 }, &index);
        Ok(())
    }

    /// Joins the first run of `MERGE` neighbours of the same tier.
    async fn merge_next(&self) -> Result<bool, FetchError> {
        let packs = self.core.state.read().packs.clone();
        let run = packs.windows(MERGE).find(|run| {
            let slots = |pack: &PackRef| pack.to - pack.from;
            let same = run.iter().all(|pack| self.tier(slots(pack)) == self.tier(slots(&run[0])));
            same && run.iter().map(|pack| pack.bytes).sum::<u64>() <= MERGE_BYTES
        });
        let Some(run) = run else { return Ok(false) };
        let mut builder = pack::Builder::default();
        for pack in run {
            self.add_pack(*pack, &mut builder).await?;
        }
        self.install(run[0].from, run[MERGE - 1].to, builder).await?;
        Ok(true)
    }

    async fn checkpoint(&self) -> Result<(), FetchError> {
        let (n, bytes) = {
            let state = self.core.state.read();
            self.core.unsaved.store(0, Ordering::Relaxed);
            (state.chain.next, checkpoint::encode(self.core.cluster, &state))
        };
        let objects = self.core.store.objects.as_ref();
        let size = bytes.len() as u64;
        put_once(objects, &checkpoint::path(n), bytes).await?;
        let latest = Path::from(checkpoint::LATEST);
        objects.put(&latest, n.to_string().into()).await.map_err(|error| StoreError::transient(&latest, error))?;
        let before = self.core.saved.swap(n, Ordering::Relaxed);
        self.core.saved_bytes.store(size, Ordering::Relaxed);
        self.core.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(slot = n, bytes = size, before, "checkpoint written");
        Ok(())
    }

    /// Packs of up to 256 slots, of up to 16 times as many, and so on.
    fn tier(&self, slots: u64) -> u32 {
        slots.div_ceil(self.pack_slots).ilog2() / MERGE.ilog2()
    }
}
