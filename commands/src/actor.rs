use std::fmt;

use events::AgentId;

/// Who asks. The system is bound by every rule but membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    Agent(AgentId),
    System,
}

impl Actor {
    #[must_use]
    pub fn agent(&self) -> Option<AgentId> {
        match self {
            Self::Agent(id) => Some(*id),
            Self::System => None,
        }
    }
}

/// Part of command ids, by which a retry is known; never changed.
impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(id) => write!(f, "{id}"),
            Self::System => f.write_str("system"),
        }
    }
}
