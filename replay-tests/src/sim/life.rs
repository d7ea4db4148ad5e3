//! One life of a simulated server: from an open to a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use event_log::World;
use tokio::sync::Notify;

use super::env::Env;

/// A crash takes effect at the next await point that touches the world: the request before it happened, the one after it never
/// does. What the process would still do in its own memory is seen by nobody.
#[derive(Debug)]
pub struct Life {
    pub server: usize,
    env: Arc<Env>,
    dead: AtomicBool,
    /// Wakes in the order of waiting; a `watch` channel wakes in random order.
    died: Notify,
    /// Await points left to live; negative: no end in sight.
    fuse: AtomicI64,
}

impl Life {
    pub fn new(env: Arc<Env>, server: usize) -> Arc<Self> {
        Arc::new(Self { server, env, dead: AtomicBool::new(false), died: Notify::new(), fuse: AtomicI64::new(-1) })
    }

    /// Lets the server die at its `steps`-th await point from now.
    pub fn light(&self, steps: u64) {
        self.fuse.store(steps as i64, Ordering::Relaxed);
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    pub async fn death(&self) {
        let mut died = std::pin::pin!(self.died.notified());
        died.as_mut().enable();
        if !self.is_dead() {
            died.await;
        }
    }

    /// An await point.
    pub async fn step(&self) {
        let left = self.fuse.load(Ordering::Relaxed);
        if left > 0 {
            self.fuse.store(left - 1, Ordering::Relaxed);
        } else if left == 0 && !self.is_dead() && !self.env.is_calm() {
            self.env.note(format_args!("server {} crashes", self.server));
            self.env.crashes.fetch_add(1, Ordering::Relaxed);
            self.dead.store(true, Ordering::Relaxed);
            self.died.notify_waiters();
        }
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }
}

/// A server's clock: simulated time, and a skew that jumps both ways.
#[derive(Debug)]
pub struct Clock {
    pub env: Arc<Env>,
    pub skew_ms: Arc<AtomicI64>,
}

const EPOCH_MS: i64 = 1_800_000_000_000;

impl World for Clock {
    fn now_ms(&self) -> u64 {
        (EPOCH_MS + self.env.elapsed_ms() as i64 + self.skew_ms.load(Ordering::Relaxed)) as u64
    }

    fn random(&self) -> u64 {
        self.env.draw(super::rng::Rng::number)
    }
}
