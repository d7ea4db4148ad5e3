//! Taking ownership of the log.

use std::sync::atomic::Ordering;

use super::{Driver, Halt, Placed, place};
use crate::core::FetchError;
use crate::slot::{self, Kind};

impl Driver {
    /// Makes this server the owner. Safe at any time; meant for when the owner is gone.
    ///
    /// An owner that is alive keeps winning the slot at the head, so each attempt aims a little further ahead of it; a hole that
    /// stays behind is filled by the next attempt at the head.
    pub(super) async fn claim(&mut self) -> Result<(), Halt> {
        let mut reach = 0;
        loop {
            self.catch_up().await?;
            if self.owns() {
                self.core.owner.store(true, Ordering::Relaxed);
                self.core.forgive_unseen_reads();
                self.core.counters.claims.fetch_add(1, Ordering::Relaxed);
                tracing::info!(epoch = self.core.state.read().chain.epoch, "owner of the log");
                return Ok(());
            }
            let mut chain = self.core.state.read().chain.clone();
            let durable = chain.next;
            chain.next += reach;
            chain.epoch += 1;
            let time = self.core.world.now_ms().max(chain.time);
            let header = self.header(Kind::Claim, &chain, durable, time);
            let bytes = slot::encode(&header, &[]);
            let placed = place(self.core.store.slots.as_ref(), chain.next, bytes).await.map_err(FetchError::from)?;
            reach = match placed {
                Placed::Ours => 0,
                Placed::Theirs(_) if self.pace.depth > 1 => (reach + 1).min(self.pace.depth as u64 + 1),
                Placed::Theirs(_) => 0,
            };
        }
    }
}
