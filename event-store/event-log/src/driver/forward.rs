//! Commands that belong to another server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::{Driver, Halt, Request, Submission};
use crate::command::SubmitError;
use crate::core::Core;
use crate::peers::{PeerError, Peers};

/// After this many changes of owner under one command, the caller is told that the outcome is unknown.
const ATTEMPTS: u32 = 12;
const PAUSE: Duration = Duration::from_millis(20);

impl Driver {
    /// Sends commands to the owner. Returns those that are ours after all, because nobody else can write them.
    pub(super) async fn route(&mut self, batch: Vec<Submission>) -> Result<Vec<Submission>, Halt> {
        let mut owner = self.owner();
        if batch.iter().any(|submission| submission.suspect == Some(owner.0)) {
            // Somebody may have taken over already.
            if let Err(halt) = self.catch_up().await {
                self.put_back(batch);
                return Err(halt);
            }
            owner = self.owner();
        }
        let (owner, url) = owner;
        let nobody = owner == 0 || url.is_empty() || url == self.url;
        if nobody || batch.iter().any(|submission| submission.suspect == Some(owner)) {
            if !nobody {
                tracing::warn!(owner = url, "the owner does not answer, taking over");
            }
            return match self.claim().await {
                Ok(()) => Ok(batch),
                Err(halt) => {
                    self.put_back(batch);
                    Err(halt)
                }
            };
        }
        for submission in batch {
            if submission.forwarded {
                let _ = submission.reply.send(Err(SubmitError::NotOwner));
                continue;
            }
            self.core.counters.forwarded.fetch_add(1, Ordering::Relaxed);
            let forward = Forward {
                core: self.core.clone(),
                peers: self.peers.clone(),
                again: self.again.clone(),
                owner,
                url: url.clone(),
            };
            tokio::spawn(forward.run(submission));
        }
        Ok(Vec::new())
    }

    fn owner(&self) -> (u64, String) {
        let state = self.core.state.read();
        (state.chain.writer, state.chain.url.clone())
    }
}

struct Forward {
    core: Arc<Core>,
    peers: Arc<dyn Peers>,
    again: mpsc::WeakSender<Request>,
    owner: u64,
    url: String,
}

impl Forward {
    async fn run(self, mut submission: Submission) {
        // Without an id, an answer that gets lost could not be asked for again.
        submission
            .command
            .id
            .get_or_insert_with(|| u128::from(self.core.world.random()) << 64 | u128::from(self.core.world.random()));
        let before = *self.core.head.borrow();
        match self.peers.submit(&self.url, &submission.command).await {
            Ok(reply) => match reply.into_result() {
                Some(result) => {
                    if let Ok(receipt) = &result {
                        self.wait_for(receipt.position).await;
                    }
                    let result = result.map_err(|error| submission.humble(error));
                    let _ = submission.reply.send(result);
                }
                None => self.retry(submission, None).await,
            },
            Err(PeerError::Unreachable(why)) => {
                tracing::debug!(why, owner = self.url, "owner unreachable");
                self.retry(submission, Some(self.owner)).await;
            }
            Err(PeerError::Lost(why)) => {
                tracing::debug!(why, owner = self.url, "no answer from the owner");
                submission.maybe_written = true;
                submission.command.since.get_or_insert(before);
                let dead = !self.peers.is_alive(&self.url).await;
                self.retry(submission, dead.then_some(self.owner)).await;
            }
        }
    }

    async fn retry(&self, mut submission: Submission, suspect: Option<u64>) {
        submission.attempts += 1;
        if submission.attempts > ATTEMPTS {
            let why = format!("the owner at {} could not be settled", self.url);
            let _ = submission.reply.send(Err(SubmitError::Unknown(why)));
            return;
        }
        if suspect.is_none() {
            tokio::time::sleep(PAUSE * submission.attempts).await;
            self.refresh().await;
        }
        submission.suspect = suspect;
        if let Some(again) = self.again.upgrade()
            && let Err(mpsc::error::SendError(Request::Submit(submission))) = again.send(Request::Submit(submission)).await
        {
            let _ = submission.reply.send(Err(SubmitError::Unknown("the server stopped".into())));
        }
    }

    /// The caller must be able to read here what it was told is written.
    async fn wait_for(&self, position: u64) {
        while *self.core.head.borrow() < position && self.refresh().await {
            if *self.core.head.borrow() < position {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    }

    async fn refresh(&self) -> bool {
        let Some(again) = self.again.upgrade() else { return false };
        let (done, refreshed) = oneshot::channel();
        again.send(Request::Refresh(done)).await.is_ok() && refreshed.await.is_ok()
    }
}
