//! Runs that were launched: whether they live, and what they came to if they cannot say it any more.

use std::sync::Arc;
use std::time::Duration;

use commands::World;
use commands::command::Outcome;
use commands::ports::{Exit, MachineError, Machines, ProcessState, Verdict};
use events::{RunId, SandboxId, ThreadId};
use tokio::sync::Notify;

use crate::clear::grace;
use crate::desk::Run;
use crate::dispatcher::{Inner, Later};
use crate::judge::{Judgement, Sight, judge};
use crate::keep::DESTROYED;
use crate::surroundings::Trouble;

/// Of a process that was asked to end.
pub(crate) const GRACE: Duration = Duration::from_secs(10);
/// Between two looks, however often somebody asks.
const BREATH: Duration = Duration::from_secs(1);

/// The machine that a run was launched on, or that a thread points at.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) sandbox: SandboxId,
    pub(crate) provider_ref: String,
    pub(crate) machines: Arc<dyn Machines>,
}

impl Inner {
    /// One look, after a while.
    pub(crate) async fn watch(&self, thread: &ThreadId, run: &RunId) -> Result<(), Later> {
        self.pause(thread).await;
        self.look_at(thread, run).await.map(drop)
    }

    async fn pause(&self, thread: &ThreadId) {
        let (interval, called) = (self.options.patience.watch, Arc::new(Notify::new()));
        self.called.lock().insert(thread.clone(), called.clone());
        let breath = BREATH.min(interval);
        tokio::time::sleep(breath).await;
        let _ = tokio::time::timeout(interval - breath, called.notified()).await;
        self.called.lock().remove(thread);
    }

    /// Nobody is there while a look is under way.
    pub(crate) fn call(&self, thread: &ThreadId) {
        if let Some(called) = self.called.lock().get(thread) {
            called.notify_one();
        }
    }

    /// What was seen and done. `None`: there is no such run any more.
    pub(crate) async fn look_at(&self, thread: &ThreadId, run: &RunId) -> Result<Option<(Sight, Judgement)>, Later> {
        let Some(found) = self.desk.lock().run(thread, run).cloned() else { return Ok(None) };
        let placed = self.placed(thread, Some(&found))?;
        let sight = match &placed {
            Some(placed) => self.sight(placed, &found).await,
            None => self.blind(&found),
        };
        // A machine may take long to answer. What the run has said of itself meanwhile counts before what was seen of it.
        self.caught_up().await?;
        let Some(found) = self.desk.lock().run(thread, run).cloned() else { return Ok(None) };
        let is_dead = matches!(sight.machine, Verdict::Dead { .. });
        let is_going = is_dead && placed.as_ref().is_some_and(|it| self.lets_go(&it.sandbox));
        let machine = if is_going { Verdict::Unknown { why: "it is being destroyed".to_owned() } } else { sight.machine };
        let sight = Sight { process: sight.process, machine, ..self.blind(&found) };
        let judgement = judge(&sight, &self.options.patience);
        let adopted = match &placed {
            Some(placed) => self.adopts(&judgement, thread, &found, sight.silent, placed).await?,
            None => false,
        };
        if !adopted {
            if let Some((placed, grace)) = placed.as_ref().zip(grace(&judgement, &sight)) {
                self.clear(thread, &found, placed, grace).await?;
            }
            self.carry_out(thread, &found, placed.as_ref(), sight.silent, judgement.clone()).await?;
        }
        Ok(Some((sight, judgement)))
    }

    /// Of a run that was launched its own machine, wherever its thread points by now.
    pub(crate) fn placed(&self, thread: &ThreadId, run: Option<&Run>) -> Result<Option<Placed>, Later> {
        let placed = self.outside.commands.with_world(|world| {
            let id = machine_of(world, thread, run)?;
            let sandbox = world.sandbox(&id)?;
            Some((id, sandbox.provider.clone(), sandbox.machine()?.to_owned()))
        });
        let Some((sandbox, provider, provider_ref)) = placed else { return Ok(None) };
        let machines = self.provider(&provider).map_err(Later::of)?;
        Ok(Some(Placed { sandbox, provider_ref, machines }))
    }

    /// Asks, and changes nothing.
    pub(crate) async fn sight(&self, placed: &Placed, run: &Run) -> Sight {
        let Placed { provider_ref, machines, .. } = placed;
        let process = match machines.process(provider_ref, run.run_id.as_str()).await {
            Ok(state) => Some(state),
            Err(MachineError::Gone(_)) => Some(ProcessState::Absent),
            Err(MachineError::Refused(_) | MachineError::Setup(_) | MachineError::Unavailable(_) | MachineError::Unknown(_)) => {
                None
            }
        };
        let machine = machines.probe(provider_ref).await;
        Sight { process, machine, ..self.blind(run) }
    }

    /// What the log alone says of a run.
    pub(crate) fn blind(&self, run: &Run) -> Sight {
        let machine = Verdict::Unknown { why: "where it runs is not known".to_owned() };
        let cancelled = run.cancelled.map(|asked| self.since(asked));
        Sight { silent: self.since(run.seen), cancelled, process: None, machine }
    }

    fn since(&self, then: u64) -> Duration {
        Duration::from_millis(self.now().saturating_sub(then))
    }

    async fn carry_out(
        &self,
        thread: &ThreadId,
        found: &Run,
        placed: Option<&Placed>,
        silent: Duration,
        judgement: Judgement,
    ) -> Result<(), Later> {
        let run = &found.run_id;
        match judgement {
            Judgement::Wait => Ok(()),
            Judgement::Lives => {
                if silent >= self.options.patience.orphan && !found.unmirrored {
                    self.warn_unmirrored(thread, run, silent).await?;
                }
                let Some(Placed { provider_ref, machines, .. }) = placed else { return Ok(()) };
                machines.keep_alive(provider_ref).await.map_err(Later::of)
            }
            Judgement::Stop | Judgement::Cancelled => self.end(thread, run, Outcome::Cancelled, None, None).await,
            Judgement::Exited(exit) => {
                let (message, code) = wordless(exit);
                self.fail(thread, run, &Trouble::new("runner_exit", message), code).await
            }
            Judgement::Orphaned => self.orphan(thread, run, silent).await,
            Judgement::MachineStopped => {
                let message =
                    "the machine was stopped by its provider, and the run's process with it; the next turn wakes the machine";
                self.fail(thread, run, &Trouble::new("sandbox_stopped", message), None).await
            }
            Judgement::MachineDead { why } => match placed {
                Some(placed) => self.machine_died(&placed.sandbox, &why).await,
                None => Ok(()),
            },
            Judgement::CancelledUnseen { why } => self.end_unseen(thread, run, &why, None).await,
            Judgement::Unreachable { why } => self.end_unseen(thread, run, &why, Some(silent)).await,
        }
    }

    /// A member wants it gone, and this server sees to that. While it is taken away it is dead already for some providers, and what runs
    /// there may still go on: who takes it away tells the runs on it when it is gone.
    fn lets_go(&self, sandbox: &SandboxId) -> bool {
        self.outside.commands.with_world(|world| world.sandbox(sandbox).is_some_and(|it| self.leaving(it).is_some()))
    }

    /// Everything that ran on it has failed, and each thread says why. What was only on its way there goes to the next machine.
    pub(crate) async fn machine_died(&self, sandbox: &SandboxId, why: &str) -> Result<(), Later> {
        if self.lets_go(sandbox) {
            return Ok(());
        }
        let leaving = self.outside.commands.with_world(|world| world.sandbox(sandbox).is_some_and(|it| it.leaving));
        self.bury(sandbox, why).await?;
        self.fail_all_on(sandbox, if leaving { DESTROYED } else { why }).await
    }

    /// The runs that were launched on it, wherever their threads point by now.
    pub(crate) fn running_on(&self, sandbox: &SandboxId) -> Vec<(ThreadId, RunId)> {
        let desk = self.desk.lock();
        self.outside.commands.with_world(|world| {
            let launched = desk.open().filter_map(|(id, room)| Some((id, room.run.as_ref().filter(|run| run.launched)?)));
            let on_it = launched.filter(|(id, run)| machine_of(world, id, Some(run)).as_ref() == Some(sandbox));
            on_it.map(|(id, run)| (id.clone(), run.run_id.clone())).collect()
        })
    }

    pub(crate) async fn fail_all_on(&self, sandbox: &SandboxId, why: &str) -> Result<(), Later> {
        let trouble = Trouble::new("sandbox_dead", format_args!("the machine is gone: {why}"));
        for (thread, run) in self.running_on(sandbox) {
            self.fail(&thread, &run, &trouble, None).await?;
        }
        Ok(())
    }

    /// The same after work on it came to nothing: only a machine that is surely dead is buried.
    pub(crate) async fn look_after(&self, sandbox: &SandboxId, machines: &dyn Machines, provider_ref: &str) -> Result<(), Later> {
        match machines.probe(provider_ref).await {
            Verdict::Dead { why } => self.machine_died(sandbox, &why).await,
            Verdict::Live | Verdict::Resumable | Verdict::Unknown { .. } => Ok(()),
        }
    }
}

/// How a runner ended that has not said how its run did. Of a signal providers may not know whether it was meant for the runner or for the
/// sandbox.
fn wordless(exit: Exit) -> (String, Option<i32>) {
    match exit {
        Exit::Code(code) => (format!("the runner ended with {code} and did not say how the run ended"), Some(code)),
        Exit::Signal(signal) => (format!("the runner, or the sandbox around it, was ended by signal {signal}"), None),
        Exit::Sandbox(signal) => {
            (format!("the sandbox was killed from outside, by signal {signal}, and the runner with it"), None)
        }
        Exit::TimedOut => ("the runner took too long and was ended".to_owned(), None),
    }
}

pub(crate) fn machine_of(world: &World, thread: &ThreadId, run: Option<&Run>) -> Option<SandboxId> {
    run.and_then(|run| run.sandbox.clone()).or_else(|| world.thread(thread)?.sandbox_id.clone())
}
