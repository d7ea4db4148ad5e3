//! Every machine of a house is asked after. Death is what the provider itself says; what it does not say changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use commands::ports::{Listed, Machines, Seen, SeenAs, Verdict};
use commands::{Sandbox, SandboxStatus, World};
use events::{HouseId, SandboxId};
use tokio::time::Instant;

use crate::dispatcher::{Inner, Later};
use crate::hands::together;

/// Of one machine, or of one list.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);
const AT_ONCE: usize = 16;
const LATE: &str = "it did not answer in time";

impl Inner {
    pub(crate) async fn reconcile(&self, house: &HouseId, until: Instant) -> Result<Vec<Seen>, Later> {
        let rows = self.outside.commands.with_world(|world| alive(world, house));
        let asked = rows.iter().map(|(id, sandbox)| self.asked(id, sandbox)).collect();
        let (listed, verdicts) = tokio::join!(self.listed(Some(house), until), together(asked, AT_ONCE, until));
        // After the list: whatever is in it was asked for before.
        let known = self.outside.commands.with_world(|world| Known::of(world, house));
        let mut seen = Vec::new();
        for ((id, sandbox), verdict) in rows.into_iter().zip(verdicts) {
            let verdict = verdict.unwrap_or_else(late);
            if let Verdict::Dead { why } = &verdict {
                self.machine_died(&id, why).await?;
            }
            seen.push(self.seen(id, sandbox, verdict));
        }
        for (provider, found) in listed {
            match found {
                Ok(machines) => seen.extend(machines.into_iter().filter_map(|it| known.stray(&provider, it))),
                Err(why) => seen.push(unlisted(provider, &why)),
            }
        }
        Ok(seen)
    }

    /// What each provider has of the house, or of all, or why it does not say.
    pub(crate) async fn listed(&self, house: Option<&HouseId>, until: Instant) -> Vec<(String, Result<Vec<Listed>, String>)> {
        let lists = self.outside.machines.values().cloned().map(|machines| async move {
            match tokio::time::timeout(ANSWER, machines.list()).await {
                Ok(Ok(listed)) => Ok(listed),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(LATE.to_owned()),
            }
        });
        let lists = together(lists.collect(), AT_ONCE, until).await;
        let of_house = |list: Option<Result<Vec<Listed>, String>>| {
            let mut machines = list.unwrap_or_else(|| Err(LATE.to_owned()))?;
            machines.retain(|it| house.is_none() || it.house.as_ref() == house);
            Ok(machines)
        };
        self.outside.machines.keys().cloned().zip(lists.into_iter().map(of_house)).collect()
    }

    fn asked(&self, id: &SandboxId, sandbox: &Sandbox) -> impl Future<Output = Verdict> + Send + use<> {
        let (machines, provider_ref) =
            (self.outside.machines.get(&sandbox.provider).cloned(), sandbox.machine().map(str::to_owned));
        let (id, provider) = (id.clone(), sandbox.provider.clone());
        async move {
            match (machines, provider_ref) {
                (Some(machines), Some(provider_ref)) => probed(machines, &provider_ref).await,
                (Some(_), None) => Verdict::Unknown { why: format!("no machine was made for {id} by a driver") },
                (None, _) => Verdict::Unknown { why: format!("this server has no machines of {provider}") },
            }
        }
    }

    fn seen(&self, id: SandboxId, sandbox: Sandbox, verdict: Verdict) -> Seen {
        let threads = self.outside.commands.with_world(|world| world.threads_on(&id).cloned().collect());
        let (verdict, why) = verdict.seen();
        let Sandbox { provider, provider_ref, .. } = sandbox;
        Seen { sandbox_id: Some(id), provider, provider_ref, verdict, why, threads }
    }
}

pub(crate) async fn probed(machines: Arc<dyn Machines>, provider_ref: &str) -> Verdict {
    tokio::time::timeout(ANSWER, machines.probe(provider_ref)).await.unwrap_or_else(|_| late())
}

pub(crate) fn late() -> Verdict {
    Verdict::Unknown { why: LATE.to_owned() }
}

fn unlisted(provider: String, why: &str) -> Seen {
    let why = Some(format!("the provider does not list its machines: {why}"));
    Seen { sandbox_id: None, provider, provider_ref: None, verdict: SeenAs::Unknown, why, threads: Vec::new() }
}

fn alive(world: &World, house: &HouseId) -> Vec<(SandboxId, Sandbox)> {
    let of_house = world.sandboxes().filter(|(_, sandbox)| sandbox.house_id == *house);
    let alive = of_house.filter(|(_, sandbox)| sandbox.status != SandboxStatus::Dead && !sandbox.destroyed);
    alive.map(|(id, sandbox)| (id.clone(), sandbox.clone())).collect()
}

/// The machines that stand for a sandbox of the house.
struct Known {
    refs: BTreeSet<(String, String)>,
    /// A machine that was made and is not recorded yet is known by its label.
    sandboxes: BTreeSet<(String, SandboxId)>,
    dead: BTreeSet<SandboxId>,
}

impl Known {
    fn of(world: &World, house: &HouseId) -> Self {
        let alive = alive(world, house);
        let named = |(id, it): &(SandboxId, Sandbox)| (it.provider.clone(), id.clone());
        let dead = world.sandboxes().filter(|(_, it)| it.house_id == *house && it.status == SandboxStatus::Dead);
        Self {
            refs: alive.iter().filter_map(|(_, it)| Some((it.provider.clone(), it.machine()?.to_owned()))).collect(),
            sandboxes: alive.iter().map(named).collect(),
            dead: dead.map(|(id, _)| id.clone()).collect(),
        }
    }

    fn stray(&self, provider: &str, it: Listed) -> Option<Seen> {
        let provider = provider.to_owned();
        let by_label = it.sandbox.as_ref().is_some_and(|id| self.sandboxes.contains(&(provider.clone(), id.clone())));
        if by_label || self.refs.contains(&(provider.clone(), it.provider_ref.clone())) {
            return None;
        }
        let why = match &it.sandbox {
            Some(id) if self.dead.contains(id) => format!("its sandbox {id} is dead; the provider says: {}", it.state),
            Some(id) => format!("no sandbox {id} is known; the provider says: {}", it.state),
            None => format!("it names no sandbox; the provider says: {}", it.state),
        };
        let (provider_ref, why) = (Some(it.provider_ref), Some(why));
        let threads = it.thread.into_iter().collect();
        Some(Seen { sandbox_id: it.sandbox, provider, provider_ref, verdict: SeenAs::Stray, why, threads })
    }
}
