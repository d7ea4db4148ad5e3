use events::thread::{Created, StatusChanged};
use events::{StreamName, ThreadEvent, ThreadId, ThreadStatus};
use projector::Unprojectable;
use serde_json::json;

use super::dispatch::run_over;
use super::{belongs, optional, text};
use crate::change::{Edit, Op};
use crate::rows::{Ms, ThreadPatch, ThreadRow};
use crate::work::{WorkChange, WorkKind};

pub(super) fn project(thread: &ThreadId, at: Ms, event: &ThreadEvent) -> Result<Vec<Op>, Unprojectable> {
    let now = ThreadPatch { updated_at: at, ..ThreadPatch::default() };
    let patch = match event {
        ThreadEvent::Created(e) => {
            belongs(&e.thread_id == thread)?;
            return Ok(created(thread, at, e));
        }
        ThreadEvent::Renamed(e) => ThreadPatch { name: Some(optional(e.name.as_ref())), ..now },
        ThreadEvent::Pinned(_) => ThreadPatch { pinned_at: Some(Some(at)), ..now },
        ThreadEvent::Unpinned(_) => ThreadPatch { pinned_at: Some(None), ..now },
        ThreadEvent::Tagged(e) => ThreadPatch { tags: Some(e.tags.iter().map(|tag| text(tag)).collect()), ..now },
        ThreadEvent::EnvironmentSet(e) => ThreadPatch { environment_id: Some(e.environment_id.clone()), ..now },
        ThreadEvent::SandboxSet(e) => ThreadPatch { sandbox_id: Some(e.sandbox_id.clone()), ..now },
        ThreadEvent::SandboxResumed(e) => ThreadPatch { sandbox_id: Some(Some(e.sandbox_id.clone())), ..now },
        ThreadEvent::StatusChanged(e) => return Ok(status_changed(thread, at, e)),
        ThreadEvent::ChildFinished(e) => {
            return Ok(vec![WorkChange::Done(WorkKind::ParentNotice.of(&e.child_thread_id)).into()]);
        }
        ThreadEvent::AgentSpawn(_) | ThreadEvent::PiFailed(_) | ThreadEvent::PiSessionOrphaned(_) => return Ok(Vec::new()),
    };
    Ok(vec![update(thread, patch)])
}

fn update(thread: &ThreadId, patch: ThreadPatch) -> Op {
    Op::Thread(Box::new(Edit::Update(thread.clone(), patch)))
}

fn created(thread: &ThreadId, at: Ms, event: &Created) -> Vec<Op> {
    let driven = event.agent_id.is_some();
    let row = ThreadRow {
        id: thread.clone(),
        house_id: event.house_id.clone(),
        stream_id: StreamName::Thread(thread.clone()).to_string(),
        name: optional(event.name.as_ref()),
        pinned_at: event.pinned.then_some(at),
        parent_thread_id: event.parent_thread_id.clone(),
        parent_agent_id: event.parent_agent_id,
        environment_id: event.environment_id.clone(),
        sandbox_id: event.sandbox_id.clone(),
        agent_id: event.agent_id,
        tags: event.tags.iter().map(|tag| text(tag)).collect(),
        status: if driven { ThreadStatus::Idle } else { ThreadStatus::Open }.as_str(),
        created_at: at,
        updated_at: at,
    };
    let mut ops = vec![Op::Thread(Box::new(Edit::Insert(row)))];
    if driven {
        ops.push(WorkChange::Put(WorkKind::ThreadIdle.of(thread).on_thread(thread, at)).into());
    }
    ops
}

fn status_changed(thread: &ThreadId, at: Ms, event: &StatusChanged) -> Vec<Op> {
    let patch = ThreadPatch { status: Some(event.status.as_str()), updated_at: at, ..ThreadPatch::default() };
    let idle = WorkKind::ThreadIdle.of(thread);
    let notice = WorkKind::ParentNotice.of(thread);
    let mut work = match event.status {
        ThreadStatus::Open | ThreadStatus::Closed => Vec::new(),
        ThreadStatus::Idle => vec![WorkChange::Put(idle.on_thread(thread, at)), WorkChange::Done(notice)],
        ThreadStatus::Running => vec![WorkChange::Done(idle), WorkChange::Done(notice)],
        ThreadStatus::Completed | ThreadStatus::Failed | ThreadStatus::Cancelled => {
            let notice = notice.on_thread(thread, at).with(json!({ "status": event.status }));
            vec![WorkChange::Done(idle), WorkChange::Put(notice)]
        }
    };
    if event.status != ThreadStatus::Running {
        work.extend(run_over(thread));
    }
    std::iter::once(update(thread, patch)).chain(work.into_iter().map(Op::from)).collect()
}
