//! Subscriptions of the Durable Streams protocol: durable cursors over streams that wake a webhook or a pool of workers.
//!
//! They are event-sourced on the log that they watch. Every change is an append to one hidden stream at the place where its
//! decision was made, so several servers can share them: a race is lost by one and decided again, and the server whose write
//! began a delivery makes it.

use std::sync::Arc;

use axum::http::{HeaderMap, Method, Response};
use bytes::Bytes;
use event_log::Log;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, mpsc};
use tokio::task::JoinHandle;

mod address;
mod api;
mod courier;
mod decide;
mod desk;
mod event;
mod glob;
mod journal;
mod keys;
mod mark;
mod reply;
mod request;
mod routes;
mod sight;
mod state;
mod watch;

use desk::Desk;
use journal::{Journal, JournalError};
use keys::{Keys, KeysError};
use watch::{Nudge, Watcher};

const NUDGES: usize = 1_024;

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct OpenError(#[from] JournalError);

#[derive(Debug)]
pub struct Subscriptions {
    shared: Arc<Shared>,
    desk: Desk,
    nudges: mpsc::Sender<Nudge>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    log: Log,
    journal: Arc<Journal>,
    keys: OnceCell<Keys>,
}

impl Shared {
    /// Made when first needed: a log without subscriptions has no key.
    async fn keys(&self) -> Result<&Keys, KeysError> {
        self.keys.get_or_try_init(|| Keys::load_or_create(&self.log)).await
    }
}

impl Subscriptions {
    /// Reads the subscriptions and begins to watch over them.
    pub async fn open(log: Log) -> Result<Self, OpenError> {
        let journal = Arc::new(Journal::new(log.clone()));
        journal.catch_up().await?;
        let (deliveries, due) = mpsc::unbounded_channel();
        let (nudges, nudged) = mpsc::channel(NUDGES);
        let (desk, clerk) = Desk::open(log.clone(), journal.clone(), deliveries);
        let shared = Arc::new(Shared { log, journal, keys: OnceCell::new() });
        let watcher = Watcher { shared: shared.clone(), desk: desk.clone(), nudges: nudged };
        let tasks = vec![
            tokio::spawn(clerk.run()),
            tokio::spawn(courier::run(shared.clone(), desk.clone(), due)),
            tokio::spawn(watcher.run()),
        ];
        Ok(Self { shared, desk, nudges, tasks: Mutex::new(tasks) })
    }

    /// Answers a request for `/v1/stream/__ds/{path}`, with `path` as it came in. `base_url` is how the caller reaches this server.
    pub async fn handle(
        &self,
        method: &Method,
        path: &str,
        _query: &str,
        headers: &HeaderMap,
        body: Bytes,
        base_url: &str,
    ) -> Response<Bytes> {
        match self.answer(method, path, headers, &body, base_url).await {
            Ok(response) => response,
            Err(error) => error.into_response(),
        }
    }

    /// Stops watching and delivering. What is under way is taken up again by whoever watches next.
    pub async fn close(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in &tasks {
            task.abort();
        }
        for task in tasks {
            let _ = task.await;
        }
    }
}

/// Webhook receivers and workers hold a token of the wake they were given, not the service secret; the public keys are public.
pub(crate) fn carries_own_authority(path: &str) -> bool {
    use routes::{Action, Route};
    match routes::parse(path) {
        Some(Route::Jwks | Route::Action(_, Action::Callback | Action::Ack | Action::Release)) => true,
        Some(Route::Action(_, Action::Claim) | Route::Subscription(_) | Route::Streams(_) | Route::Stream(..)) | None => false,
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests;
