use events::{DispatchEvent, ThreadId};
use serde_json::json;

use super::text;
use crate::change::Op;
use crate::rows::Ms;
use crate::work::{Work, WorkChange, WorkKey, WorkKind};

pub(super) fn project(thread: &ThreadId, at: Ms, event: &DispatchEvent) -> Vec<Op> {
    let changes = match event {
        DispatchEvent::Queued(e) => {
            let queued = WorkKind::RunQueued.of(thread).on_thread(thread, at).with(json!({ "run_id": e.run_id }));
            vec![WorkChange::Put(Work { agent_id: e.by, ..queued })]
        }
        DispatchEvent::SessionStarted(e) => {
            let detail = json!({ "run_id": e.run_id, "session_ref": e.session_ref.as_deref().map(text) });
            let live = WorkKind::RunLive.of(thread).on_thread(thread, at).with(detail);
            let live = Work { sandbox_id: e.sandbox_id.clone(), ..live };
            vec![WorkChange::Done(WorkKind::RunQueued.of(thread)), WorkChange::Put(live)]
        }
        DispatchEvent::Heartbeat(_) | DispatchEvent::PiWaiting(_) => {
            vec![WorkChange::Seen(WorkKind::RunLive.of(thread), at)]
        }
        // The run is there as its status says, which alone ends it: a cancel is a request, and what failed may be an answer. Who drives
        // it and what was odd about it is no work.
        DispatchEvent::Claimed(_)
        | DispatchEvent::Warned(_)
        | DispatchEvent::Failed(_)
        | DispatchEvent::Reset(_)
        | DispatchEvent::Cancelled(_) => Vec::new(),
        DispatchEvent::CommandStarted(e) => {
            let key = own(WorkKind::CommandRunning, thread, &e.command_id);
            let running = key.on_thread(thread, at).with(json!({ "command": text(&e.command) }));
            vec![WorkChange::Put(Work { sandbox_id: e.sandbox_id.clone(), ..running })]
        }
        DispatchEvent::CommandOutput(e) => {
            vec![WorkChange::Seen(own(WorkKind::CommandRunning, thread, &e.command_id), at)]
        }
        DispatchEvent::CommandFinished(e) => {
            vec![WorkChange::Done(own(WorkKind::CommandRunning, thread, &e.command_id))]
        }
        DispatchEvent::PermissionRequested(e) => {
            let key = own(WorkKind::PermissionRequested, thread, &e.request_id);
            let detail = json!({ "action": text(&e.action), "detail": e.detail.as_deref().map(text) });
            vec![WorkChange::Put(key.on_thread(thread, at).with(detail))]
        }
        DispatchEvent::PermissionResolved(e) => {
            vec![WorkChange::Done(own(WorkKind::PermissionRequested, thread, &e.request_id))]
        }
    };
    changes.into_iter().map(Op::from).collect()
}

/// A thread has one run at a time.
pub(super) fn run_over(thread: &ThreadId) -> Vec<WorkChange> {
    vec![WorkChange::Done(WorkKind::RunQueued.of(thread)), WorkChange::Done(WorkKind::RunLive.of(thread))]
}

fn own(kind: WorkKind, thread: &ThreadId, id: &str) -> WorkKey {
    kind.of(format_args!("{thread}/{}", text(id)))
}
