//! Runs whose threads point elsewhere than to where they run.

use std::time::Duration;

use commands::command::{CancelRun, ResumeSandbox};
use events::ThreadStatus;
use serde_json::json;

use crate::place::{ADA, PIA, Place};

#[tokio::test]
async fn a_run_is_looked_for_on_the_machine_that_it_was_launched_on() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, run) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    let (sandbox_id, machine) = (place.look(&child).sandbox_id.unwrap(), place.machine(&child));
    place.bury(&sandbox_id).await;
    place.ask(ADA, ResumeSandbox { sandbox_id, new_sandbox_id: None, provider: None }).await;
    assert_ne!(place.machine(&child), machine);
    place.yard.let_end(&machine, run.as_str(), 3);
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    let failed = place.payloads(&child, "signal.thread.pi_failed").await;
    assert_eq!((&failed[0]["error_class"], &failed[0]["exit_code"]), (&json!("runner_exit"), &json!(3)));
}

#[tokio::test]
async fn all_that_ran_on_a_dead_machine_has_failed_before_its_threads_go_on_elsewhere() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (one, run) = place.delegate("one", None).await;
    place.launched(&one, 1).await;
    let shared = place.look(&one).sandbox_id;
    let (two, _) = place.delegate("two", shared.clone()).await;
    place.launched(&two, 1).await;
    place.finish(&one, "done").await;
    place.yard.let_end(&place.machine(&one), run.as_str(), 0);
    place.bury(shared.as_ref().unwrap()).await;
    place.say(ADA, &one, "go on").await;
    place.launched(&one, 2).await;
    assert_eq!(place.rests(&two).await, ThreadStatus::Failed);
    assert_eq!(place.payloads(&two, "signal.thread.pi_failed").await[0]["error_class"], "sandbox_dead");
    assert!(place.look(&two).sandbox_id != shared && place.look(&two).sandbox_id == place.look(&one).sandbox_id);
}

#[tokio::test]
async fn a_run_of_which_nobody_knows_where_it_is_does_not_run_for_ever() {
    for (cancelled, expected) in [(true, ThreadStatus::Cancelled), (false, ThreadStatus::Failed)] {
        let mut place = Place::open(json!({})).await;
        let moment = Duration::from_millis(300);
        if cancelled {
            place.options.patience.machine = moment;
        } else {
            place.options.patience.unreachable = moment;
        }
        let (child, run) = place.delegate("work", None).await;
        place.tell(PIA, &child, "signal.dispatch.session_started", json!({ "run_id": run })).await;
        if cancelled {
            place.ask(ADA, CancelRun { thread_id: child.clone(), run_id: None }).await;
        }
        place.start();
        assert_eq!(place.rests(&child).await, expected);
        assert_eq!((place.look(&child).sandbox_id, place.yard.launches()), (None, vec![]));
    }
}

#[tokio::test]
async fn a_run_whose_runtime_no_server_can_ever_have_fails_and_says_which_there_are() {
    let mut place = Place::open(json!({})).await;
    place.had_recipe(&json!({ "runtime": "moon" })).await;
    place.start();
    let (child, _) = place.delegate("land", None).await;
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    let failed = place.payloads(&child, "signal.thread.pi_failed").await;
    assert_eq!(failed[0]["error_class"], "no_provider");
    let message = failed[0]["message"].as_str().unwrap();
    assert!(message.contains("moon") && message.contains("local, daytona, sprite"), "{message}");
    assert!(place.payloads(&child, "signal.dispatch.warned").await.is_empty());
}

#[tokio::test]
async fn a_run_whose_runtime_no_server_has_waits_for_one_for_a_while_and_then_fails_with_the_cause() {
    let mut place = Place::open(json!({ "runtime": "daytona" })).await;
    place.options.patience.lease = Duration::from_millis(300);
    place.options.patience.machine = Duration::from_secs(2);
    place.start();
    let (child, _) = place.delegate("work", None).await;
    let warned = place.see(&child, "signal.dispatch.warned", 1).await;
    let message = warned[0]["message"].as_str().unwrap();
    assert!(message.contains("no server with machines of daytona") && message.contains("fails soon"), "{message}");
    assert_eq!(place.look(&child).status, ThreadStatus::Running);
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    let failed = place.payloads(&child, "signal.thread.pi_failed").await;
    assert_eq!(failed[0]["error_class"], "no_provider");
    assert!(failed[0]["message"].as_str().unwrap().contains("--daytona-token"), "{failed:?}");
}

#[tokio::test]
async fn a_run_that_began_while_no_server_was_there_waits_for_another_from_the_first_one_on() {
    let mut place = Place::open(json!({ "runtime": "daytona" })).await;
    place.options.patience.lease = Duration::from_millis(100);
    place.options.patience.machine = Duration::from_secs(1);
    let (child, _) = place.delegate("work", None).await;
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let began = tokio::time::Instant::now();
    place.start();
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
    let warned = place.payloads(&child, "signal.dispatch.warned").await;
    assert_eq!((warned[0]["warning"].as_str(), warned.len()), (Some("no_server"), 1));
}
