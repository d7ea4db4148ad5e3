//! Work is asked for, and asked to stop.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use commands::ports::{Diagnosis, EndedRun, Hands, HandsError, Load, Pruned, Ran, RunCommand, Seen, SeenAs};
use commands::{CommandError, Rejection};
use events::{AgentId, HouseId, RunId, SandboxId, ThreadId, ThreadStatus};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::home::Home;
use crate::town::Setup;

/// Notes what is asked of it.
#[derive(Debug, Default)]
struct Helper(Mutex<Vec<String>>);

impl Helper {
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

#[async_trait]
impl Hands for Helper {
    async fn run_command(&self, _: AgentId, ask: RunCommand, _: Option<&str>) -> Result<Ran, HandsError> {
        self.0.lock().push(format!("run {}", ask.command));
        Err(HandsError::NotBegun { error_class: "no_provider".to_owned(), message: "nowhere".to_owned() })
    }

    fn drives(&self, provider: &str) -> bool {
        provider == "yard"
    }

    fn load(&self) -> Option<Load> {
        Some(Load {
            runs: [("running", 2)].into(),
            driving: [("watch", 3)].into(),
            failures: [("bad_recipe".to_owned(), 4)].into(),
            oldest_waiting: Some(Duration::from_millis(1_500)),
        })
    }

    fn look(&self, thread: &ThreadId) {
        self.0.lock().push(format!("look {thread}"));
    }

    async fn reconcile(&self, house: &HouseId) -> Result<Vec<Seen>, HandsError> {
        self.0.lock().push(format!("reconcile {house}"));
        let (sandbox_id, why) = (Some(SandboxId::new("s1").unwrap()), Some("no answer".to_owned()));
        let provider = "yard".to_owned();
        Ok(vec![Seen { sandbox_id, provider, provider_ref: None, verdict: SeenAs::Unknown, why, threads: Vec::new() }])
    }

    async fn diagnose(&self, thread: &ThreadId) -> Result<Diagnosis, HandsError> {
        self.0.lock().push(format!("diagnose {thread}"));
        Ok(Diagnosis {
            thread_id: thread.clone(),
            status: ThreadStatus::Open,
            run: None,
            open_commands: Vec::new(),
            words_waiting: 0,
            answers_open: 0,
            machine: None,
            forecast: "nothing until something is said here".to_owned(),
        })
    }

    async fn prune(&self, house: &HouseId) -> Result<Pruned, HandsError> {
        let mut asked = self.0.lock();
        asked.push(format!("prune {house}"));
        if asked.len() > 1 {
            return Err(CommandError::Rejected(Rejection::NotFound { what: "house" }).into());
        }
        let (thread_id, run_id) = (ThreadId::new("t1").unwrap(), RunId::new("r1").unwrap());
        let ended = EndedRun { thread_id, run_id, status: ThreadStatus::Failed, why: "it is gone".to_owned() };
        Ok(Pruned { ended: vec![ended], ..Pruned::default() })
    }
}

/// The operations of an operator, with a body.
fn upkeep(home: &Home) -> [(&'static str, String, Value); 3] {
    [
        ("POST", "/api/sandboxes/reconcile".to_owned(), json!({ "house_id": home.house })),
        ("GET", format!("/api/threads/{}/diagnosis", home.chat), Value::Null),
        ("POST", format!("/api/houses/{}/prune", home.house), Value::Null),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_said_in_its_thread_which_runs_at_once() {
    let Some(home) = Home::start().await else { return };
    home.set_default(&home.environment).await;
    let child = home.delegate(json!({ "prompt": "fix the build" })).await;
    assert_eq!(home.status(&child).await, "running");
    let kinds = home.kinds(&child).await;
    assert_eq!(kinds, ["signal.thread.created", "chat", "signal.thread.status_changed", "signal.dispatch.queued"]);
    let queued = home.rows("select subject, agent_id from reconciliation where kind = 'run_queued'").await;
    assert_eq!(queued, [json!({ "subject": child, "agent_id": home.ada.id.to_string() })]);
    let said = &home.entries(&child).await[1];
    assert_eq!((&said["payload"]["text"], &said["author_agent_id"]), (&json!("fix the build"), &json!(home.ada.id.to_string())));
    let idle = home.delegate(json!({})).await;
    assert_eq!(home.status(&idle).await, "idle", "without a task there is nothing to do yet");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_asked_to_stop_says_so_and_goes_on_until_it_has() {
    let Some(home) = Home::start().await else { return };
    let thread = home.driven().await;
    let cancel = format!("/api/threads/{thread}/cancel");
    assert_eq!(home.refused(&home.ada, "POST", &cancel, Value::Null).await, "nothing_in_progress");
    let run = home.start_run(&home.bot, &thread).await;
    assert_eq!(home.refused(&home.ada, "POST", &cancel, json!({ "run_id": "another" })).await, "wrong_run");
    home.post(&home.ada, &cancel, Value::Null).await;
    let asked = home.entries(&thread).await.pop().unwrap();
    assert_eq!((&asked["type"], &asked["payload"]["run_id"]), (&json!("signal.dispatch.cancelled"), &json!(run)));
    assert_eq!(home.status(&thread).await, "running");
    home.finish_run(&thread, &run, json!({ "status": "cancelled" })).await;
    assert_eq!(home.status(&thread).await, "cancelled");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_hands_runs_no_command_and_asks_after_no_machine() {
    let Some(home) = Home::start().await else { return };
    let path = format!("/api/threads/{}/commands", home.chat);
    let body = json!({ "command": "true" }).to_string();
    let reply = home.town.send(&home.ada.key, "POST", &path, Some(&body), &[]).await;
    assert_eq!((reply.status, reply.code().1.as_str()), (503, "unavailable"));
    for (method, path, body) in upkeep(&home) {
        let body = (!body.is_null()).then(|| body.to_string());
        let reply = home.town.send(&home.ada.key, method, &path, body.as_deref(), &[]).await;
        assert_eq!(reply.code(), (503, "unavailable".to_owned()), "{path}");
        let foreign = home.town.send(&home.bob.key, method, &path, body.as_deref(), &[]).await;
        assert_eq!(foreign.code(), (404, "not_found".to_owned()), "{path}");
    }
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_asks_the_hands_and_others_are_told_of_nothing() {
    let hands = Arc::new(Helper::default());
    let Some(home) = Home::with(Setup { hands: Some(hands.clone()), ..Setup::default() }).await else { return };
    for (method, path, body) in upkeep(&home) {
        assert_eq!(home.refused(&home.bob, method, &path, body.clone()).await, "not_found", "{path}");
        assert_eq!(hands.asked(), [""; 0], "{path}: whoever is not in the house reaches nobody");
        let told = home.ask(&home.ada, method, &path, body).await;
        assert!(told["position"].is_u64(), "{told}");
        let expected = match method {
            "GET" => ("/forecast", json!("nothing until something is said here"), format!("diagnose {}", home.chat)),
            _ if path.ends_with("prune") => ("/ended/0/status", json!("failed"), format!("prune {}", home.house)),
            _ => ("/items/0/verdict", json!("unknown"), format!("reconcile {}", home.house)),
        };
        assert_eq!(told.pointer(expected.0), Some(&expected.1), "{told}");
        assert_eq!(hands.asked(), [expected.2], "{path}");
    }
    hands.look(&ThreadId::new("x").unwrap());
    let prune = format!("/api/houses/{}/prune", home.house);
    assert_eq!(home.refused(&home.ada, "POST", &prune, Value::Null).await, "not_found", "what the hands refuse is refused");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_names_no_machine_of_a_provider_that_is_driven_here() {
    let Some(home) = Home::with(Setup { hands: Some(Arc::new(Helper::default())), ..Setup::default() }).await else { return };
    home.set_default(&home.environment).await;
    let told = json!({ "provider_ref": "another-houses" });
    for (provider, status) in [("yard", "pending"), ("elsewhere", "live")] {
        let ask = json!({ "house_id": home.house, "provider": provider });
        let sandbox = home.town.make(&home.ada, "/api/sandboxes", &ask, "sandbox_id").await;
        let live = format!("/api/sandboxes/{sandbox}/live");
        assert_eq!(home.refused(&home.bob, "POST", &live, told.clone()).await, "not_found");
        let reply = home.town.send(&home.ada.key, "POST", &live, Some(&told.to_string()), &[]).await;
        if status == "pending" {
            assert_eq!(reply.code(), (403, "forbidden".to_owned()), "{provider}");
        } else {
            assert_eq!(reply.status, 200, "{provider}");
        }
        assert_eq!(home.see(&format!("/api/sandboxes/{sandbox}")).await["status"], status);
    }
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_hands_have_to_do_is_measured() {
    let hands = Arc::new(Helper::default());
    let Some(home) = Home::with(Setup { hands: Some(hands.clone()), ..Setup::default() }).await else { return };
    let metrics = home.town.send("", "GET", "/metrics", None, &[]).await.text;
    for line in [
        "arbe_dispatch_runs{state=\"running\"} 2",
        "arbe_dispatch_drivers{job=\"watch\"} 3",
        "arbe_dispatch_failures_total{class=\"bad_recipe\"} 4",
        "arbe_dispatch_oldest_waiting_seconds 1.5",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} in\n{metrics}");
    }
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_runs_is_looked_at_when_it_is_read() {
    let hands = Arc::new(Helper::default());
    let Some(home) = Home::with(Setup { hands: Some(hands.clone()), ..Setup::default() }).await else { return };
    let thread = home.driven().await;
    home.see(&format!("/api/threads/{thread}")).await;
    assert_eq!(hands.asked(), [""; 0], "an idle one is not");
    let run = home.start_run(&home.bot, &thread).await;
    assert_eq!(home.get(&home.bob, &format!("/api/threads/{thread}")).await.status, 404);
    assert_eq!(hands.asked(), [""; 0], "nor one of another house");
    home.see(&format!("/api/threads/{thread}")).await;
    assert_eq!(hands.asked(), [format!("look {thread}")]);
    home.finish_run(&thread, &run, json!({ "status": "completed" })).await;
    home.see(&format!("/api/threads/{thread}")).await;
    assert_eq!(hands.asked(), [""; 0]);
    home.end().await;
}
