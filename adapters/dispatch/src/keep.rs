//! Machines at rest: their trees are kept, and those that nobody will come back to soon are taken away.

use std::collections::BTreeSet;
use std::sync::Arc;

use commands::command::DestroySandbox;
use commands::ports::{MachineError, Machines, Verdict};
use commands::{Sandbox, SandboxStatus};
use events::SandboxId;
use events::dispatch::Warned;

use crate::dispatcher::{Inner, Later};
use crate::due::{Use, used};
use crate::ports::Tree;

/// A moment in which a tree cannot be had is nobody's business.
const TOLD_AFTER: u32 = 3;
/// Between two tries with a tree that its provider refuses: to find out again what is too large takes long.
const AGAIN_MS: u64 = 10 * 60 * 1_000;
pub(crate) const DESTROYED: &str = "a member had it destroyed";

/// A tree that could not be kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unkept {
    /// When the work ended after which it was tried, and how often since.
    rested: u64,
    times: u32,
    /// When it was last tried.
    at: u64,
    /// Why the provider said that it will not give it.
    refused: Option<String>,
}

impl Unkept {
    /// After more work it may be another tree.
    fn refused(&self, rested: u64, now: u64) -> Option<String> {
        let why = self.refused.as_ref().filter(|_| self.rested == rested)?;
        (now.saturating_sub(self.at) < AGAIN_MS).then(|| why.clone())
    }
}

struct Untaken {
    why: String,
    /// Another try soon would come to the same.
    lasting: bool,
}

impl Untaken {
    fn for_now(why: impl ToString) -> Self {
        Self { why: why.to_string(), lasting: false }
    }
}

impl Inner {
    pub(crate) fn standing(&self, id: &SandboxId) -> Option<(Sandbox, String, Arc<dyn Machines>)> {
        let sandbox = self.outside.commands.with_world(|world| world.sandbox(id).cloned())?;
        let provider_ref = sandbox.machine().filter(|_| sandbox.status == SandboxStatus::Live)?.to_owned();
        let machines = self.outside.machines.get(&sandbox.provider).cloned()?;
        Some((sandbox, provider_ref, machines))
    }

    /// The machine of one that is to go because a member asked for it, if this server can take it away.
    pub(crate) fn leaving(&self, sandbox: &Sandbox) -> Option<(String, Arc<dyn Machines>)> {
        let provider_ref = sandbox.machine().filter(|_| sandbox.leaving)?;
        let machines = self.outside.machines.get(&sandbox.provider).filter(|machines| machines.holds(provider_ref))?;
        Some((provider_ref.to_owned(), machines.clone()))
    }

    /// Ends well only if the tree as it is now is kept, or there is nothing left to keep.
    pub(crate) async fn keep_tree(&self, id: &SandboxId) -> Result<(), Later> {
        let keeping = self.keeping.lock().entry(id.clone()).or_default().clone();
        let _alone = keeping.lock().await;
        let Some((sandbox, provider_ref, machines)) = self.standing(id) else { return Ok(()) };
        if self.keep_now(id, &sandbox, &provider_ref, &*machines).await? {
            return Ok(());
        }
        self.look_after(id, &*machines, &provider_ref).await
    }

    /// `false`: the machine, or its tree, is not there.
    async fn keep_now(
        &self,
        id: &SandboxId,
        sandbox: &Sandbox,
        provider_ref: &str,
        machines: &dyn Machines,
    ) -> Result<bool, Later> {
        let rested = self.rested(id);
        if let Some(why) = self.unkept.lock().get(id).and_then(|it| it.refused(rested, self.now())) {
            return Err(Later::of(why));
        }
        match self.take_tree(id, sandbox, provider_ref, machines, rested).await {
            Ok(Some(taken)) => {
                self.unkept.lock().remove(id);
                self.kept.lock().insert(id.clone(), taken);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(untaken) => self.not_kept(id, rested, untaken).await.map(|()| false),
        }
    }

    /// Of a machine whose sandbox is over, for the threads that still stand on it. Of one that its provider calls dead nothing can be had.
    pub(crate) async fn keep_the_last(&self, id: &SandboxId, provider_ref: &str, machines: &dyn Machines) -> Result<(), Later> {
        let sandbox = self.outside.commands.with_world(|world| world.sandbox(id).cloned());
        let own = sandbox.filter(|it| it.machine() == Some(provider_ref) && self.rested(id) > 0);
        let Some(sandbox) = own else { return Ok(()) };
        if matches!(machines.probe(provider_ref).await, Verdict::Dead { .. }) {
            return Ok(());
        }
        self.keep_now(id, &sandbox, provider_ref, machines).await.map(drop)
    }

    /// When it was taken. `None`: the machine, or its tree, is not there.
    async fn take_tree(
        &self,
        id: &SandboxId,
        sandbox: &Sandbox,
        provider_ref: &str,
        machines: &dyn Machines,
        rested: u64,
    ) -> Result<Option<u64>, Untaken> {
        let taken = self.outside.trees.taken(&sandbox.house_id, id).await.map_err(Untaken::for_now)?;
        if let Some(taken) = taken.filter(|taken| *taken >= rested) {
            return Ok(Some(taken));
        }
        let _turn = self.taking.acquire().await.map_err(Untaken::for_now)?;
        // One that stands still has its files, and nobody can read them.
        if machines.probe(provider_ref).await == Verdict::Resumable {
            machines.wake(provider_ref).await.map_err(Untaken::for_now)?;
        }
        let taken_ms = self.now();
        let bytes = match machines.snapshot(provider_ref).await {
            Ok(bytes) => bytes,
            Err(MachineError::Gone(_)) => return Ok(None),
            Err(error @ (MachineError::Refused(_) | MachineError::Setup(_))) => {
                return Err(Untaken { why: error.to_string(), lasting: true });
            }
            Err(error @ (MachineError::Unavailable(_) | MachineError::Unknown(_))) => return Err(Untaken::for_now(error)),
        };
        let kept = self.outside.trees.keep(&sandbox.house_id, id, Tree { taken_ms, bytes }).await;
        kept.map(|()| Some(taken_ms)).map_err(Untaken::for_now)
    }

    /// It is tried again, and those who work there are told: the machine is all that has the tree.
    async fn not_kept(&self, id: &SandboxId, rested: u64, untaken: Untaken) -> Result<(), Later> {
        let Untaken { why, lasting } = untaken;
        let why = format!("the working tree of {id} is not kept: {why}");
        let times = {
            let mut unkept = self.unkept.lock();
            let it = unkept.entry(id.clone()).or_default();
            let times = if it.rested == rested { it.times + 1 } else { 1 };
            *it = Unkept { rested, times, at: self.now(), refused: lasting.then(|| why.clone()) };
            times
        };
        tracing::warn!(sandbox = %id, error = why, times, "a working tree is not kept");
        if lasting || times >= TOLD_AFTER {
            let message = format!("{why}; its machine is not taken away before it is, and what dies with it is lost");
            let threads: Vec<_> = self.outside.commands.with_world(|world| world.threads_on(id).cloned().collect());
            for thread in threads {
                let warned = Warned { run_id: None, warning: "tree_unkept".to_owned(), message: message.clone() };
                self.tell(&thread, None, warned, &format!("{id}:unkept:{rested}:{thread}")).await?;
            }
        }
        Err(Later::of(why))
    }

    pub(crate) fn tried_to_keep(&self, id: &SandboxId) -> Option<u64> {
        self.unkept.lock().get(id).map(|it| it.at)
    }

    fn rested(&self, id: &SandboxId) -> u64 {
        let threads: Vec<_> = self.outside.commands.with_world(|world| world.threads_on(id).cloned().collect());
        self.desk.lock().rested(threads.iter())
    }

    fn is_kept(&self, id: &SandboxId) -> bool {
        let rested = self.rested(id);
        self.kept.lock().get(id).is_some_and(|kept| *kept >= rested)
    }

    /// A command that is not begun in the log yet is on its way to its machine all the same.
    pub(crate) fn used(&self, id: &SandboxId) -> Use {
        let executing: BTreeSet<_> = self.executing.lock().values().cloned().collect();
        let desk = self.desk.lock();
        self.outside.commands.with_world(|world| {
            let busy = world.threads_on(id).any(|thread| executing.contains(thread));
            if busy { Use::Busy } else { used(world, &desk, id) }
        })
    }

    /// The machine first: a record of a machine that still stands would never be looked at again.
    pub(crate) async fn reap(&self, id: &SandboxId) -> Result<(), Later> {
        let keeping = self.keeping.lock().entry(id.clone()).or_default().clone();
        let _unkept = keeping.lock().await;
        let making = self.making.lock().entry(id.clone()).or_default().clone();
        let _alone = making.lock().await;
        let asked_for = self.outside.commands.with_world(|world| world.sandbox(id).filter(|it| it.leaving).cloned());
        if let Some(sandbox) = asked_for {
            return self.let_go(id, &sandbox).await;
        }
        if self.is_pending(id) {
            return self.let_be(id).await;
        }
        let Some((_, provider_ref, machines)) = self.standing(id) else { return Ok(()) };
        if self.used(id) != Use::Idle {
            return Ok(());
        }
        match machines.probe(&provider_ref).await {
            Verdict::Unknown { why } => return Err(Later::of(why)),
            Verdict::Live | Verdict::Resumable if !self.is_kept(id) => return Err(Later::of("its working tree is not kept")),
            Verdict::Live | Verdict::Resumable | Verdict::Dead { .. } => {}
        }
        // It may have found work since it was found idle, also another server's.
        self.outside.log.looked().await.map_err(Later::of)?;
        self.caught_up().await?;
        if self.used(id) != Use::Idle {
            return Ok(());
        }
        machines.destroy(&provider_ref).await.map_err(Later::of)?;
        self.settle(DestroySandbox { sandbox_id: id.clone() }, &format!("{id}:destroy")).await
    }

    fn is_pending(&self, id: &SandboxId) -> bool {
        self.outside.commands.with_world(|world| world.sandbox(id).is_some_and(|it| it.status == SandboxStatus::Pending))
    }

    /// Whoever wanted it is gone, and no machine was recorded for it. If one stands there all the same, it is found by its label.
    async fn let_be(&self, id: &SandboxId) -> Result<(), Later> {
        self.outside.log.looked().await.map_err(Later::of)?;
        self.caught_up().await?;
        if !self.is_pending(id) || self.used(id) != Use::Idle {
            return Ok(());
        }
        self.settle(DestroySandbox { sandbox_id: id.clone() }, &format!("{id}:destroy")).await
    }

    /// It is recorded as destroyed last, so that until its provider has said so it is tried again. What was not kept of its tree is kept
    /// if that can be had: nobody waits for it.
    async fn let_go(&self, id: &SandboxId, sandbox: &Sandbox) -> Result<(), Later> {
        let Some((provider_ref, machines)) = self.leaving(sandbox) else { return Ok(()) };
        let is_busy = self.used(id) == Use::Busy || !self.running_on(id).is_empty();
        let worked_on = if is_busy { self.now() } else { self.rested(id) };
        if worked_on > 0
            && let Err(untaken) = self.take_tree(id, sandbox, &provider_ref, &*machines, worked_on).await
        {
            tracing::warn!(sandbox = %id, error = untaken.why, "the last of a working tree is not kept");
        }
        machines.destroy(&provider_ref).await.map_err(Later::of)?;
        self.caught_up().await?;
        self.fail_all_on(id, DESTROYED).await?;
        self.settle(DestroySandbox { sandbox_id: id.clone() }, &format!("{id}:destroy")).await
    }
}
