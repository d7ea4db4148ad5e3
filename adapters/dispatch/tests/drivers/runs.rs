use std::time::Duration;

use commands::Actor;
use commands::command::{AddMember, CancelRun, Delegate, FinishRun, Outcome, RegisterAgent};
use commands::ports::{MachineError, Verdict};
use events::{AgentId, AgentKind, Role, Runtime, ThreadStatus, Uuid};
use serde_json::json;

use crate::place::{ADA, PIA, Place};

#[tokio::test]
async fn a_delegated_task_runs_on_its_own_machine_and_its_result_comes_back_once() {
    let mut place = Place::open(json!({ "env": { "LANG": "C", "ARBE_RUN_ID": "forged" } })).await;
    place.start();
    let (child, run) = place.delegate("say hello", None).await;
    place.launched(&child, 1).await;
    let (entries, ts) = (place.entries(&child).await, |entries: &[events::Entry], kind| {
        entries.iter().find(|entry| entry.kind == kind).unwrap().ts
    });
    let took = ts(&entries, "signal.dispatch.session_started") - ts(&entries, "signal.thread.created");
    println!("from delegate to launch: {took} ms");
    let machine = place.machine(&child);
    assert_eq!(place.file(&machine, &format!("task-{run}")).await, "say hello");
    let env = place.file(&machine, &format!("env-{run}")).await;
    for expected in [
        format!("ARBE_RUN_ID={run}"),
        format!("ARBE_THREAD_ID={child}"),
        format!("ARBE_STREAM_URL=http://door/api/stream/arbe-thread-{child}"),
        format!("ARBE_STREAM_TOKEN=token of {PIA} for {child}"),
        format!("ARBE_AUTHOR_ID={PIA}"),
        "LANG=C".to_owned(),
    ] {
        assert!(env.lines().any(|line| line == expected), "{expected} in {env}");
    }
    place.finish(&child, "hello from the box").await;
    place.yard.let_end(&machine, run.as_str(), 0);
    let told = place.see(&place.chat, "chat", 1).await;
    assert_eq!(told[0]["text"], "hello from the box");
    let finished =
        place.entries(&place.chat).await.into_iter().find(|entry| entry.kind == "signal.thread.child_finished").unwrap();
    assert_eq!(told[0]["reply_to"], json!(finished.id));
    place.kill().await;
    place.start();
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert_eq!(place.payloads(&place.chat, "chat").await.len(), 1, "a restart tells nothing twice");
    assert_eq!((place.yard.launches(), place.yard.made()), (vec![1], vec![1]));
}

#[tokio::test]
async fn three_tasks_at_once_have_three_machines_and_a_named_one_is_shared() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let mut machines = Vec::new();
    let mut first = None;
    for _ in 0..3 {
        let (child, _) = place.delegate("work", None).await;
        place.launched(&child, 1).await;
        machines.push(place.machine(&child));
        first = first.or(place.look(&child).sandbox_id);
    }
    machines.sort();
    machines.dedup();
    assert_eq!(machines.len(), 3);
    let (child, _) = place.delegate("work beside", first.clone()).await;
    place.launched(&child, 1).await;
    assert_eq!((place.look(&child).sandbox_id, place.yard.made().len()), (first, 3));
}

#[tokio::test]
async fn twenty_tasks_at_once_stay_apart() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let mut children = Vec::new();
    for n in 0..20 {
        children.push(place.delegate(&format!("task {n}"), None).await);
    }
    for (n, (child, run)) in children.iter().enumerate() {
        place.launched(child, 1).await;
        assert_eq!(place.file(&place.machine(child), &format!("task-{run}")).await, format!("task {n}"));
        place.finish(child, &format!("result {n}")).await;
    }
    let results = place.see(&place.chat, "chat", 20).await;
    let mut told: Vec<_> = results.iter().map(|chat| chat["text"].as_str().unwrap().to_owned()).collect();
    told.sort_by_key(|text| text[7..].parse::<u32>().unwrap());
    assert_eq!(told, (0..20).map(|n| format!("result {n}")).collect::<Vec<_>>());
    assert_eq!((place.yard.launches(), place.yard.made()), (vec![1; 20], vec![1; 20]));
}

#[tokio::test]
async fn a_missing_secret_that_is_required_fails_the_run_by_its_name_and_an_optional_one_warns() {
    let mut place = Place::open(json!({})).await;
    place.secret("NICE", None, false).await;
    place.secret("GIVEN", Some("hunter2"), true).await;
    place.start();
    let (child, run) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    let warned = place.payloads(&child, "signal.dispatch.warned").await;
    assert_eq!((&warned[0]["warning"], &warned[0]["run_id"]), (&json!("secret_missing"), &json!(run)));
    assert!(warned[0]["message"].as_str().unwrap().contains("NICE"));
    let env = place.file(&place.machine(&child), &format!("env-{run}")).await;
    assert!(env.lines().any(|line| line == "GIVEN=hunter2"));
    place.secret("NEEDED", None, true).await;
    let (child, _) = place.delegate("work", None).await;
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    let failed = place.payloads(&child, "signal.thread.pi_failed").await;
    assert_eq!(failed[0]["error_class"], "secret_missing");
    assert!(failed[0]["message"].as_str().unwrap().contains("NEEDED"), "{failed:?}");
    let result = place.see(&place.chat, "chat", 1).await;
    assert!(result[0]["text"].as_str().unwrap().contains("NEEDED"), "the parent hears why");
    for thread in [&child, &place.chat] {
        assert!(!format!("{:?}", place.entries(thread).await).contains("hunter2"));
    }
}

#[tokio::test]
async fn a_bot_of_a_runtime_that_is_not_driven_fails_before_its_machine_is_made() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (agent_id, runtime) = (AgentId(Uuid::from_u128(9)), Some(Runtime::new("opencode").unwrap()));
    let open = RegisterAgent { agent_id: Some(agent_id), kind: AgentKind::Bot, runtime, name: Some("Open".to_owned()) };
    place.commands.execute(Actor::System, open, None).await.unwrap();
    place.ask(ADA, AddMember { house_id: place.house.clone(), agent_id, role: Role::Member }).await;
    let delegate = Delegate {
        thread_id: place.chat.clone(),
        child_thread_id: None,
        agent_id,
        name: None,
        environment_id: None,
        sandbox_id: None,
        tags: Vec::new(),
        prompt: Some("work".to_owned()),
        run_id: None,
    };
    let child = place.ask(ADA, delegate).await.made.thread_id.unwrap();
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    let failed = place.payloads(&child, "signal.thread.pi_failed").await;
    assert_eq!((&failed[0]["error_class"], &failed[0]["message"]), (&json!("harness"), &json!("opencode is not driven; pi is")));
    assert_eq!((place.look(&child).sandbox_id, place.yard.made()), (None, vec![]));
}

#[tokio::test]
async fn a_runner_that_ends_without_a_word_has_failed_with_its_code() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, run) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    place.yard.let_end(&place.machine(&child), run.as_str(), 3);
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    let failed = place.payloads(&child, "signal.thread.pi_failed").await;
    assert_eq!((&failed[0]["error_class"], &failed[0]["exit_code"]), (&json!("runner_exit"), &json!(3)));
}

#[tokio::test]
async fn of_a_run_that_was_killed_it_is_told_what_was_as_far_as_its_machine_knows() {
    let mut place = Place::open(json!({})).await;
    place.start();
    for (torn, expected) in [
        (true, "the sandbox was killed from outside, by signal 9, and the runner with it"),
        (false, "the runner, or the sandbox around it, was ended by signal 9"),
    ] {
        let (child, run) = place.delegate("work", None).await;
        place.launched(&child, 1).await;
        if torn {
            place.yard.tear(run.as_str());
        } else {
            place.yard.let_end(&place.machine(&child), run.as_str(), 137);
        }
        assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
        let failed = place.payloads(&child, "signal.thread.pi_failed").await;
        assert_eq!((&failed[0]["error_class"], &failed[0]["message"]), (&json!("runner_exit"), &json!(expected)));
    }
}

#[tokio::test]
async fn a_run_that_could_not_say_its_end_ends_as_its_machine_knows() {
    let mut place = Place::open(json!({})).await;
    place.options.patience.orphan = Duration::from_millis(600);
    place.start();
    let model = json!({ "status": "failed", "error_class": "model", "message": "500", "exit_code": 0 });
    for (left, kill, expected) in [
        (json!({ "status": "completed" }), false, ThreadStatus::Completed),
        (json!({ "status": "cancelled" }), false, ThreadStatus::Cancelled),
        (model, false, ThreadStatus::Failed),
        (json!({ "status": "completed" }), true, ThreadStatus::Completed),
    ] {
        let (child, run) = place.delegate("work", None).await;
        place.launched(&child, 1).await;
        place.leave(&child, &run, left.clone());
        if kill {
            place.yard.kill_all();
        } else {
            place.yard.let_end(&place.machine(&child), run.as_str(), 4);
        }
        assert_eq!(place.rests(&child).await, expected, "{left}");
        let warned = place.payloads(&child, "signal.dispatch.warned").await;
        let adopted: Vec<_> = warned.iter().filter(|it| it["warning"] == "end_adopted").collect();
        assert_eq!((&adopted[0]["run_id"], adopted.len()), (&json!(run), 1));
        let failed = place.payloads(&child, "signal.thread.pi_failed").await;
        let told = failed.first().map(|it| (it["error_class"].clone(), it["message"].clone(), it["exit_code"].clone()));
        let expected = (expected == ThreadStatus::Failed).then(|| (json!("model"), json!("500"), json!(0)));
        assert_eq!(told, expected);
    }
}

#[tokio::test]
async fn a_silent_run_is_left_alone_while_its_process_runs_and_is_an_orphan_without_one() {
    let mut place = Place::open(json!({})).await;
    place.options.patience.orphan = Duration::from_millis(600);
    place.start();
    let (child, _) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(place.look(&child).status, ThreadStatus::Running, "silent for twice the time, but it runs");
    assert!(place.yard.kept_alive());
    place.yard.says(&place.machine(&child), Some(Verdict::Unknown { why: "no answer".to_owned() }));
    place.yard.kill_all();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(place.look(&child).status, ThreadStatus::Running, "what is not known changes nothing");
    place.yard.says(&place.machine(&child), None);
    assert_eq!(place.rests(&child).await, ThreadStatus::Failed);
    assert_eq!(place.payloads(&child, "signal.thread.pi_session_orphaned").await.len(), 1);
    let last = place.payloads(&child, "signal.thread.status_changed").await.pop().unwrap();
    assert_eq!(last["reason"], "orphaned");
}

#[tokio::test]
async fn a_run_that_does_not_stop_by_itself_is_stopped_and_its_machine_is_kept() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, _) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    place.ask(ADA, CancelRun { thread_id: child.clone(), run_id: None }).await;
    assert_eq!(place.rests(&child).await, ThreadStatus::Cancelled);
    assert!(place.yard.work(&place.machine(&child)).is_dir());
    let result = place.see(&place.chat, "chat", 1).await;
    assert_eq!(result[0]["text"], "The task was cancelled.");
}

#[tokio::test]
async fn a_run_that_is_cancelled_before_its_launch_is_never_launched() {
    let mut place = Place::open(json!({})).await;
    let (child, _) = place.delegate("work", None).await;
    place.ask(ADA, CancelRun { thread_id: child.clone(), run_id: None }).await;
    place.start();
    assert_eq!(place.rests(&child).await, ThreadStatus::Cancelled);
    assert_eq!(place.yard.launches(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_run_that_is_cancelled_while_its_machine_is_made_does_not_wait_for_it() {
    let mut place = Place::open(json!({})).await;
    place.yard.hold("before create");
    place.start();
    let (child, _) = place.delegate("work", None).await;
    place.yard.is_held().await;
    place.ask(ADA, CancelRun { thread_id: child.clone(), run_id: None }).await;
    assert_eq!(place.rests(&child).await, ThreadStatus::Cancelled);
    assert_eq!((place.yard.launches(), place.yard.made()), (vec![], vec![]));
    place.say(ADA, &child, "after all").await;
    place.launched(&child, 1).await;
}

#[tokio::test]
async fn what_is_said_to_a_thread_at_rest_runs_it_again_on_the_same_machine() {
    let mut place = Place::open(json!({})).await;
    place.start();
    let (child, first) = place.delegate("one", None).await;
    place.launched(&child, 1).await;
    place.finish(&child, "done").await;
    place.yard.let_end(&place.machine(&child), first.as_str(), 0);
    place.say(ADA, &child, "and now two").await;
    place.launched(&child, 2).await;
    let again = place.look(&child).run_id.unwrap();
    assert_ne!(again, first);
    let machine = place.machine(&child);
    assert_eq!(place.file(&machine, &format!("task-{again}")).await, "and now two");
    let env = place.file(&machine, &format!("env-{again}")).await;
    assert!(!env.contains("ARBE_SESSION_FILE"), "its own session goes on there");
}

#[tokio::test]
async fn a_launch_of_which_nobody_knows_whether_it_happened_happens_once() {
    let mut place = Place::open(json!({})).await;
    for call in ["create", "launch"] {
        place.yard.fail(call, MachineError::Unknown("the line broke".to_owned()));
        if place.running.is_none() {
            place.start();
        }
        let (child, _) = place.delegate("work", None).await;
        place.launched(&child, 1).await;
    }
    assert_eq!((place.yard.launches(), place.yard.made()), (vec![1, 1], vec![1, 1]));
}

#[tokio::test]
async fn another_server_leaves_a_claimed_run_alone_until_its_server_is_silent() {
    let mut place = Place::open(json!({})).await;
    place.yard.hold("after create");
    place.start();
    let (child, run) = place.delegate("work", None).await;
    place.yard.is_held().await;
    place.kill().await;
    place.options.server = "two".to_owned();
    place.start();
    place.launched(&child, 1).await;
    let entries = place.entries(&child).await;
    let claimed: Vec<_> = entries.iter().filter(|entry| entry.kind == "signal.dispatch.claimed").map(|entry| entry.ts).collect();
    assert!(claimed[1] >= claimed[0] + 2_000, "{claimed:?}");
    let claims = place.payloads(&child, "signal.dispatch.claimed").await;
    assert_eq!((claims[0]["server"].as_str(), claims[1]["server"].as_str(), claims.len()), (Some("one"), Some("two"), 2));
    let reset = place.payloads(&child, "signal.dispatch.reset").await;
    assert_eq!((reset.len(), &reset[0]["run_id"]), (1, &json!(run)));
    assert!(reset[0]["why"].as_str().unwrap().contains("the server one was silent"), "{reset:?}");
    let outcome = Outcome::Completed;
    place.ask(PIA, FinishRun { thread_id: child, run_id: None, outcome, reason: None, failure: None }).await;
    assert_eq!((place.yard.launches(), place.yard.made()), (vec![1], vec![1]));
}
