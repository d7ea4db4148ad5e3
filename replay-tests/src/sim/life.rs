//! One life of a simulated server: from an open to a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use event_log::World;
use tokio::sync::watch;

use super::env::Env;

/// A crash takes effect at the next await point that touches the world: the request before it happened, the one after it never
/// does. What the process would still do in its own memory is seen by nobody.
#[derive(Debug)]
pub struct Life {
    pub server: usize,
    env: Arc<Env>,
    dead: watch::Sender<bool>,
    /// Await points left to live; negative: no end in sight.
    fuse: AtomicI64,
}

impl Life {
    pub fn new(env: Arc<Env>, server: usize) -> Arc<Self> {
        Arc::new(Self { server, env, dead: watch::Sender::new(false), fuse: AtomicI64::new(-1) })
    }

    /// Lets the server die at its `steps`-th await point from now.
    pub fn light(&self, steps: u64) {
        self.fuse.store(steps as i64, Ordering::Relaxed);
    }

    pub fn is_dead(&self) -> bool {
        *self.dead.borrow()
    }

    pub async fn death(&self) {
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    /// An await point.
    pub async fn step(&self) {
        let left = self.fuse.load(Ordering::Relaxed);
        if left > 0 {
            self.fuse.store(left - 1, Ordering::Relaxed);
        } else if left == 0 && !self.is_dead() && !self.env.is_calm() {
            self.env.note(format_args!("server {} crashes", self.server));
            self.env.crashes.fetch_add(1, Ordering::Relaxed);
            self.dead.send_replace(true);
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
