//! What the handle, the driver and the keeper of one open log share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cache::Cache;
use crate::chain::Verdict;
use crate::codec::DecodeError;
use crate::hub::Hub;
use crate::record::Record;
use crate::slot::{self, Slot};
use crate::state::State;
use crate::store::{Store, StoreError};
use crate::world::World;

/// Something that must not be passed over in silence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {what}")]
pub struct Damage {
    pub key: String,
    pub what: String,
}

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("damaged: {0}")]
    Damaged(#[from] Damage),
    #[error("the store does not answer: {0}")]
    Unavailable(String),
    #[error(transparent)]
    Fatal(StoreError),
}

impl From<StoreError> for FetchError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Damaged { key, what } => Self::Damaged(Damage { key, what }),
            StoreError::Transient { .. } => Self::Unavailable(error.to_string()),
            StoreError::Fatal { .. } => Self::Fatal(error),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cached {
    Slot(u64),
    /// Of the pack of these slots, at this offset.
    Block(u64, u64, u32),
    Blob([u8; 32]),
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Slot(Arc<Slot>),
    Records(Arc<Vec<Record>>),
    Bytes(Bytes),
}

#[derive(Debug, Default)]
pub struct Counters {
    pub slots_written: AtomicU64,
    pub bytes_written: AtomicU64,
    pub records_written: AtomicU64,
    pub slots_lost: AtomicU64,
    pub claims: AtomicU64,
    pub forwarded: AtomicU64,
    pub packs: AtomicU64,
    pub checkpoints: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) cluster: u128,
    pub(crate) world: Arc<dyn World>,
    pub(crate) state: RwLock<State>,
    pub(crate) cache: Mutex<Cache<Cached, Value>>,
    pub(crate) hub: Arc<Hub>,
    /// Number of durable slots this server has seen.
    pub(crate) head: watch::Sender<u64>,
    /// Why the log can no longer be written here.
    pub(crate) failed: watch::Sender<Option<String>>,
    pub(crate) owner: AtomicBool,
    pub(crate) counters: Counters,
    /// When the store last told this server where the head is.
    pub(crate) heard: Mutex<Instant>,
    /// Slot bytes that went by since the last checkpoint.
    pub(crate) unsaved: AtomicU64,
    /// The slot and the size of the last checkpoint.
    pub(crate) saved: AtomicU64,
    pub(crate) saved_bytes: AtomicU64,
}

pub(crate) const FETCH_ATTEMPTS: u32 = 4;
/// An idle owner looks at the log once a second.
const LATELY: Duration = Duration::from_millis(2_500);

impl Core {
    pub(crate) async fn fetch_bytes(&self, n: u64) -> Result<Option<Bytes>, FetchError> {
        let mut pause = Duration::from_millis(20);
        for attempt in 1.. {
            match self.store.slots.get(n).await {
                Err(StoreError::Transient { key, what }) if attempt < FETCH_ATTEMPTS => {
                    tracing::warn!(key, what, "slot read failed, trying again");
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                other => return other.map_err(Into::into),
            }
        }
        Ok(None)
    }

    pub(crate) fn decode(&self, n: u64, bytes: &Bytes) -> Result<Slot, Damage> {
        let damage = |what: String| Damage { key: self.store.slots.key(n), what };
        let slot = slot::decode(bytes).map_err(|error: DecodeError| damage(error.to_string()))?;
        if slot.header.n != n || slot.header.cluster != self.cluster {
            return Err(damage(format!("holds slot {} of log {:032x}", slot.header.n, slot.header.cluster)));
        }
        Ok(slot)
    }

    pub(crate) async fn fetch(&self, n: u64) -> Result<Option<Arc<Slot>>, FetchError> {
        if let Some(Value::Slot(slot)) = self.cache.lock().get(&Cached::Slot(n)) {
            return Ok(Some(slot));
        }
        let Some(bytes) = self.fetch_bytes(n).await? else { return Ok(None) };
        let slot = Arc::new(self.decode(n, &bytes)?);
        self.cache.lock().insert(Cached::Slot(n), Value::Slot(slot.clone()), slot.weight);
        Ok(Some(slot))
    }

    /// A slot that is known to exist.
    pub(crate) async fn slot(&self, n: u64) -> Result<Arc<Slot>, FetchError> {
        match self.fetch(n).await? {
            Some(slot) => Ok(slot),
            None => Err(Damage { key: self.store.slots.key(n), what: "the slot is missing".into() }.into()),
        }
    }

    /// Folds the next durable slot into the table and wakes whoever waits for it.
    pub(crate) fn absorb(&self, slot: Arc<Slot>, bytes: usize) -> Result<Verdict, Damage> {
        let n = slot.header.n;
        let verdict = {
            let mut state = self.state.write();
            debug_assert_eq!(state.chain.next, n);
            let verdict = state.chain.admit(&slot.header, slot.digest, slot.records.len() as u64);
            if verdict == Verdict::Data {
                let applied = state.apply(n, &slot.records);
                applied.map_err(|error| Damage { key: self.store.slots.key(n), what: error.to_string() })?;
            } else {
                state.skips.insert(n);
            }
            verdict
        };
        self.unsaved.fetch_add(bytes as u64, Ordering::Relaxed);
        if verdict == Verdict::Data {
            self.cache.lock().insert(Cached::Slot(n), Value::Slot(slot.clone()), slot.weight);
            self.hub.wake(slot.records.iter().map(|record| &record.stream));
        }
        self.head.send_replace(n + 1);
        Ok(verdict)
    }

    pub(crate) fn hear(&self) {
        *self.heard.lock() = Instant::now();
    }

    pub(crate) fn heard_lately(&self) -> bool {
        self.heard.lock().elapsed() < LATELY
    }

    pub(crate) fn fail(&self, why: &dyn std::fmt::Display) {
        tracing::error!(%why, "the log can not be written any more");
        self.failed.send_replace(Some(why.to_string()));
        self.owner.store(false, Ordering::Relaxed);
    }

    pub(crate) fn someone_waits(&self) -> bool {
        !self.hub.is_idle() || self.head.receiver_count() > 0
    }
}
