use std::time::Duration;

use serde_json::{Value, json};

use crate::model::{Line, Model};
use crate::place::{ADA, PIA, Place};

async fn place(model: &Model, api: &str) -> Place {
    Place::open(json!({ "model": model.config(api) })).await
}

fn text(message: &Value) -> &str {
    message["content"][0]["text"].as_str().unwrap()
}

async fn a_bot_that_is_named_answers(api: &str) {
    let model = Model::start([Line::Says("Hello Ada, what can I do?")]).await;
    let mut place = place(&model, api).await;
    place.start();
    place.say(ADA, &place.chat, "nobody is meant").await;
    place.say(ADA, &place.chat, "@pia hello").await;
    let answers = place.see(&place.chat, "pi.assistant", 1).await;
    assert_eq!((text(&answers[0]), &answers[0]["stopReason"]), ("Hello Ada, what can I do?", &json!("stop")));
    let chunks = place.payloads(&place.chat, "pi.chunk").await;
    let said: String = chunks.iter().map(|chunk| chunk["delta"].as_str().unwrap()).collect();
    assert_eq!(said, "Hello Ada, what can I do?");
    assert!(chunks.iter().all(|chunk| chunk["run_id"].is_string() && chunk["run_id"] == answers[0]["runId"]), "{chunks:?}");
    let author = place.entries(&place.chat).await.into_iter().find(|entry| entry.kind == "pi.assistant").unwrap();
    assert_eq!(author.author_agent_id, Some(PIA));
    let asked = model.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0]["messages"].to_string().contains("Ada: @pia hello"), "{}", asked[0]);
    place.kill().await;
    place.start();
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert_eq!(model.asked().len(), 1, "a restart asks nothing again");
}

#[tokio::test]
async fn a_bot_answers_through_chat_completions() {
    a_bot_that_is_named_answers("openai").await;
}

#[tokio::test]
async fn a_bot_answers_through_the_messages_api() {
    a_bot_that_is_named_answers("anthropic").await;
}

async fn a_bot_uses_its_tools(api: &str) {
    let run = Line::Calls("run_command", json!({ "command": "echo 42; exit 3" }));
    let delegate = Line::Calls("delegate_task", json!({ "task": "count the files", "name": "count" }));
    let model = Model::start([run, delegate, Line::Says("It is under way.")]).await;
    let mut place = place(&model, api).await;
    place.start();
    place.say(ADA, &place.chat, "@pia look and count").await;
    let answers = place.see(&place.chat, "pi.assistant", 3).await;
    let reasons: Vec<_> = answers.iter().map(|answer| answer["stopReason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["toolUse", "toolUse", "stop"]);
    let results = place.payloads(&place.chat, "pi.tool_result").await;
    assert_eq!(text(&results[0]), "42\n\n(exit code 3)");
    assert_eq!(place.payloads(&place.chat, "signal.command.finished").await[0]["exit_code"], 3);
    let spawned = place.payloads(&place.chat, "signal.thread.agent_spawn").await;
    let child = events::ThreadId::new(spawned[0]["child_thread_id"].as_str().unwrap()).unwrap();
    assert!(text(&results[1]).contains(child.as_str()));
    let last = model.asked().pop().unwrap().to_string();
    assert!(last.contains("42\\n\\n(exit code 3)") && last.contains(child.as_str()), "{last}");
    place.launched(&child, 1).await;
    place.finish(&child, "there are 7").await;
    let told = place.see(&place.chat, "chat", 2).await;
    assert_eq!(told[1]["text"], "there are 7");
    assert_ne!(place.look(&child).sandbox_id, place.look(&place.chat).sandbox_id, "isolated");
}

#[tokio::test]
async fn a_bot_uses_its_tools_through_chat_completions() {
    a_bot_uses_its_tools("openai").await;
}

#[tokio::test]
async fn a_bot_uses_its_tools_through_the_messages_api() {
    a_bot_uses_its_tools("anthropic").await;
}

#[tokio::test]
async fn what_goes_wrong_is_said_on_the_thread_and_the_message_stays() {
    for (line, class) in [(Line::Fails(400), "model_refused"), (Line::Breaks, "model_broken")] {
        for api in ["openai", "anthropic"] {
            let model = Model::start([line.clone()]).await;
            let mut place = place(&model, api).await;
            place.start();
            place.say(ADA, &place.chat, "@pia hello").await;
            let failed = place.see(&place.chat, "signal.dispatch.failed", 1).await;
            assert_eq!(failed[0]["error_class"], class, "{api}: {failed:?}");
            assert_eq!(place.payloads(&place.chat, "chat").await.len(), 1);
        }
    }
}

#[tokio::test]
async fn a_model_that_does_not_answer_is_not_waited_for_for_ever() {
    let model = Model::start([Line::Waits]).await;
    let mut place = place(&model, "openai").await;
    place.options.patience.model = Duration::from_millis(300);
    place.start();
    place.say(ADA, &place.chat, "@pia hello").await;
    let failed = place.see(&place.chat, "signal.dispatch.failed", 1).await;
    assert_eq!(failed[0]["error_class"], "model_timeout");
}

/// What was poured when nobody listens any more.
async fn at_rest(model: &Model) -> usize {
    for _ in 0..100 {
        let poured = model.poured();
        tokio::time::sleep(Duration::from_millis(100)).await;
        if model.poured() == poured {
            return poured;
        }
    }
    panic!("somebody still listens");
}

#[tokio::test]
async fn what_does_not_end_is_taken_up_to_a_bound_and_said_to_be_too_much() {
    let cases = [
        (Line::Rambles, "model_too_large", "its answer is larger than 16777216 bytes", 24 << 20),
        (Line::Drones, "model_too_large", "an event of its stream is larger than 1048576 bytes", 12 << 20),
        (Line::Curses, "model_refused", "400 Bad Request: ", 8 << 20),
    ];
    for (line, class, message, most) in cases {
        for api in ["openai", "anthropic"] {
            let model = Model::start([line.clone()]).await;
            let mut place = place(&model, api).await;
            place.start();
            place.say(ADA, &place.chat, "@pia hello").await;
            let failed = place.see(&place.chat, "signal.dispatch.failed", 1).await;
            let said = failed[0]["message"].as_str().unwrap();
            assert_eq!(failed[0]["error_class"], class, "{api}: {said}");
            assert!(said.contains(message) && said.len() < 3_000, "{api}: {said}");
            let poured = at_rest(&model).await;
            assert!(poured < most, "{api}, {line:?}: {poured}");
        }
    }
}

#[tokio::test]
async fn a_model_that_falls_silent_is_given_up_long_before_its_time_is_over() {
    for api in ["openai", "anthropic"] {
        let model = Model::start([Line::Stalls]).await;
        let mut place = place(&model, api).await;
        place.options.patience.model = Duration::from_secs(3);
        place.start();
        place.say(ADA, &place.chat, "@pia hello").await;
        let failed = place.see(&place.chat, "signal.dispatch.failed", 1).await;
        assert_eq!(failed[0]["error_class"], "model_timeout");
        assert!(failed[0]["message"].as_str().unwrap().contains("fell silent"), "{failed:?}");
    }
}

#[tokio::test]
async fn a_model_that_is_busy_for_a_moment_is_asked_again() {
    for api in ["openai", "anthropic"] {
        let model = Model::start([Line::Fails(529), Line::Fails(429), Line::Says("Here I am.")]).await;
        let mut place = place(&model, api).await;
        place.start();
        place.say(ADA, &place.chat, "@pia hello").await;
        let answers = place.see(&place.chat, "pi.assistant", 1).await;
        assert_eq!((text(&answers[0]), model.asked().len()), ("Here I am.", 3));
    }
}

#[tokio::test]
async fn without_a_model_or_its_key_a_bot_says_so() {
    let mut place = Place::open(json!({})).await;
    place.start();
    place.say(ADA, &place.chat, "@pia hello").await;
    let failed = place.see(&place.chat, "signal.dispatch.failed", 1).await;
    assert_eq!(failed[0]["error_class"], "no_model");
    let config = json!({ "api": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m", "api_key_secret": "MODEL_KEY" });
    let mut place = Place::open(json!({ "model": config })).await;
    place.start();
    place.say(ADA, &place.chat, "@pia hello").await;
    let failed = place.see(&place.chat, "signal.dispatch.failed", 1).await;
    assert!(failed[0]["message"].as_str().unwrap().contains("MODEL_KEY"), "{failed:?}");
}

#[tokio::test]
async fn a_model_that_refuses_in_words_with_a_nul_is_heard() {
    let model = Model::start([Line::Garbles]).await;
    let mut place = place(&model, "openai").await;
    place.start();
    place.say(ADA, &place.chat, "@pia hello").await;
    let failed = place.see(&place.chat, "signal.dispatch.failed", 1).await;
    let message = failed[0]["message"].as_str().unwrap();
    assert!(failed[0]["error_class"] == "model_refused" && message.ends_with("bad\u{FFFD}luck"), "{message}");
}

#[tokio::test]
async fn a_model_is_told_the_end_of_a_long_thread_and_the_beginning_of_a_long_text() {
    let model = Model::start([]).await;
    let mut place = place(&model, "openai").await;
    let long = "word ".repeat(200_000);
    for n in 0..12 {
        place.say(ADA, &place.chat, &format!("{n} {long}")).await;
    }
    place.start();
    place.say(ADA, &place.chat, &format!("@pia what now? {long}")).await;
    place.see(&place.chat, "pi.assistant", 1).await;
    let asked = model.asked()[0]["messages"].to_string();
    assert!(asked.contains("what now?") && asked.len() < 300_000, "{} bytes", asked.len());
}

#[tokio::test]
async fn a_result_is_told_of_a_child_with_a_long_transcript() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, _) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    let long = "x".repeat(3 << 20);
    for n in 0..6 {
        place.tell(PIA, &child, "pi.tool_result", json!({ "role": "toolResult", "content": format!("{n} {long}") })).await;
        place.tell(PIA, &child, "pi.assistant", json!({ "role": "assistant", "content": format!("{n} {long}") })).await;
    }
    place.finish(&child, "all six are read").await;
    let told = place.see(&place.chat, "chat", 1).await;
    assert_eq!(told[0]["text"], "all six are read");
}

#[tokio::test]
async fn a_result_with_a_nul_in_it_is_told() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, _) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    place.finish(&child, "odd\0word").await;
    let told = place.see(&place.chat, "chat", 1).await;
    assert_eq!(told[0]["text"], "odd\u{FFFD}word");
}

#[tokio::test]
async fn a_bot_that_only_calls_tools_comes_to_an_end() {
    let model = Model::start([]).await;
    (0..10).for_each(|_| model.add(Line::Calls("run_command", json!({ "command": "true" }))));
    let mut place = place(&model, "openai").await;
    place.options.manners.rounds = 3;
    place.start();
    place.say(ADA, &place.chat, "@pia go").await;
    let failed = place.see(&place.chat, "signal.dispatch.failed", 1).await;
    assert_eq!(failed[0]["error_class"], "too_many_rounds");
    assert!(model.asked().len() <= 4, "{}", model.asked().len());
    let started = place.payloads(&place.chat, "signal.command.started").await;
    assert_eq!(started.len(), 3, "each round is one use, though the model gives all its calls one id");
}

#[tokio::test]
async fn two_bots_that_name_each_other_stop() {
    let model = Model::start([]).await;
    (0..40).for_each(|n| model.add(Line::Says(if n % 2 == 0 { "@rex what now?" } else { "@pia what now?" })));
    let mut place = place(&model, "openai").await;
    place.start();
    place.say(ADA, &place.chat, "@pia begin").await;
    place.see(&place.chat, "pi.assistant", 4).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let answers = place.payloads(&place.chat, "pi.assistant").await.len();
    assert!(answers <= 7, "{answers}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(place.payloads(&place.chat, "pi.assistant").await.len(), answers);
}

#[tokio::test]
async fn an_answer_that_a_killed_server_left_is_gone_on_with_and_its_command_is_not_run_again() {
    let run = Line::Calls("run_command", json!({ "command": "echo x >> count" }));
    let model = Model::start([run, Line::Says("I do not know whether it ran.")]).await;
    let mut place = place(&model, "openai").await;
    place.yard.hold("in execute");
    place.start();
    place.say(ADA, &place.chat, "@pia count").await;
    place.yard.is_held().await;
    place.kill().await;
    place.start();
    let answers = place.see(&place.chat, "pi.assistant", 2).await;
    assert_eq!(text(&answers[1]), "I do not know whether it ran.");
    let results = place.payloads(&place.chat, "pi.tool_result").await;
    assert!(text(&results[0]).contains("outcome unknown"), "{results:?}");
    let machine = place.machine(&place.chat);
    assert_eq!(std::fs::read_to_string(place.yard.work(&machine).join("count")).unwrap(), "x\n");
    assert_eq!(place.payloads(&place.chat, "signal.command.started").await.len(), 1);
}
