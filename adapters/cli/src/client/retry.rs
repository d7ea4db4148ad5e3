//! Trying again.

use std::time::Duration;

use tokio::time::Instant;

use super::{CallError, Client};
use crate::output::note;

/// For a server that restarts or cannot write for a while.
const PATIENCE: Duration = Duration::from_secs(10);
/// If nobody listens there at all, it is more likely that nobody will.
const PATIENCE_WITH_NOBODY: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Ever longer pauses.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(Duration::from_millis(100))
    }
}

impl Backoff {
    pub(crate) fn next(&mut self, error: &CallError) -> Duration {
        let pause = self.0.max(error.retry_after()).min(PAUSE_MAX);
        self.0 = (self.0 * 2).min(PAUSE_MAX);
        pause
    }
}

impl Client {
    pub(crate) async fn retry<T>(&self, call: impl AsyncFn() -> Result<T, CallError>) -> Result<T, CallError> {
        let started = Instant::now();
        let mut backoff = Backoff::default();
        let (mut heard_of, mut unsure, mut told) = (false, false, false);
        loop {
            let error = match call().await {
                Ok(answer) => return Ok(answer),
                Err(error) if !error.is_passing() => return Err(error),
                Err(error) => error,
            };
            heard_of |= !matches!(error, CallError::Unreachable { .. });
            unsure |= error.is_unsure();
            let patience = if heard_of { PATIENCE } else { PATIENCE_WITH_NOBODY };
            let pause = backoff.next(&error);
            if started.elapsed() + pause > patience {
                return Err(if unsure {
                    CallError::Unknown { key: self.idempotency_key.clone(), source: Box::new(error) }
                } else {
                    error
                });
            }
            if heard_of && !std::mem::replace(&mut told, true) {
                note(format_args!("{error}; trying again"));
            }
            tokio::time::sleep(pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_heed_the_server() {
        let busy = |seconds| CallError::Busy {
            code: "unavailable".into(),
            message: String::new(),
            retry_after: Some(Duration::from_secs(seconds)),
            unsure: false,
        };
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..8).map(|_| backoff.next(&busy(0)).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(Backoff::default().next(&busy(2)), Duration::from_secs(2));
        assert_eq!(Backoff::default().next(&busy(3_600)), PAUSE_MAX);
    }
}
