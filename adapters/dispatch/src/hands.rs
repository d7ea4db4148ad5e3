//! What is asked of the drivers through a door.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use commands::CommandError;
use commands::ports::{Diagnosis, Hands, HandsError, Load, Pruned, Ran, RunCommand, Seen};
use events::{AgentId, HouseId, ThreadId};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::dispatcher::{Dispatcher, Inner, Later};

/// Of whoever asks: what is not known by then is told as such.
const PATIENCE: Duration = Duration::from_secs(20);
/// For the desk to be where the log is.
const BEHIND: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(10);

#[async_trait]
impl Hands for Dispatcher {
    async fn run_command(&self, by: AgentId, ask: RunCommand, key: Option<&str>) -> Result<Ran, HandsError> {
        self.inner.clone().command_for(by, ask, key).await
    }

    fn drives(&self, provider: &str) -> bool {
        self.inner.outside.machines.contains_key(provider)
    }

    fn load(&self) -> Option<Load> {
        Some(self.inner.load())
    }

    fn look(&self, thread: &ThreadId) {
        self.inner.call(thread);
    }

    async fn reconcile(&self, house: &HouseId) -> Result<Vec<Seen>, HandsError> {
        self.inner.caught_up().await?;
        self.inner.reconcile(house, Instant::now() + PATIENCE).await.map_err(refused)
    }

    async fn diagnose(&self, thread: &ThreadId) -> Result<Diagnosis, HandsError> {
        self.inner.caught_up().await?;
        self.inner.diagnose(thread).await
    }

    async fn prune(&self, house: &HouseId) -> Result<Pruned, HandsError> {
        self.inner.caught_up().await?;
        self.inner.prune(house, Instant::now() + PATIENCE).await
    }
}

impl Inner {
    /// Returns when the desk and the control plane hold all that this server has seen of the log.
    pub(crate) async fn caught_up(&self) -> Result<(), CommandError> {
        let (position, patient) = (self.outside.log.position(), Instant::now() + BEHIND);
        self.outside.commands.wait(position).await?;
        while self.desk.lock().position < position {
            if Instant::now() > patient {
                return Err(CommandError::Unavailable("the drivers are behind the log".to_owned()));
            }
            self.poke.notify_one();
            tokio::time::sleep(STEP).await;
        }
        Ok(())
    }
}

fn refused(later: Later) -> HandsError {
    match later {
        Later::Command(error) => error.into(),
        Later::Outside(why) => CommandError::Unavailable(why).into(),
    }
}

/// Each in a task of its own, some at a time. What takes too long is `None`, and goes on.
pub(crate) async fn together<T: Send + 'static>(
    works: Vec<impl Future<Output = T> + Send + 'static>,
    at_once: usize,
    until: Instant,
) -> Vec<Option<T>> {
    let (turns, mut done) = (Arc::new(Semaphore::new(at_once)), Vec::with_capacity(works.len()));
    let begin = |work| {
        let turns = turns.clone();
        tokio::spawn(async move {
            let _turn = turns.acquire_owned().await;
            work.await
        })
    };
    let begun: Vec<_> = works.into_iter().map(begin).collect();
    for task in begun {
        done.push(tokio::time::timeout_at(until, task).await.ok().and_then(Result::ok));
    }
    done
}
