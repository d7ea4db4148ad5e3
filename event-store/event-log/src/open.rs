//! Opening a log: the latest checkpoint, then every slot after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cache::Cache;
use crate::checkpoint;
use crate::core::{Core, Counters, Damage, FetchError};
use crate::follow::{Cursor, FollowError, chain_at};
use crate::hub::Hub;
use crate::log::{Log, Options};
use crate::state::State;
use crate::store::cluster::ClusterError;
use crate::store::{Cluster, Store, get_object};
use crate::world::World;

/// Slots read at once while opening, and looked for beyond the head.
const READ_AHEAD: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum OpenLogError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("the thread that writes the log cannot be started")]
    Thread(#[source] std::io::Error),
}

impl Log {
    /// Opens the log, making it if the store is empty.
    pub async fn open(store: Store, options: Options) -> Result<Self, OpenLogError> {
        let world = options.world.clone();
        let cluster = Cluster::load_or_create(&store, &move || world.random()).await?;
        Self::open_as(store, cluster, options).await
    }

    /// Opens a log that exists, without writing anything to its store.
    pub async fn open_existing(store: Store, options: Options) -> Result<Self, OpenLogError> {
        let cluster = Cluster::load(store.objects.as_ref()).await?.ok_or(ClusterError::Absent)?;
        Self::open_as(store, cluster, Options { keep: false, ..options }).await
    }

    async fn open_as(store: Store, cluster: Cluster, options: Options) -> Result<Self, OpenLogError> {
        let core = Core::bare(store, cluster.id(), options.world.clone(), options.memory);
        core.restore().await?;
        core.replay().await?;
        core.suspect_holes().await?;
        core.forgive_unseen_reads();
        Self::start(Arc::new(core), cluster, options).map_err(OpenLogError::Thread)
    }
}

impl Core {
    /// Starts from the newest checkpoint that fits the log; from nothing if there is none.
    async fn restore(&self) -> Result<(), FetchError> {
        for n in self.checkpoints().await? {
            let key = checkpoint::path(n);
            let Some(bytes) = get_object(self.store.objects.as_ref(), &key).await? else { continue };
            let state = match checkpoint::decode(self.cluster, &bytes) {
                Ok(state) => state,
                Err(error) => {
                    tracing::error!(%key, %error, "damaged checkpoint, trying an older one");
                    continue;
                }
            };
            let cursor = Cursor { next: state.chain.next, digest: state.chain.digest };
            match chain_at(self, cursor).await {
                Ok(_) => {
                    self.saved.store(state.chain.next, Ordering::Relaxed);
                    self.saved_bytes.store(bytes.len() as u64, Ordering::Relaxed);
                    self.head.send_replace(state.chain.next);
                    *self.state.write() = state;
                    return Ok(());
                }
                Err(FollowError::Fetch(error @ (FetchError::Unavailable(_) | FetchError::Fatal(_)))) => return Err(error),
                Err(error @ (FollowError::Fetch(FetchError::Damaged(_)) | FollowError::OtherHistory(_))) => {
                    tracing::error!(%key, %error, "checkpoint does not fit the log, trying an older one");
                }
            }
        }
        Ok(())
    }

    /// Candidates, newest first. A list is asked for only when the hint does not help.
    async fn checkpoints(&self) -> Result<Vec<u64>, FetchError> {
        let hint = get_object(self.store.objects.as_ref(), &Path::from(checkpoint::LATEST)).await?;
        let hint = hint.and_then(|text| std::str::from_utf8(&text).ok()?.trim().parse::<u64>().ok());
        if let Some(n) = hint
            && let Some(bytes) = get_object(self.store.objects.as_ref(), &checkpoint::path(n)).await?
            && checkpoint::is_whole(&bytes)
        {
            return Ok(vec![n]);
        }
        if hint.is_none() && self.fetch_bytes(0).await?.is_none() {
            return Ok(Vec::new());
        }
        let prefix = Path::from("ckpt/00");
        let found: Vec<_> = self
            .store
            .objects
            .list(Some(&prefix))
            .try_collect()
            .await
            .map_err(|error| FetchError::Unavailable(error.to_string()))?;
        let mut numbers: Vec<u64> = found.iter().filter_map(|meta| checkpoint::number(&meta.location)).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        Ok(numbers)
    }

    async fn replay(&self) -> Result<(), FetchError> {
        let from = self.state.read().chain.next;
        let mut slots = stream::iter(from..).map(|n| async move { (n, self.fetch_bytes(n).await) }).buffered(READ_AHEAD);
        while let Some((n, bytes)) = slots.next().await {
            let Some(bytes) = bytes? else { break };
            let slot = Arc::new(self.decode(n, &bytes)?);
            self.absorb(slot, bytes.len())?;
        }
        Ok(())
    }

    /// A slot beyond the head may be one that never got its turn. If its writer knew the head as durable, the head is not a head but
    /// a hole, and writing into it would bury what follows; unless a writer moved on while we looked.
    async fn suspect_holes(&self) -> Result<(), FetchError> {
        let head = self.state.read().chain.next;
        let near = head + 1..head + 9;
        let far = (4..24).map(|power| head + (1 << power));
        let mut beyond =
            stream::iter(near.chain(far)).map(|n| async move { (n, self.fetch_bytes(n).await) }).buffered(READ_AHEAD);
        while let Some((n, bytes)) = beyond.next().await {
            let Some(bytes) = bytes? else { continue };
            let slot = self.decode(n, &bytes)?;
            if slot.header.durable > head && self.fetch_bytes(head).await?.is_none() {
                let what = format!("an acknowledged slot is missing: slot {n} was written after it");
                return Err(Damage { key: self.store.slots.key(head), what }.into());
            }
        }
        Ok(())
    }

    /// Reads that another server, or an earlier life of this one, had only in memory cannot be known. None of them was later than
    /// the next renewal would have been, so that is when the streams are taken to be read last.
    pub(crate) fn forgive_unseen_reads(&self) {
        let now = self.world.now_ms();
        let state = self.state.read();
        for stream in state.mortal.iter().filter_map(|name| state.stream(name)) {
            if let Some(ttl) = stream.head.config.ttl_seconds {
                let unseen = stream.head.touched.saturating_add(crate::log::renew_after(ttl)).min(now);
                stream.last_read.fetch_max(unseen, Ordering::Relaxed);
            }
        }
    }

    /// Knows nothing yet.
    pub(crate) fn bare(store: Store, cluster: u128, world: Arc<dyn World>, memory: usize) -> Self {
        Self {
            store,
            cluster,
            world,
            state: RwLock::new(State::default()),
            cache: Mutex::new(Cache::new(memory)),
            hub: Arc::new(Hub::default()),
            head: watch::Sender::new(0),
            failed: watch::Sender::new(None),
            owner: AtomicBool::new(false),
            counters: Counters::default(),
            heard: Mutex::new(Instant::now()),
            unsaved: AtomicU64::new(0),
            saved: AtomicU64::new(0),
            saved_bytes: AtomicU64::new(0),
        }
    }
}
