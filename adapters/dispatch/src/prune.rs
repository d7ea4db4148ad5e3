//! A sweep now instead of in time: runs that are over end, and idle machines of delegated work go.

use std::sync::Arc;

use commands::SandboxStatus;
use commands::ports::{EndedRun, HandsError, Left, Pruned, TakenMachine};
use events::{HouseId, RunId, SandboxId, ThreadId, ThreadStatus};
use tokio::time::Instant;

use crate::diagnose::ended;
use crate::dispatcher::{Inner, Later};
use crate::due::Use;
use crate::hands::together;
use crate::judge::Judgement;
use crate::sweep::LeftOver;

const LOOKS_AT_ONCE: usize = 16;
/// Each takes a tree along.
const MACHINES_AT_ONCE: usize = 4;

impl Inner {
    pub(crate) async fn prune(self: &Arc<Self>, house: &HouseId, until: Instant) -> Result<Pruned, HandsError> {
        let mut pruned = Pruned::default();
        self.prune_runs(house, until, &mut pruned).await;
        // A machine whose run has just ended is idle.
        self.caught_up().await?;
        self.prune_machines(house, until, &mut pruned).await;
        Ok(pruned)
    }

    async fn prune_runs(self: &Arc<Self>, house: &HouseId, until: Instant, pruned: &mut Pruned) {
        let running: Vec<(ThreadId, Option<RunId>)> = self.outside.commands.with_world(|world| {
            let of_house = world.threads().filter(|(_, it)| it.house_id == *house && it.status == ThreadStatus::Running);
            of_house.map(|(id, thread)| (id.clone(), thread.run_id.clone())).collect()
        });
        let looks = running.iter().map(|(thread, run)| self.clone().prune_run(thread.clone(), run.clone())).collect();
        let looks = together(looks, LOOKS_AT_ONCE, until).await;
        for ((thread, run), look) in running.into_iter().zip(looks) {
            match look {
                Some(Ok(ended)) => pruned.ended.push(ended),
                Some(Err(left)) => pruned.left.push(left),
                None => pruned.left.push(left_run(thread, run, "its machine did not answer in time")),
            }
        }
    }

    /// One look, by the rules of every look.
    async fn prune_run(self: Arc<Self>, thread: ThreadId, run: Option<RunId>) -> Result<EndedRun, Left> {
        let room = self.desk.lock().room(&thread).cloned().unwrap_or_default();
        let (Some(run_id), Some(found)) = (run.clone(), room.run.as_ref()) else {
            let follows = self.follows(&thread, ThreadStatus::Running, &room, None);
            return Err(left_run(thread, run, &follows));
        };
        let looked = if found.launched { self.look_at(&thread, &run_id).await } else { Ok(None) };
        let seen = looked.map_err(|later| left_run(thread.clone(), run.clone(), &later.to_string()))?;
        let cause = seen.as_ref().map_or_else(|| SELF.to_owned(), |(_, judgement)| cause(judgement));
        match self.came_to(&thread, &run_id).await {
            Ok(Some(status)) => Ok(EndedRun { thread_id: thread, run_id, status, why: cause }),
            Ok(None) => {
                let sight = seen.as_ref().map(|(sight, _)| sight);
                let follows = self.follows(&thread, ThreadStatus::Running, &room, sight);
                Err(left_run(thread, run, &follows))
            }
            Err(later) => Err(left_run(thread, run, &later.to_string())),
        }
    }

    async fn came_to(&self, thread: &ThreadId, run: &RunId) -> Result<Option<ThreadStatus>, Later> {
        self.caught_up().await?;
        Ok(self.outside.commands.with_world(|world| {
            let it = world.thread(thread)?;
            (it.status != ThreadStatus::Running || it.run_id.as_ref() != Some(run)).then_some(it.status)
        }))
    }

    async fn prune_machines(self: &Arc<Self>, house: &HouseId, until: Instant, pruned: &mut Pruned) {
        let live: Vec<SandboxId> = self.outside.commands.with_world(|world| {
            let live = world.sandboxes().filter(|(_, it)| it.house_id == *house && it.status == SandboxStatus::Live);
            live.map(|(id, _)| id.clone()).collect()
        });
        self.prune_unmade(house, until, pruned).await;
        let mut idle = Vec::new();
        for id in live {
            let why = match self.used(&id) {
                Use::Busy => "there is work on it",
                Use::Untouched => "no work has ended on it",
                Use::Shared => "it is not there for delegated work alone",
                Use::Idle => {
                    idle.push(id);
                    continue;
                }
            };
            pruned.left.push(left_machine(id, why));
        }
        let works = idle.iter().map(|id| self.clone().take_away(id.clone())).collect();
        let works = together(works, MACHINES_AT_ONCE, until).await;
        for (id, work) in idle.into_iter().zip(works) {
            match work {
                Some(Ok(taken)) => pruned.taken.push(taken),
                Some(Err(left)) => pruned.left.push(left),
                None => pruned.left.push(left_machine(id, "it is being taken away, which takes its time")),
            }
        }
        if let Err(later) = self.prune_left_over(house, until, pruned).await {
            pruned.left.push(unlooked_for(format!("machines that are over were not looked for: {later}")));
        }
    }

    /// A machine that is made after nobody waits for it is found among those that are over.
    async fn prune_unmade(self: &Arc<Self>, house: &HouseId, until: Instant, pruned: &mut Pruned) {
        let mut unmade: Vec<SandboxId> = self.outside.commands.with_world(|world| {
            let pending = world.sandboxes().filter(|(_, it)| it.house_id == *house && it.status == SandboxStatus::Pending);
            pending.map(|(id, _)| id.clone()).collect()
        });
        unmade.retain(|id| self.used(id) == Use::Idle);
        let reap = |id: &SandboxId| {
            let (inner, id) = (self.clone(), id.clone());
            async move { inner.reap(&id).await }
        };
        let works = together(unmade.iter().map(reap).collect(), MACHINES_AT_ONCE, until).await;
        for (id, work) in unmade.into_iter().zip(works) {
            match work {
                Some(Ok(())) => {}
                Some(Err(later)) => pruned.left.push(left_machine(id, &later.to_string())),
                None => pruned.left.push(left_machine(id, "it is being given up, which takes its time")),
            }
        }
    }

    async fn prune_left_over(self: &Arc<Self>, house: &HouseId, until: Instant, pruned: &mut Pruned) -> Result<(), Later> {
        let (left_over, unlisted) = self.left_over(Some(house), until).await?;
        let unlisted = unlisted.into_iter().map(|(provider, why)| format!("{provider} does not list its machines: {why}"));
        pruned.left.extend(unlisted.map(unlooked_for));
        let found: Vec<_> =
            left_over.iter().map(|it| (it.sandbox.clone(), it.provider.clone(), it.provider_ref.clone())).collect();
        let take = |it: LeftOver| {
            let inner = self.clone();
            async move { inner.take_left_over(&it).await }
        };
        let works = together(left_over.into_iter().map(take).collect(), MACHINES_AT_ONCE, until).await;
        for ((sandbox_id, provider, provider_ref), work) in found.into_iter().zip(works) {
            match work {
                Some(Ok(())) => pruned.taken.push(TakenMachine { sandbox_id, provider, provider_ref }),
                Some(Err(later)) => pruned.left.push(left_machine(sandbox_id, &later.to_string())),
                None => pruned.left.push(left_machine(sandbox_id, "it is being taken away, which takes its time")),
            }
        }
        Ok(())
    }

    /// Its tree is kept first, as ever.
    async fn take_away(self: Arc<Self>, id: SandboxId) -> Result<TakenMachine, Left> {
        let Some((sandbox, provider_ref, _)) = self.standing(&id) else {
            return Err(left_machine(id, "this server has no machines of its provider"));
        };
        let done = async {
            self.keep_tree(&id).await?;
            self.reap(&id).await?;
            self.caught_up().await?;
            Ok::<_, Later>(())
        };
        if let Err(later) = done.await {
            return Err(left_machine(id, &later.to_string()));
        }
        let now = self.outside.commands.with_world(|world| world.sandbox(&id).map(|it| (it.status, it.destroyed)));
        match now {
            Some((_, true)) => Ok(TakenMachine { sandbox_id: id, provider: sandbox.provider, provider_ref }),
            Some((SandboxStatus::Dead, false)) => Err(left_machine(id, "it was found dead")),
            Some((SandboxStatus::Pending | SandboxStatus::Live, false)) | None => Err(left_machine(id, "work has begun on it")),
        }
    }
}

const SELF: &str = "it said itself how it ended";

fn cause(judgement: &Judgement) -> String {
    match judgement {
        Judgement::Lives | Judgement::Wait => SELF.to_owned(),
        Judgement::Stop => "it was asked to stop, and its process was stopped".to_owned(),
        Judgement::Cancelled => "it was asked to stop, and does not run".to_owned(),
        Judgement::Exited(exit) => format!("its process ended {}", ended(*exit)),
        Judgement::Orphaned => "the machine knows no process of it".to_owned(),
        Judgement::MachineStopped => "its machine was stopped".to_owned(),
        Judgement::MachineDead { why } => format!("the machine is gone: {why}"),
        Judgement::CancelledUnseen { why } => format!("it was asked to stop, and cannot be seen: {why}"),
        Judgement::Unreachable { why } => format!("nothing was seen of it for too long: {why}"),
    }
}

fn left_run(thread: ThreadId, run_id: Option<RunId>, why: &str) -> Left {
    Left { thread_id: Some(thread), run_id, sandbox_id: None, why: why.to_owned() }
}

fn unlooked_for(why: String) -> Left {
    Left { thread_id: None, run_id: None, sandbox_id: None, why }
}

fn left_machine(id: SandboxId, why: &str) -> Left {
    Left { thread_id: None, run_id: None, sandbox_id: Some(id), why: why.to_owned() }
}
