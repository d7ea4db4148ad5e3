use std::collections::BTreeMap;

use events::{AgentId, AgentKind, DirectoryEvent, KeyHash, KeyId, Runtime};

use super::{Absent, Effect, World};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub kind: AgentKind,
    pub runtime: Option<Runtime>,
    pub name: Option<String>,
    /// `None`: the system.
    pub registered_by: Option<AgentId>,
    pub keys: BTreeMap<KeyId, Key>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub hash: KeyHash,
    pub label: Option<String>,
    pub revoked: bool,
}

impl Agent {
    #[must_use]
    pub fn is_bot(&self) -> bool {
        self.kind == AgentKind::Bot
    }
}

impl World {
    pub(super) fn apply_directory(&mut self, event: DirectoryEvent, author: Option<AgentId>) -> Result<Effect, Absent> {
        match event {
            DirectoryEvent::Registered(it) => {
                let agent =
                    Agent { kind: it.kind, runtime: it.runtime, name: it.name, registered_by: author, keys: BTreeMap::new() };
                self.agents.insert(it.agent_id, agent);
            }
            DirectoryEvent::Renamed(it) => self.agents.get_mut(&it.agent_id).ok_or(Absent)?.name = it.name,
            DirectoryEvent::KeyIssued(it) => {
                let agent = self.agents.get_mut(&it.agent_id).ok_or(Absent)?;
                self.index.keys.insert(it.hash.clone(), (it.agent_id, it.key_id.clone()));
                agent.keys.insert(it.key_id, Key { hash: it.hash, label: it.label, revoked: false });
            }
            DirectoryEvent::KeyRevoked(it) => {
                let agent = self.agents.get_mut(&it.agent_id).ok_or(Absent)?;
                agent.keys.get_mut(&it.key_id).ok_or(Absent)?.revoked = true;
            }
        }
        Ok(Effect::Applied)
    }
}
