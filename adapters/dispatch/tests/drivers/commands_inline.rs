use std::time::Duration;

use commands::CommandError;
use commands::command::SetDefaultEnvironment;
use commands::ports::{Hands, HandsError, MachineError, RunCommand, command_run};
use events::ThreadId;
use serde_json::json;

use crate::place::{ADA, Place};

fn ask(thread: &ThreadId, command: &str) -> RunCommand {
    RunCommand { thread_id: thread.clone(), command: command.to_owned(), cwd: None, timeout: None }
}

#[tokio::test]
async fn a_command_runs_on_the_threads_own_machine_and_the_thread_shows_it() {
    let mut place = Place::open(json!({})).await;
    place.secret("KEY", Some("hunter2"), true).await;
    let dispatcher = place.start();
    let ran =
        dispatcher.run_command(ADA, ask(&place.chat, "echo out; echo err >&2; test -n \"$KEY\" && exit 7"), None).await.unwrap();
    assert_eq!((ran.exit_code, ran.output.as_str(), ran.truncated), (Some(7), "out\nerr\n", false));
    let started = place.payloads(&place.chat, "signal.command.started").await;
    assert_eq!(started[0]["sandbox_id"], json!(place.look(&place.chat).sandbox_id));
    let output = place.payloads(&place.chat, "signal.command.output").await;
    assert_eq!((&output[0]["stream"], &output[0]["text"]), (&json!("stdout"), &json!("out\n")));
    let finished = place.payloads(&place.chat, "signal.command.finished").await;
    assert_eq!((&finished[0]["command_id"], &finished[0]["exit_code"]), (&json!(ran.command_id), &json!(7)));
    dispatcher.run_command(ADA, ask(&place.chat, "echo more > file"), None).await.unwrap();
    let ran = dispatcher.run_command(ADA, ask(&place.chat, "cat file"), None).await.unwrap();
    assert_eq!((ran.output.as_str(), place.yard.made()), ("more\n", vec![1]), "the same tree");
    assert!(!format!("{:?}", place.entries(&place.chat).await).contains("hunter2"));
}

#[tokio::test]
async fn a_retry_with_the_same_key_runs_nothing_again() {
    let mut place = Place::open(json!({})).await;
    let dispatcher = place.start();
    let count = ask(&place.chat, "echo x >> count; wc -l < count");
    let first = dispatcher.run_command(ADA, count.clone(), Some("k1")).await.unwrap();
    let again = dispatcher.run_command(ADA, count.clone(), Some("k1")).await.unwrap();
    assert_eq!((&first.output, &first.command_id), (&again.output, &again.command_id));
    let other = dispatcher.run_command(ADA, count, Some("k2")).await.unwrap();
    assert_eq!((first.output.trim(), other.output.trim()), ("1", "2"));
}

#[tokio::test]
async fn a_key_that_another_command_was_run_under_is_refused() {
    let mut place = Place::open(json!({})).await;
    let dispatcher = place.start();
    dispatcher.run_command(ADA, ask(&place.chat, "echo one"), Some("k1")).await.unwrap();
    let elsewhere = RunCommand { cwd: Some("src".to_owned()), ..ask(&place.chat, "echo one") };
    for other in [ask(&place.chat, "echo two"), elsewhere] {
        let refused = dispatcher.run_command(ADA, other, Some("k1")).await;
        assert!(matches!(refused, Err(HandsError::Refused(CommandError::IdempotencyKeyReused))), "{refused:?}");
    }
    assert_eq!(place.payloads(&place.chat, "signal.command.started").await.len(), 1);
}

#[tokio::test]
async fn a_command_that_ended_well_is_not_said_to_be_lost() {
    let mut place = Place::open(json!({})).await;
    let dispatcher = place.start();
    let mut chats = vec![place.chat.clone()];
    for _ in 0..3 {
        chats.push(place.thread().await);
    }
    // Many at once, so that the desk is behind what the others have ended.
    let many = chats.iter().map(async |chat| {
        for n in 0..12 {
            let ran = dispatcher.run_command(ADA, ask(chat, &format!("echo {n}")), None).await.unwrap();
            assert_eq!((ran.exit_code, ran.output, ran.why), (Some(0), format!("{n}\n"), None));
        }
    });
    futures::future::join_all(many).await;
    for chat in &chats {
        assert_eq!(place.payloads(chat, "signal.dispatch.warned").await, [] as [serde_json::Value; 0]);
    }
}

#[tokio::test]
async fn a_command_whose_server_was_killed_ends_as_unknown() {
    let mut place = Place::open(json!({})).await;
    let dispatcher = place.start();
    place.yard.hold("in execute");
    let (hands, thread) = (dispatcher.clone(), place.chat.clone());
    let waiting = tokio::spawn(async move { hands.run_command(ADA, ask(&thread, "echo lost"), None).await });
    place.yard.is_held().await;
    waiting.abort();
    place.kill().await;
    drop(dispatcher);
    place.start();
    let finished = place.see(&place.chat, "signal.command.finished", 1).await;
    assert_eq!(finished[0].get("exit_code"), None);
}

#[tokio::test]
async fn a_code_that_is_read_as_a_signal_and_a_signal_are_the_same_exit_code() {
    let mut place = Place::open(json!({})).await;
    let dispatcher = place.start();
    for (command, code) in [("exit 137", 137), ("kill -15 $$", 143), ("exit 192", 192), ("exit 200", 200)] {
        let ran = dispatcher.run_command(ADA, ask(&place.chat, command), None).await.unwrap();
        assert_eq!((ran.exit_code, ran.why), (Some(code), None), "{command}");
        assert_eq!(place.payloads(&place.chat, "signal.command.finished").await.pop().unwrap()["exit_code"], code);
    }
}

#[tokio::test]
async fn a_command_without_an_exit_code_says_why_here_on_the_thread_and_to_whoever_asks_again() {
    let mut place = Place::open(json!({})).await;
    let dispatcher = place.start();
    let long = RunCommand { timeout: Some(Duration::from_millis(200)), ..ask(&place.chat, "sleep 60") };
    let elsewhere = RunCommand { cwd: Some("nowhere".to_owned()), ..ask(&place.chat, "true") };
    let usual = || ask(&place.chat, "true");
    let (gone, unknown) = (MachineError::Gone("it fell over".to_owned()), MachineError::Unknown("the line broke".to_owned()));
    for (key, (ask, fails, warning, words)) in [
        (long, None, "command_timeout", "it took longer than 200ms"),
        (elsewhere, None, "command_broken", "nowhere"),
        (usual(), Some(unknown), "command_broken", "the line broke"),
        (usual(), Some(gone), "command_broken", "it fell over"),
        (usual(), Some(MachineError::Unavailable("no memory".to_owned())), "command_broken", "no memory"),
    ]
    .into_iter()
    .enumerate()
    {
        fails.into_iter().for_each(|error| place.yard.fail("execute", error));
        let key = Some(key.to_string());
        let ran = dispatcher.run_command(ADA, ask.clone(), key.as_deref()).await.unwrap();
        let why = ran.why.clone().unwrap_or_default();
        assert!(ran.exit_code.is_none() && why.contains(words), "{ran:?}");
        assert_eq!(ran.error_class.as_deref(), Some(warning));
        let warned = place.payloads(&place.chat, "signal.dispatch.warned").await.pop().unwrap();
        assert_eq!((&warned["warning"], &warned["run_id"]), (&json!(warning), &json!(command_run(&ran.command_id))));
        assert!(warned["message"].as_str().unwrap().ends_with(&why), "{warned}");
        let again = dispatcher.run_command(ADA, ask, key.as_deref()).await.unwrap();
        assert_eq!((again.exit_code, again.error_class, again.why), (None, ran.error_class, ran.why));
    }
}

#[tokio::test]
async fn a_command_says_which_secrets_it_goes_without() {
    let mut place = Place::open(json!({})).await;
    place.secret("NICE", None, false).await;
    place.secret("SPRITES_TOKEN", Some("hunter2"), true).await;
    let dispatcher = place.start();
    for count in 1..3 {
        let key = Some(count.to_string());
        let shown = ask(&place.chat, "echo \"<$NICE$SPRITES_TOKEN>\"");
        let ran = dispatcher.run_command(ADA, shown.clone(), key.as_deref()).await.unwrap();
        dispatcher.run_command(ADA, shown, key.as_deref()).await.unwrap();
        assert_eq!((ran.exit_code, ran.output.as_str()), (Some(0), "<>\n"));
        let warned = place.payloads(&place.chat, "signal.dispatch.warned").await;
        let told = |name: &str| warned.iter().rfind(|it| it["message"].as_str().unwrap().contains(name)).unwrap();
        assert_eq!(warned.len(), 2 * count, "{warned:?}");
        for (name, warning) in [("NICE", "secret_missing"), ("SPRITES_TOKEN", "secret_reserved")] {
            let run = json!(command_run(&ran.command_id));
            assert_eq!((&told(name)["warning"], &told(name)["run_id"]), (&json!(warning), &run));
        }
    }
}

#[tokio::test]
async fn without_an_environment_nothing_begins_and_no_secret_is_opened() {
    let mut place = Place::open(json!({})).await;
    place.secret("KEY", Some("hunter2"), true).await;
    let none = SetDefaultEnvironment { house_id: place.house.clone(), environment_id: None };
    place.ask(ADA, none).await;
    let dispatcher = place.start();
    let refused = dispatcher.run_command(ADA, ask(&place.chat, "true"), None).await;
    let Err(HandsError::NotBegun { error_class, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!((error_class.as_str(), place.vault.opened(), place.yard.made()), ("no_environment", 0, vec![]));
}

#[tokio::test]
async fn what_cannot_begin_says_why_here_and_on_the_thread() {
    let mut place = Place::open(json!({ "runtime": "daytona" })).await;
    let dispatcher = place.start();
    let refused = dispatcher.run_command(ADA, ask(&place.chat, "true"), None).await;
    let Err(HandsError::NotBegun { error_class, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(error_class, "no_provider");
    let failed = place.payloads(&place.chat, "signal.dispatch.failed").await;
    assert_eq!(failed[0]["error_class"], "no_provider");
    let nobody = events::AgentId(events::Uuid::from_u128(99));
    let refused = dispatcher.run_command(nobody, ask(&place.chat, "true"), None).await;
    assert!(matches!(refused, Err(HandsError::Refused(_))));
}
