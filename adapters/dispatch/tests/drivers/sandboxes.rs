use std::time::Duration;

use commands::command::{DestroySandbox, MarkSandboxDead, MarkSandboxLive, RequestSandbox, ResumeSandbox, SetThreadSandbox};
use commands::ports::{Hands, HandsError, MachineError, RunCommand, SeenAs, Verdict};
use commands::{Actor, SandboxStatus};
use events::{SandboxId, ThreadStatus};
use serde_json::json;

use crate::place::{ADA, PIA, Place};

#[tokio::test]
async fn a_machine_that_died_fails_all_on_it_and_they_go_on_together_on_another() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (one, _) = place.delegate("one", None).await;
    place.launched(&one, 1).await;
    let shared = place.look(&one).sandbox_id;
    let (two, _) = place.delegate("two", shared.clone()).await;
    place.launched(&two, 1).await;
    place.tell(PIA, &one, "pi.assistant", json!({ "role": "assistant", "content": "half done" })).await;
    place.yard.lose(&place.machine(&one));
    for thread in [&one, &two] {
        assert_eq!(place.rests(thread).await, ThreadStatus::Failed);
        let failed = place.payloads(thread, "signal.thread.pi_failed").await;
        assert_eq!(failed[0]["error_class"], "sandbox_dead");
        assert!(failed[0]["message"].as_str().unwrap().contains("the directory is gone"));
    }
    place.say(ADA, &one, "go on").await;
    place.launched(&one, 2).await;
    let fresh = place.look(&one).sandbox_id;
    assert_ne!(fresh, shared);
    assert_eq!(place.look(&two).sandbox_id, fresh, "they move together");
    for thread in [&one, &two] {
        let warned = place.see(thread, "signal.dispatch.warned", 1).await;
        assert_eq!(warned[0]["warning"], "tree_lost");
    }
    let again = place.look(&one).run_id.unwrap();
    let machine = place.machine(&one);
    let session = place.file(&machine, &format!("session-{again}")).await;
    let tree = place.yard.work(&machine);
    assert!(session.starts_with(&format!("{}: ", tree.display())), "it goes on where this machine has its tree: {session}");
    assert!(session.contains("pi.assistant"), "{session}");
    assert_eq!(place.file(&machine, &format!("pwd-{again}")).await.trim(), tree.to_str().unwrap());
}

#[tokio::test]
async fn an_inner_address_that_the_operator_has_not_opened_is_told_of_once_where_it_is_missed() {
    for (reach, opened) in [(&[][..], false), (&["127.0.0.1:9", "127.0.0.2:*"], true)] {
        let mut place = Place::open(json!({ "egress": ["127.0.0.1:9", "127.0.0.2:80", "192.0.2.1:443"] })).await;
        place.options.reach.0 = reach.iter().map(ToString::to_string).collect();
        place.options.relayed = ["yard".to_owned()].into();
        place.start();
        let (child, _) = place.delegate("one", None).await;
        place.launched(&child, 1).await;
        let told = place.payloads(&child, "signal.dispatch.warned").await;
        let closed: Vec<_> = told.iter().filter(|it| it["warning"] == "egress_closed").collect();
        assert_eq!(closed.len(), usize::from(!opened), "{told:?}");
        for it in closed {
            let message = it["message"].as_str().unwrap();
            assert!(message.contains("127.0.0.1:9, 127.0.0.2:80;") && message.contains("--reach"), "{message}");
        }
    }
}

/// The status, and whether it is destroyed.
pub fn recorded(place: &Place, id: &SandboxId) -> (SandboxStatus, bool) {
    place.commands.with_world(|world| world.sandbox(id).map(|it| (it.status, it.destroyed)).unwrap())
}

#[tokio::test]
async fn a_member_who_has_a_busy_machine_destroyed_ends_the_runs_on_it_and_nothing_goes_on_there() {
    let mut place = Place::open(json!({})).await;
    let dispatcher = place.start();
    let (one, run) = place.delegate("one", None).await;
    place.launched(&one, 1).await;
    let (machine, sandbox_id) = (place.machine(&one), place.look(&one).sandbox_id.unwrap());
    let (two, other) = place.delegate("two", Some(sandbox_id.clone())).await;
    place.launched(&two, 1).await;
    std::fs::write(place.yard.work(&machine).join("half"), "done").unwrap();
    place.yard.hold("before destroy");
    place.ask(ADA, DestroySandbox { sandbox_id: sandbox_id.clone() }).await;
    place.yard.is_held().await;
    assert_eq!(recorded(&place, &sandbox_id), (SandboxStatus::Dead, false));
    // As some providers say of one that is on its way out.
    place.yard.says(&machine, Some(Verdict::Dead { why: "destroying".to_owned() }));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(place.look(&one).status, ThreadStatus::Running, "it runs, and is not told otherwise");
    let told = dispatcher.diagnose(&one).await.unwrap().forecast;
    assert_eq!(told, "its machine is being destroyed, as a member asked: the run fails when that is gone");
    let seen = dispatcher.reconcile(&place.house).await.unwrap();
    let seen: Vec<_> = seen.iter().map(|it| (it.verdict, it.provider_ref.as_deref())).collect();
    assert_eq!(seen, [(SeenAs::Stray, Some(&*machine))]);
    place.yard.let_go();
    for thread in [&one, &two] {
        assert_eq!(place.rests(thread).await, ThreadStatus::Failed);
        let failed = place.payloads(thread, "signal.thread.pi_failed").await;
        let expected = (&json!("sandbox_dead"), &json!("the machine is gone: a member had it destroyed"));
        assert_eq!((&failed[0]["error_class"], &failed[0]["message"]), expected);
    }
    place.until("it is recorded", || recorded(&place, &sandbox_id).1).await;
    assert!(!place.yard.work(&machine).is_dir() && !place.yard.runs(run.as_str()) && !place.yard.runs(other.as_str()));
    place.say(ADA, &one, "go on").await;
    place.launched(&one, 2).await;
    assert_ne!(place.machine(&one), machine, "it goes on on another");
    assert_eq!(place.machine(&two), place.machine(&one), "with all that shared it");
    assert!(place.yard.work(&place.machine(&one)).join("half").exists(), "with the tree as it was last");
}

#[tokio::test]
async fn the_tree_of_a_machine_that_is_destroyed_is_kept_too_if_the_thread_of_the_run_on_it_points_elsewhere() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, _) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    let (machine, sandbox_id) = (place.machine(&child), place.look(&child).sandbox_id.unwrap());
    place.ask(ADA, SetThreadSandbox { thread_id: child.clone(), sandbox_id: None }).await;
    place.ask(ADA, DestroySandbox { sandbox_id }).await;
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    assert_eq!((place.yard.snapshots(), place.trees().await), (1, vec![machine]));
}

#[tokio::test]
async fn a_machine_that_cannot_be_destroyed_yet_is_tried_again_by_the_next_server_too() {
    let mut place = Place::open(json!({})).await;
    place.yard.hold("before destroy");
    place.start();
    let (child, run) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    let (machine, sandbox_id) = (place.machine(&child), place.look(&child).sandbox_id.unwrap());
    place.ask(ADA, DestroySandbox { sandbox_id: sandbox_id.clone() }).await;
    place.yard.is_held().await;
    place.kill().await;
    place.yard.fail("destroy", MachineError::Unknown("the line broke".to_owned()));
    place.start();
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    place.until("it is tried again", || recorded(&place, &sandbox_id).1).await;
    assert!(!place.yard.work(&machine).is_dir() && !place.yard.runs(run.as_str()));
}

#[tokio::test]
async fn who_calls_a_busy_machine_dead_is_told_to_have_its_provider_asked_and_nothing_changes() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, run) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    let sandbox_id = place.look(&child).sandbox_id.unwrap();
    let dead = MarkSandboxDead { sandbox_id: sandbox_id.clone(), reason: None };
    let refused = place.commands.execute(Actor::Agent(ADA), dead, None).await.unwrap_err().to_string();
    assert!(refused.contains("arbe sandbox list --reconcile"), "{refused}");
    assert_eq!((recorded(&place, &sandbox_id), place.look(&child).status), ((SandboxStatus::Live, false), ThreadStatus::Running));
    assert!(place.yard.runs(run.as_str()));
}

#[tokio::test]
async fn a_machine_whose_sandbox_is_given_up_while_it_is_made_does_not_stay() {
    let mut place = Place::open(json!({})).await;
    place.yard.hold("after create");
    place.start();
    let (child, _) = place.delegate("work", None).await;
    place.yard.is_held().await;
    place.kill().await;
    let (machine, sandbox_id) = (place.machine(&child), place.look(&child).sandbox_id.unwrap());
    place.yard.hold("before create");
    place.start();
    place.yard.is_held().await;
    place.ask(ADA, MarkSandboxDead { sandbox_id, reason: None }).await;
    place.yard.let_go();
    place.launched(&child, 1).await;
    assert!(!place.yard.work(&machine).is_dir() && place.machine(&child) != machine);
}

#[tokio::test]
async fn a_tree_that_was_kept_comes_back_and_what_is_lost_is_said() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, machine) = place.written("before the rest").await;
    std::fs::write(place.yard.work(&machine).join("later"), "after it").unwrap();
    place.yard.lose(&machine);
    place.say(ADA, &child, "go on").await;
    place.launched(&child, 2).await;
    let fresh = place.machine(&child);
    assert_eq!(std::fs::read_to_string(place.yard.work(&fresh).join("kept")).unwrap(), "before the rest");
    assert!(!place.yard.work(&fresh).join("later").exists());
    let warned = place.payloads(&child, "signal.dispatch.warned").await;
    assert_eq!(warned[0]["warning"], "tree_restored");
}

#[tokio::test]
async fn a_machine_that_stands_still_is_woken_not_replaced() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, run) = place.delegate("one", None).await;
    place.launched(&child, 1).await;
    place.finish(&child, "done").await;
    let machine = place.machine(&child);
    place.yard.let_end(&machine, run.as_str(), 0);
    place.yard.says(&machine, Some(Verdict::Resumable));
    place.say(ADA, &child, "two").await;
    place.launched(&child, 2).await;
    assert_eq!((place.machine(&child), place.yard.made()), (machine, vec![1]));
}

#[tokio::test]
async fn a_setup_that_fails_is_the_runs_failure_with_its_words() {
    let mut place = Place::open(json!({ "setup": "fail" })).await;
    place.start();
    let (child, _) = place.delegate("work", None).await;
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    let failed = place.payloads(&child, "signal.thread.pi_failed").await;
    assert_eq!(failed[0]["error_class"], "sandbox_setup");
    assert!(failed[0]["message"].as_str().unwrap().contains("the setup ended with 1"));
    let sandbox = place.look(&child).sandbox_id.unwrap();
    assert_eq!(place.commands.with_world(|world| world.sandbox(&sandbox).unwrap().status), SandboxStatus::Dead);
}

#[tokio::test]
async fn a_setup_that_printed_a_nul_fails_the_run_with_its_cause() {
    let mut place = Place::open(json!({})).await;
    place.yard.fail("create", MachineError::Setup("it ended with 1: odd\0word".to_owned()));
    place.start();
    let (child, _) = place.delegate("work", None).await;
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    let failed = place.payloads(&child, "signal.thread.pi_failed").await;
    let message = failed[0]["message"].as_str().unwrap();
    assert!(failed[0]["error_class"] == "sandbox_setup" && message.contains("it ended with 1: odd\u{FFFD}word"), "{message}");
    let sandbox = place.look(&child).sandbox_id.unwrap();
    assert_eq!(recorded(&place, &sandbox).0, SandboxStatus::Dead);
}

#[tokio::test]
async fn an_idle_machine_of_delegated_work_is_reaped_and_one_that_a_chat_stands_on_is_not() {
    let mut place = Place::open(json!({})).await;
    place.options.patience.reap = Duration::from_millis(300);
    let dispatcher = place.start();
    let (child, run) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    let own = place.machine(&child);
    let ask = commands::ports::RunCommand { thread_id: place.chat.clone(), command: "true".to_owned(), cwd: None, timeout: None };
    commands::ports::Hands::run_command(&dispatcher, ADA, ask, None).await.unwrap();
    let shared = place.machine(&place.chat);
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert!(place.yard.work(&own).is_dir(), "it is not idle while a run is on it");
    place.finish(&child, "done").await;
    place.yard.let_end(&own, run.as_str(), 0);
    for _ in 0..200 {
        if !place.yard.work(&own).is_dir() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(!place.yard.work(&own).is_dir() && place.yard.work(&shared).is_dir());
    let sandbox = place.look(&child).sandbox_id.unwrap();
    assert!(place.commands.with_world(|world| world.sandbox(&sandbox).unwrap().destroyed));
    place.say(ADA, &child, "once more").await;
    place.launched(&child, 2).await;
    assert_ne!(place.machine(&child), own, "it goes on on another");
}

#[tokio::test]
async fn a_machine_whose_tree_cannot_be_kept_is_not_reaped_and_that_is_said() {
    let mut place = Place::open(json!({})).await;
    place.options.patience.reap = Duration::from_millis(100);
    place.yard.fail("snapshot", MachineError::Refused("the tree is too large".to_owned()));
    let dispatcher = place.start();
    let (child, run) = place.delegate("grow", None).await;
    place.launched(&child, 1).await;
    let machine = place.machine(&child);
    place.finish(&child, "grown").await;
    place.yard.let_end(&machine, run.as_str(), 0);
    let warned = place.see(&child, "signal.dispatch.warned", 1).await;
    assert_eq!(warned[0]["warning"], "tree_unkept");
    assert!(warned[0]["message"].as_str().unwrap().contains("the tree is too large"), "{warned:?}");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let pruned = dispatcher.prune(&place.house).await.unwrap();
    assert!(pruned.taken.is_empty() && place.yard.work(&machine).is_dir(), "nor by hand: {pruned:?}");
    assert!(pruned.left[0].why.contains("the tree is too large"), "{pruned:?}");
    assert_eq!(place.payloads(&child, "signal.dispatch.warned").await.len(), 1, "it is said once");

    place.say(ADA, &child, "shrink").await;
    place.launched(&child, 2).await;
    let again = place.look(&child).run_id.unwrap();
    place.finish(&child, "shrunk").await;
    place.yard.let_end(&machine, again.as_str(), 0);
    for _ in 0..500 {
        if !place.yard.work(&machine).is_dir() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("once it is kept it is taken away");
}

#[tokio::test]
async fn a_tree_that_cannot_be_kept_for_a_moment_is_kept_later() {
    let mut place = Place::open(json!({})).await;
    place.yard.fail("snapshot", MachineError::Unavailable("the disk is busy".to_owned()));
    place.start();
    let (child, machine) = place.written("all the same").await;
    place.yard.lose(&machine);
    place.say(ADA, &child, "go on").await;
    place.launched(&child, 2).await;
    assert_eq!(std::fs::read_to_string(place.yard.work(&place.machine(&child)).join("kept")).unwrap(), "all the same");
}

#[tokio::test]
async fn a_sandbox_that_was_resumed_twice_by_hand_has_the_tree_and_the_session_of_the_first() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, machine) = place.written("of the first").await;
    place.kill().await;
    place.yard.lose(&machine);
    // The second dies before a machine is made for it.
    for _ in 0..2 {
        let sandbox_id = place.look(&child).sandbox_id.unwrap();
        place.bury(&sandbox_id).await;
        place.ask(ADA, ResumeSandbox { sandbox_id, new_sandbox_id: None, provider: None }).await;
    }
    place.start();
    place.say(ADA, &child, "go on").await;
    place.launched(&child, 2).await;
    let fresh = place.machine(&child);
    assert_eq!(std::fs::read_to_string(place.yard.work(&fresh).join("kept")).unwrap(), "of the first");
    let warned = place.payloads(&child, "signal.dispatch.warned").await;
    assert_eq!((warned[0]["warning"].as_str(), warned.len()), (Some("tree_restored"), 1), "{warned:?}");
    let again = place.look(&child).run_id.unwrap();
    let session = place.file(&fresh, &format!("session-{again}")).await;
    assert!(session.starts_with(place.yard.work(&fresh).to_str().unwrap()), "{session}");
}

#[tokio::test]
async fn a_driver_that_is_behind_the_log_makes_no_machine_without_the_tree_it_begins_with() {
    let mut place = Place::open(json!({})).await;
    let behind = place.start();
    let (child, machine) = place.written("all the same").await;
    place.kill().await;
    place.yard.lose(&machine);
    let sandbox_id = place.look(&child).sandbox_id.unwrap();
    place.bury(&sandbox_id).await;
    place.ask(ADA, ResumeSandbox { sandbox_id, new_sandbox_id: None, provider: None }).await;
    let ask = RunCommand { thread_id: child, command: "cat kept".to_owned(), cwd: None, timeout: None };
    // Nothing follows the log for this one any more. It waits for that twice.
    let early = behind.run_command(ADA, ask.clone(), None);
    let early = tokio::time::timeout(Duration::from_secs(7), early).await;
    assert!(early.is_err() && place.yard.made() == [1], "{early:?}, {:?}", place.yard.made());
    let ran = place.start().run_command(ADA, ask, None).await.unwrap();
    assert_eq!((ran.output.as_str(), ran.exit_code), ("all the same", Some(0)), "{ran:?}");
}

#[tokio::test]
async fn a_machine_that_a_member_only_names_is_not_worked_on() {
    let mut place = Place::open(json!({})).await;
    let dispatcher = place.start();
    let (child, _) = place.delegate("mine", None).await;
    place.launched(&child, 1).await;
    let made = place.machine(&child);
    let (house_id, thread_id) = (place.house.clone(), Some(place.chat.clone()));
    let request = RequestSandbox { house_id, sandbox_id: None, thread_id, environment_id: None, provider: "yard".to_owned() };
    let named = place.ask(ADA, request).await.made.sandbox_id.unwrap();
    place.ask(ADA, MarkSandboxLive { sandbox_id: named.clone(), provider_ref: made.clone() }).await;
    let ask = RunCommand { thread_id: place.chat.clone(), command: "touch taken".to_owned(), cwd: None, timeout: None };
    let refused = dispatcher.run_command(ADA, ask, None).await;
    assert!(matches!(&refused, Err(HandsError::NotBegun { error_class, .. }) if error_class == "other_host"), "{refused:?}");
    assert!(!place.yard.work(&made).join("taken").exists());
    let seen = dispatcher.reconcile(&place.house).await.unwrap();
    let of_named = seen.iter().find(|seen| seen.sandbox_id.as_ref() == Some(&named)).unwrap();
    assert_eq!(of_named.verdict, commands::ports::SeenAs::Unknown);
    dispatcher.prune(&place.house).await.unwrap();
    assert!(place.yard.work(&made).exists());
}
