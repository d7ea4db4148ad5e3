//! Runs whose machines are alive and of which the threads hear nothing.

use std::time::Duration;

use commands::command::RemoveMember;
use events::ThreadStatus;
use serde_json::{Value, json};

use crate::model::{Line, Model};
use crate::place::{ADA, PIA, Place};

async fn impatient() -> Place {
    let mut place = Place::open(json!({})).await;
    place.options.patience.orphan = Duration::from_millis(600);
    place.start();
    place
}

#[tokio::test]
async fn a_run_that_is_over_ends_though_its_runner_still_tries_to_say_so() {
    let place = impatient().await;
    let (child, run) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    place.leave(&child, &run, json!({ "status": "completed" }));
    assert_eq!(place.rests(&child).await, ThreadStatus::Completed);
    let warned = place.payloads(&child, "signal.dispatch.warned").await;
    assert_eq!(warned.last().unwrap()["warning"], "end_adopted", "{warned:?}");
}

#[tokio::test]
async fn a_run_that_works_unheard_goes_on_and_that_is_said_once() {
    let place = impatient().await;
    let (child, run) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    let warned = place.see(&child, "signal.dispatch.warned", 1).await;
    assert_eq!((&warned[0]["warning"], &warned[0]["run_id"]), (&json!("mirror_silent"), &json!(run)));
    let before = place.yard.probes();
    place.until("it is looked at again", || place.yard.probes() >= before + 5).await;
    assert_eq!(place.payloads(&child, "signal.dispatch.warned").await.len(), 1);
    assert_eq!(place.look(&child).status, ThreadStatus::Running);
}

#[tokio::test]
async fn an_answer_of_a_bot_that_was_sent_away_is_over_with_a_word() {
    let model = Model::start([Line::Waits]).await;
    let mut place = Place::open(json!({ "model": model.config("openai") })).await;
    place.start();
    place.say(ADA, &place.chat, "@pia hello").await;
    place.see(&place.chat, "signal.dispatch.claimed", 1).await;
    place.kill().await;
    place.ask(ADA, RemoveMember { house_id: place.house.clone(), agent_id: PIA }).await;
    place.options.server = "two".to_owned();
    place.start();
    let failed = place.see(&place.chat, "signal.dispatch.failed", 1).await;
    assert_eq!(failed[0]["error_class"], "not_a_member");
    assert_eq!(place.payloads(&place.chat, "pi.assistant").await, [] as [Value; 0]);
}
