use commands::command::{Failure, FinishRun, OrphanRun, Outcome, ResumeRun};
use events::{StatusReason, ThreadStatus};

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
