//! What a run has begun and does not end itself.

use std::time::Duration;

use commands::command::CancelRun;
use commands::ports::MachineError;
use events::{RunId, ThreadId, ThreadStatus};
use serde_json::json;

use crate::place::{ADA, Place};

type Blow = fn(&Place, &ThreadId, &RunId);

async fn with_a_tool(place: &Place) -> (ThreadId, RunId) {
    let (child, run) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    place.yard.begin_tool(run.as_str());
    (child, run)
}

fn exits(place: &Place, child: &ThreadId, run: &RunId) {
    place.yard.let_end(&place.machine(child), run.as_str(), 3);
}

#[tokio::test]
async fn of_a_run_whose_end_is_told_nothing_goes_on_in_its_machine() {
    let mut place = Place::open(json!({})).await;
    (place.options.patience.orphan, place.options.patience.settle) = (Duration::from_millis(600), Duration::from_secs(1));
    place.start();
    let adopted: Blow = |place, child, run| place.leave(child, run, json!({ "status": "completed" }));
    let orphaned: Blow = |place, _, _| place.yard.kill_all();
    for (blow, expected) in
        [(exits as Blow, ThreadStatus::Failed), (orphaned, ThreadStatus::Failed), (adopted, ThreadStatus::Completed)]
    {
        let (child, run) = with_a_tool(&place).await;
        blow(&place, &child, &run);
        assert_eq!(place.rests(&child).await, expected);
        assert!(!place.yard.tool_runs(run.as_str()), "{expected}");
    }
    let (child, run) = with_a_tool(&place).await;
    place.ask(ADA, CancelRun { thread_id: child.clone(), run_id: None }).await;
    exits(&place, &child, &run);
    assert_eq!(place.rests(&child).await, ThreadStatus::Cancelled);
    assert!(!place.yard.tool_runs(run.as_str()));
}

#[tokio::test]
async fn what_could_not_be_stopped_at_once_is_stopped_before_the_end_is_told() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, run) = with_a_tool(&place).await;
    place.yard.cannot_stop(Some(MachineError::Unknown("no answer".to_owned())));
    exits(&place, &child, &run);
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(place.look(&child).status, ThreadStatus::Running);
    place.yard.cannot_stop(None);
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    assert!(!place.yard.tool_runs(run.as_str()));
    assert_eq!(place.payloads(&child, "signal.dispatch.warned").await, [] as [serde_json::Value; 0]);
}

#[tokio::test]
async fn what_cannot_be_stopped_for_long_is_told_and_stopped_later() {
    let mut place = Place::open(json!({})).await;
    (place.options.patience.orphan, place.options.patience.machine) = (Duration::from_millis(600), Duration::from_millis(900));
    place.start();
    let (child, run) = with_a_tool(&place).await;
    place.yard.cannot_stop(Some(MachineError::Unknown("no answer".to_owned())));
    exits(&place, &child, &run);
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    let told = |warned: &[serde_json::Value]| warned.iter().map(|it| it["warning"].clone()).collect::<Vec<_>>();
    assert_eq!(told(&place.payloads(&child, "signal.dispatch.warned").await), ["machine_unreachable"]);
    place.yard.cannot_stop(None);
    assert_eq!(told(&place.see(&child, "signal.dispatch.warned", 2).await), ["machine_unreachable", "machine_reached"]);
    assert!(!place.yard.tool_runs(run.as_str()));
}

#[tokio::test]
async fn a_run_of_which_there_is_nothing_to_stop_is_cancelled_when_it_is_asked_to_stop() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, _) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    place.yard.cannot_stop(Some(MachineError::Gone("nobody launched it".to_owned())));
    place.ask(ADA, CancelRun { thread_id: child.clone(), run_id: None }).await;
    assert_eq!(place.rests(&child).await, ThreadStatus::Cancelled);
}
