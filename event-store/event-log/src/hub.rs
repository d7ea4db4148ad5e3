//! Wakes readers that wait at the tail of a stream.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

#[derive(Debug, Default)]
pub(crate) struct Hub {
    waiting: Mutex<HashMap<Arc<str>, watch::Sender<u64>>>,
}

impl Hub {
    /// Subscribe before reading the tail, or a commit between the two goes unnoticed.
    pub(crate) fn subscribe(self: &Arc<Self>, name: &str) -> Tail {
        let mut waiting = self.waiting.lock();
        let name: Arc<str> = waiting.get_key_value(name).map_or_else(|| name.into(), |(name, _)| name.clone());
        let changes = waiting.entry(name.clone()).or_insert_with(|| watch::channel(0).0).subscribe();
        Tail { hub: self.clone(), name, changes: Some(changes) }
    }

    pub(crate) fn wake<'a>(&self, names: impl Iterator<Item = &'a Arc<str>>) {
        let waiting = self.waiting.lock();
        if waiting.is_empty() {
            return;
        }
        for name in names {
            if let Some(sender) = waiting.get(name) {
                sender.send_modify(|version| *version += 1);
            }
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.lock().values().map(watch::Sender::receiver_count).sum()
    }
}

/// A place in the queue at a stream's tail.
#[derive(Debug)]
pub struct Tail {
    hub: Arc<Hub>,
    name: Arc<str>,
    /// Gone only while the tail is being dropped.
    changes: Option<watch::Receiver<u64>>,
}

impl Tail {
    /// Returns when the stream may have changed since this was last called (or since the subscription).
    pub async fn changed(&mut self) {
        if let Some(changes) = &mut self.changes
            && changes.changed().await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let mut waiting = self.hub.waiting.lock();
        // Under the lock, or two that go at once would each take the other for still there.
        self.changes = None;
        if waiting.get(&self.name).is_some_and(|sender| sender.receiver_count() == 0) {
            waiting.remove(&self.name);
        }
    }
}
