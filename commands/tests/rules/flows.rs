//! The flows of the thread model, and the deletions that lose a race.

use commands::command::{
    CreateThread, Delegate, DeleteEnvironment, Outcome, RemoveMember, ResumeRun, SetDefaultEnvironment, SetThreadEnvironment,
};
use commands::{World, decide};
use events::{StreamName, ThreadStatus};

use crate::scene::*;

fn with_default() -> Scene {
    let mut scene = scene();
    scene.given(AS_OWNER, SetDefaultEnvironment { house_id: house("h"), environment_id: Some(environment("e")) });
    scene
}

#[test]
fn a_spawn_is_one_commit_of_the_child_and_the_word_of_it_in_the_parent() {
    let mut scene = with_default();
    let kinds = scene.kinds(AS_MEMBER, delegate("t", "c"));
    assert_eq!(kinds, ["arbe-thread-c signal.thread.created", "arbe-thread-t signal.thread.agent_spawn"]);
    let child = scene.world.thread(&thread("c")).unwrap();
    assert_eq!((child.status, child.agent_id), (ThreadStatus::Idle, Some(BOT)));
    assert_eq!((&child.house_id, &child.parent_thread_id), (&house("h"), &Some(thread("t"))));
}

#[test]
fn a_delegated_task_gets_its_own_sandbox_unless_one_is_named() {
    let mut scene = with_default();
    scene.given(AS_MEMBER, delegate("t", "alone"));
    scene.given(AS_MEMBER, Delegate { sandbox_id: Some(sandbox("s")), ..delegate("t", "together") });
    assert_eq!(scene.world.thread(&thread("alone")).unwrap().sandbox_id, None);
    assert_eq!(scene.world.thread(&thread("together")).unwrap().sandbox_id, Some(sandbox("s")));
}

#[test]
fn the_environment_is_the_calls_else_the_threads_else_the_houses() {
    let mut scene = with_default();
    for id in ["of-call", "of-thread"] {
        scene.given(AS_MEMBER, create_environment("h", id));
    }
    let resolved = |scene: &Scene, id| scene.world.thread(&thread(id)).unwrap().environment_id.clone().unwrap();
    scene.given(AS_MEMBER, delegate("t", "c1"));
    assert_eq!(resolved(&scene, "c1"), environment("e"));
    let environment_id = Some(environment("of-thread"));
    scene.given(AS_MEMBER, SetThreadEnvironment { thread_id: thread("t"), environment_id });
    scene.given(AS_MEMBER, delegate("t", "c2"));
    assert_eq!(resolved(&scene, "c2"), environment("of-thread"));
    scene.given(AS_MEMBER, Delegate { environment_id: Some(environment("of-call")), ..delegate("t", "c3") });
    assert_eq!(resolved(&scene, "c3"), environment("of-call"));
}

#[test]
fn reuse_of_a_named_sandbox_needs_no_environment() {
    let mut scene = scene();
    let reuse = Delegate { sandbox_id: Some(sandbox("s")), environment_id: Some(environment("none")), ..delegate("t", "c") };
    scene.given(AS_MEMBER, reuse);
    assert_eq!(scene.world.thread(&thread("c")).unwrap().environment_id, None);
}

#[test]
fn one_thread_has_several_tasks_at_once() {
    let mut scene = with_default();
    for child in ["pdf", "pull", "fix"] {
        scene.given(AS_MEMBER, delegate("t", child));
        scene.given(AS_BOT, start(child, "r"));
    }
    assert_eq!(scene.world.threads().filter(|(_, thread)| thread.status == ThreadStatus::Running).count(), 3);
}

#[test]
fn somebody_else_picks_up_a_task_later() {
    let mut scene = with_default();
    scene.given(AS_MEMBER, delegate("t", "c"));
    scene.given(AS_BOT, start("c", "r1"));
    scene.given(AS_BOT, finish("c", Outcome::Failed));
    scene.given(AS_OWNER, ResumeRun { thread_id: thread("c"), run_id: Some(run("r2")) });
    let child = scene.world.thread(&thread("c")).unwrap();
    assert_eq!((child.status, &child.run_id, child.agent_id), (ThreadStatus::Running, &Some(run("r2")), Some(BOT)));
}

#[test]
fn an_environment_deleted_after_a_reference_it_did_not_see_stays() {
    let mut scene = scene();
    scene.given(AS_OWNER, create_environment("h", "e2"));
    let seen = scene.world.clone();
    let delete = DeleteEnvironment { environment_id: environment("e2") };
    let delete = decide(&seen, &AS_OWNER, &delete.into()).unwrap();
    scene.given(AS_MEMBER, CreateThread { environment_id: Some(environment("e2")), ..chat("h", "n") });
    assert!(scene.append_if_unmoved(&seen, delete), "the two do not conflict in the log");
    assert!(scene.world.environment(&environment("e2")).is_some());
}

#[test]
fn a_reference_to_an_environment_deleted_before_is_decided_again() {
    let mut scene = scene();
    scene.given(AS_OWNER, create_environment("h", "e2"));
    let seen = scene.world.clone();
    let create = CreateThread { environment_id: Some(environment("e2")), ..chat("h", "n") };
    let late = decide(&seen, &AS_MEMBER, &create.clone().into()).unwrap();
    scene.given(AS_OWNER, DeleteEnvironment { environment_id: environment("e2") });
    assert!(!scene.append_if_unmoved(&seen, late));
    assert_eq!(scene.refused(AS_MEMBER, create), "environment_not_found");
}

#[test]
fn a_bot_removed_after_it_was_given_a_thread_it_did_not_see_stays() {
    let mut scene = scene();
    let seen = scene.world.clone();
    let remove = RemoveMember { house_id: house("h"), agent_id: OTHER_BOT };
    let remove = decide(&seen, &AS_OWNER, &remove.into()).unwrap();
    scene.given(AS_MEMBER, CreateThread { agent_id: Some(OTHER_BOT), ..chat("h", "n") });
    assert!(scene.append_if_unmoved(&seen, remove));
    assert!(scene.world.is_member(&house("h"), OTHER_BOT));
}

#[test]
fn the_world_is_what_the_log_says() {
    let scene = with_default();
    let mut again = World::default();
    for (stream, seq, entry) in &scene.log {
        again.apply(stream, *seq, entry).unwrap();
    }
    assert_eq!(again, scene.world);
}

#[test]
fn a_gap_and_a_misplaced_event_stop_the_fold() {
    let mut scene = scene();
    let (stream, seq, entry) = scene.log.last().unwrap().clone();
    assert!(scene.world.apply(&stream, seq + 5, &entry).is_err());
    let elsewhere = StreamName::Thread(thread("t"));
    let tail = scene.world.tail(&elsewhere).unwrap();
    assert!(scene.world.apply(&elsewhere, tail, &entry).is_err());
}
