//! Lookups against the direction of the references.

use std::collections::{BTreeMap, BTreeSet};

use events::{AgentId, EnvironmentId, HouseId, KeyHash, KeyId, SandboxId, SecretId, ThreadId};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) threads_on: BTreeMap<SandboxId, BTreeSet<ThreadId>>,
    pub(super) driven: BTreeMap<(HouseId, AgentId), BTreeSet<ThreadId>>,
    /// Counts; an environment that nothing refers to is not in it.
    pub(super) environment_references: BTreeMap<EnvironmentId, u64>,
    pub(super) houses_of: BTreeMap<AgentId, BTreeSet<HouseId>>,
    pub(super) keys: BTreeMap<KeyHash, (AgentId, KeyId)>,
    pub(super) secret_names: BTreeMap<(HouseId, String), SecretId>,
}

impl Index {
    pub(super) fn move_thread(&mut self, thread: &ThreadId, from: Option<&SandboxId>, to: Option<&SandboxId>) {
        if let Some(from) = from
            && let Some(threads) = self.threads_on.get_mut(from)
        {
            threads.remove(thread);
            if threads.is_empty() {
                self.threads_on.remove(from);
            }
        }
        if let Some(to) = to {
            self.threads_on.entry(to.clone()).or_default().insert(thread.clone());
        }
    }

    pub(super) fn refer(&mut self, from: Option<&EnvironmentId>, to: Option<&EnvironmentId>) {
        if let Some(to) = to {
            *self.environment_references.entry(to.clone()).or_default() += 1;
        }
        if let Some(from) = from
            && let Some(count) = self.environment_references.get_mut(from)
        {
            *count -= 1;
            if *count == 0 {
                self.environment_references.remove(from);
            }
        }
    }

    pub(super) fn join(&mut self, agent: AgentId, house: &HouseId) {
        self.houses_of.entry(agent).or_default().insert(house.clone());
    }

    pub(super) fn leave(&mut self, agent: AgentId, house: &HouseId) {
        if let Some(houses) = self.houses_of.get_mut(&agent) {
            houses.remove(house);
            if houses.is_empty() {
                self.houses_of.remove(&agent);
            }
        }
    }
}
