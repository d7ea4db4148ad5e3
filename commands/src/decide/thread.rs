use std::collections::BTreeSet;

use events::dispatch::Cancelled;
use events::thread::{AgentSpawn, Created, EnvironmentSet, Pinned, Renamed, StatusChanged, Tagged, Unpinned};
use events::{HouseId, StatusReason, StreamName, ThreadId, ThreadStatus};

use super::{Draft, filled};
use crate::bounds;
use crate::command::{
    CloseThread, CreateThread, RenameThread, ReopenThread, ReplaceTags, SetThreadEnvironment, TagThread, UntagThread,
};
use crate::rejection::Rejection;

pub(super) fn create(draft: &mut Draft<'_>, command: &CreateThread) -> Result<(), Rejection> {
    let id = filled(command.thread_id.as_ref())?.clone();
    let house = draft.enter(&command.house_id, "house")?;
    bounds::optional_name("name", command.name.as_deref())?;
    let tags = bounds::tags(&command.tags)?;
    match (&command.parent_thread_id, command.parent_agent_id) {
        (Some(_), Some(_)) => return Err(Rejection::TwoParents),
        (Some(parent), None) => open_parent_in(draft, &command.house_id, parent)?,
        (None, Some(agent)) if draft.world.agent(agent).is_none() => return Err(Rejection::AgentNotFound),
        (None, Some(_) | None) => {}
    }
    if let Some(environment) = &command.environment_id {
        draft.environment_in(&command.house_id, environment)?;
    }
    if let Some(sandbox) = &command.sandbox_id {
        draft.usable_sandbox_in(&command.house_id, sandbox)?;
    }
    if let Some(bot) = command.agent_id {
        draft.driver_in(house, bot)?;
    }
    draft.new_stream(StreamName::Thread(id.clone()))?;
    let created = Created {
        thread_id: id.clone(),
        house_id: command.house_id.clone(),
        name: command.name.clone(),
        parent_thread_id: command.parent_thread_id.clone(),
        parent_agent_id: command.parent_agent_id,
        environment_id: command.environment_id.clone(),
        sandbox_id: command.sandbox_id.clone(),
        agent_id: command.agent_id,
        tags,
        pinned: command.pinned,
    };
    draft.append_thread(&id, created);
    if let (Some(parent), Some(_)) = (&command.parent_thread_id, command.agent_id) {
        draft.append_thread(parent, AgentSpawn { child_thread_id: id });
    }
    Ok(())
}

/// A parent elsewhere is only called so before somebody who can see it.
fn open_parent_in(draft: &Draft<'_>, house: &HouseId, id: &ThreadId) -> Result<(), Rejection> {
    match draft.world.thread(id) {
        Some(parent) if parent.house_id == *house && parent.status == ThreadStatus::Closed => Err(Rejection::ThreadClosed),
        Some(parent) if parent.house_id == *house => Ok(()),
        Some(parent) if draft.sees(&parent.house_id) => Err(Rejection::ParentInOtherHouse),
        Some(_) | None => Err(Rejection::ParentNotFound),
    }
}

pub(super) fn rename(draft: &mut Draft<'_>, command: &RenameThread) -> Result<(), Rejection> {
    let thread = draft.change_thread(&command.thread_id)?;
    bounds::optional_name("name", command.name.as_deref())?;
    if thread.name != command.name {
        draft.append_thread(&command.thread_id, Renamed { name: command.name.clone() });
    }
    Ok(())
}

pub(super) fn pin(draft: &mut Draft<'_>, id: &ThreadId, pinned: bool) -> Result<(), Rejection> {
    let thread = draft.change_thread(id)?;
    match (thread.pinned, pinned) {
        (false, true) => draft.append_thread(id, Pinned {}),
        (true, false) => draft.append_thread(id, Unpinned {}),
        (true, true) | (false, false) => {}
    }
    Ok(())
}

pub(super) fn tag(draft: &mut Draft<'_>, command: &TagThread) -> Result<(), Rejection> {
    bounds::tags(&command.tags)?;
    set_tags(draft, &command.thread_id, |tags| [tags, &command.tags].concat())
}

pub(super) fn untag(draft: &mut Draft<'_>, command: &UntagThread) -> Result<(), Rejection> {
    set_tags(draft, &command.thread_id, |tags| tags.iter().filter(|tag| !command.tags.contains(tag)).cloned().collect())
}

pub(super) fn replace_tags(draft: &mut Draft<'_>, command: &ReplaceTags) -> Result<(), Rejection> {
    set_tags(draft, &command.thread_id, |_| command.tags.clone())
}

fn set_tags(draft: &mut Draft<'_>, id: &ThreadId, change: impl FnOnce(&[String]) -> Vec<String>) -> Result<(), Rejection> {
    let thread = draft.change_thread(id)?;
    let before = draft.tagged(id).unwrap_or(&thread.tags);
    let tags = bounds::tags(&change(before))?;
    if *before != tags {
        draft.append_thread(id, Tagged { tags });
    }
    Ok(())
}

pub(super) fn set_environment(draft: &mut Draft<'_>, command: &SetThreadEnvironment) -> Result<(), Rejection> {
    let thread = draft.change_thread(&command.thread_id)?;
    if let Some(environment) = &command.environment_id {
        draft.environment_in(&thread.house_id, environment)?;
    }
    if thread.environment_id != command.environment_id {
        draft.append_thread(&command.thread_id, EnvironmentSet { environment_id: command.environment_id.clone() });
    }
    Ok(())
}

/// What bots and commands are at in it ends with it, and the thread says so before it takes no more words.
pub(super) fn close(draft: &mut Draft<'_>, command: &CloseThread) -> Result<(), Rejection> {
    let thread = draft.change_thread(&command.thread_id)?;
    let ended = if thread.status == ThreadStatus::Open { thread.stoppable() } else { BTreeSet::new() };
    ended.into_iter().for_each(|run_id| draft.append_thread(&command.thread_id, Cancelled { run_id }));
    turn(draft, &command.thread_id, ThreadStatus::Open, ThreadStatus::Closed, StatusReason::Closed)
}

pub(super) fn reopen(draft: &mut Draft<'_>, command: &ReopenThread) -> Result<(), Rejection> {
    turn(draft, &command.thread_id, ThreadStatus::Closed, ThreadStatus::Open, StatusReason::Reopened)
}

/// Only a chat is open or closed, so a driven thread is refused by its status.
fn turn(
    draft: &mut Draft<'_>,
    id: &ThreadId,
    from: ThreadStatus,
    to: ThreadStatus,
    reason: StatusReason,
) -> Result<(), Rejection> {
    let thread = draft.change_thread(id)?;
    if thread.status == from {
        draft.append_thread(id, StatusChanged { status: to, run_id: None, reason: Some(reason) });
    } else if thread.status != to {
        return Err(Rejection::WrongStatus { status: thread.status });
    }
    Ok(())
}
