//! A driven thread at rest in which somebody said something runs again.

use commands::command::{ResumeRun, StartRun};
use commands::{CommandError, Rejection};
use events::{EventId, ThreadId};

use crate::dispatcher::{Inner, Later};

impl Inner {
    /// Whether it is the first run is the thread's to know; one of the two is refused without a trace.
    pub(crate) async fn next_run(&self, thread: &ThreadId, said: &EventId) -> Result<(), Later> {
        let (thread_id, run_id) = (thread.clone(), None);
        let start = StartRun { thread_id: thread_id.clone(), run_id: run_id.clone() };
        match self.execute(start, &format!("{said}:start")).await {
            Ok(_) => Ok(()),
            Err(CommandError::Rejected(Rejection::WrongStatus { .. })) => {
                self.settle(ResumeRun { thread_id, run_id }, &format!("{said}:resume")).await
            }
            Err(CommandError::Rejected(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
