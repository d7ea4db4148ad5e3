//! Tools that need leave.

use std::time::Duration;

use commands::Actor;
use commands::command::{AppendEntry, UpdateEnvironment};
use events::{Entry, Json, JsonObject};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::model::{Line, Model};
use crate::place::{ADA, PIA, Place, options};

const REQUESTED: &str = "signal.permission.requested";
const RESOLVED: &str = "signal.permission.resolved";

/// Pia wants to run a command, and speaks when she knows what became of it.
async fn asking(ask: Value) -> (Model, Place) {
    let model = Model::start([Line::Calls("run_command", json!({ "command": "echo 42" })), Line::Says("So be it.")]).await;
    let place = Place::open(json!({ "model": model.config("openai"), "permissions": { "ask": ask } })).await;
    (model, place)
}

impl Place {
    async fn asked(&self) -> Entry {
        self.see(&self.chat, REQUESTED, 1).await;
        self.entries(&self.chat).await.into_iter().find(|entry| entry.kind == REQUESTED).unwrap()
    }

    async fn answer(&self, request: &Entry, allowed: bool) {
        let request: Value = request.payload.decode().unwrap();
        self.tell(ADA, &self.chat, RESOLVED, json!({ "request_id": request["request_id"], "allowed": allowed })).await;
    }

    async fn result(&self) -> String {
        let results = self.see(&self.chat, "pi.tool_result", 1).await;
        assert_eq!(results.len(), 1, "{results:?}");
        results[0]["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_tool_that_needs_leave_waits_for_it_and_is_then_used() {
    for ask in [json!(["run_command"]), json!(["*"])] {
        let (_model, mut place) = asking(ask).await;
        place.start();
        place.say(ADA, &place.chat, "@pia count").await;
        let request = place.asked().await;
        assert_eq!(request.author_agent_id, Some(PIA));
        let said: Value = request.payload.decode().unwrap();
        assert_eq!((&said["action"], &said["detail"]), (&json!("run_command"), &json!(r#"{"command":"echo 42"}"#)));
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(place.payloads(&place.chat, "signal.command.started").await, [] as [Value; 0]);
        place.answer(&request, true).await;
        assert!(place.result().await.starts_with("42\n"));
        place.see(&place.chat, "pi.assistant", 2).await;
        assert_eq!(place.payloads(&place.chat, REQUESTED).await.len(), 1);
    }
}

#[tokio::test]
async fn a_tool_that_nobody_named_is_used_without_leave() {
    let (_model, mut place) = asking(json!(["delegate_task", "bash"])).await;
    place.start();
    place.say(ADA, &place.chat, "@pia count").await;
    assert!(place.result().await.starts_with("42\n"));
    assert_eq!(place.payloads(&place.chat, REQUESTED).await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_refusal_is_told_to_the_model_with_what_was_said_to_the_request() {
    let (model, mut place) = asking(json!(["run_command"])).await;
    place.start();
    place.say(ADA, &place.chat, "@pia count").await;
    let request = place.asked().await;
    place.tell(ADA, &place.chat, "chat", json!({ "text": "not today, @rex", "reply_to": request.id })).await;
    place.answer(&request, false).await;
    assert_eq!(place.result().await, "Ada did not allow the use of run_command: not today, @rex");
    place.see(&place.chat, "pi.assistant", 2).await;
    let asked = model.asked();
    assert!(asked[1].to_string().contains("not today"), "{}", asked[1]);
    assert_eq!(asked.len(), 2, "what is said to a request triggers nobody");
    assert_eq!(place.payloads(&place.chat, "signal.command.started").await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_server_that_is_killed_while_it_waits_does_not_ask_twice() {
    let (_model, mut place) = asking(json!(["run_command"])).await;
    place.start();
    place.say(ADA, &place.chat, "@pia count").await;
    let request = place.asked().await;
    place.kill().await;
    place.start();
    tokio::time::sleep(Duration::from_millis(600)).await;
    place.answer(&request, true).await;
    assert!(place.result().await.starts_with("42\n"));
    assert_eq!(place.payloads(&place.chat, REQUESTED).await.len(), 1);
}

#[tokio::test]
async fn an_answer_that_came_while_no_server_ran_counts_however_old_the_words_are() {
    let (_model, mut place) = asking(json!(["run_command"])).await;
    place.options.manners.answer_within = Duration::from_secs(2);
    place.start();
    place.say(ADA, &place.chat, "@pia count").await;
    let request = place.asked().await;
    place.kill().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    place.answer(&request, true).await;
    place.start();
    assert!(place.result().await.starts_with("42\n"));
    place.see(&place.chat, "pi.assistant", 2).await;
    assert_eq!(place.payloads(&place.chat, REQUESTED).await.len(), 1);
}

#[tokio::test]
async fn a_request_that_nobody_answers_is_refused_on_the_thread() {
    let (_model, mut place) = asking(json!(["run_command"])).await;
    place.options.patience.permission = Duration::from_millis(400);
    place.start();
    place.say(ADA, &place.chat, "@pia count").await;
    let request = place.asked().await;
    assert_eq!(place.result().await, "nobody allowed the use of run_command in time");
    let resolved = place.entries(&place.chat).await.into_iter().find(|entry| entry.kind == RESOLVED).unwrap();
    assert!(resolved.author_agent_id.is_none() && resolved.ts >= request.ts + 400);
    place.answer(&request, true).await;
    place.see(&place.chat, "pi.assistant", 2).await;
    assert_eq!(place.payloads(&place.chat, "signal.command.started").await, [] as [Value; 0], "too late");
}

#[tokio::test]
async fn signs_of_life_keep_the_claim_while_leave_is_waited_for() {
    let (_model, mut place) = asking(json!(["run_command"])).await;
    let lease = Duration::from_secs(3);
    place.options.patience.lease = lease;
    place.start();
    place.say(ADA, &place.chat, "@pia count").await;
    let request = place.asked().await;
    let mut others = options("two");
    others.patience.lease = lease;
    let (_stop, stopped) = watch::channel(false);
    let other = place.dispatcher(others);
    let other = tokio::spawn(async move { other.run(stopped).await });
    place.see(&place.chat, "signal.dispatch.heartbeat", 4).await;
    place.answer(&request, true).await;
    assert!(place.result().await.starts_with("42\n"));
    assert_eq!(place.payloads(&place.chat, "signal.dispatch.claimed").await.len(), 1);
    other.abort();
}

#[tokio::test]
async fn an_answer_that_is_cancelled_does_not_wait_any_more() {
    let (model, mut place) = asking(json!(["run_command"])).await;
    place.start();
    place.say(ADA, &place.chat, "@pia count").await;
    place.asked().await;
    let turn = place.payloads(&place.chat, "signal.dispatch.claimed").await[0]["run_id"].clone();
    let payload = Json::of(&json!({ "run_id": turn })).unwrap();
    let kind = "signal.dispatch.cancelled".to_owned();
    let cancel = AppendEntry { thread_id: place.chat.clone(), author_agent_id: None, kind, v: 1, payload };
    place.commands.execute(Actor::System, cancel, None).await.unwrap();
    let resolved = place.see(&place.chat, RESOLVED, 1).await;
    assert_eq!(resolved[0]["allowed"], false);
    assert_eq!((model.asked().len(), place.payloads(&place.chat, "pi.tool_result").await.len()), (1, 0));
}

#[tokio::test]
async fn a_coding_agent_is_told_which_of_its_tools_need_leave() {
    let mut place = Place::open(json!({ "permissions": { "ask": ["bash"] }, "env": { "ARBE_PERMISSIONS": "{}" } })).await;
    place.start();
    let (child, run) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    let env = place.file(&place.machine(&child), &format!("env-{run}")).await;
    assert!(env.contains("ARBE_PERMISSIONS={\"ask\":[\"bash\"]}\n"), "{env}");
}

#[tokio::test]
async fn a_recipe_that_says_something_else_of_permissions_is_not_guessed_at() {
    let mut place = Place::open(json!({})).await;
    let config = JsonObject::parse(r#"{ "permissions": { "aks": ["bash"] } }"#).unwrap();
    let update = UpdateEnvironment { environment_id: place.environment.clone(), name: None, config: Some(config) };
    let error = place.commands.execute(Actor::Agent(ADA), update, None).await.unwrap_err();
    assert!(error.to_string().contains("permissions.aks: unknown field"), "{error}");
    // Nobody has looked at what the server itself was given.
    let model = Model::start([Line::Says("Hello.")]).await.config("openai");
    place.options.model = model.as_object().cloned();
    place.options.model.as_mut().unwrap().insert("tempo".to_owned(), json!(1));
    place.start();
    place.say(ADA, &place.chat, "@pia hello").await;
    let failed = place.see(&place.chat, "signal.dispatch.failed", 1).await;
    assert_eq!(failed[0]["error_class"], "bad_recipe");
}
