//! Ids of new things: drawn at random, or derived from the command's id so that a retry makes the same ones.

use event_log::{CommandId, command_id};
use events::{AgentId, EnvironmentId, EventId, HouseId, KeyId, RunId, SandboxId, SecretId, ThreadId, Ulid, Uuid};

use crate::source::Source;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const SHORT: usize = 16;

pub(crate) struct Ids<'a> {
    source: &'a dyn Source,
    derive_from: Option<CommandId>,
    drawn: u32,
}

impl<'a> Ids<'a> {
    pub(crate) fn new(source: &'a dyn Source, derive_from: Option<CommandId>) -> Self {
        Self { source, derive_from, drawn: 0 }
    }

    fn bits(&mut self) -> u128 {
        self.drawn += 1;
        match self.derive_from {
            Some(id) => command_id(&["id", &id.to_string(), &self.drawn.to_string()]),
            None => self.source.random(),
        }
    }

    fn short(&mut self) -> String {
        let bits = self.bits();
        (0..SHORT).map(|at| char::from(ALPHABET[(bits >> (5 * at)) as usize & 31])).collect()
    }

    pub(crate) fn agent(&mut self) -> AgentId {
        const VERSION: u128 = 0xf << 76;
        const VARIANT: u128 = 0b11 << 62;
        AgentId(Uuid::from_u128((self.bits() & !VERSION & !VARIANT) | 0x4 << 76 | 0b10 << 62))
    }
}

macro_rules! short_ids {
    ($($method:ident: $id:ident)*) => {
        impl Ids<'_> {$(
            pub(crate) fn $method(&mut self) -> $id {
                $id::new(&self.short()).expect("the alphabet is one of ids")
            }
        )*}
    };
}

short_ids! { house: HouseId thread: ThreadId environment: EnvironmentId secret: SecretId sandbox: SandboxId run: RunId key: KeyId }

/// Time first, as in every ULID.
pub(crate) fn random_event_id(source: &dyn Source, now_ms: u64) -> EventId {
    EventId(Ulid(u128::from(now_ms) << 80 | source.random() >> 48))
}

/// Holds the digest of the whole command, so that the log itself tells a retry from another command under the same key.
pub(crate) fn derived_event_id(id: CommandId, digest: CommandId, index: usize) -> EventId {
    EventId(Ulid(command_id(&["event", &id.to_string(), &digest.to_string(), &index.to_string()])))
}
