//! How work is begun, how it ends, and what the threads know of it.

use serde_json::{Value, json};

use crate::house::{House, bash};
use crate::scene::until;
use crate::story::Story;

#[test]
fn a_chat_becomes_a_task_and_its_result_comes_back() {
    let Some(house) = House::start() else { return };
    let task = json!({ "task": bash("echo made > made; cat made") });
    house.say(&house.chat, &format!("@Pia TOOL: delegate_task {task}"));
    let spawned = |story: &Story| story.of("signal.thread.agent_spawn").first().map(|told| told["child_thread_id"].clone());
    let child = house.until(&house.chat, "the bot gives the task away", spawned).as_str().unwrap().to_owned();

    let story = house.completed(&child, 1);
    let machine = house.machine(&child);
    assert_eq!(story.transcript(), machine.session(&child), "the stream is pi's own file");
    assert_eq!((story.stops(), story.results()), (vec!["toolUse", "stop"], vec!["made\n"]));
    assert_eq!((story.statuses(), machine.file("made").as_deref()), (vec!["running", "completed"], Some("made\n")));

    let told = |story: &Story| story.entries("chat").into_iter().find(|entry| !entry["payload"]["reply_to"].is_null()).cloned();
    let result = house.until(&house.chat, "the result comes back", told);
    let parent = house.story(&house.chat);
    let finished = parent.entries("signal.thread.child_finished");
    assert_eq!(finished.len(), 1, "{}", parent.told());
    assert_eq!(finished[0]["payload"], json!({ "child_thread_id": child, "status": "completed" }));
    assert_eq!(result["payload"], json!({ "text": "It gave: made", "reply_to": finished[0]["id"] }));
    assert_eq!(result["author_agent_id"], json!(house.bot));
    let answered = |story: &Story| story.of("pi.assistant").into_iter().find(|told| told["stopReason"] == "stop").cloned();
    let answer = house.until(&house.chat, "the bot has answered", answered);
    let words = format!("It gave: begun in thread {child}");
    assert!(answer["content"][0]["text"].as_str().is_some_and(|text| text.starts_with(&words)), "{answer}");
    let row = house.scene.get(&format!("/api/threads/{}", house.chat));
    assert_eq!((&row["children"][0]["thread_id"], &row["children"][0]["status"]), (&json!(child), &json!("completed")));
}

#[test]
fn a_bot_runs_a_command_on_the_machine_of_its_chat() {
    let Some(house) = House::start() else { return };
    house.say(&house.chat, &format!("@Pia TOOL: run_command {}", json!({ "command": "echo here | tee here; exit 3" })));
    let given = |story: &Story| story.of("pi.tool_result").first().map(|told| told["content"][0]["text"].clone());
    assert_eq!(house.until(&house.chat, "the command has ended", given), "here\n\n(exit code 3)");
    let story = house.story(&house.chat);
    let finished = story.of("signal.command.finished");
    assert_eq!((finished.len(), &finished[0]["exit_code"]), (1, &json!(3)), "{}", story.told());
    assert_eq!(house.machine(&house.chat).file("here").as_deref(), Some("here\n"));
}

#[test]
fn a_command_has_an_exit_code_or_its_cause_is_on_the_thread() {
    let Some(house) = House::start() else { return };
    for (command, code) in [("exit 137", 137), ("kill -15 $$", 143)] {
        assert_eq!(house.command(&house.chat, command)["exit_code"], code, "{command}");
    }
    let path = format!("/api/threads/{}/commands", house.chat);
    for (ask, warning, words) in [
        (json!({ "command": "sleep 60", "timeout": 1 }), "command_timeout", "it took longer than 1s"),
        (json!({ "command": "true", "cwd": "nowhere" }), "command_broken", "nowhere"),
    ] {
        let ran = house.scene.ask("POST", &path, &ask);
        let why = ran["why"].as_str().unwrap_or_else(|| panic!("{ran}"));
        assert!(ran["exit_code"].is_null() && why.contains(words), "{ran}");
        let told = |story: &Story| story.of("signal.dispatch.warned").into_iter().find(|it| it["warning"] == warning).cloned();
        let told = house.until(&house.chat, "the thread says why", told);
        assert!(told["message"].as_str().is_some_and(|text| text.ends_with(why)), "{told}");
    }
}

#[test]
fn three_errors_of_the_model_and_an_answer_are_one_run_that_is_completed() {
    let Some(house) = House::start() else { return };
    let child = house.delegate(&format!("FAIL 3 and then greet {}", house.id));
    let failing =
        |story: &Story| story.stops().contains(&"error").then(|| (story.stops().contains(&"stop"), story.statuses().len()));
    let (is_over, statuses) = house.until(&child, "the model has failed", failing);
    assert!(is_over || statuses == 1, "it is still running");
    let story = house.completed(&child, 1);
    assert_eq!(story.stops(), ["error", "error", "error", "stop"]);
    assert_eq!((story.statuses(), story.causes()), (vec!["running", "completed"], Vec::<&Value>::new()));
    assert_eq!(story.transcript(), house.machine(&child).session(&child));
}

#[test]
fn a_hard_error_of_the_model_is_a_failure_though_pi_exits_with_0() {
    let Some(house) = House::start() else { return };
    let child = house.delegate("REFUSE this");
    let (class, why) = house.failed(&child, 1);
    assert!(class == "model" && why.contains("400"), "{class}: {why}");
    let story = house.story(&child);
    assert_eq!((story.statuses(), &story.causes()[0]["exit_code"]), (vec!["running", "failed"], &json!(0)));
    let told = |story: &Story| story.of("chat").last().map(|told| told["text"].as_str().unwrap().to_owned());
    let told = house.until(&house.chat, "the parent hears of it", told);
    assert!(told.starts_with("The task failed: ") && told.contains("400"), "{told}");
}

#[test]
fn an_answer_that_is_cut_for_its_length_is_completed() {
    let Some(house) = House::start() else { return };
    let child = house.delegate("LENGTH of the coast");
    assert_eq!(house.completed(&child, 1).stops(), ["length"]);
}

#[test]
fn a_cancelled_run_leaves_its_machine_and_no_process_and_can_be_gone_on_with() {
    let Some(house) = House::start() else { return };
    let child = house.delegate(&bash("echo ran >> ran; sleep 600"));
    let machine = house.in_a_tool(&child, "ran");
    assert!(machine.processes().iter().any(|process| process.name == "sleep"), "{:?}", machine.processes());
    house.scene.ask("POST", &format!("/api/threads/{child}/cancel"), &Value::Null);
    let story = house.ended(&child, 1);
    assert_eq!((story.statuses(), story.causes()), (vec!["running", "cancelled"], Vec::<&Value>::new()));
    assert_eq!(story.transcript(), machine.session(&child));
    until("nothing is left in the machine", || machine.processes().is_empty().then_some(()));
    let sandbox = house.scene.get(&format!("/api/sandboxes/{}", machine.sandbox));
    assert_eq!((&sandbox["status"], machine.is_made()), (&json!("live"), true));

    house.say(&child, &bash("cat ran"));
    let story = house.completed(&child, 2);
    assert_eq!((story.results().last(), story.sandbox()), (Some(&"ran\n"), Some(machine.sandbox.as_str())));
}

#[test]
fn a_model_that_hangs_can_be_cancelled() {
    let Some(house) = House::start() else { return };
    let child = house.delegate("HANG on");
    house.until(&child, "the model begins to speak", |story| (!story.of("pi.chunk").is_empty()).then_some(()));
    house.scene.ask("POST", &format!("/api/threads/{child}/cancel"), &Value::Null);
    assert_eq!(house.ended(&child, 1).statuses(), ["running", "cancelled"]);
}

#[test]
fn a_run_that_is_cancelled_while_its_machine_is_made_runs_nothing() {
    let Some(house) = House::start() else { return };
    let slow = json!({ "house_id": house.id, "name": "slow", "config": { "setup": "sleep 2" } });
    let environment = house.scene.make("/api/environments", &slow, "environment_id");
    let child = house.delegate_with(json!({ "prompt": bash("echo ran >> ran"), "environment_id": environment }));
    let machine = house.machine(&child);
    house.scene.ask("POST", &format!("/api/threads/{child}/cancel"), &Value::Null);
    let story = house.ended(&child, 1);
    assert_eq!((story.statuses(), story.transcript().len()), (vec!["running", "cancelled"], 0));
    assert!(!machine.was_launched(story.run()));
}
