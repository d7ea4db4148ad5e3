use commands::command::{AppendEntry, CancelRun, CloseThread, Delegate, Failure, FinishRun, OrphanRun, Outcome, ResumeRun};
use events::{AgentId, StatusReason, ThreadStatus};

use crate::scene::*;

fn resume(id: &str, run_id: &str) -> ResumeRun {
    ResumeRun { thread_id: thread(id), run_id: Some(run(run_id)) }
}

#[test]
fn a_run_walks_from_idle_through_running_to_rest_and_back() {
    let mut scene = scene();
    let status = |scene: &Scene| scene.world.thread(&thread("d")).unwrap().status;
    scene.given(AS_BOT, start("d", "r1"));
    for (n, outcome) in [Outcome::Completed, Outcome::Failed, Outcome::Cancelled].into_iter().enumerate() {
        assert_eq!(status(&scene), ThreadStatus::Running);
        assert_eq!(scene.refused(AS_BOT, start("d", "x")), "wrong_status");
        assert_eq!(scene.refused(AS_BOT, resume("d", "x")), "wrong_status");
        scene.given(AS_BOT, finish("d", outcome));
        assert_eq!(status(&scene), outcome.status());
        assert_eq!(scene.refused(AS_BOT, start("d", "x")), "wrong_status", "a rested thread is resumed, not started");
        scene.given(AS_MEMBER, resume("d", &format!("again-{n}")));
    }
}

#[test]
fn an_idle_thread_is_started_not_resumed() {
    assert_eq!(scene().refused(AS_MEMBER, resume("d", "r1")), "wrong_status");
}

#[test]
fn a_childs_end_is_told_to_its_parent_in_the_same_commit() {
    let mut scene = scene();
    scene.given(AS_MEMBER, commands::command::CreateThread { parent_thread_id: Some(thread("t")), ..driven("h", "c") });
    scene.given(AS_BOT, start("c", "r1"));
    let kinds = scene.kinds(AS_BOT, finish("c", Outcome::Completed));
    assert_eq!(kinds, ["arbe-thread-c signal.thread.status_changed", "arbe-thread-t signal.thread.child_finished"]);
}

#[test]
fn a_failure_says_why_before_the_status() {
    let mut scene = scene();
    scene.given(AS_BOT, start("d", "r1"));
    let failure = Failure { error_class: "pi_exit".to_owned(), message: "exit 3".to_owned(), exit_code: Some(3) };
    let failed = FinishRun { failure: Some(failure.clone()), reason: Some(StatusReason::Exit), ..finish("d", Outcome::Failed) };
    let fine = FinishRun { failure: Some(failure), ..finish("d", Outcome::Completed) };
    assert_eq!(scene.refused(AS_BOT, fine), "invalid");
    let kinds = scene.kinds(AS_BOT, failed);
    assert_eq!(kinds, ["arbe-thread-d signal.thread.pi_failed", "arbe-thread-d signal.thread.status_changed"]);
}

#[test]
fn a_reason_fits_its_outcome() {
    let mut scene = scene();
    scene.given(AS_BOT, start("d", "r1"));
    let finish = |reason| FinishRun { reason: Some(reason), ..finish("d", Outcome::Completed) };
    assert_eq!(scene.refused(AS_BOT, finish(StatusReason::Error)), "invalid");
    scene.given(AS_BOT, finish(StatusReason::Finished));
}

#[test]
fn an_orphan_has_failed() {
    let mut scene = scene();
    scene.given(AS_BOT, start("d", "r1"));
    let orphan = |run_id| OrphanRun { thread_id: thread("d"), run_id: Some(run(run_id)), silent_ms: 60_000 };
    assert_eq!(scene.refused(SYSTEM, orphan("r0")), "wrong_run");
    let kinds = scene.kinds(SYSTEM, orphan("r1"));
    assert_eq!(kinds, ["arbe-thread-d signal.thread.pi_session_orphaned", "arbe-thread-d signal.thread.status_changed"]);
    assert_eq!(scene.world.thread(&thread("d")).unwrap().status, ThreadStatus::Failed);
    assert_eq!(scene.refused(SYSTEM, orphan("r1")), "wrong_status");
}

#[test]
fn of_two_that_end_a_run_one_is_told_it_was_late() {
    let mut scene = scene();
    scene.given(AS_BOT, start("d", "r1"));
    let seen = scene.world.clone();
    let ends = [Outcome::Completed, Outcome::Cancelled].map(|outcome| {
        let decision = commands::decide(&seen, &AS_BOT, &finish("d", outcome).into()).unwrap();
        scene.append_if_unmoved(&seen, decision)
    });
    assert_eq!(ends, [true, false]);
}

#[test]
fn a_task_is_said_and_runs_in_the_commit_that_makes_its_thread() {
    let mut scene = scene();
    let task = Delegate {
        prompt: Some("fix it".to_owned()),
        run_id: Some(run("r1")),
        environment_id: Some(environment("e")),
        ..delegate("t", "c")
    };
    let nobody = Delegate { child_thread_id: Some(thread("n")), ..task.clone() };
    assert_eq!(scene.refused(SYSTEM, nobody), "invalid", "a message has an author");
    let kinds = scene.kinds(AS_MEMBER, task);
    let expected = [
        "arbe-thread-c signal.thread.created",
        "arbe-thread-c chat",
        "arbe-thread-c signal.thread.status_changed",
        "arbe-thread-c signal.dispatch.queued",
        "arbe-thread-t signal.thread.agent_spawn",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(scene.world.thread(&thread("c")).unwrap().run_id, Some(run("r1")));
}

#[test]
fn anybody_in_the_house_may_ask_a_run_to_stop_and_it_goes_on_until_it_has() {
    let mut scene = scene();
    let cancel = |run_id: Option<&str>| CancelRun { thread_id: thread("d"), run_id: run_id.map(run) };
    assert_eq!(scene.refused(AS_MEMBER, cancel(None)), "nothing_in_progress");
    scene.given(AS_BOT, start("d", "r1"));
    assert_eq!(scene.refused(AS_MEMBER, cancel(Some("r0"))), "wrong_run");
    assert_eq!(scene.kinds(AS_MEMBER, cancel(None)), ["arbe-thread-d signal.dispatch.cancelled"]);
    assert_eq!(scene.world.thread(&thread("d")).unwrap().status, ThreadStatus::Running);
}

fn said(scene: &mut Scene, by: Option<AgentId>, id: &str, kind: &str, payload: &str) {
    scene.given(SYSTEM, AppendEntry { author_agent_id: by, ..entry(id, kind, payload) });
}

#[test]
fn an_answer_and_a_command_are_asked_to_stop_while_they_are_under_way() {
    let mut scene = scene();
    let cancel = |run_id: Option<&str>| CancelRun { thread_id: thread("t"), run_id: run_id.map(run) };
    assert_eq!(scene.refused(AS_MEMBER, cancel(None)), "nothing_in_progress");
    said(&mut scene, Some(BOT), "t", "signal.dispatch.claimed", r#"{"run_id":"turn","server":"one"}"#);
    said(&mut scene, None, "t", "signal.dispatch.claimed", r#"{"run_id":"mark","server":"one"}"#);
    said(&mut scene, Some(MEMBER), "t", "signal.command.started", r#"{"command_id":"run.mark","command":"sleep 9"}"#);
    said(&mut scene, Some(BOT), "t", "signal.command.started", r#"{"command_id":"turn.0.0","command":"sleep 9"}"#);
    assert_eq!(scene.refused(AS_MEMBER, cancel(Some("other"))), "wrong_run");
    assert_eq!(scene.kinds(AS_MEMBER, cancel(Some("mark"))), ["arbe-thread-t signal.dispatch.cancelled"]);
    let all = scene.kinds(AS_MEMBER, cancel(None));
    assert_eq!(all, ["arbe-thread-t signal.dispatch.cancelled"; 2], "the answer with its command, and the command of a member");
    said(&mut scene, None, "t", "signal.command.finished", r#"{"command_id":"run.mark","truncated":false,"duration_ms":1}"#);
    said(&mut scene, None, "t", "signal.command.finished", r#"{"command_id":"turn.0.0","truncated":false,"duration_ms":1}"#);
    assert_eq!(scene.refused(AS_MEMBER, cancel(None)), "nothing_in_progress");
    said(&mut scene, Some(BOT), "t", "signal.dispatch.claimed", r#"{"run_id":"next","server":"one"}"#);
    let last = r#"{"role":"assistant","content":[],"stopReason":"stop","runId":"next"}"#;
    said(&mut scene, Some(BOT), "t", "pi.assistant", last);
    assert_eq!(scene.refused(AS_MEMBER, cancel(None)), "nothing_in_progress");
}

#[test]
fn what_is_under_way_in_a_chat_ends_with_it_and_only_how_it_ended_is_said_after() {
    let mut scene = scene();
    said(&mut scene, Some(BOT), "t", "signal.dispatch.claimed", r#"{"run_id":"turn","server":"one"}"#);
    said(&mut scene, Some(MEMBER), "t", "signal.command.started", r#"{"command_id":"run.mark","command":"sleep 9"}"#);
    let close = || CloseThread { thread_id: thread("t") };
    let kinds = scene.kinds(AS_MEMBER, close());
    let cancelled = "arbe-thread-t signal.dispatch.cancelled";
    assert_eq!(kinds, [cancelled, cancelled, "arbe-thread-t signal.thread.status_changed"]);
    let output = entry("t", "signal.command.output", r#"{"command_id":"run.mark","stream":"stdout","text":"x"}"#);
    assert_eq!(scene.refused(SYSTEM, output), "thread_closed");
    let finished = entry("t", "signal.command.finished", r#"{"command_id":"run.mark","truncated":false,"duration_ms":1}"#);
    assert_eq!(scene.refused(AS_BOT, finished.clone()), "thread_closed");
    assert_eq!(scene.kinds(SYSTEM, finished), ["arbe-thread-t signal.command.finished"]);
    assert_eq!(scene.kinds(AS_MEMBER, close()), [] as [&str; 0], "closed already");
}
