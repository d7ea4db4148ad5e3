use commands::command::{
    CloseThread, CreateThread, PinThread, RenameThread, ReopenThread, SetThreadEnvironment, TagThread, UnpinThread, UntagThread,
};
use events::{StreamName, ThreadStatus};

use crate::scene::*;

fn tag(tags: &[&str]) -> TagThread {
    TagThread { thread_id: thread("t"), tags: tags.iter().map(|tag| (*tag).to_owned()).collect() }
}

#[test]
fn a_chat_is_open_and_a_driven_thread_idle() {
    let scene = scene();
    assert_eq!(scene.world.thread(&thread("t")).unwrap().status, ThreadStatus::Open);
    assert_eq!(scene.world.thread(&thread("d")).unwrap().status, ThreadStatus::Idle);
}

#[test]
fn a_driven_thread_may_stand_alone() {
    let thread = scene().world.thread(&thread("d")).unwrap().clone();
    assert_eq!((thread.parent_thread_id, thread.agent_id), (None, Some(BOT)));
}

#[test]
fn a_thread_may_be_addressed_to_an_agent_of_no_house() {
    let mut scene = scene();
    scene.given(AS_MEMBER, CreateThread { parent_agent_id: Some(STRANGER), ..chat("h", "n") });
}

#[test]
fn a_driven_child_is_announced_in_its_parent() {
    let mut scene = scene();
    let kinds = scene.kinds(AS_MEMBER, CreateThread { parent_thread_id: Some(thread("t")), ..driven("h", "n") });
    assert_eq!(kinds, ["arbe-thread-n signal.thread.created", "arbe-thread-t signal.thread.agent_spawn"]);
    let kinds = scene.kinds(AS_MEMBER, CreateThread { parent_thread_id: Some(thread("t")), ..chat("h", "m") });
    assert_eq!(kinds, ["arbe-thread-m signal.thread.created"]);
}

#[test]
fn tags_are_a_set() {
    let mut scene = scene();
    scene.given(AS_MEMBER, tag(&["release", "bug", "bug"]));
    assert!(scene.given(AS_MEMBER, tag(&["bug"])).is_empty());
    assert_eq!(scene.world.thread(&thread("t")).unwrap().tags, ["bug", "release"]);
    scene.given(AS_MEMBER, UntagThread { thread_id: thread("t"), tags: vec!["bug".to_owned(), "none".to_owned()] });
    assert_eq!(scene.world.thread(&thread("t")).unwrap().tags, ["release"]);
}

#[test]
fn a_tag_never_changes_how_a_thread_behaves() {
    let mut scene = scene();
    scene.given(AS_MEMBER, tag(&["closed", "running"]));
    assert_eq!(scene.world.thread(&thread("t")).unwrap().status, ThreadStatus::Open);
    scene.given(AS_MEMBER, say("t", "hello"));
}

#[test]
fn pinning_twice_is_pinning_once() {
    let mut scene = scene();
    assert_eq!(scene.given(AS_MEMBER, PinThread { thread_id: thread("t") }).len(), 1);
    assert_eq!(scene.given(AS_MEMBER, PinThread { thread_id: thread("t") }).len(), 0);
    assert_eq!(scene.given(AS_MEMBER, UnpinThread { thread_id: thread("t") }).len(), 1);
    assert!(!scene.world.thread(&thread("t")).unwrap().pinned);
}

#[test]
fn a_closed_chat_can_be_reopened() {
    let mut scene = scene();
    scene.given(AS_MEMBER, CloseThread { thread_id: thread("t") });
    assert!(scene.given(AS_MEMBER, CloseThread { thread_id: thread("t") }).is_empty());
    assert_eq!(scene.refused(AS_MEMBER, delegate("t", "n")), "thread_closed");
    scene.given(AS_MEMBER, ReopenThread { thread_id: thread("t") });
    scene.given(AS_MEMBER, say("t", "again"));
}

#[test]
fn a_thread_is_renamed_and_unnamed() {
    let mut scene = scene();
    scene.given(AS_MEMBER, RenameThread { thread_id: thread("t"), name: Some("Plans".to_owned()) });
    scene.given(AS_MEMBER, RenameThread { thread_id: thread("t"), name: None });
    assert_eq!(scene.world.thread(&thread("t")).unwrap().name, None);
}

#[test]
fn a_reference_stands_against_the_houses_tail() {
    let mut scene = scene();
    let set = SetThreadEnvironment { thread_id: thread("t"), environment_id: Some(environment("e")) };
    let decision = commands::decide(&scene.world, &AS_MEMBER, &set.clone().into()).unwrap();
    assert!(decision.reads.contains(&StreamName::House(house("h"))));
    scene.given(AS_MEMBER, set);
    assert_eq!(scene.world.thread(&thread("t")).unwrap().environment_id, Some(environment("e")));
}
