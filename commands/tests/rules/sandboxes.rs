use commands::command::{
    Delegate, DestroySandbox, MarkSandboxDead, RequestSandbox, ResumeSandbox, SetDefaultEnvironment, SetThreadSandbox,
};
use commands::{Actor, Decision, SandboxStatus, decide};

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

fn destroy(id: &str) -> DestroySandbox {
    DestroySandbox { sandbox_id: sandbox(id) }
}

fn of_sandbox(scene: &Scene) -> commands::Sandbox {
    scene.world.sandbox(&sandbox("s")).unwrap().clone()
}

#[test]
fn a_member_asks_for_the_end_of_a_machine_that_drivers_made_and_they_tell_when_it_is_gone() {
    let mut scene = scene();
    scene.given(SYSTEM, live("s"));
    scene.given(AS_MEMBER, point("d", Some("s")));
    scene.given(AS_MEMBER, start("d", "r"));
    assert_eq!(scene.kinds(AS_MEMBER, destroy("s")), ["arbe-house-h signal.sandbox.dead"], "also while a run is on it");
    assert!(of_sandbox(&scene).leaving && !of_sandbox(&scene).destroyed);
    assert!(scene.given(AS_OWNER, destroy("s")).is_empty(), "it was asked for already");
    assert_eq!(scene.kinds(SYSTEM, destroy("s")), ["arbe-house-h signal.sandbox.destroyed"]);
    assert!(!of_sandbox(&scene).leaving && of_sandbox(&scene).destroyed);
    assert_eq!(scene.refused(AS_MEMBER, destroy("s")), "wrong_sandbox_status");
}

#[test]
fn a_member_resumes_what_is_on_a_machine_that_is_being_destroyed_when_it_is_gone_and_drivers_earlier() {
    let mut scene = scene();
    scene.given(SYSTEM, live("s"));
    scene.given(AS_MEMBER, point("t", Some("s")));
    scene.given(AS_MEMBER, destroy("s"));
    assert_eq!(scene.refused(AS_MEMBER, resume("s", "n")), "wrong_sandbox_status");
    scene.clone().given(SYSTEM, resume("s", "n"));
    // Its own may be one that no server has any more.
    scene.clone().given(AS_MEMBER, ResumeSandbox { provider: Some("another".to_owned()), ..resume("s", "n") });
    scene.given(SYSTEM, destroy("s"));
    scene.given(AS_MEMBER, resume("s", "n"));
}

#[test]
fn who_once_called_a_machine_dead_that_drivers_made_has_not_asked_for_its_end() {
    let mut scene = scene();
    scene.given(SYSTEM, live("s"));
    let said = MarkSandboxDead { reason: Some("I think so".to_owned()), ..dead("s") };
    let said = decide(&scene.world, &SYSTEM, &said.into()).unwrap();
    // As logs from before have it.
    scene.append(Decision { author: Some(MEMBER), ..said });
    assert_eq!((of_sandbox(&scene).status, of_sandbox(&scene).leaving), (SandboxStatus::Dead, false));
}

#[test]
fn a_machine_that_was_found_dead_is_taken_away_too_when_a_member_asks() {
    let mut scene = scene();
    scene.given(SYSTEM, live("s"));
    scene.given(SYSTEM, dead("s"));
    assert!(!of_sandbox(&scene).leaving);
    scene.given(AS_MEMBER, destroy("s"));
    assert!(of_sandbox(&scene).leaving);
}

#[test]
fn nobody_but_its_provider_says_that_a_machine_is_dead_which_drivers_made() {
    let mut scene = scene();
    scene.given(SYSTEM, live("s"));
    let why = decide(&scene.world, &AS_MEMBER, &dead("s").into()).unwrap_err().to_string();
    assert!(why.contains("arbe sandbox list --reconcile") && why.contains("arbe sandbox destroy"), "{why}");
    assert_eq!(scene.refused(AS_MEMBER, dead("s")), "wrong_sandbox_status");
    scene.given(SYSTEM, dead("s"));
}

#[test]
fn of_a_machine_that_a_member_only_names_members_say_what_became() {
    let mut scene = scene();
    scene.given(AS_MEMBER, live("s"));
    scene.given(AS_MEMBER, dead("s"));
    assert!(!of_sandbox(&scene).leaving, "drivers never saw it");
    assert_eq!(scene.kinds(AS_MEMBER, destroy("s")), ["arbe-house-h signal.sandbox.destroyed"]);
}

/// Whether a sandbox that was asked for so is ephemeral. One that stands for it is the same, whoever resumes it.
fn ephemeral(who: Actor, of: Option<&str>) -> bool {
    let mut scene = scene();
    scene.given(AS_OWNER, SetDefaultEnvironment { house_id: house("h"), environment_id: Some(environment("e")) });
    scene.given(AS_MEMBER, delegate("d", "c"));
    scene.given(who, RequestSandbox { thread_id: of.map(thread), ..request("h", "new", "e") });
    if of.is_none() {
        scene.given(AS_MEMBER, Delegate { sandbox_id: Some(sandbox("new")), ..delegate("d", "on-it") });
    }
    let is = |scene: &Scene, id: &str| scene.world.sandbox(&sandbox(id)).unwrap().ephemeral;
    let first = is(&scene, "new");
    scene.given(SYSTEM, dead("new"));
    for by in [AS_MEMBER, SYSTEM] {
        let mut scene = scene.clone();
        scene.given(by, resume("new", "next"));
        assert_eq!(is(&scene, "next"), first);
    }
    first
}

#[test]
fn a_sandbox_is_ephemeral_only_if_the_system_asked_for_it_for_a_delegated_thread() {
    assert!(ephemeral(SYSTEM, Some("c")));
    for (who, of) in [(AS_MEMBER, Some("c")), (AS_MEMBER, None), (SYSTEM, None), (SYSTEM, Some("t")), (SYSTEM, Some("d"))] {
        assert!(!ephemeral(who, of), "{who:?} {of:?}");
    }
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
