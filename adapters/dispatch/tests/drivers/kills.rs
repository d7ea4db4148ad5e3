//! The server is killed at each step of a run. Whoever comes next goes on, and nothing happens twice.

use events::ThreadStatus;
use serde_json::json;

use crate::place::Place;

async fn killed_at(step: &'static str) {
    let mut place = Place::open(json!({})).await;
    place.yard.hold(step);
    place.start();
    let (child, run) = place.delegate("survive", None).await;
    place.yard.is_held().await;
    place.kill().await;
    assert_eq!(place.look(&child).status, ThreadStatus::Running, "{step}");
    place.start();
    place.launched(&child, 1).await;
    let machine = place.machine(&child);
    assert_eq!(place.file(&machine, &format!("task-{run}")).await, "survive", "{step}");
    place.finish(&child, "survived").await;
    assert_eq!(place.rests(&child).await, ThreadStatus::Completed, "{step}");
    assert_eq!(place.see(&place.chat, "chat", 1).await[0]["text"], "survived", "{step}");
    assert_eq!((place.yard.launches(), place.yard.made()), (vec![1], vec![1]), "{step}");
    for kind in ["signal.dispatch.session_started", "signal.dispatch.claimed", "signal.thread.sandbox_set"] {
        assert_eq!(place.payloads(&child, kind).await.len(), 1, "{step}: {kind}");
    }
    assert!(place.payloads(&child, "signal.dispatch.reset").await.is_empty(), "{step}: its own server goes on");
}

macro_rules! kills {
    ($($name:ident: $step:literal;)*) => {$(
        #[tokio::test]
        async fn $name() {
            killed_at($step).await;
        }
    )*};
}

kills! {
    a_server_killed_before_the_machine_is_made: "before create";
    a_server_killed_before_the_machine_is_recorded: "after create";
    a_server_killed_before_anything_is_written: "before write";
    a_server_killed_after_a_file_was_written: "after write";
    a_server_killed_before_the_launch: "before launch";
    a_server_killed_before_the_launch_is_recorded: "after launch";
}

#[tokio::test]
async fn a_task_that_was_delegated_while_no_server_ran_is_begun_by_the_next() {
    let mut place = Place::open(json!({})).await;
    let (child, _) = place.delegate("later", None).await;
    place.start();
    place.launched(&child, 1).await;
}

#[tokio::test]
async fn a_run_that_ended_while_no_server_ran_is_told_by_the_next() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, _) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    place.kill().await;
    place.finish(&child, "all alone").await;
    place.start();
    assert_eq!(place.see(&place.chat, "chat", 1).await[0]["text"], "all alone");
}

#[tokio::test]
async fn a_server_that_is_asked_to_stop_does_so_and_the_next_goes_on() {
    let mut place = Place::open(json!({})).await;
    place.yard.hold("before launch");
    place.start();
    let (child, _) = place.delegate("work", None).await;
    place.yard.is_held().await;
    let (_, stop, task) = place.running.take().unwrap();
    stop.send_replace(true);
    tokio::time::timeout(std::time::Duration::from_secs(2), task).await.unwrap().unwrap();
    place.start();
    place.launched(&child, 1).await;
    assert_eq!(place.yard.launches(), [1]);
}
