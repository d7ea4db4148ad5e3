use events::house::{SandboxDead, SandboxDestroyed, SandboxLive, SandboxRequested};
use events::thread::{SandboxResumed, SandboxSet};
use events::{HouseId, SandboxId, StreamName, ThreadId};

use super::{Draft, filled};
use crate::bounds;
use crate::command::{DestroySandbox, MarkSandboxDead, MarkSandboxLive, RequestSandbox, ResumeSandbox, SetThreadSandbox};
use crate::rejection::Rejection;
use crate::world::{ASKED_FOR, Sandbox, SandboxStatus, Thread};

/// Death is what the provider says. What stands behind a machine that is only called dead would be left to itself.
const NOT_BY_HAND: &str = "live, and its machine was made by a server, which asks the provider whether it is dead: `arbe sandbox list \
                           --reconcile` has it ask now, and `arbe sandbox destroy` has it take the machine away";

/// Threads that leave too early leave the last of its tree behind.
const NOT_GONE: &str = "being destroyed: what is on it can be resumed when its machine is gone. If no server has machines of its provider \
                        any more, `arbe sandbox resume --provider` with another one does not wait for that";

/// For a thread, the pointer is set in the same commit, so that two drivers cannot make two machines for it.
pub(super) fn request(draft: &mut Draft<'_>, command: &RequestSandbox) -> Result<(), Rejection> {
    let id = filled(command.sandbox_id.as_ref())?.clone();
    let house = draft.enter(&command.house_id, "house")?;
    bounds::name("provider", &command.provider)?;
    let thread = command.thread_id.as_ref().map(|id| without_machine(draft, &command.house_id, id)).transpose()?;
    let of_thread = thread.and_then(|thread| thread.environment_id.as_ref());
    let environment = command.environment_id.as_ref().or(of_thread).or(house.default_environment_id.as_ref());
    let environment = environment.ok_or(Rejection::NoEnvironment)?;
    draft.environment_in(&command.house_id, environment)?;
    if draft.world.sandbox(&id).is_some() {
        return Err(Rejection::IdTaken);
    }
    let (environment_id, provider) = (environment.clone(), command.provider.clone());
    draft.append_house(&command.house_id, SandboxRequested { sandbox_id: id.clone(), environment_id, provider });
    if let Some(thread) = &command.thread_id {
        draft.append_thread(thread, SandboxSet { sandbox_id: Some(id) });
    }
    Ok(())
}

fn without_machine<'a>(draft: &mut Draft<'a>, house: &HouseId, id: &ThreadId) -> Result<&'a Thread, Rejection> {
    let thread = draft.change_thread(id)?;
    if thread.house_id != *house {
        return Err(Rejection::NotFound { what: "thread" });
    }
    match thread.sandbox_id.as_ref().and_then(|id| draft.world.sandbox(id)).map(|sandbox| sandbox.status) {
        Some(SandboxStatus::Pending | SandboxStatus::Live) => Err(Rejection::HasSandbox),
        // It would leave the others that share the dead one behind.
        Some(SandboxStatus::Dead) => Err(Rejection::SandboxDead),
        None => Ok(thread),
    }
}

pub(super) fn live(draft: &mut Draft<'_>, command: &MarkSandboxLive) -> Result<(), Rejection> {
    let sandbox = subject(draft, &command.sandbox_id)?;
    bounds::name("provider_ref", &command.provider_ref)?;
    match sandbox.status {
        SandboxStatus::Pending => {}
        SandboxStatus::Live | SandboxStatus::Dead => return Err(is(sandbox.status.as_str())),
    }
    let (sandbox_id, provider_ref) = (command.sandbox_id.clone(), command.provider_ref.clone());
    draft.append_house(&sandbox.house_id, SandboxLive { sandbox_id, provider_ref });
    Ok(())
}

pub(super) fn dead(draft: &mut Draft<'_>, command: &MarkSandboxDead) -> Result<(), Rejection> {
    let sandbox = subject(draft, &command.sandbox_id)?;
    if let Some(reason) = &command.reason {
        bounds::text("reason", reason)?;
    }
    match sandbox.status {
        SandboxStatus::Live if draft.actor.agent().is_some() && sandbox.machine().is_some() => return Err(is(NOT_BY_HAND)),
        SandboxStatus::Pending | SandboxStatus::Live => {}
        SandboxStatus::Dead => return Err(is(sandbox.status.as_str())),
    }
    let (sandbox_id, reason) = (command.sandbox_id.clone(), command.reason.clone());
    draft.append_house(&sandbox.house_id, SandboxDead { sandbox_id, reason });
    Ok(())
}

/// A member can only ask for the end of a machine that drivers made. It is dead from then on, for whoever looks for a machine, and they
/// tell of its end, and of what ran on it, when its provider has said that it is gone.
pub(super) fn destroy(draft: &mut Draft<'_>, command: &DestroySandbox) -> Result<(), Rejection> {
    let sandbox = subject(draft, &command.sandbox_id)?;
    let sandbox_id = command.sandbox_id.clone();
    if sandbox.destroyed {
        return Err(is("destroyed"));
    }
    if draft.actor.agent().is_none() || sandbox.machine().is_none() {
        draft.append_house(&sandbox.house_id, SandboxDestroyed { sandbox_id });
    } else if !sandbox.leaving {
        let reason = Some(ASKED_FOR.to_owned());
        draft.append_house(&sandbox.house_id, SandboxDead { sandbox_id, reason });
    }
    Ok(())
}

fn is(status: &str) -> Rejection {
    Rejection::SandboxStatus { status: status.to_owned() }
}

/// All threads move together: to move only one would silently fork the others onto a resume of their own.
pub(super) fn resume(draft: &mut Draft<'_>, command: &ResumeSandbox) -> Result<(), Rejection> {
    let id = filled(command.new_sandbox_id.as_ref())?.clone();
    let sandbox = subject(draft, &command.sandbox_id)?;
    let provider = command.provider.as_ref().unwrap_or(&sandbox.provider).clone();
    match sandbox.status {
        SandboxStatus::Dead if draft.actor.agent().is_some() && sandbox.leaving && provider == sandbox.provider => {
            return Err(is(NOT_GONE));
        }
        SandboxStatus::Dead => {}
        SandboxStatus::Pending | SandboxStatus::Live => return Err(Rejection::SandboxNotDead),
    }
    if draft.world.sandbox(&id).is_some() {
        return Err(Rejection::IdTaken);
    }
    bounds::name("provider", &provider)?;
    let threads: Vec<_> = draft.world.threads_on(&command.sandbox_id).collect();
    if threads.is_empty() {
        return Err(Rejection::NothingToResume);
    }
    let environment_id = sandbox.environment_id.clone();
    draft.append_house(&sandbox.house_id, SandboxRequested { sandbox_id: id.clone(), environment_id, provider });
    for thread in threads {
        draft.expect(StreamName::Thread(thread.clone()));
        let resumed = SandboxResumed { sandbox_id: id.clone(), from_sandbox_id: command.sandbox_id.clone() };
        draft.append_thread(thread, resumed);
    }
    Ok(())
}

pub(super) fn set_for_thread(draft: &mut Draft<'_>, command: &SetThreadSandbox) -> Result<(), Rejection> {
    let thread = draft.change_thread(&command.thread_id)?;
    if thread.sandbox_id == command.sandbox_id {
        return Ok(());
    }
    if let Some(id) = &command.sandbox_id {
        draft.usable_sandbox_in(&thread.house_id, id)?;
    }
    draft.append_thread(&command.thread_id, SandboxSet { sandbox_id: command.sandbox_id.clone() });
    Ok(())
}

fn subject<'a>(draft: &mut Draft<'a>, id: &SandboxId) -> Result<&'a Sandbox, Rejection> {
    let sandbox = draft.world.sandbox(id).ok_or(Rejection::NotFound { what: "sandbox" })?;
    draft.enter(&sandbox.house_id, "sandbox")?;
    Ok(sandbox)
}
