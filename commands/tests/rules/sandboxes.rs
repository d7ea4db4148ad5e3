use commands::SandboxStatus;
use commands::command::{Delegate, DestroySandbox, RequestSandbox, ResumeSandbox, SetDefaultEnvironment, SetThreadSandbox};

use crate::scene::*;

fn point(id: &str, at: Option<&str>) -> SetThreadSandbox {
    SetThreadSandbox { thread_id: thread(id), sandbox_id: at.map(sandbox) }
}

fn resume(from: &str, to: &str) -> ResumeSandbox {
    ResumeSandbox { sandbox_id: sandbox(from), new_sandbox_id: Some(sandbox(to)), provider: None }
}

#[test]
fn a_sandbox_walks_from_pending_through_live_to_dead() {
    let mut scene = scene();
    let status = |scene: &Scene| scene.world.sandbox(&sandbox("s")).unwrap().status;
    assert_eq!(status(&scene), SandboxStatus::Pending);
    scene.given(SYSTEM, live("s"));
    assert_eq!(scene.world.sandbox(&sandbox("s")).unwrap().provider_ref.as_deref(), Some("machine-s"));
    assert_eq!(scene.refused(SYSTEM, live("s")), "wrong_sandbox_status");
    scene.given(SYSTEM, dead("s"));
    assert_eq!(status(&scene), SandboxStatus::Dead);
    assert_eq!(scene.refused(SYSTEM, dead("s")), "wrong_sandbox_status");
    scene.given(SYSTEM, DestroySandbox { sandbox_id: sandbox("s") });
    assert_eq!(scene.refused(SYSTEM, DestroySandbox { sandbox_id: sandbox("s") }), "wrong_sandbox_status");
}

#[test]
fn a_sandbox_may_exist_without_a_thread() {
    assert_eq!(scene().world.threads_on(&sandbox("s")).count(), 0);
}

#[test]
fn a_machine_for_a_thread_is_requested_and_pointed_at_in_one_commit() {
    let mut scene = scene();
    scene.given(AS_OWNER, SetDefaultEnvironment { house_id: house("h"), environment_id: Some(environment("e")) });
    let for_thread = RequestSandbox { thread_id: Some(thread("t")), environment_id: None, ..request("h", "n", "e") };
    let kinds = scene.kinds(SYSTEM, for_thread);
    assert_eq!(kinds, ["arbe-house-h signal.sandbox.requested", "arbe-thread-t signal.thread.sandbox_set"]);
}

#[test]
fn when_a_machine_dies_every_thread_on_it_moves_together() {
    let mut scene = scene();
    for id in ["t", "d"] {
        scene.given(AS_MEMBER, point(id, Some("s")));
    }
    scene.given(SYSTEM, dead("s"));
    let kinds = scene.kinds(SYSTEM, resume("s", "n"));
    let moved = ["arbe-thread-d signal.thread.sandbox_resumed", "arbe-thread-t signal.thread.sandbox_resumed"];
    assert_eq!(kinds[0], "arbe-house-h signal.sandbox.requested");
    assert_eq!(kinds[1..], moved);
    let new = scene.world.sandbox(&sandbox("n")).unwrap();
    assert_eq!(new.environment_id, environment("e"), "the same recipe");
    assert_eq!(scene.world.threads_on(&sandbox("n")).count(), 2);
}

#[test]
fn a_thread_that_starts_to_use_a_machine_while_it_dies_is_never_left_behind() {
    let mut scene = scene();
    scene.given(AS_MEMBER, point("t", Some("s")));
    let seen = scene.world.clone();
    let late = commands::decide(&seen, &AS_MEMBER, &point("d", Some("s")).into()).unwrap();
    scene.given(SYSTEM, dead("s"));
    scene.given(SYSTEM, resume("s", "n"));
    assert!(!scene.append_if_unmoved(&seen, late));
    assert_eq!(scene.refused(AS_MEMBER, point("d", Some("s"))), "sandbox_dead");
}

#[test]
fn a_destroyed_machine_can_be_resumed_too() {
    let mut scene = scene();
    scene.given(AS_MEMBER, point("t", Some("s")));
    scene.given(SYSTEM, DestroySandbox { sandbox_id: sandbox("s") });
    scene.given(SYSTEM, resume("s", "n"));
    assert_eq!(scene.world.thread(&thread("t")).unwrap().sandbox_id, Some(sandbox("n")));
}

#[test]
fn a_thread_lets_go_of_its_machine() {
    let mut scene = scene();
    scene.given(AS_MEMBER, point("t", Some("s")));
    scene.given(AS_MEMBER, point("t", None));
    assert_eq!(scene.world.threads_on(&sandbox("s")).count(), 0);
}

#[test]
fn a_delegated_task_does_not_reuse_a_dead_machine() {
    let mut scene = scene();
    scene.given(SYSTEM, dead("s"));
    assert_eq!(scene.refused(AS_MEMBER, Delegate { sandbox_id: Some(sandbox("s")), ..delegate("t", "n") }), "sandbox_dead");
}
