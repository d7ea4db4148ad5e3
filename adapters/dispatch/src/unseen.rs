//! Runs that this server cannot see: on a machine out of reach, on another server's host, of a provider that it has not.

use std::time::Duration;

use commands::World;
use commands::command::{OrphanRun, Outcome};
use commands::ports::{MachineError, Machines, RUNTIMES, Verdict};
use events::dispatch::Warned;
use events::{RunId, SandboxId, ThreadId};

use crate::desk::{REACHED, Run, UNCLAIMED, UNREACHABLE};
use crate::dispatcher::{Inner, Later};
use crate::due::{Job, Look, passed};
use crate::machine::no_provider;
use crate::surroundings::{Trouble, wanted_provider};
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

    /// Of whom the thread's machine is, or is to be.
    fn provider_for(&self, world: &World, id: &ThreadId) -> Option<String> {
        let thread = world.thread(id)?;
        match thread.sandbox_id.as_ref().and_then(|id| world.sandbox(id)) {
            Some(sandbox) => Some(sandbox.provider.clone()),
            None => wanted_provider(world, thread).ok()?.or_else(|| Some(self.options.provider.clone())),
        }
    }

    /// Why nobody takes the run up, and how long it still waits, if not longer than `most`: its runtime does not exist, or no server ever
    /// had machines of it.
    pub(crate) fn unserved(&self, world: &World, id: &ThreadId, run: &Run, most: Duration) -> Option<(Duration, Trouble)> {
        let others = run.server.as_ref().is_some_and(|server| *server != self.options.server);
        let provider = self.provider_for(world, id).filter(|it| !self.outside.machines.contains_key(it))?;
        if run.launched || others {
            return None;
        }
        // A sandbox of a provider that nobody here knows is a member's own, who may drive it.
        let named_only = || world.thread(id).is_some_and(|thread| thread.sandbox_id.is_none());
        let was_there = || world.sandboxes().any(|(_, it)| it.provider == provider && it.machine().is_some());
        let left = if RUNTIMES.contains(&provider.as_str()) {
            // While no server was there, nobody could have come.
            let waited = Duration::from_millis(self.now().saturating_sub(run.seen.max(self.began)));
            // That nobody takes it up is said before.
            let least = Duration::from_millis(u64::from(!run.unclaimed));
            let left = self.options.patience.machine.saturating_sub(waited).max(least);
            (left <= most && !was_there()).then_some(left)
        } else {
            named_only().then_some(Duration::ZERO)
        };
        left.map(|left| (left, no_provider(&provider)))
    }

    fn hopeless(&self, world: &World, id: &ThreadId, run: &Run) -> Option<Trouble> {
        self.unserved(world, id, run, Duration::ZERO).map(|(_, trouble)| trouble)
    }

    /// Asked to stop in vain, or silent for so long that nobody waits for a sign of life any more.
    fn is_lost(&self, run: &Run, now: u64) -> bool {
        let patience = &self.options.patience;
        let asked_in_vain = run.cancelled.is_some_and(|asked| passed(now, asked, patience.machine + patience.lease));
        asked_in_vain || passed(now, run.seen, patience.unreachable)
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
            | Job::Reap { .. }
            | Job::Sweep => return Some(job),
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
        if self.is_lost(run, look.now) || self.hopeless(look.world, thread, run).is_some() {
            return Some(Job::GiveUp { thread: thread.clone(), run: id.clone() });
        }
        let waits = !run.launched && !run.unclaimed && look.passed(run.seen, patience.lease);
        waits.then(|| Job::Unclaimed { thread: thread.clone(), run: id.clone() })
    }

    /// The run stays as it is: a server that can take it up may come.
    pub(crate) async fn warn_unclaimed(&self, thread: &ThreadId, run: &RunId) -> Result<(), Later> {
        let provider = self.outside.commands.with_world(|world| self.provider_for(world, thread));
        let provider = provider.unwrap_or_else(|| self.options.provider.clone());
        let soon = if RUNTIMES.contains(&&*provider) { ", and fails soon if there never was" } else { "" };
        let message = format!(
            "no server with machines of {provider} has taken the run up: start one, or cancel the run; it begins when there is \
             one{soon}"
        );
        let warned = Warned { run_id: Some(run.clone()), warning: UNCLAIMED.to_owned(), message };
        self.tell(thread, None, warned, &format!("{run}:unclaimed")).await
    }

    /// Its machine is where this server cannot look, and nobody who can has done so for long.
    pub(crate) async fn give_up(&self, thread: &ThreadId, run: &RunId) -> Result<(), Later> {
        // Another server may have taken it up since.
        self.outside.log.looked().await.map_err(Later::of)?;
        self.caught_up().await?;
        let Some(found) = self.desk.lock().run(thread, run).cloned() else { return Ok(()) };
        if let Some(trouble) = self.outside.commands.with_world(|world| self.hopeless(world, thread, &found)) {
            return self.fail(thread, run, &trouble, None).await;
        }
        if !self.is_lost(&found, self.now()) {
            return Ok(());
        }
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
