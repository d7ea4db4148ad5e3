//! The status machine of driven threads: idle → running → completed, failed or cancelled, and back to running on a later turn.

use std::collections::BTreeSet;

use events::dispatch::{Cancelled, Queued};
use events::thread::{AgentSpawn, ChildFinished, Created, PiFailed, PiSessionOrphaned, StatusChanged};
use events::{Chat, Content, EnvironmentId, RunId, StatusReason, StreamName, ThreadId, ThreadStatus};

use super::{Draft, filled};
use crate::bounds;
use crate::command::{CancelRun, Delegate, FinishRun, OrphanRun, Outcome, ResumeRun, StartRun};
use crate::rejection::Rejection;
use crate::world::{House, Thread, World};

/// Threads above a delegated one.
const DEPTH_MAX: usize = 8;

/// The child is isolated unless a sandbox is named, and then the environment plays no part.
pub(super) fn delegate(draft: &mut Draft<'_>, command: &Delegate) -> Result<(), Rejection> {
    let id = filled(command.child_thread_id.as_ref())?.clone();
    let (house, parent) = draft.thread(&command.thread_id)?;
    if parent.status == ThreadStatus::Closed {
        return Err(Rejection::ThreadClosed);
    }
    if ancestors(draft.world, &command.thread_id) >= DEPTH_MAX {
        return Err(Rejection::TooDeep);
    }
    bounds::optional_name("name", command.name.as_deref())?;
    let tags = bounds::tags(&command.tags)?;
    draft.driver_in(house, command.agent_id)?;
    let environment_id = match &command.sandbox_id {
        Some(sandbox) => {
            draft.usable_sandbox_in(&parent.house_id, sandbox)?;
            None
        }
        None => Some(resolve_environment(draft, house, parent, command)?),
    };
    draft.new_stream(StreamName::Thread(id.clone()))?;
    let created = Created {
        thread_id: id.clone(),
        house_id: parent.house_id.clone(),
        name: command.name.clone(),
        parent_thread_id: Some(command.thread_id.clone()),
        parent_agent_id: None,
        environment_id,
        sandbox_id: command.sandbox_id.clone(),
        agent_id: Some(command.agent_id),
        tags,
        pinned: false,
    };
    draft.append_thread(&id, created);
    if let Some(text) = &command.prompt {
        begin(draft, &id, command, text)?;
    }
    draft.append_thread(&command.thread_id, AgentSpawn { child_thread_id: id });
    Ok(())
}

/// The task is said and the run stands as running before anything is made for it.
fn begin(draft: &mut Draft<'_>, child: &ThreadId, command: &Delegate, prompt: &str) -> Result<(), Rejection> {
    let run = filled(command.run_id.as_ref())?;
    if draft.actor.agent().is_none() {
        return Err(bounds::invalid("prompt", "a message has an author"));
    }
    if prompt.trim().is_empty() {
        return Err(bounds::invalid("prompt", "is empty"));
    }
    bounds::text("prompt", prompt)?;
    let chat = Chat { text: prompt.to_owned(), to: Some(command.agent_id), reply_to: None };
    draft.append_thread(child, Content::Chat(chat));
    queue(draft, child, run, None);
    Ok(())
}

fn queue(draft: &mut Draft<'_>, thread: &ThreadId, run: &RunId, reason: Option<StatusReason>) {
    draft.append_thread(thread, StatusChanged { status: ThreadStatus::Running, run_id: Some(run.clone()), reason });
    draft.append_thread(thread, Queued { run_id: run.clone(), by: draft.actor.agent() });
}

/// The thread itself and those above it, no further than it matters.
fn ancestors(world: &World, thread: &ThreadId) -> usize {
    let above = |id: &ThreadId| world.thread(id).and_then(|thread| thread.parent_thread_id.clone());
    std::iter::successors(Some(thread.clone()), above).take(DEPTH_MAX).count()
}

fn resolve_environment(
    draft: &mut Draft<'_>,
    house: &House,
    parent: &Thread,
    command: &Delegate,
) -> Result<EnvironmentId, Rejection> {
    if command.environment_id.is_none() {
        draft.expect(StreamName::Thread(command.thread_id.clone()));
    }
    let inherited = parent.environment_id.as_ref().or(house.default_environment_id.as_ref());
    let environment = command.environment_id.as_ref().or(inherited).ok_or(Rejection::NoEnvironment)?;
    draft.environment_in(&parent.house_id, environment)?;
    Ok(environment.clone())
}

pub(super) fn start(draft: &mut Draft<'_>, command: &StartRun) -> Result<(), Rejection> {
    let run = filled(command.run_id.as_ref())?;
    run_from(draft, &command.thread_id, run, |status| status == ThreadStatus::Idle, None)
}

pub(super) fn resume(draft: &mut Draft<'_>, command: &ResumeRun) -> Result<(), Rejection> {
    let rested = |status| matches!(status, ThreadStatus::Completed | ThreadStatus::Failed | ThreadStatus::Cancelled);
    let run = filled(command.run_id.as_ref())?;
    run_from(draft, &command.thread_id, run, rested, Some(StatusReason::Resumed))
}

fn run_from(
    draft: &mut Draft<'_>,
    id: &ThreadId,
    run: &RunId,
    from: impl Fn(ThreadStatus) -> bool,
    reason: Option<StatusReason>,
) -> Result<(), Rejection> {
    let thread = draft.change_thread(id)?;
    if !from(thread.status) {
        return Err(Rejection::WrongStatus { status: thread.status });
    }
    if thread.run_id.as_ref() == Some(run) {
        return Err(Rejection::WrongRun);
    }
    queue(draft, id, run, reason);
    Ok(())
}

/// Whatever is under way in the thread, or the one that is named: a run, an answer of a bot, a command.
pub(super) fn cancel(draft: &mut Draft<'_>, command: &CancelRun) -> Result<(), Rejection> {
    let mut asked = draft.change_thread(&command.thread_id)?.stoppable();
    if asked.is_empty() {
        return Err(Rejection::NothingInProgress);
    }
    if let Some(named) = &command.run_id {
        asked = asked.take(named).map(|named| BTreeSet::from([named])).ok_or(Rejection::WrongRun)?;
    }
    asked.into_iter().for_each(|run_id| draft.append_thread(&command.thread_id, Cancelled { run_id }));
    Ok(())
}

pub(super) fn finish(draft: &mut Draft<'_>, command: &FinishRun) -> Result<(), Rejection> {
    let thread = running(draft, &command.thread_id, command.run_id.as_ref())?;
    let reason = reason(command.outcome, command.reason)?;
    let run_id = thread.run_id.clone();
    if let Some(failure) = &command.failure {
        if command.outcome != Outcome::Failed {
            return Err(bounds::invalid("failure", "only a run that failed has one"));
        }
        bounds::name("error_class", &failure.error_class)?;
        bounds::text("message", &failure.message)?;
        let (error_class, message) = (failure.error_class.clone(), failure.message.clone());
        let failed = PiFailed { run_id: run_id.clone(), error_class, message, exit_code: failure.exit_code };
        draft.append_thread(&command.thread_id, failed);
    }
    rest(draft, &command.thread_id, thread, command.outcome.status(), reason);
    Ok(())
}

pub(super) fn orphan(draft: &mut Draft<'_>, command: &OrphanRun) -> Result<(), Rejection> {
    let thread = running(draft, &command.thread_id, command.run_id.as_ref())?;
    let orphaned = PiSessionOrphaned { run_id: thread.run_id.clone(), silent_ms: command.silent_ms };
    draft.append_thread(&command.thread_id, orphaned);
    rest(draft, &command.thread_id, thread, ThreadStatus::Failed, StatusReason::Orphaned);
    Ok(())
}

/// A late word of an earlier run must not end the current one.
fn running<'a>(draft: &mut Draft<'a>, id: &ThreadId, run: Option<&RunId>) -> Result<&'a Thread, Rejection> {
    let thread = draft.change_thread(id)?;
    if thread.status != ThreadStatus::Running {
        return Err(Rejection::WrongStatus { status: thread.status });
    }
    let same = run.is_none_or(|run| thread.run_id.as_ref() == Some(run));
    if same { Ok(thread) } else { Err(Rejection::WrongRun) }
}

fn rest(draft: &mut Draft<'_>, id: &ThreadId, thread: &Thread, status: ThreadStatus, reason: StatusReason) {
    draft.append_thread(id, StatusChanged { status, run_id: thread.run_id.clone(), reason: Some(reason) });
    if let Some(parent) = &thread.parent_thread_id {
        draft.append_thread(parent, ChildFinished { child_thread_id: id.clone(), status });
    }
}

fn reason(outcome: Outcome, given: Option<StatusReason>) -> Result<StatusReason, Rejection> {
    use StatusReason::{Cancelled, Error, Exit, Finished, Timeout};
    let allowed: &[StatusReason] = match outcome {
        Outcome::Completed => &[Finished],
        Outcome::Failed => &[Error, Exit, Timeout],
        Outcome::Cancelled => &[Cancelled, Timeout],
    };
    match given {
        None => Ok(allowed[0]),
        Some(given) if allowed.contains(&given) => Ok(given),
        Some(_) => Err(bounds::invalid("reason", "does not fit the outcome")),
    }
}
