//! Runs that this server cannot see: on a machine out of reach, on another server's host, of a provider that it has not.

use std::time::Duration;

use commands::World;
use commands::command::{OrphanRun, Outcome};
use commands::ports::{MachineError, Machines, Verdict};
use events::dispatch::Warned;
use events::{RunId, SandboxId, ThreadId};

use crate::desk::{REACHED, Run, UNCLAIMED, UNREACHABLE};
use crate::dispatcher::{Inner, Later};
use crate::due::{Job, Look};
use crate::surroundings::wanted_provider;
use crate::watch::{GRACE, machine_of};

impl Inner {
    /// Whether this server has the machines that the thread's run needs, and its machine if there is one.
    fn is_able(&self, world: &World, id: &ThreadId, run: Option<&Run>) -> bool {
        let Some(thread) = world.thread(id) else { return true };
        let has = |provider: &str| self.outside.machines.contains_key(provider);
        match machine_of(world, id, run).and_then(|id| world.sandbox(&id)) {
            Some(sandbox) => has(&sandbox.provider) && !self.is_elsewhere(sandbox),
            // A recipe that cannot be read fails the run by its own words.
            None => wanted_provider(world, thread).map_or(true, |named| has(named.as_deref().unwrap_or(&self.options.provider))),
        }
    }

    /// What there is to do about a run: by those who can all of it, by the others what needs no machine.
    pub(crate) fn for_this_server(&self, look: &Look<'_>, job: Job) -> Option<Job> {
        let (thread, id) = match &job {
            Job::Drive { thread, run } | Job::Watch { thread, run } => (thread, run),
            Job::Next { .. }
            | Job::Reply { .. }
            | Job::Notice { .. }
            | Job::Lost { .. }
            | Job::GiveUp { .. }
            | Job::Unclaimed { .. }
            | Job::Stray { .. }
            | Job::Keep { .. }
            | Job::Reap { .. } => return Some(job),
        };
        let run = look.desk.run(thread, id)?;
        if self.is_able(look.world, thread, Some(run)) {
            return Some(job);
        }
        let patience = &self.options.patience;
        // Nothing of it is anywhere: whoever sees it may end it.
        if run.cancelled.is_some() && !run.launched {
            return Some(job);
        }
        let asked_in_vain = run.cancelled.is_some_and(|asked| look.passed(asked, patience.machine + patience.lease));
        if asked_in_vain || look.passed(run.seen, patience.unreachable) {
            return Some(Job::GiveUp { thread: thread.clone(), run: id.clone() });
        }
        let waits = !run.launched && !run.unclaimed && look.passed(run.seen, patience.lease);
        waits.then(|| Job::Unclaimed { thread: thread.clone(), run: id.clone() })
    }

    /// The run stays as it is: a server that can take it up may come.
    pub(crate) async fn warn_unclaimed(&self, thread: &ThreadId, run: &RunId) -> Result<(), Later> {
        let provider = self.outside.commands.with_world(|world| {
            let it = world.thread(thread)?;
            match it.sandbox_id.as_ref().and_then(|id| world.sandbox(id)) {
                Some(sandbox) => Some(sandbox.provider.clone()),
                None => wanted_provider(world, it).ok().flatten(),
            }
        });
        let provider = provider.unwrap_or_else(|| self.options.provider.clone());
        let message = format!(
            "no server with machines of {provider} has taken the run up: start one, or cancel the run; it begins when there is one"
        );
        let warned = Warned { run_id: Some(run.clone()), warning: UNCLAIMED.to_owned(), message };
        self.tell(thread, None, warned, &format!("{run}:unclaimed")).await
    }

    /// Its machine is where this server cannot look, and nobody who can has done so for long.
    pub(crate) async fn give_up(&self, thread: &ThreadId, run: &RunId) -> Result<(), Later> {
        let Some(found) = self.desk.lock().run(thread, run).cloned() else { return Ok(()) };
        let silent = Duration::from_millis(self.now().saturating_sub(found.seen));
        let silent = found.cancelled.is_none().then_some(silent);
        self.end_unseen(thread, run, "no server that can look at it gives a sign of life", silent).await
    }

    /// As cancelled, or as an orphan after so much silence. What is not known of it is said first.
    pub(crate) async fn end_unseen(
        &self,
        thread: &ThreadId,
        run: &RunId,
        why: &str,
        silent: Option<Duration>,
    ) -> Result<(), Later> {
        let why: String = why.chars().take(1_000).collect();
        let message = format!(
            "the machine of the run could not be reached ({why}); its process may still run there, and is stopped when the machine is \
             seen again"
        );
        let warned = Warned { run_id: Some(run.clone()), warning: UNREACHABLE.to_owned(), message };
        self.tell(thread, None, warned, &format!("{run}:unreachable")).await?;
        let Some(silent) = silent else { return self.end(thread, run, Outcome::Cancelled, None, None).await };
        self.orphan(thread, run, silent).await
    }

    pub(crate) async fn orphan(&self, thread: &ThreadId, run: &RunId, silent: Duration) -> Result<(), Later> {
        let silent_ms = silent.as_millis() as u64;
        let orphan = OrphanRun { thread_id: thread.clone(), run_id: Some(run.clone()), silent_ms };
        self.settle(orphan, &format!("{run}:end")).await
    }

    /// One look whether the machine of a run that was given up is there again.
    pub(crate) async fn stop_stray(&self, thread: &ThreadId, run: &RunId, sandbox: &SandboxId) -> Result<(), Later> {
        let Some((_, provider_ref, machines)) = self.standing(sandbox) else { return Ok(()) };
        match machines.probe(&provider_ref).await {
            Verdict::Unknown { .. } => Ok(()),
            Verdict::Live => self.stop_strays_on(thread, sandbox, &*machines, &provider_ref).await,
            Verdict::Resumable => {
                self.no_stray(thread, run, "the machine stands still, and nothing of the run is left in it").await
            }
            Verdict::Dead { why } => {
                self.machine_died(sandbox, &why).await?;
                self.no_stray(thread, run, "the machine is gone, and the run with it").await
            }
        }
    }

    /// Before anything else is begun on a machine that lives, what was left there ends.
    pub(crate) async fn stop_strays_on(
        &self,
        thread: &ThreadId,
        sandbox: &SandboxId,
        machines: &dyn Machines,
        provider_ref: &str,
    ) -> Result<(), Later> {
        let strays = self.desk.lock().room(thread).map(|room| room.strays.clone()).unwrap_or_default();
        for run in strays.into_iter().filter(|(_, on)| on == sandbox).map(|(run, _)| run) {
            match machines.stop(provider_ref, run.as_str(), GRACE).await {
                Ok(()) | Err(MachineError::Gone(_)) => {}
                Err(error) => return Err(Later::of(error)),
            }
            self.no_stray(thread, &run, "the machine is seen again, and what was left of the run in it was stopped").await?;
        }
        Ok(())
    }

    async fn no_stray(&self, thread: &ThreadId, run: &RunId, message: &str) -> Result<(), Later> {
        let warned = Warned { run_id: Some(run.clone()), warning: REACHED.to_owned(), message: message.to_owned() };
        self.tell(thread, None, warned, &format!("{run}:reached")).await
    }
}
