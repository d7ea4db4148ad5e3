//! Before an end is told: nothing of the run goes on in its machine. Whoever ran its tools may have been killed before them, and not every
//! machine ends what was left behind.

use std::time::Duration;

use commands::ports::{MachineError, Verdict};
use events::ThreadId;
use events::dispatch::Warned;

use crate::desk::{Run, UNREACHABLE};
use crate::dispatcher::{Inner, Later};
use crate::judge::{Judgement, Sight};
use crate::watch::{GRACE, Placed};

impl Inner {
    /// What cannot be stopped holds up an end only for so long. It is told then, and stopped when that can be done.
    pub(crate) async fn clear(&self, thread: &ThreadId, found: &Run, placed: &Placed, grace: Duration) -> Result<(), Later> {
        let (Placed { provider_ref, machines, .. }, run) = (placed, &found.run_id);
        let error = match machines.stop(provider_ref, run.as_str(), grace).await {
            Ok(()) | Err(MachineError::Gone(_)) => return Ok(()),
            Err(error) => error,
        };
        let (Sight { silent, cancelled, .. }, patience) = (self.blind(found), &self.options.patience);
        if cancelled.map_or(silent < patience.orphan + patience.machine, |asked| asked < patience.cancel + patience.machine) {
            return Err(Later::of(error));
        }
        let why: String = error.to_string().chars().take(1_000).collect();
        let message = format!("what the run began may still go on in its machine ({why}), and is stopped when that can be done");
        let warned = Warned { run_id: Some(run.clone()), warning: UNREACHABLE.to_owned(), message };
        self.tell(thread, None, warned, &format!("{run}:unreachable")).await
    }
}

/// How gently what is left of a run is stopped. `None`: it goes on, nothing is left, or nobody can reach it.
pub(crate) fn grace(judgement: &Judgement, sight: &Sight) -> Option<Duration> {
    match judgement {
        Judgement::Stop => Some(GRACE),
        Judgement::Exited(_) | Judgement::Orphaned => Some(Duration::ZERO),
        // To look into a machine that stands still would wake it.
        Judgement::Cancelled => (sight.machine != Verdict::Resumable).then_some(Duration::ZERO),
        Judgement::Lives
        | Judgement::Wait
        | Judgement::MachineStopped
        | Judgement::MachineDead { .. }
        | Judgement::CancelledUnseen { .. }
        | Judgement::Unreachable { .. } => None,
    }
}
