//! Small parts for tests of the engine: stores that wait and count, and commands in one line.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use event_log::store::slots::ObjectSlots;
use event_log::store::{Creation, Pace, SlotStore, StoreError};
use event_log::{Append, Change, Command, Create, From, Log, Page, Payload, ReadError, Store, World};
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

/// A store in memory with its slots in flight and slots per pack chosen.
#[must_use]
pub fn memory(depth: usize, pack: u64) -> Store {
    over(Arc::new(InMemory::new()), depth, pack)
}

/// The same objects as another server would see them.
#[must_use]
pub fn over(objects: Arc<dyn ObjectStore>, depth: usize, pack: u64) -> Store {
    let pace = Pace { depth, linger: Duration::ZERO, poll: Duration::from_millis(2), pack, own_thread: false };
    Store { slots: Arc::new(ObjectSlots::new(objects.clone(), pace)), objects, url: "memory:".into() }
}

/// Slots that take their time and are counted.
#[derive(Debug)]
pub struct Slow {
    inner: Arc<dyn SlotStore>,
    latency: Duration,
    pub creates: AtomicU64,
}

impl Slow {
    /// Puts itself before the slots of `store`.
    pub fn before(store: &mut Store, latency: Duration) -> Arc<Self> {
        let slow = Arc::new(Self { inner: store.slots.clone(), latency, creates: AtomicU64::new(0) });
        store.slots = slow.clone();
        slow
    }
}

#[async_trait]
impl SlotStore for Slow {
    async fn create(&self, n: u64, bytes: Bytes) -> Result<Creation, StoreError> {
        self.creates.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.latency).await;
        self.inner.create(n, bytes).await
    }

    async fn get(&self, n: u64) -> Result<Option<Bytes>, StoreError> {
        self.inner.get(n).await
    }

    async fn list(&self) -> Result<Vec<u64>, StoreError> {
        self.inner.list().await
    }

    fn key(&self, n: u64) -> String {
        self.inner.key(n)
    }

    fn pace(&self) -> Pace {
        self.inner.pace()
    }
}

/// A clock that stands until it is set.
#[derive(Debug)]
pub struct Standing {
    pub now_ms: AtomicU64,
    drawn: AtomicU64,
}

impl Standing {
    #[must_use]
    pub fn at(now_ms: u64, seed: u64) -> Arc<Self> {
        Arc::new(Self { now_ms: AtomicU64::new(now_ms), drawn: AtomicU64::new(seed << 32) })
    }

    pub fn pass(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

impl World for Standing {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn random(&self) -> u64 {
        self.drawn.fetch_add(1, Ordering::Relaxed) + 1
    }
}

#[must_use]
pub fn create(stream: &str, content_type: &str) -> Command {
    let create = Create { content_type: Some(content_type.into()), ..Create::default() };
    Command::one(stream, Change::Create(create))
}

#[must_use]
pub fn append(stream: &str, text: impl Into<Bytes>) -> Command {
    Command::one(stream, Change::Append(with_payload(Payload::bytes(text.into()))))
}

#[must_use]
pub fn messages(stream: &str, texts: &[String]) -> Command {
    Command::one(stream, Change::Append(with_payload(Payload::messages(texts.iter().map(String::as_str)))))
}

fn with_payload(payload: Payload) -> Append {
    Append { content_type: None, payload: Ok(payload), producer: None, stream_seq: None, close: false }
}

/// Deletes every object below `prefix`.
pub async fn remove(store: &Store, prefix: &str) {
    let found: Result<Vec<_>, _> = store.objects.list(Some(&Path::from(prefix))).try_collect().await;
    for meta in found.unwrap_or_default() {
        let _ = store.objects.delete(&meta.location).await;
    }
}

/// Every page of a stream, from its start.
pub async fn pages(log: &Log, stream: &str, limit: usize) -> Result<Vec<Page>, ReadError> {
    let mut pages = Vec::new();
    let mut from = From::Start;
    loop {
        let page = log.read(stream, from, limit).await?;
        let done = page.up_to_date;
        from = From::At(page.next);
        pages.push(page);
        if done {
            return Ok(pages);
        }
    }
}

#[must_use]
pub fn text(pages: &[Page]) -> String {
    let all: Vec<u8> = pages.iter().flat_map(|page| &page.chunks).flatten().copied().collect();
    String::from_utf8_lossy(&all).into_owned()
}
