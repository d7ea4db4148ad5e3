//! Following everything: every record of every stream, in commit order, from any place.

use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use tokio::sync::watch;

use crate::chain::{Chain, Verdict};
use crate::core::{Core, FetchError};
use crate::log::Log;
use crate::record::Record;
use crate::slot::{Digest, Kind, Slot};

/// How far a follower has come. A projection stores it in the same transaction as its effects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The next slot to read.
    pub next: u64,
    /// Of the last valid slot before it; tells whether this is still the same history.
    pub digest: Digest,
}

/// The records of one slot: what one commit of the log made true.
#[derive(Clone, Debug)]
pub struct Commit {
    slot: Arc<Slot>,
    /// Store it with the effects of these records.
    pub cursor: Cursor,
}

impl Commit {
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.slot.records
    }

    #[must_use]
    pub fn time(&self) -> u64 {
        self.slot.header.time
    }

    /// About the bytes of its records.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.slot.weight
    }

    /// Records in the log before this commit.
    #[must_use]
    pub fn before(&self) -> u64 {
        self.slot.header.before
    }
}

#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The projection is ahead of the log or belongs to another one: drop it and start from zero.
    #[error("slot {0} is not in this log's history")]
    OtherHistory(u64),
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

#[derive(Debug)]
pub struct Follower {
    core: Arc<Core>,
    chain: Chain,
    head: watch::Receiver<u64>,
    fetching: FuturesOrdered<BoxFuture<'static, Result<Arc<Slot>, FetchError>>>,
}

/// Slots on their way to a follower.
const READ_AHEAD: usize = 8;

/// Voids between a cursor and the last valid slot before it; more than this never stood in a row.
const LOOK_BACK: u64 = 64;

impl Log {
    /// The end of what this server has seen; following from it gives what comes after.
    #[must_use]
    pub fn end(&self) -> Cursor {
        let state = self.core.state.read();
        Cursor { next: state.chain.next, digest: state.chain.digest }
    }

    /// Follows from `cursor` (the default is the beginning).
    pub async fn follow(&self, cursor: Cursor) -> Result<Follower, FollowError> {
        let chain = chain_at(&self.core, cursor).await?;
        let head = self.core.head.subscribe();
        Ok(Follower { core: self.core.clone(), chain, head, fetching: FuturesOrdered::new() })
    }
}

/// The chain at a cursor, read back from the slot whose digest it holds.
pub(crate) async fn chain_at(core: &Core, cursor: Cursor) -> Result<Chain, FollowError> {
    if cursor.next == 0 {
        return Ok(Chain::default());
    }
    for n in (cursor.next.saturating_sub(LOOK_BACK)..cursor.next).rev() {
        let Some(slot) = core.fetch(n).await? else { return Err(FollowError::OtherHistory(n)) };
        if slot.digest == cursor.digest {
            let header = &slot.header;
            return Ok(Chain {
                next: cursor.next,
                epoch: header.epoch,
                writer: header.writer,
                digest: slot.digest,
                records: header.before + slot.records.len() as u64,
                time: header.time,
                url: if header.kind == Kind::Claim { header.url.clone() } else { String::new() },
            });
        }
    }
    Err(FollowError::OtherHistory(cursor.next))
}

impl Follower {
    /// The next commit, waiting for it if need be. Cancel-safe.
    pub async fn next(&mut self) -> Result<Commit, FollowError> {
        loop {
            if let Some(commit) = self.try_next().await? {
                return Ok(commit);
            }
            let next = self.chain.next;
            if self.head.wait_for(|head| *head > next).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Where the log ends as far as this follower knows, which may be a little behind [`Log::position`]. If [`Self::try_next`] gives nothing
    /// after this was asked, there is nothing below it that was not given.
    #[must_use]
    pub fn head(&self) -> u64 {
        *self.head.borrow()
    }

    /// The next commit, or `None` at the head.
    pub async fn try_next(&mut self) -> Result<Option<Commit>, FollowError> {
        loop {
            self.read_ahead();
            let Some(slot) = self.fetching.next().await else { return Ok(None) };
            let slot = slot.inspect_err(|_| self.fetching.clear())?;
            if self.chain.admit(&slot.header, slot.digest, slot.records.len() as u64) == Verdict::Data {
                let cursor = Cursor { next: self.chain.next, digest: self.chain.digest };
                return Ok(Some(Commit { slot, cursor }));
            }
        }
    }

    fn read_ahead(&mut self) {
        let head = *self.head.borrow();
        let mut next = self.chain.next + self.fetching.len() as u64;
        while next < head && self.fetching.len() < READ_AHEAD {
            let core = self.core.clone();
            self.fetching.push_back(Box::pin(async move { core.slot(next).await }));
            next += 1;
        }
    }
}
