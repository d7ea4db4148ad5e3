//! The handle to an open log.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::blobs;
use crate::checkpoint;
use crate::command::{Change, Command, Receipt, Rejection, SubmitError};
use crate::core::{Core, Counters, FetchError};
use crate::decide::decide;
use crate::draft::{Ahead, Draft};
use crate::driver::{Driver, Request, Submission};
use crate::hub::Tail;
use crate::keeper::Keeper;
use crate::peers::{NoPeers, Peers};
use crate::store::{Cluster, Store};
use crate::stream::Stream;
use crate::world::{RealWorld, World};

/// Commands waiting for a slot, in number and in bytes; more than this and callers wait.
const QUEUE_COMMANDS: usize = 16_384;
const QUEUE_BYTES: usize = 64 << 20;
const QUEUE_PATIENCE: Duration = Duration::from_secs(10);
const REFRESH_PATIENCE: Duration = Duration::from_secs(10);
const REAP_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct Options {
    /// Where other servers reach this one; empty if they cannot.
    pub url: String,
    /// Bytes of recent slots, pack blocks and blobs kept in memory.
    pub memory: usize,
    /// Build packs and checkpoints.
    pub keep: bool,
    pub peers: Arc<dyn Peers>,
    pub world: Arc<dyn World>,
}

impl Default for Options {
    fn default() -> Self {
        Self { url: String::new(), memory: 64 << 20, keep: true, peers: Arc::new(NoPeers), world: Arc::new(RealWorld) }
    }
}

/// The log at a glance.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub slots: u64,
    pub records: u64,
    pub epoch: u64,
    pub owner_url: String,
    pub last_commit_ms: u64,
    pub streams: u64,
    pub closed_streams: u64,
    pub deleted_streams_kept_for_forks: u64,
    pub payload_bytes: u64,
    pub packs: u64,
    pub packed_slots: u64,
    pub pack_bytes: u64,
}

/// An open log. Clones share it; it stops when the last is dropped or one of them is closed.
#[derive(Clone, Debug)]
pub struct Log {
    pub(crate) core: Arc<Core>,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    requests: mpsc::Sender<Request>,
    room: Arc<Semaphore>,
    cluster: Cluster,
    renewing: Mutex<HashSet<Arc<str>>>,
    driver: Mutex<Option<JoinHandle<()>>>,
    helpers: Mutex<Vec<JoinHandle<()>>>,
    keeper: Option<Arc<Keeper>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for helper in self.helpers.lock().drain(..) {
            helper.abort();
        }
    }
}

impl Log {
    pub(crate) fn start(core: Arc<Core>, cluster: Cluster, options: Options) -> io::Result<Self> {
        let (requests, received) = mpsc::channel(QUEUE_COMMANDS);
        let driver = Driver::new(core.clone(), options.peers, received, requests.downgrade(), options.url);
        let driver = if core.store.slots.pace().own_thread { on_own_thread(driver)? } else { tokio::spawn(driver.run()) };
        let keeper = options.keep.then(|| Arc::new(Keeper::new(core.clone())));
        let inner = Inner {
            requests,
            room: Arc::new(Semaphore::new(QUEUE_BYTES)),
            cluster,
            renewing: Mutex::default(),
            driver: Mutex::new(Some(driver)),
            helpers: Mutex::default(),
            keeper,
        };
        let log = Self { core, inner: Arc::new(inner) };
        let mut helpers = vec![tokio::spawn(reap(Arc::downgrade(&log.inner), log.core.clone()))];
        if let Some(keeper) = &log.inner.keeper {
            helpers.push(tokio::spawn(keeper.clone().run()));
        }
        *log.inner.helpers.lock() = helpers;
        Ok(log)
    }

    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.inner.cluster
    }

    #[must_use]
    pub fn store(&self) -> &Store {
        &self.core.store
    }

    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.core.counters
    }

    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.core.world.now_ms()
    }

    #[must_use]
    pub fn is_owner(&self) -> bool {
        self.core.owner.load(Ordering::Relaxed)
    }

    /// Slots this server has seen; a receipt's position at most this is readable here.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.core.state.read().chain.next
    }

    #[must_use]
    pub fn waiting_readers(&self) -> usize {
        self.core.hub.len()
    }

    #[must_use]
    pub fn stream_count(&self) -> usize {
        self.core.state.read().streams.len()
    }

    #[must_use]
    pub fn summary(&self) -> Summary {
        let state = self.core.state.read();
        let live = |test: fn(&Stream) -> bool| state.streams.values().filter(|s| test(s)).count() as u64;
        Summary {
            slots: state.chain.next,
            records: state.chain.records,
            epoch: state.chain.epoch,
            owner_url: state.chain.url.clone(),
            last_commit_ms: state.chain.time,
            streams: live(|s| !s.head.deleted),
            closed_streams: live(|s| s.head.closed && !s.head.deleted),
            deleted_streams_kept_for_forks: live(|s| s.head.deleted),
            payload_bytes: state.streams.values().map(|s| s.head.bytes).sum(),
            packs: state.packs.len() as u64,
            packed_slots: state.packed_to(),
            pack_bytes: state.packs.iter().map(|pack| pack.bytes).sum(),
        }
    }

    /// The stream table as a checkpoint would hold it now.
    #[must_use]
    pub fn table(&self) -> bytes::Bytes {
        checkpoint::encode(self.core.cluster, &self.core.state.read())
    }

    #[must_use]
    pub fn cached_bytes(&self) -> usize {
        self.core.cache.lock().weight()
    }

    /// Becomes `Some` when the log can no longer be written here.
    #[must_use]
    pub fn failed(&self) -> watch::Receiver<Option<String>> {
        self.core.failed.subscribe()
    }

    /// Commits a command and returns when it is durable. Dropping the future does not take the command back.
    pub async fn submit(&self, command: Command) -> Result<Receipt, SubmitError> {
        self.enqueue(command, false).await
    }

    /// A command that another server passed on.
    pub async fn submit_forwarded(&self, command: Command) -> Result<Receipt, SubmitError> {
        self.enqueue(command, true).await
    }

    async fn enqueue(&self, mut command: Command, forwarded: bool) -> Result<Receipt, SubmitError> {
        command.check_messages()?;
        if blobs::needed(&command) {
            self.refuse_early(&command).await?;
        }
        blobs::spill(&self.core, &mut command).await?;
        command.check_size()?;
        let weight = command.weight().min(QUEUE_BYTES) as u32;
        let room = self.inner.room.clone().acquire_many_owned(weight);
        let permit = match tokio::time::timeout(QUEUE_PATIENCE, room).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) | Err(_) => return Err(SubmitError::Overloaded),
        };
        let (reply, answer) = oneshot::channel();
        let submission =
            Submission { command, reply, forwarded, suspect: None, attempts: 0, maybe_written: false, _permit: permit };
        if self.inner.requests.send(Request::Submit(submission)).await.is_err() {
            return Err(SubmitError::NotWritten(self.why_failed()));
        }
        match answer.await {
            Ok(result) => result,
            Err(_) => Err(SubmitError::Unknown(self.why_failed())),
        }
    }

    /// What is refused anyway should not leave its payload behind.
    async fn refuse_early(&self, command: &Command) -> Result<(), SubmitError> {
        self.refresh().await;
        let state = self.core.state.read();
        let nothing = Ahead::default();
        let draft = Draft::new(&state, &nothing, self.now_ms());
        decide(draft, state.chain.records, command).map(|_| ()).map_err(Into::into)
    }

    fn why_failed(&self) -> String {
        self.core.failed.borrow().clone().unwrap_or_else(|| "the server is stopping".into())
    }

    /// Returns when everything that was durable before the call can be read here. Free for an owner that has lately heard from
    /// the store; another may have been deposed without knowing.
    pub async fn refreshed(&self) -> Result<(), FetchError> {
        if self.is_owner() && self.core.heard_lately() {
            return Ok(());
        }
        self.looked().await
    }

    /// The same with a look at the store in any case, for whom a moment ago is too long ago: an owner may just have been deposed.
    pub async fn looked(&self) -> Result<(), FetchError> {
        let (done, refreshed) = oneshot::channel();
        let asked = async { self.inner.requests.send(Request::Refresh(done)).await.is_ok() && refreshed.await.is_ok() };
        match tokio::time::timeout(REFRESH_PATIENCE, asked).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(FetchError::Unavailable(self.why_failed())),
            Err(_) => Err(FetchError::Unavailable("the store does not answer".into())),
        }
    }

    /// The same for callers that are content with what is known here.
    pub async fn refresh(&self) {
        let _ = self.refreshed().await;
    }

    /// Looks at a stream. `None` if it does not exist or has expired.
    pub fn with_stream<T>(&self, name: &str, look: impl FnOnce(&Stream) -> T) -> Option<T> {
        let state = self.core.state.read();
        let stream = state.stream(name)?;
        (stream.head.deleted || !stream.expired(self.now_ms())).then(|| look(stream))
    }

    /// Names of live streams that begin with `prefix`, in order.
    #[must_use]
    pub fn stream_names(&self, prefix: &str) -> Vec<Arc<str>> {
        let now = self.now_ms();
        let state = self.core.state.read();
        let live = state.streams.iter().filter(|(name, s)| name.starts_with(prefix) && !s.head.deleted && !s.expired(now));
        let mut names: Vec<_> = live.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Subscribe before reading the tail.
    #[must_use]
    pub fn tail(&self, name: &str) -> Tail {
        self.core.hub.subscribe(name)
    }

    /// A read renews a sliding lifetime: at once here, and in the log before a quarter of it has gone by.
    pub fn touch(&self, name: &str) {
        let now = self.now_ms();
        let state = self.core.state.read();
        let Some((name, stream)) = state.streams.get_key_value(name) else { return };
        let Some(ttl) = stream.head.config.ttl_seconds else { return };
        stream.last_read.store(now, Ordering::Relaxed);
        let due = now.saturating_sub(stream.head.touched) >= renew_after(ttl);
        if !due || !self.inner.renewing.lock().insert(name.clone()) {
            return;
        }
        let (log, name) = (self.clone(), name.clone());
        tokio::spawn(async move {
            if let Err(error) = log.submit(Command::one(name.clone(), Change::Renew)).await
                && !matches!(error, SubmitError::Rejected(Rejection::NotFound | Rejection::Gone))
            {
                tracing::warn!(stream = %name, %error, "a lifetime was renewed in memory only");
            }
            log.inner.renewing.lock().remove(&name);
        });
    }

    /// Finishes what is queued and writes a checkpoint, so that the next start is quick.
    pub async fn close(self) {
        let driver = self.inner.driver.lock().take();
        let keeper = self.inner.keeper.clone();
        let core = self.core.clone();
        for helper in self.inner.helpers.lock().drain(..) {
            helper.abort();
        }
        let _ = self.inner.requests.send(Request::Stop).await;
        if let Some(driver) = driver {
            let _ = driver.await;
        }
        if let Some(keeper) = keeper
            && core.failed.borrow().is_none()
        {
            keeper.checkpoint_now().await;
        }
    }
}

/// A commit that waits for a disk should neither hold up others nor queue behind them for a worker. The thread has a runtime of its
/// own, so it does not depend on who opened the log.
fn on_own_thread(driver: Driver) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (done, ended) = oneshot::channel();
    let work = move || {
        runtime.block_on(driver.run());
        let _ = done.send(());
    };
    std::thread::Builder::new().name("log-driver".into()).spawn(work)?;
    Ok(tokio::spawn(async move { drop(ended.await) }))
}

/// A read this long after the last renewal is put into the log.
pub(crate) fn renew_after(ttl_seconds: u64) -> u64 {
    ttl_seconds.saturating_mul(250).max(500)
}

/// Puts the end of expired streams into the log, so that every server and every replay agrees on it.
async fn reap(inner: std::sync::Weak<Inner>, core: Arc<Core>) {
    loop {
        tokio::time::sleep(REAP_EVERY).await;
        if !core.owner.load(Ordering::Relaxed) {
            continue;
        }
        let now = core.world.now_ms();
        let over: Vec<Arc<str>> = {
            let state = core.state.read();
            let ended = |name: &&Arc<str>| state.stream(name).is_some_and(|s| !s.head.deleted && s.expired(now));
            state.mortal.iter().filter(ended).cloned().collect()
        };
        let Some(inner) = inner.upgrade() else { return };
        let log = Log { core: core.clone(), inner };
        let ends = over.iter().map(|name| log.submit(Command::one(name.clone(), Change::Expire)));
        for error in join_all(ends).await.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "an expired stream could not be removed yet");
        }
    }
}
