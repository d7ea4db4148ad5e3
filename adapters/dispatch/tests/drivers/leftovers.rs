//! What is left of machines and of their trees when nobody needs them any more.

use std::time::Duration;

use commands::SandboxStatus;
use commands::command::{CancelRun, DestroySandbox, RequestSandbox};
use commands::ports::{Hands, MachineError, RunCommand};
use events::{SandboxId, ThreadId, ThreadStatus};
use serde_json::json;

use crate::place::{ADA, PATIENCE, Place};
use crate::sandboxes::recorded;

/// The machine stands, and nobody has told the log of it.
async fn half_made(place: &Place) -> (ThreadId, String, SandboxId) {
    place.yard.hold("after create");
    let (child, _) = place.delegate("work", None).await;
    place.yard.is_held().await;
    let (machine, sandbox) = (place.machine(&child), place.look(&child).sandbox_id.unwrap());
    assert!(place.yard.work(&machine).is_dir() && recorded(place, &sandbox).0 == SandboxStatus::Pending);
    (child, machine, sandbox)
}

#[tokio::test]
async fn a_machine_that_is_made_for_a_run_which_is_cancelled_meanwhile_does_not_stay() {
    let mut place = Place::open(json!({})).await;
    place.options.patience.reap = Duration::from_millis(300);
    place.start();
    let (child, machine, sandbox) = half_made(&place).await;
    place.ask(ADA, CancelRun { thread_id: child.clone(), run_id: None }).await;
    assert_eq!(place.rests(&child).await, ThreadStatus::Cancelled);
    place.until("it is taken away", || !place.yard.work(&machine).is_dir()).await;
    assert_eq!(recorded(&place, &sandbox), (SandboxStatus::Dead, true));
    place.say(ADA, &child, "after all").await;
    place.launched(&child, 1).await;
    assert_ne!(place.machine(&child), machine);
    assert_eq!(place.payloads(&child, "signal.dispatch.warned").await, Vec::<serde_json::Value>::new(), "nothing was lost");
}

#[tokio::test]
async fn a_machine_that_came_too_late_for_its_run_does_not_stay() {
    let mut place = Place::open(json!({})).await;
    (place.options.patience.reap, place.options.patience.machine) = (Duration::from_millis(300), Duration::ZERO);
    place.yard.fail("create", MachineError::Unknown("no answer".to_owned()));
    place.start();
    let (child, _) = place.delegate("work", None).await;
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    let machine = place.machine(&child);
    let failed = place.payloads(&child, "signal.thread.pi_failed").await;
    assert_eq!((failed[0]["error_class"].as_str(), place.yard.made()), (Some("sandbox_unreachable"), vec![1]));
    place.until("it is taken away", || !place.yard.work(&machine).is_dir()).await;
}

#[tokio::test]
async fn a_machine_of_a_sandbox_that_is_destroyed_before_it_was_recorded_does_not_stay() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, machine, sandbox_id) = half_made(&place).await;
    place.kill().await;
    place.ask(ADA, DestroySandbox { sandbox_id: sandbox_id.clone() }).await;
    assert_eq!(recorded(&place, &sandbox_id), (SandboxStatus::Dead, true));
    place.start();
    place.until("it is taken away", || !place.yard.work(&machine).is_dir()).await;
    place.launched(&child, 1).await;
    assert_ne!(place.machine(&child), machine);
}

#[tokio::test]
async fn what_a_provider_did_not_list_when_it_was_looked_for_is_looked_for_again_soon() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, machine, sandbox_id) = half_made(&place).await;
    place.kill().await;
    place.ask(ADA, DestroySandbox { sandbox_id }).await;
    place.yard.fail("list", MachineError::Unavailable("503".to_owned()));
    place.start();
    place.until("it is taken away", || !place.yard.work(&machine).is_dir()).await;
    place.launched(&child, 1).await;
}

#[tokio::test]
async fn a_sandbox_whose_machine_nobody_waits_for_any_more_is_given_up_when_a_member_asks_for_a_sweep() {
    let mut place = Place::open(json!({})).await;
    let dispatcher = place.start();
    let (child, machine, sandbox) = half_made(&place).await;
    let pruned = dispatcher.prune(&place.house).await.unwrap();
    assert!(pruned.taken.is_empty() && place.yard.work(&machine).is_dir(), "somebody waits for it: {pruned:?}");
    place.ask(ADA, CancelRun { thread_id: child.clone(), run_id: None }).await;
    assert_eq!(place.rests(&child).await, ThreadStatus::Cancelled);
    assert_eq!(recorded(&place, &sandbox).0, SandboxStatus::Pending);
    let pruned = dispatcher.prune(&place.house).await.unwrap();
    assert!(pruned.left.iter().all(|it| it.sandbox_id.as_ref() != Some(&sandbox)), "{pruned:?}");
    assert_eq!(recorded(&place, &sandbox), (SandboxStatus::Dead, true));
    place.until("it is taken away", || !place.yard.work(&machine).is_dir()).await;
}

#[tokio::test]
async fn a_machine_that_a_member_once_called_dead_goes_after_the_work_on_it_has_ended_and_its_tree_is_kept() {
    let mut place = Place::open(json!({})).await;
    (place.options.patience.reap, place.options.patience.keep) = (Duration::from_millis(300), Duration::from_secs(3_600));
    let dispatcher = place.start();
    let (child, run) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    let (machine, sandbox) = (place.machine(&child), place.look(&child).sandbox_id.unwrap());
    place.was_called_dead(&sandbox).await;
    assert_eq!(recorded(&place, &sandbox), (SandboxStatus::Dead, false));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let pruned = dispatcher.prune(&place.house).await.unwrap();
    let left = pruned.left.iter().find(|it| it.sandbox_id.as_ref() == Some(&sandbox));
    assert!(pruned.taken.is_empty() && left.is_some_and(|it| it.why == "there is work on it"), "{pruned:?}");
    assert!(place.yard.work(&machine).is_dir() && place.yard.runs(run.as_str()) && place.yard.snapshots() == 0);
    assert_eq!(place.look(&child).status, ThreadStatus::Running);
    std::fs::write(place.yard.work(&machine).join("kept"), "at its end").unwrap();
    place.finish(&child, "done").await;
    place.yard.let_end(&machine, run.as_str(), 0);
    place.until("it is taken away", || !place.yard.work(&machine).is_dir()).await;
    assert_eq!((place.trees().await, place.yard.snapshots()), (vec![machine], 1));
    place.say(ADA, &child, "go on").await;
    place.launched(&child, 2).await;
    assert_eq!(std::fs::read_to_string(place.yard.work(&place.machine(&child)).join("kept")).unwrap(), "at its end");
}

#[tokio::test]
async fn a_machine_that_a_member_asked_for_is_not_reaped_though_only_delegated_work_was_on_it() {
    let mut place = Place::open(json!({})).await;
    place.options.patience.reap = Duration::from_millis(100);
    let dispatcher = place.start();
    let house_id = place.house.clone();
    let request =
        RequestSandbox { house_id, sandbox_id: None, thread_id: None, environment_id: None, provider: "yard".to_owned() };
    let shared = place.ask(ADA, request).await.made.sandbox_id.unwrap();
    let (child, run) = place.delegate("work", Some(shared.clone())).await;
    place.launched(&child, 1).await;
    place.finish(&child, "done").await;
    place.yard.let_end(shared.as_str(), run.as_str(), 0);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let pruned = dispatcher.prune(&place.house).await.unwrap();
    assert!(pruned.taken.is_empty() && pruned.left[0].why == "it is not there for delegated work alone", "{pruned:?}");
    assert!(place.yard.work(shared.as_str()).is_dir() && recorded(&place, &shared) == (SandboxStatus::Live, false));
}

#[tokio::test]
async fn a_tree_is_kept_until_another_machine_has_its_own_and_then_no_longer() {
    let mut place = Place::open(json!({})).await;
    place.options.patience.reap = Duration::from_millis(300);
    place.start();
    let (child, machine) = place.written("of the first").await;
    place.until("it is reaped", || !place.yard.work(&machine).is_dir()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(place.trees().await, [machine.clone()], "somebody may go on with it");
    place.yard.hold("before create");
    place.say(ADA, &child, "go on").await;
    place.yard.is_held().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(place.trees().await, [machine], "the next machine is still to begin with it");
    place.yard.let_go();
    place.launched(&child, 2).await;
    let fresh = place.machine(&child);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while place.trees().await != [fresh.clone()] {
        assert!(tokio::time::Instant::now() < deadline, "{fresh}: {:?}", place.trees().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_one_left_on_a_shared_machine_is_kept_while_another_works_there_and_not_after_each_of_its_commands() {
    let mut place = Place::open(json!({})).await;
    place.options.patience.keep = Duration::from_millis(250);
    let dispatcher = place.start();
    let (busy, run) = place.delegate("long", None).await;
    place.launched(&busy, 1).await;
    let (machine, shared) = (place.machine(&busy), place.look(&busy).sandbox_id.unwrap());
    std::fs::write(place.yard.work(&machine).join("half"), "of the busy one").unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(place.yard.snapshots(), 0, "nobody has rested there");
    let (child, other) = place.delegate("short", Some(shared)).await;
    place.launched(&child, 1).await;
    std::fs::write(place.yard.work(&machine).join("kept"), "of the one at rest").unwrap();
    place.finish(&child, "done").await;
    place.yard.let_end(&machine, other.as_str(), 0);
    place.until("its tree is kept", || place.yard.snapshots() == 1).await;
    for n in 0..4 {
        let command = format!("echo {n} > n; sleep 0.05");
        let ask = RunCommand { thread_id: child.clone(), command, cwd: None, timeout: None };
        dispatcher.run_command(ADA, ask, None).await.unwrap();
    }
    assert_eq!(place.yard.snapshots(), 1, "not again at once");
    place.until("but after a while", || place.yard.snapshots() == 2).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!((place.yard.snapshots(), place.yard.runs(run.as_str())), (2, true), "nobody has rested since");
    place.yard.lose(&machine);
    assert_eq!(place.rests(&busy).await, ThreadStatus::Failed);
    place.say(ADA, &busy, "go on").await;
    place.launched(&busy, 2).await;
    assert_eq!(std::fs::read_to_string(place.yard.work(&place.machine(&busy)).join("kept")).unwrap(), "of the one at rest");
}

#[tokio::test]
async fn a_tree_that_is_refused_while_another_works_there_is_not_taken_again_after_each_command() {
    let mut place = Place::open(json!({})).await;
    place.options.patience.keep = Duration::from_millis(250);
    place.yard.fail("snapshot", MachineError::Refused("it is too large".to_owned()));
    let dispatcher = place.start();
    let (busy, _) = place.delegate("long", None).await;
    place.launched(&busy, 1).await;
    let (machine, shared) = (place.machine(&busy), place.look(&busy).sandbox_id);
    let (child, run) = place.delegate("short", shared).await;
    place.launched(&child, 1).await;
    place.finish(&child, "done").await;
    place.yard.let_end(&machine, run.as_str(), 0);
    assert_eq!(place.see(&child, "signal.dispatch.warned", 1).await[0]["warning"], "tree_unkept");
    let ask = RunCommand { thread_id: child, command: "true".to_owned(), cwd: None, timeout: None };
    dispatcher.run_command(ADA, ask, None).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(place.yard.snapshots(), 0, "not again at once");
    place.until("but after a while", || place.yard.snapshots() == 1).await;
}
