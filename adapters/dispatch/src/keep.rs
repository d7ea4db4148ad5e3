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

/// A tree that could not be kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unkept {
    /// When the work ended after which it was tried, and how often since.
    rested: u64,
    times: u32,
    /// When and why the provider said that it will not give it.
    refused: Option<(u64, String)>,
}

impl Unkept {
    /// After more work it may be another tree.
    fn refused(&self, rested: u64, now: u64) -> Option<String> {
        let (at, why) = self.refused.as_ref().filter(|_| self.rested == rested)?;
        (now.saturating_sub(*at) < AGAIN_MS).then(|| why.clone())
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

    /// Ends well only if the tree as it is now is kept, or there is nothing left to keep.
    pub(crate) async fn keep_tree(&self, id: &SandboxId) -> Result<(), Later> {
        let keeping = self.keeping.lock().entry(id.clone()).or_default().clone();
        let _alone = keeping.lock().await;
        let Some((sandbox, provider_ref, machines)) = self.standing(id) else { return Ok(()) };
        let rested = self.rested(id);
        if let Some(why) = self.unkept.lock().get(id).and_then(|it| it.refused(rested, self.now())) {
            return Err(Later::of(why));
        }
        match self.take_tree(id, &sandbox, &provider_ref, &*machines, rested).await {
            Ok(Some(taken)) => {
                self.unkept.lock().remove(id);
                self.kept.lock().insert(id.clone(), taken);
                Ok(())
            }
            Ok(None) => self.look_after(id, &*machines, &provider_ref).await,
            Err(untaken) => self.not_kept(id, rested, untaken).await,
        }
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
            let refused = lasting.then(|| (self.now(), why.clone()));
            *it = Unkept { rested, times, refused };
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
}
