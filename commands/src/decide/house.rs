use events::house::{Created, DefaultEnvironmentSet, MemberAdded, MemberRemoved, MemberRoleSet, Renamed};
use events::{AgentId, Role, StreamName};

use super::{Draft, filled};
use crate::actor::Actor;
use crate::bounds;
use crate::command::{AddMember, CreateHouse, RemoveMember, RenameHouse, SetDefaultEnvironment, SetRole};
use crate::rejection::Rejection;

/// A house is never without an owner: whoever makes it is its first.
pub(super) fn create(draft: &mut Draft<'_>, command: &CreateHouse) -> Result<(), Rejection> {
    let id = filled(command.house_id.as_ref())?;
    let owner = match (draft.actor, command.owner) {
        (Actor::Agent(agent), None) => *agent,
        (Actor::Agent(agent), Some(owner)) if owner == *agent => owner,
        (Actor::Agent(_), Some(_)) => return Err(Rejection::Forbidden),
        (Actor::System, Some(owner)) => owner,
        (Actor::System, None) => return Err(bounds::invalid("owner", "missing")),
    };
    may_be(draft, owner, Role::Owner)?;
    bounds::name("name", &command.name)?;
    draft.new_stream(StreamName::House(id.clone()))?;
    draft.append_house(id, Created { house_id: id.clone(), name: command.name.clone() });
    draft.append_house(id, MemberAdded { agent_id: owner, role: Role::Owner });
    Ok(())
}

pub(super) fn rename(draft: &mut Draft<'_>, command: &RenameHouse) -> Result<(), Rejection> {
    let house = draft.own(&command.house_id)?;
    bounds::name("name", &command.name)?;
    if house.name != command.name {
        draft.append_house(&command.house_id, Renamed { name: command.name.clone() });
    }
    Ok(())
}

pub(super) fn set_default_environment(draft: &mut Draft<'_>, command: &SetDefaultEnvironment) -> Result<(), Rejection> {
    let house = draft.own(&command.house_id)?;
    if let Some(id) = &command.environment_id {
        draft.environment_in(&command.house_id, id)?;
    }
    if house.default_environment_id != command.environment_id {
        draft.append_house(&command.house_id, DefaultEnvironmentSet { environment_id: command.environment_id.clone() });
    }
    Ok(())
}

pub(super) fn add_member(draft: &mut Draft<'_>, command: &AddMember) -> Result<(), Rejection> {
    let house = draft.own(&command.house_id)?;
    may_be(draft, command.agent_id, command.role)?;
    if house.members.contains_key(&command.agent_id) {
        return Err(Rejection::AlreadyMember);
    }
    within_reach(draft, command.agent_id)?;
    draft.append_house(&command.house_id, MemberAdded { agent_id: command.agent_id, role: command.role });
    Ok(())
}

/// A bot is put to work by who registered it (anybody, if the system did) and by those it works for already: whoever else knows its id has no say over it.
fn within_reach(draft: &Draft<'_>, id: AgentId) -> Result<(), Rejection> {
    let (Some(actor), Some(agent)) = (draft.actor.agent(), draft.world.agent(id)) else { return Ok(()) };
    let shared = || draft.world.houses_of(id).any(|house| draft.world.is_member(house, actor));
    if !agent.is_bot() || agent.registered_by.is_none_or(|by| by == actor) || shared() {
        Ok(())
    } else {
        Err(Rejection::AgentNotFound)
    }
}

/// Owners remove whom they like; everybody may leave.
pub(super) fn remove_member(draft: &mut Draft<'_>, command: &RemoveMember) -> Result<(), Rejection> {
    let house = draft.enter(&command.house_id, "house")?;
    if draft.actor.agent() != Some(command.agent_id) {
        draft.require_owner(house)?;
    }
    if !house.members.contains_key(&command.agent_id) {
        return Err(Rejection::NotAMember);
    }
    if house.is_last_owner(command.agent_id) {
        return Err(Rejection::LastOwner);
    }
    if draft.world.driven_by(&command.house_id, command.agent_id).next().is_some() {
        return Err(Rejection::MemberDrivesThreads);
    }
    draft.append_house(&command.house_id, MemberRemoved { agent_id: command.agent_id });
    Ok(())
}

pub(super) fn set_role(draft: &mut Draft<'_>, command: &SetRole) -> Result<(), Rejection> {
    let house = draft.own(&command.house_id)?;
    let role = *house.members.get(&command.agent_id).ok_or(Rejection::NotAMember)?;
    if role == command.role {
        return Ok(());
    }
    may_be(draft, command.agent_id, command.role)?;
    if house.is_last_owner(command.agent_id) {
        return Err(Rejection::LastOwner);
    }
    draft.append_house(&command.house_id, MemberRoleSet { agent_id: command.agent_id, role: command.role });
    Ok(())
}

fn may_be(draft: &Draft<'_>, agent: AgentId, role: Role) -> Result<(), Rejection> {
    let agent = draft.world.agent(agent).ok_or(Rejection::AgentNotFound)?;
    if role == Role::Owner && agent.is_bot() { Err(Rejection::BotCannotOwn) } else { Ok(()) }
}
