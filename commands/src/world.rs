//! The control plane as the log tells it. Pure: the same entries in the same order give the same world.

use std::collections::BTreeMap;

use events::{AgentId, Entry, EnvironmentId, Event, Family, HouseId, KeyHash, SandboxId, SecretId, StreamName, ThreadId, family};

mod agent;
mod house;
mod index;
mod progress;
mod thread;

pub use agent::{Agent, Key};
pub(crate) use house::ASKED_FOR;
pub use house::{Environment, House, Sandbox, SandboxStatus, Secret};
pub use progress::InProgress;
pub use thread::Thread;

use index::Index;

/// Keyed as the rows are: every id is unique in its whole table, not only in its house.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    houses: BTreeMap<HouseId, House>,
    agents: BTreeMap<AgentId, Agent>,
    environments: BTreeMap<EnvironmentId, Environment>,
    secrets: BTreeMap<SecretId, Secret>,
    sandboxes: BTreeMap<SandboxId, Sandbox>,
    threads: BTreeMap<ThreadId, Thread>,
    agents_tail: u64,
    index: Index,
}

/// Whether an event changed anything. Some deletions have no effect when a reference they did not see precedes them in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Applied,
    None,
}

#[derive(Debug, thiserror::Error)]
pub enum Unapplied {
    #[error("{stream} at {seq}: {source}")]
    Undecodable {
        stream: StreamName,
        seq: u64,
        #[source]
        source: events::DecodeError,
    },
    #[error("{stream} at {seq}: {kind} does not belong there")]
    Misplaced { stream: StreamName, seq: u64, kind: String },
    #[error("{stream} at {seq}: what {kind} is about does not exist")]
    Absent { stream: StreamName, seq: u64, kind: String },
    #[error("{stream} goes on at {seq} but ended at {tail}")]
    Gap { stream: StreamName, seq: u64, tail: u64 },
    #[error("{stream} was deleted or does not hold entries")]
    Broken { stream: StreamName },
}

/// The subject of an event is not in the world.
pub(crate) struct Absent;

impl World {
    /// Applies the entry at `seq` of `stream`. After an error the world is not to be used any more.
    pub fn apply(&mut self, stream: &StreamName, seq: u64, entry: &Entry) -> Result<Effect, Unapplied> {
        let tail = self.tail(stream).unwrap_or(0);
        if seq != tail {
            return Err(Unapplied::Gap { stream: stream.clone(), seq, tail });
        }
        let effect = self.apply_in_place(stream, seq, entry)?;
        match stream {
            StreamName::Agents => self.agents_tail += 1,
            StreamName::House(id) => self.houses.get_mut(id).into_iter().for_each(|house| house.tail += 1),
            StreamName::Thread(id) => self.threads.get_mut(id).into_iter().for_each(|thread| thread.tail += 1),
            StreamName::Session(..) => {}
        }
        Ok(effect)
    }

    fn apply_in_place(&mut self, stream: &StreamName, seq: u64, entry: &Entry) -> Result<Effect, Unapplied> {
        let kind = || entry.kind.clone();
        let misplaced = || Unapplied::Misplaced { stream: stream.clone(), seq, kind: kind() };
        let absent = |_: Absent| Unapplied::Absent { stream: stream.clone(), seq, kind: kind() };
        // Most entries are content, of which nothing is kept but that it is there, and whether somebody is still at it.
        if let (Some(Family::Content | Family::Dispatch), StreamName::Thread(id)) = (family(&entry.kind), stream) {
            self.threads.get_mut(id).ok_or_else(|| absent(Absent))?.note(entry);
            return Ok(Effect::Applied);
        }
        let event = entry.event().map_err(|source| Unapplied::Undecodable { stream: stream.clone(), seq, source })?;
        match (stream, event) {
            (StreamName::Thread(id), Event::Thread(event)) => self.apply_thread(id, event, entry.author_agent_id).map_err(absent),
            (StreamName::House(id), Event::House(event)) => self.apply_house(id, event, entry.author_agent_id).map_err(absent),
            (StreamName::Agents, Event::Directory(event)) => self.apply_directory(event, entry.author_agent_id).map_err(absent),
            (StreamName::Thread(_) | StreamName::House(_) | StreamName::Session(..) | StreamName::Agents, _) => Err(misplaced()),
        }
    }

    /// Entries in the stream; `None` if there is no such stream.
    #[must_use]
    pub fn tail(&self, stream: &StreamName) -> Option<u64> {
        match stream {
            StreamName::Agents => (self.agents_tail > 0).then_some(self.agents_tail),
            StreamName::House(id) => self.houses.get(id).map(|house| house.tail),
            StreamName::Thread(id) => self.threads.get(id).map(|thread| thread.tail),
            StreamName::Session(..) => None,
        }
    }

    /// Who sees an agent's keys and may revoke them: itself, for a bot also who registered it and who owns every house it is in.
    #[must_use]
    pub fn manages_keys(&self, actor: AgentId, id: AgentId) -> bool {
        let Some(agent) = self.agent(id) else { return false };
        let owns_all = || {
            let mut houses = self.houses_of(id).peekable();
            houses.peek().is_some() && houses.all(|house| self.house(house).is_some_and(|house| house.is_owner(actor)))
        };
        actor == id || (agent.is_bot() && (agent.registered_by == Some(actor) || owns_all()))
    }

    #[must_use]
    pub fn house(&self, id: &HouseId) -> Option<&House> {
        self.houses.get(id)
    }

    #[must_use]
    pub fn agent(&self, id: AgentId) -> Option<&Agent> {
        self.agents.get(&id)
    }

    #[must_use]
    pub fn environment(&self, id: &EnvironmentId) -> Option<&Environment> {
        self.environments.get(id)
    }

    #[must_use]
    pub fn secret(&self, id: &SecretId) -> Option<&Secret> {
        self.secrets.get(id)
    }

    #[must_use]
    pub fn sandbox(&self, id: &SandboxId) -> Option<&Sandbox> {
        self.sandboxes.get(id)
    }

    #[must_use]
    pub fn thread(&self, id: &ThreadId) -> Option<&Thread> {
        self.threads.get(id)
    }

    pub fn houses(&self) -> impl Iterator<Item = (&HouseId, &House)> {
        self.houses.iter()
    }

    pub fn agents(&self) -> impl Iterator<Item = (&AgentId, &Agent)> {
        self.agents.iter()
    }

    pub fn environments(&self) -> impl Iterator<Item = (&EnvironmentId, &Environment)> {
        self.environments.iter()
    }

    pub fn secrets(&self) -> impl Iterator<Item = (&SecretId, &Secret)> {
        self.secrets.iter()
    }

    pub fn sandboxes(&self) -> impl Iterator<Item = (&SandboxId, &Sandbox)> {
        self.sandboxes.iter()
    }

    pub fn threads(&self) -> impl Iterator<Item = (&ThreadId, &Thread)> {
        self.threads.iter()
    }

    /// Whose key this is, unless it was revoked.
    #[must_use]
    pub fn agent_by_key(&self, hash: &KeyHash) -> Option<AgentId> {
        let (agent, key) = self.index.keys.get(hash)?;
        let live = self.agents.get(agent)?.keys.get(key).is_some_and(|key| !key.revoked);
        live.then_some(*agent)
    }

    pub(crate) fn key_is_known(&self, hash: &KeyHash) -> bool {
        self.index.keys.contains_key(hash)
    }

    /// The only access rule: who is in the house may see it and everything in it.
    #[must_use]
    pub fn is_member(&self, house: &HouseId, agent: AgentId) -> bool {
        self.houses.get(house).is_some_and(|house| house.members.contains_key(&agent))
    }

    /// The same for what is written in a stream. Everybody is in the directory.
    pub(crate) fn may_read(&self, stream: &StreamName, agent: AgentId) -> bool {
        match stream {
            StreamName::Agents => true,
            StreamName::House(id) | StreamName::Session(id, _) => self.is_member(id, agent),
            StreamName::Thread(id) => self.thread(id).is_some_and(|thread| self.is_member(&thread.house_id, agent)),
        }
    }

    pub fn houses_of(&self, agent: AgentId) -> impl Iterator<Item = &HouseId> {
        self.index.houses_of.get(&agent).into_iter().flatten()
    }

    /// Threads that point at the sandbox.
    pub fn threads_on(&self, sandbox: &SandboxId) -> impl Iterator<Item = &ThreadId> {
        self.index.threads_on.get(sandbox).into_iter().flatten()
    }

    pub fn driven_by(&self, house: &HouseId, agent: AgentId) -> impl Iterator<Item = &ThreadId> {
        self.index.driven.get(&(house.clone(), agent)).into_iter().flatten()
    }

    /// Whether a thread or a sandbox, also one destroyed long ago, names the environment.
    #[must_use]
    pub fn environment_is_referred_to(&self, id: &EnvironmentId) -> bool {
        self.index.environment_references.contains_key(id)
    }

    #[must_use]
    pub fn secret_named(&self, house: &HouseId, name: &str) -> Option<&SecretId> {
        self.index.secret_names.get(&(house.clone(), name.to_owned()))
    }
}
