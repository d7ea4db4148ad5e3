//! The names of the platform's streams. No other file knows them.

use std::fmt;

use crate::ids::{HouseId, SessionKey, ThreadId};

const PLATFORM: &str = "arbe-";
const THREAD: &str = "arbe-thread-";
const HOUSE: &str = "arbe-house-";
const SESSION: &str = "arbe-session-";
const AGENTS: &str = "arbe-agents";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamName {
    /// One thread: what was said, what the agent did, what became of it.
    Thread(ThreadId),
    /// The control log of one house.
    House(HouseId),
    /// One imported session of a house.
    Session(HouseId, SessionKey),
    /// The global directory of agents and the hashes of their keys.
    Agents,
}

impl StreamName {
    /// `None` for every stream that is not one of these, also for platform streams of another kind.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if name == AGENTS {
            return Some(Self::Agents);
        }
        if let Some(id) = name.strip_prefix(THREAD) {
            return ThreadId::new(id).ok().map(Self::Thread);
        }
        if let Some((house, key)) = name.strip_prefix(SESSION).and_then(|rest| rest.rsplit_once('-')) {
            return Some(Self::Session(HouseId::new(house).ok()?, SessionKey::new(key).ok()?));
        }
        name.strip_prefix(HOUSE).and_then(|id| HouseId::new(id).ok()).map(Self::House)
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(id) => write!(f, "{THREAD}{id}"),
            Self::House(id) => write!(f, "{HOUSE}{id}"),
            Self::Session(house, key) => write!(f, "{SESSION}{house}-{key}"),
            Self::Agents => f.write_str(AGENTS),
        }
    }
}

/// Whether the name is reserved for the platform, so that the low-level door must not reach it with a client's own rights.
#[must_use]
pub fn is_platform(name: &str) -> bool {
    name.starts_with(PLATFORM)
}
