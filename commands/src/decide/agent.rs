use events::directory::{KeyIssued, KeyRevoked, Registered, Renamed};
use events::{AgentId, AgentKind, StreamName};

use super::{Draft, filled};
use crate::bounds;
use crate::command::{IssueKey, RegisterAgent, RenameAgent, RevokeKey};
use crate::rejection::Rejection;
use crate::world::Agent;

pub(super) fn register(draft: &mut Draft<'_>, command: &RegisterAgent) -> Result<(), Rejection> {
    let id = *filled(command.agent_id.as_ref())?;
    if draft.actor.agent().is_some_and(|agent| draft.world.agent(agent).is_none()) {
        return Err(Rejection::Forbidden);
    }
    match (command.kind, &command.runtime) {
        (AgentKind::Human, Some(_)) => return Err(Rejection::HumanHasNoRuntime),
        (AgentKind::Bot, None) => return Err(Rejection::BotNeedsRuntime),
        (AgentKind::Human, None) | (AgentKind::Bot, Some(_)) => {}
    }
    bounds::optional_name("name", command.name.as_deref())?;
    if draft.world.agent(id).is_some() {
        return Err(Rejection::IdTaken);
    }
    let (runtime, name) = (command.runtime.clone(), command.name.clone());
    append(draft, Registered { agent_id: id, kind: command.kind, runtime, name });
    Ok(())
}

pub(super) fn rename(draft: &mut Draft<'_>, command: &RenameAgent) -> Result<(), Rejection> {
    let agent = subject(draft, command.agent_id)?;
    if !speaks_for(draft, command.agent_id, agent) {
        return Err(Rejection::Forbidden);
    }
    bounds::optional_name("name", command.name.as_deref())?;
    if agent.name != command.name {
        append(draft, Renamed { agent_id: command.agent_id, name: command.name.clone() });
    }
    Ok(())
}

pub(super) fn issue_key(draft: &mut Draft<'_>, command: &IssueKey) -> Result<(), Rejection> {
    let key_id = filled(command.key_id.as_ref())?.clone();
    let agent = subject(draft, command.agent_id)?;
    if !speaks_for(draft, command.agent_id, agent) {
        return Err(Rejection::Forbidden);
    }
    bounds::optional_name("label", command.label.as_deref())?;
    if agent.keys.contains_key(&key_id) {
        return Err(Rejection::IdTaken);
    }
    if draft.world.key_is_known(&command.hash) {
        return Err(Rejection::KeyTaken);
    }
    let (hash, label) = (command.hash.clone(), command.label.clone());
    append(draft, KeyIssued { agent_id: command.agent_id, key_id, hash, label });
    Ok(())
}

pub(super) fn revoke_key(draft: &mut Draft<'_>, command: &RevokeKey) -> Result<(), Rejection> {
    let agent = subject(draft, command.agent_id)?;
    let may = draft.actor.agent().is_none_or(|actor| draft.world.manages_keys(actor, command.agent_id));
    if !may {
        return Err(Rejection::Forbidden);
    }
    let key = agent.keys.get(&command.key_id).ok_or(Rejection::NotFound { what: "key" })?;
    if !key.revoked {
        append(draft, KeyRevoked { agent_id: command.agent_id, key_id: command.key_id.clone() });
    }
    Ok(())
}

fn append(draft: &mut Draft<'_>, event: impl Into<events::Event>) {
    draft.expect(StreamName::Agents);
    draft.append(StreamName::Agents, event);
}

fn subject<'a>(draft: &Draft<'a>, id: AgentId) -> Result<&'a Agent, Rejection> {
    draft.world.agent(id).ok_or(Rejection::AgentNotFound)
}

/// The agent itself, and who registered it: a human only until the first key is handed over.
fn speaks_for(draft: &Draft<'_>, id: AgentId, agent: &Agent) -> bool {
    let Some(actor) = draft.actor.agent() else { return true };
    actor == id || (agent.registered_by == Some(actor) && (agent.is_bot() || agent.keys.is_empty()))
}
