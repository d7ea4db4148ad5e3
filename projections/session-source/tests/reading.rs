//! Reading on a real log, of which one slot answers only when it may.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use event_log::store::{Creation, Pace, SlotStore, Store, StoreError};
use event_log::{Append, Change, Command, Create, Log, Options, Payload, StoreUrl};
use events::session::Message;
use events::{Entry, EventId, StreamName, ThreadId, Ulid};
use session_source::Source;
use tokio::sync::Semaphore;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Slow {
    slots: Arc<dyn SlotStore>,
    last: AtomicU64,
    slow: AtomicU64,
    /// One for each that waits.
    waiting: Semaphore,
    /// One for each that may go on.
    let_go: Semaphore,
}

#[async_trait]
impl SlotStore for Slow {
    async fn create(&self, n: u64, bytes: Bytes) -> Result<Creation, StoreError> {
        self.last.fetch_max(n, Ordering::SeqCst);
        self.slots.create(n, bytes).await
    }

    async fn get(&self, n: u64) -> Result<Option<Bytes>, StoreError> {
        if n == self.slow.load(Ordering::SeqCst) {
            self.waiting.add_permits(1);
            self.let_go.acquire().await.unwrap().forget();
        }
        self.slots.get(n).await
    }

    async fn list(&self) -> Result<Vec<u64>, StoreError> {
        self.slots.list().await
    }

    fn key(&self, n: u64) -> String {
        self.slots.key(n)
    }

    fn pace(&self) -> Pace {
        self.slots.pace()
    }
}

async fn log() -> (Log, Arc<Slow>) {
    let Store { slots, objects, url } = StoreUrl::Memory.open(&[], true).unwrap();
    let nobody = || Semaphore::new(0);
    let slow = Slow { slots, last: AtomicU64::default(), slow: u64::MAX.into(), waiting: nobody(), let_go: nobody() };
    let slow = Arc::new(slow);
    let store = Store { slots: slow.clone(), objects, url };
    let log = Log::open(store, Options { memory: 0, keep: false, ..Options::default() }).await.unwrap();
    (log, slow)
}

fn stream(thread: &str) -> StreamName {
    StreamName::Thread(ThreadId::new(thread).unwrap())
}

async fn write(log: &Log, thread: &str, kind: &str, payload: &str) {
    let written = format!(r#"{{"id":"{}","ts":1,"type":"{kind}","v":1,"payload":{payload}}}"#, Ulid(1));
    let event = Entry::from_slice(written.as_bytes()).unwrap().event().unwrap();
    let author = Some("00000000-0000-4000-8000-000000000001".parse().unwrap());
    let entry = Entry::of(EventId(Ulid(u128::from(log.position()) + 7)), 1_767_225_600_000, author, &event);
    let payload = Payload::messages([entry.to_json()].iter().map(String::as_str));
    let content_type = Some("application/json".into());
    let change = if kind == "signal.thread.created" {
        Change::Create(Create { content_type, payload: Some(Ok(payload)), ..Create::default() })
    } else {
        Change::Append(Append { content_type, payload: Ok(payload), producer: None, stream_seq: None, close: false })
    };
    let changes = vec![(stream(thread).to_string().into(), change)];
    log.submit(Command { id: None, since: None, expect: Vec::new(), changes }).await.unwrap();
}

async fn chat(log: &Log, thread: &str) {
    let created = format!(r#"{{"thread_id":"{thread}","house_id":"h-{thread}","name":"n","pinned":false,"tags":[]}}"#);
    write(log, thread, "signal.thread.created", &created).await;
    write(log, thread, "chat", &format!(r#"{{"text":"said in {thread}"}}"#)).await;
}

fn said(message: &Message) -> String {
    session_source::search_text(message).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_slow_read_of_one_thread_keeps_nobody_from_another() {
    let (log, slow) = log().await;
    chat(&log, "t-1").await;
    let last = slow.last.load(Ordering::SeqCst);
    chat(&log, "t-2").await;
    slow.slow.store(last, Ordering::SeqCst);
    let source = Arc::new(Source::new(log));
    let first = tokio::spawn({
        let source = source.clone();
        async move { source.message(&stream("t-1"), 1).await.unwrap().unwrap() }
    });
    timeout(PATIENCE, slow.waiting.acquire()).await.unwrap().unwrap().forget();
    for _ in 0..2 {
        let second = timeout(PATIENCE, source.message(&stream("t-2"), 1)).await.unwrap();
        assert_eq!(said(&second.unwrap().unwrap()), "said in t-2");
    }
    assert!(!first.is_finished());
    slow.let_go.add_permits(100);
    assert_eq!(said(&first.await.unwrap()), "said in t-1");
}
