use events::DirectoryEvent;

use super::optional;
use crate::change::{Edit, Op};
use crate::rows::{AgentKeyPatch, AgentKeyRow, AgentPatch, AgentRow, Ms};

pub(super) fn project(at: Ms, event: &DirectoryEvent) -> Op {
    match event {
        DirectoryEvent::Registered(e) => Op::Agent(Edit::Insert(AgentRow {
            id: e.agent_id,
            kind: e.kind.as_str(),
            runtime: e.runtime.as_ref().map(|runtime| runtime.as_str().to_owned()),
            name: optional(e.name.as_ref()),
            created_at: at,
        })),
        DirectoryEvent::Renamed(e) => Op::Agent(Edit::Update(e.agent_id, AgentPatch { name: optional(e.name.as_ref()) })),
        DirectoryEvent::KeyIssued(e) => Op::AgentKey(Edit::Insert(AgentKeyRow {
            agent_id: e.agent_id,
            id: e.key_id.clone(),
            hash: e.hash.as_str().to_owned(),
            label: optional(e.label.as_ref()),
            created_at: at,
            revoked_at: None,
        })),
        DirectoryEvent::KeyRevoked(e) => {
            Op::AgentKey(Edit::Update((e.agent_id, e.key_id.clone()), AgentKeyPatch { revoked_at: at }))
        }
    }
}
