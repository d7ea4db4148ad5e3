use event_log::command_id;
use events::{AgentId, EventId, RunId, ThreadId};

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Words that somebody may have to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) id: EventId,
    pub(crate) seq: u64,
    pub(crate) ts: u64,
    pub(crate) author: Option<AgentId>,
    pub(crate) to: Option<AgentId>,
    pub(crate) text: String,
}

/// An answer of a bot in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) bot: AgentId,
    /// What is answered; not known when it lies before the horizon.
    pub(crate) said: Option<Said>,
    pub(crate) claims: u32,
    pub(crate) server: Option<String>,
    pub(crate) seen: u64,
    /// It has asked for leave once, and may have waited for long.
    pub(crate) asked: bool,
    /// Nobody was there to answer in time: all that is said is that there will be no answer.
    pub(crate) late: bool,
}

impl Turn {
    pub(super) fn new(bot: AgentId, seen: u64) -> Self {
        Self { bot, said: None, claims: 0, server: None, seen, asked: false, late: false }
    }
}

/// Of one bot's answer to one entry, the same on every server.
pub(crate) fn turn_id(thread: &ThreadId, said: &EventId, bot: AgentId) -> RunId {
    let bits = command_id(&["turn", thread.as_str(), &said.to_string(), &bot.to_string()]);
    let text: String = (0..24).map(|at| char::from(ALPHABET[(bits >> (5 * at)) as usize & 31])).collect();
    RunId::new(&text).expect("the alphabet is one of ids")
}
