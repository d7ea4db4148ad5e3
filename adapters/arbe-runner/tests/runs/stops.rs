//! Runs that are stopped, by whom it may be, and what is left of them.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::process::Child;

use crate::support::{Scene, alive, ended, until, word};

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap()
}

async fn in_a_tool(scene: &Scene, word: &str) -> Child {
    let child = scene.begin("r1", &format!("RUN: sleep {word}"));
    until("the tool runs", || alive(word) > 0).await;
    child
}

async fn cancelled(scene: &Scene, child: Child, word: &str) {
    let started = Instant::now();
    let done = ended(child).await;
    assert_eq!(done.status.code(), Some(3), "{}", done.stderr);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!(scene.stream.finishes(), [json!({ "status": "cancelled" })]);
    assert_eq!(alive(word), 0, "nothing is left");
    assert_eq!(scene.stream.transcript(), scene.file());
    let result = scene.file().into_iter().find(|line| line["message"]["role"] == "toolResult").expect("the tool's end is told");
    assert_eq!(result["message"]["isError"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_can_write_to_the_thread_can_cancel() {
    let Some(scene) = Scene::start("t-cancel").await else { return };
    let child = in_a_tool(&scene, &word(1)).await;
    scene.stream.say("signal.dispatch.cancelled", json!({ "run_id": "r0" }));
    scene.stream.say("signal.dispatch.cancelled", json!({ "run_id": "r1" }));
    cancelled(&scene, child, &word(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sigterm_cancels() {
    let Some(scene) = Scene::start("t-term").await else { return };
    let child = in_a_tool(&scene, &word(2)).await;
    kill_process(pid(&child), Signal::TERM).unwrap();
    cancelled(&scene, child, &word(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_verb_cancel_cancels() {
    let Some(scene) = Scene::start("t-verb").await else { return };
    let child = in_a_tool(&scene, &word(3)).await;
    assert!(scene.command("r1").arg("cancel").status().await.unwrap().success());
    cancelled(&scene, child, &word(3)).await;
    assert_eq!(scene.command("r1").arg("cancel").status().await.unwrap().code(), Some(1), "nobody is there any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_came_before_the_runner_is_heeded() {
    let Some(scene) = Scene::start("t-early").await else { return };
    scene.stream.say("signal.dispatch.cancelled", json!({ "run_id": "r1" }));
    assert_eq!(scene.run("r1", "RUN: touch ran").await.status.code(), Some(3));
    assert!(!scene.path("tree").join("ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_hangs_can_be_cancelled() {
    let Some(scene) = Scene::start("t-hang").await else { return };
    let child = scene.begin("r1", "HANG");
    scene.stream.until("it is prompted", |entries| entries.iter().any(|it| it["payload"]["message"]["role"] == "user")).await;
    kill_process(pid(&child), Signal::TERM).unwrap();
    assert_eq!(ended(child).await.status.code(), Some(3));
    assert_eq!(scene.stream.finishes(), [json!({ "status": "cancelled" })]);
}

/// pi gives itself another name, so it is found by its parent.
fn harness(runner: &Child) -> Pid {
    let runner = runner.id().unwrap().to_string();
    let of_runner = |stat: String| {
        let (pid, rest) = stat.split_once(' ')?;
        let parent = rest.rsplit_once(')')?.1.split_whitespace().nth(1)?.to_owned();
        (parent == runner).then(|| pid.parse().ok())?
    };
    let mut stats =
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(|it| std::fs::read_to_string(it.path().join("stat")).ok());
    Pid::from_raw(stats.find_map(of_runner).expect("pi is a child of its runner")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harness_that_is_killed_has_failed_with_its_signal_and_leaves_no_tool() {
    let Some(scene) = Scene::start("t-kill").await else { return };
    let child = in_a_tool(&scene, &word(4)).await;
    kill_process(harness(&child), Signal::KILL).unwrap();
    assert_eq!(ended(child).await.status.code(), Some(1));
    let failure = scene.stream.finishes().pop().unwrap()["failure"].clone();
    let message = "the harness was killed by signal 9";
    assert_eq!(failure, json!({ "error_class": "signal", "message": message, "exit_code": 137 }));
    assert_eq!(alive(&word(4)), 0);
    assert_eq!(scene.stream.transcript(), scene.file(), "the call of the tool is told though its end is not");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harness_does_not_outlive_its_runner() {
    let Some(scene) = Scene::start("t-orphan").await else { return };
    let mut child = in_a_tool(&scene, &word(5)).await;
    let pi = harness(&child);
    kill_process(pid(&child), Signal::KILL).unwrap();
    child.wait().await.unwrap();
    until("pi saw its stdin close", || rustix::process::test_kill_process(pi).is_err()).await;
    until("its tool ended with it", || alive(&word(5)) == 0).await;
    assert_eq!(scene.stream.finishes(), [] as [serde_json::Value; 0], "whoever asks for the process has to say it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_the_thread_declares_over_is_stopped() {
    let Some(scene) = Scene::start("t-over").await else { return };
    let child = in_a_tool(&scene, &word(6)).await;
    scene.stream.say("signal.thread.status_changed", json!({ "status": "failed", "run_id": "r1", "reason": "orphaned" }));
    assert_eq!(ended(child).await.status.code(), Some(3));
    assert_eq!(alive(&word(6)), 0);
}
