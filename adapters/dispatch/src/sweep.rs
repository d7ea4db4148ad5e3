//! What nobody would come back to: machines whose sandboxes are over, which are known by the labels that they carry, and trees that no
//! machine will begin with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use commands::command::DestroySandbox;
use commands::ports::{Listed, Machines};
use commands::{Sandbox, SandboxStatus, World};
use events::{HouseId, SandboxId};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use crate::dispatcher::{Inner, Later};
use crate::due::{Job, Use, passed};
use crate::reconcile::ANSWER;

/// Between two sweeps, if machines at rest are kept for so long.
const EVERY: Duration = Duration::from_secs(600);
/// Between two counts of the sandboxes that are over, which are ever more.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// Whoever made a sandbox, or gave it up, may still be about to let go of it.
const MOMENT: Duration = Duration::from_secs(1);

/// What is known of the last sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Swept {
    /// When it was begun, or else this process.
    pub(crate) at: u64,
    /// How many sandboxes had ended without a machine being recorded for them, before the last sweep that left nothing.
    pub(crate) unmade: usize,
    /// When those were last counted.
    pub(crate) counted: u64,
}

type Unlisted = Vec<(String, String)>;

/// A machine that stands for a sandbox which is over.
pub(crate) struct LeftOver {
    pub(crate) sandbox: SandboxId,
    pub(crate) provider: String,
    pub(crate) provider_ref: String,
    machines: Arc<dyn Machines>,
}

impl Inner {
    /// After a sandbox has ended whose machine may have been on its way, and else now and then: a machine may come to be after nobody
    /// waits for it any more.
    pub(crate) fn sweep(&self, world: &World, now: u64) -> Option<Job> {
        let mut swept = self.swept.lock();
        if !passed(now, swept.counted, COUNT_EVERY) {
            return None;
        }
        swept.counted = now;
        let (dead, unmade) = self.over(world);
        let due = unmade > swept.unmade || passed(now, swept.at, self.options.patience.reap.min(EVERY));
        (dead > 0 && due).then_some(Job::Sweep)
    }

    /// The sandboxes that are over, and those of them for which no machine was recorded.
    fn over(&self, world: &World) -> (usize, usize) {
        let dead = world.sandboxes().map(|(_, it)| it).filter(|it| it.status == SandboxStatus::Dead);
        let reached = dead.filter(|it| self.outside.machines.contains_key(&it.provider));
        reached.fold((0, 0), |(dead, unmade), it| (dead + 1, unmade + usize::from(it.provider_ref.is_none())))
    }

    pub(crate) async fn sweep_up(&self) -> Result<(), Later> {
        let (_, unmade) = self.outside.commands.with_world(|world| self.over(world));
        self.swept.lock().at = self.now();
        let (left_over, unlisted) = self.left_over(None, Instant::now() + ANSWER).await?;
        let mut is_all = unlisted.is_empty();
        for (provider, error) in unlisted {
            tracing::warn!(provider, error, "machines that are over cannot be looked for");
        }
        for it in left_over {
            if let Err(later) = self.take_left_over(&it).await {
                tracing::warn!(sandbox = %it.sandbox, machine = it.provider_ref, error = %later, "a machine that is over stays");
                is_all = false;
            }
        }
        // Else what ended without a machine is looked for again soon.
        if is_all {
            self.swept.lock().unmade = unmade;
        }
        self.forget_trees().await
    }

    /// The log is looked at after the list, as ever.
    async fn forget_trees(&self) -> Result<(), Later> {
        let kept: BTreeSet<_> = self.outside.trees.kept().await.map_err(Later::of)?.into_iter().collect();
        self.outside.log.looked().await.map_err(Later::of)?;
        self.caught_up().await?;
        let needless: Vec<_> = {
            let desk = self.desk.lock();
            let successors = desk.successors();
            self.outside.commands.with_world(|world| {
                let needless = kept.iter().filter(|(house, id)| is_needless(world, &successors, &kept, house, id));
                needless.cloned().collect()
            })
        };
        for (house, sandbox) in needless {
            self.outside.trees.forget(&house, &sandbox).await.map_err(Later::of)?;
            tracing::info!(%sandbox, "a working tree that no machine begins with is forgotten");
        }
        Ok(())
    }

    /// The log is looked at to its head after the list: a machine whose sandbox it does not know is somebody else's, and stays.
    /// With the providers that have not said what they have, and why.
    pub(crate) async fn left_over(&self, house: Option<&HouseId>, until: Instant) -> Result<(Vec<LeftOver>, Unlisted), Later> {
        let listed = self.listed(house, until).await;
        self.outside.log.looked().await.map_err(Later::of)?;
        self.caught_up().await?;
        let (mut over, mut unlisted) = (Vec::new(), Vec::new());
        for (provider, found) in listed {
            let Some(machines) = self.outside.machines.get(&provider) else { continue };
            let found = match found {
                Ok(found) => found,
                Err(why) => {
                    unlisted.push((provider, why));
                    continue;
                }
            };
            self.outside.commands.with_world(|world| {
                for it in found {
                    if let Some(sandbox) = sandbox_that_is_over(world, &provider, &it) {
                        let (provider, machines) = (provider.clone(), machines.clone());
                        over.push(LeftOver { sandbox, provider, provider_ref: it.provider_ref, machines });
                    }
                }
            });
        }
        Ok((over, unlisted))
    }

    /// Who once called a machine dead that stands had no end put to the work on it, and its threads may want its tree.
    pub(crate) async fn take_left_over(&self, it: &LeftOver) -> Result<(), Later> {
        let _unkept = alone(&self.keeping, &it.sandbox).await?;
        let _alone = alone(&self.making, &it.sandbox).await?;
        if self.used(&it.sandbox) == Use::Busy || !self.running_on(&it.sandbox).is_empty() {
            return Err(Later::of("there is work on it"));
        }
        self.keep_the_last(&it.sandbox, &it.provider_ref, &*it.machines).await?;
        it.machines.destroy(&it.provider_ref).await.map_err(Later::of)?;
        tracing::info!(sandbox = %it.sandbox, machine = it.provider_ref, "a machine whose sandbox is over was taken away");
        self.settle(DestroySandbox { sandbox_id: it.sandbox.clone() }, &format!("{}:destroy", it.sandbox)).await
    }
}

async fn alone(
    turns: &Mutex<BTreeMap<SandboxId, Arc<tokio::sync::Mutex<()>>>>,
    id: &SandboxId,
) -> Result<OwnedMutexGuard<()>, Later> {
    let turn = turns.lock().entry(id.clone()).or_default().clone();
    let alone = tokio::time::timeout(MOMENT, turn.lock_owned()).await;
    alone.map_err(|_| Later::of("it is still being made, or its tree kept"))
}

/// One that a member wants destroyed is let go by whoever keeps its tree first.
fn sandbox_that_is_over(world: &World, provider: &str, listed: &Listed) -> Option<SandboxId> {
    let (id, house) = (listed.sandbox.as_ref()?, listed.house.as_ref()?);
    let sandbox = world.sandbox(id)?;
    let over = sandbox.status == SandboxStatus::Dead && !sandbox.leaving;
    let own = sandbox.house_id == *house && sandbox.provider == provider;
    let stands_for = |other: &Sandbox| {
        let same = other.provider == provider && other.provider_ref.as_ref() == Some(&listed.provider_ref);
        same && other.status != SandboxStatus::Dead
    };
    (over && own && !world.sandboxes().any(|(_, other)| stands_for(other))).then(|| id.clone())
}

/// Its sandbox is over, all that stood on it have gone elsewhere, and whatever stands for it has a tree of its own and is made: or else it
/// would begin with this one. What the log does not know is another's.
fn is_needless(
    world: &World,
    successors: &BTreeMap<&SandboxId, &SandboxId>,
    kept: &BTreeSet<(HouseId, SandboxId)>,
    house: &HouseId,
    id: &SandboxId,
) -> bool {
    let is_left = |id: &SandboxId| {
        let over = world.sandbox(id).is_some_and(|it| it.house_id == *house && it.status == SandboxStatus::Dead);
        over && world.threads_on(id).next().is_none()
    };
    let mut at = id;
    loop {
        if !is_left(at) {
            return false;
        }
        let Some(next) = successors.get(at) else { return true };
        let made = world.sandbox(next).is_some_and(|it| it.provider_ref.is_some());
        if made && kept.contains(&(house.clone(), (*next).clone())) {
            return true;
        }
        at = next;
    }
}
