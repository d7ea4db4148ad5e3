//! One status enum: every row of the decision, and that a row never says anything but the last word of its stream.

use commands::Actor;
use commands::command::OrphanRun;
use events::{RunId, ThreadId};
use serde_json::{Value, json};

use crate::home::Home;

/// A driven thread that runs, and its run.
async fn running(home: &Home) -> (String, String) {
    let thread = home.driven().await;
    let run = home.start_run(&home.bot, &thread).await;
    assert_eq!(home.status(&thread).await, "running");
    (thread, run)
}

/// What the old word would be is no status any more, in any door.
async fn is_no_status(home: &Home, word: &str) {
    let (thread, run) = running(home).await;
    let finish = format!("/api/threads/{thread}/runs/{run}/finish");
    assert_eq!(home.refused(&home.bot, "POST", &finish, json!({ "status": word })).await, "bad_request");
    assert_eq!(
        home.refused(&home.ada, "PATCH", &format!("/api/threads/{thread}"), json!({ "status": word })).await,
        "bad_request"
    );
    assert_eq!(home.get(&home.ada, &format!("/api/threads?status={word}")).await.status, 400);
    let posted = json!({ "type": "signal.thread.status_changed", "payload": { "status": "failed" } });
    assert_eq!(home.refused(&home.bot, "POST", &format!("/api/threads/{thread}/entries"), posted).await, "kind_not_allowed");
    assert_eq!(home.status(&thread).await, "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_decision_idle_is_idle_before_any_process_fact() {
    let Some(home) = Home::start().await else { return };
    let thread = home.driven().await;
    assert_eq!(home.status(&thread).await, "idle");
    assert_eq!(home.kinds(&thread).await, ["signal.thread.created"]);
    home.say(&home.ada, &thread, "wait").await;
    assert_eq!(home.status(&thread).await, "idle");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_decision_running_keeps_dispatch_session_and_heartbeat_in_the_stream() {
    let Some(home) = Home::start().await else { return };
    let (thread, run) = running(&home).await;
    let row = home.row(&thread).await;
    for (kind, payload) in [
        ("signal.dispatch.queued", json!({ "run_id": run })),
        ("signal.dispatch.session_started", json!({ "run_id": run, "session_ref": "s-1" })),
        ("signal.dispatch.heartbeat", json!({ "run_id": run })),
        ("pi.chunk", json!({ "delta": "w" })),
    ] {
        home.tell(&home.bot, &thread, kind, payload.clone()).await;
        assert_eq!(home.entries(&thread).await.last().unwrap()["payload"], payload);
        assert_eq!(home.row(&thread).await, row, "{kind} is no change of the row");
    }
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_decision_completed_leaves_the_stop_reason_on_the_pi_entries() {
    let Some(home) = Home::start().await else { return };
    for stop in ["stop", "length"] {
        let (thread, run) = running(&home).await;
        home.tell(&home.bot, &thread, "pi.assistant", json!({ "stopReason": "toolUse" })).await;
        assert_eq!(home.status(&thread).await, "running", "a stop reason is one of a turn, not of a thread");
        home.tell(&home.bot, &thread, "pi.assistant", json!({ "stopReason": stop })).await;
        home.finish_run(&thread, &run, json!({ "status": "completed" })).await;
        assert_eq!(home.status(&thread).await, "completed");
        let entries = home.entries(&thread).await;
        let last = entries.last().unwrap();
        assert_eq!(last["payload"], json!({ "status": "completed", "run_id": run, "reason": "finished" }));
        assert!(!home.row(&thread).await.to_string().contains(&format!("\"{stop}\"")));
    }
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_decision_failed_leaves_exit_code_and_message_in_the_stream() {
    let Some(home) = Home::start().await else { return };
    let (thread, run) = running(&home).await;
    let failure = json!({ "error_class": "pi_exit", "message": "no such model", "exit_code": 7 });
    home.finish_run(&thread, &run, json!({ "status": "failed", "reason": "exit", "failure": failure })).await;
    assert_eq!(home.status(&thread).await, "failed");
    let kinds = home.kinds(&thread).await;
    assert_eq!(kinds[kinds.len() - 2..], ["signal.thread.pi_failed", "signal.thread.status_changed"]);
    let entries = home.entries(&thread).await;
    let detail = &entries[entries.len() - 2]["payload"];
    assert_eq!(detail, &json!({ "run_id": run, "error_class": "pi_exit", "message": "no such model", "exit_code": 7 }));
    assert!(!home.row(&thread).await.to_string().contains("no such model"));
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_decision_stuck_is_failed_and_the_stream_says_how_it_was_noticed() {
    let Some(home) = Home::start().await else { return };
    let (thread, run) = running(&home).await;
    let run_id = RunId::new(&run).ok();
    let orphan = OrphanRun { thread_id: ThreadId::new(&thread).unwrap(), run_id, silent_ms: 600_000 };
    home.town.commands.execute(Actor::System, orphan, None).await.unwrap();
    assert_eq!(home.status(&thread).await, "failed");
    let entries = home.entries(&thread).await;
    let [how, status] = &entries[entries.len() - 2..] else { unreachable!() };
    assert_eq!(how["type"], json!("signal.thread.pi_session_orphaned"));
    assert_eq!(how["payload"], json!({ "run_id": run, "silent_ms": 600_000 }));
    assert_eq!(status["payload"]["reason"], json!("orphaned"));
    assert!(how.get("author_agent_id").is_none(), "the system noticed");
    is_no_status(&home, "stuck").await;
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_decision_blocked_is_running_and_the_stream_says_for_what() {
    let Some(home) = Home::start().await else { return };
    let (thread, run) = running(&home).await;
    home.tell(&home.bot, &thread, "signal.dispatch.pi_waiting", json!({ "run_id": run, "for": "a human" })).await;
    home.tell(&home.bot, &thread, "signal.permission.requested", json!({ "request_id": "p", "action": "push" })).await;
    assert_eq!(home.status(&thread).await, "running");
    let waiting = home.entries(&thread).await.into_iter().find(|entry| entry["type"] == "signal.dispatch.pi_waiting");
    assert_eq!(waiting.unwrap()["payload"]["for"], json!("a human"));
    is_no_status(&home, "blocked").await;
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_decision_cancelled_leaves_the_way_of_it_in_the_stream() {
    let Some(home) = Home::start().await else { return };
    let (thread, run) = running(&home).await;
    home.tell(&home.bot, &thread, "signal.dispatch.cancelled", json!({ "run_id": run })).await;
    assert_eq!(home.status(&thread).await, "running", "until the run has ended");
    home.finish_run(&thread, &run, json!({ "status": "cancelled", "reason": "timeout" })).await;
    assert_eq!(home.status(&thread).await, "cancelled");
    assert_eq!(home.entries(&thread).await.last().unwrap()["payload"]["reason"], json!("timeout"));
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_terminal_for_a_run_is_not_for_the_thread() {
    let Some(home) = Home::start().await else { return };
    let thread = home.driven().await;
    let mut runs = Vec::new();
    for outcome in ["completed", "failed", "cancelled", "completed"] {
        let run = home.start_run(&home.bot, &thread).await;
        assert_eq!(home.status(&thread).await, "running");
        home.finish_run(&thread, &run, json!({ "status": outcome })).await;
        assert_eq!(home.status(&thread).await, outcome);
        let late = format!("/api/threads/{thread}/runs/{run}/finish");
        assert_eq!(home.refused(&home.bot, "POST", &late, json!({ "status": "failed" })).await, "wrong_status");
        runs.push(run);
    }
    let told: Vec<_> =
        home.entries(&thread).await.into_iter().filter(|entry| entry["type"] == "signal.thread.status_changed").collect();
    assert_eq!(told.len(), 8, "every flip of the row is in the stream, once");
    let ran: Vec<_> = told.chunks(2).map(|run| run[0]["payload"]["run_id"].clone()).collect();
    assert_eq!(ran, runs.iter().map(|run| json!(run)).collect::<Vec<_>>(), "many runs under one driver");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chats_and_driven_threads_share_no_status() {
    let Some(home) = Home::start().await else { return };
    let (thread, run) = running(&home).await;
    home.finish_run(&thread, &run, json!({ "status": "failed" })).await;
    home.thread(json!({ "tags": ["failed"], "name": "failed" })).await;
    let failed = home.see("/api/threads?status=failed").await;
    let ids: Vec<_> = failed["items"].as_array().unwrap().iter().map(|item| &item["thread_id"]).collect();
    assert_eq!(ids, [&json!(thread)], "last night's failed work, and nothing else");
    let close = json!({ "status": "closed" });
    assert_eq!(home.refused(&home.ada, "PATCH", &format!("/api/threads/{thread}"), close.clone()).await, "wrong_status");
    assert_eq!(home.refused(&home.ada, "POST", &format!("/api/threads/{}/runs", home.chat), Value::Null).await, "wrong_status");
    home.ask(&home.ada, "PATCH", &format!("/api/threads/{}", home.chat), close).await;
    assert_eq!(home.status(&home.chat).await, "closed");
    home.end().await;
}
