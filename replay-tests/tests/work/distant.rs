//! Delegated work in machines of Daytona and in sprites, from the request to the result, and on after the machine stood still or was lost.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use replay_tests::model::Role;
use replay_tests::servers::arbe_binary;
use serde_json::{Value, json};

use crate::abroad::Runtimes::{self, Daytona, Sprite};
use crate::abroad::{Abroad, Place};
use crate::house::{House, bash};
use crate::scene::until;
use crate::story::Story;

const SILENT: &str = "mirror_silent";

fn warnings(story: &Story) -> Vec<&str> {
    story.warned().into_iter().map(|told| told["warning"].as_str().unwrap()).collect()
}

/// The parent hears of it once, in the bot's name.
fn result_is_told(house: &House, child: &str, expected: &str) {
    let told = |story: &Story| story.entries("chat").into_iter().find(|entry| !entry["payload"]["reply_to"].is_null()).cloned();
    let result = house.until(&house.chat, "the result comes back", told);
    let parent = house.story(&house.chat);
    let finished = parent.entries("signal.thread.child_finished");
    assert_eq!(finished.len(), 1, "{}", parent.told());
    assert_eq!(finished[0]["payload"], json!({ "child_thread_id": child, "status": "completed" }));
    assert_eq!(result["payload"], json!({ "text": expected, "reply_to": finished[0]["id"] }));
    assert_eq!(result["author_agent_id"], json!(house.bot));
}

fn a_task_is_done_and_gone_on_with(of: Runtimes) {
    let Some(abroad) = Abroad::start(of, &[]) else { return };
    let house = &abroad.house;
    let first = bash(&format!("echo {} > here; cat made here; pwd", house.id));
    let child = house.delegate(&first);
    let story = house.completed(&child, 1);
    let place = abroad.place(&child);
    assert_eq!(story.results(), [format!("set up\n{}\n{}\n", house.id, place.tree().display())]);
    assert_eq!(story.transcript(), place.session(&child), "the stream is pi's own file");
    assert_eq!((story.statuses(), warnings(&story)), (vec!["running", "completed"], Vec::<&str>::new()));
    let given: String = story.results()[0].trim().chars().take(60).collect();
    result_is_told(house, &child, &format!("It gave: {given}"));

    abroad.kept(&place);
    abroad.stop(&place);
    assert!(!abroad.is_up(&place));
    let second = format!("{} once more, {}", bash("cat here"), house.id);
    house.say(&child, &second);
    let story = house.completed(&child, 2);
    assert_eq!((story.results().last(), abroad.is_up(&place)), (Some(&&*format!("{}\n", house.id)), true));
    assert_eq!((story.sandbox(), abroad.machines()), (Some(place.sandbox.as_str()), 1), "it is woken, and no other is made");
    assert_eq!(story.transcript(), place.session(&child), "the same session goes on");

    abroad.lose(&place);
    let third = format!("{} and again, {}", bash("cat made here"), house.id);
    house.say(&child, &third);
    let story = house.completed(&child, 3);
    let fresh = abroad.place(&child);
    assert_ne!(fresh.sandbox, place.sandbox);
    assert_eq!(story.results().last(), Some(&&*format!("set up\n{}\n", house.id)));
    assert_eq!(
        story.of("signal.thread.sandbox_resumed"),
        [&json!({ "sandbox_id": fresh.sandbox, "from_sandbox_id": place.sandbox })]
    );
    assert_eq!(warnings(&story), ["tree_restored"]);
    assert_eq!((&abroad.sandbox(&place.sandbox)["status"], abroad.machines()), (&json!("dead"), 1));
    let seen = house.asked("and again");
    assert_eq!(seen.texts(Role::User).collect::<Vec<_>>(), [&first, &second, &third], "the model sees what was said before");
}

#[test]
fn a_task_is_done_in_a_sandbox_of_daytona_and_gone_on_with_after_it_stood_still_and_after_it_was_lost() {
    a_task_is_done_and_gone_on_with(Daytona);
}

#[test]
fn a_task_is_done_in_a_sprite_and_gone_on_with_after_it_stood_still_and_after_it_was_lost() {
    a_task_is_done_and_gone_on_with(Sprite);
}

fn two_tasks_at_once_share_a_machine_that_is_named(of: Runtimes) {
    let Some(abroad) = Abroad::start(of, &[]) else { return };
    let house = &abroad.house;
    let first = house.delegate(&bash("echo from the first > shared; while ! [ -e go ]; do sleep 0.1; done"));
    let place = abroad.in_a_tool(&first, "shared");
    let second = house.delegate_with(json!({ "prompt": bash("cat shared"), "sandbox_id": place.sandbox }));
    let story = house.completed(&second, 1);
    assert_eq!((story.results(), story.sandbox()), (vec!["from the first\n"], Some(place.sandbox.as_str())));
    assert_eq!(story.transcript(), place.session(&second));
    assert_eq!(house.story(&first).statuses(), ["running"]);
    place.write("go");
    assert_eq!(house.completed(&first, 1).transcript(), place.session(&first), "each has a session of its own");
}

#[test]
fn two_tasks_at_once_share_a_sandbox_of_daytona_that_is_named() {
    two_tasks_at_once_share_a_machine_that_is_named(Daytona);
}

#[test]
fn two_tasks_at_once_share_a_sprite_that_is_named() {
    two_tasks_at_once_share_a_machine_that_is_named(Sprite);
}

/// What is done to a machine, and what is then told of what ran on it.
type Blow = (fn(&Abroad, &Place), &'static str);

fn causes(story: &Story) -> Vec<&str> {
    let orphaned = story.of("signal.thread.pi_session_orphaned").into_iter().map(|_| "orphaned");
    story.causes().into_iter().map(|cause| cause["error_class"].as_str().unwrap()).chain(orphaned).collect()
}

fn a_blow_in_the_middle_of_a_tool_is_told(of: Runtimes, blows: [Blow; 2]) {
    let Some(abroad) = Abroad::start(of, &[]) else { return };
    let house = &abroad.house;
    for (blow, expected) in blows {
        let child = house.delegate(&bash("echo ran >> ran; sleep 600"));
        let place = abroad.in_a_tool(&child, "ran");
        blow(&abroad, &place);
        let story = house.ended(&child, 1);
        assert_eq!((story.statuses(), causes(&story)), (vec!["running", "failed"], vec![expected]), "{}", story.told());
        let again = format!("what was it, {child}?");
        house.say(&child, &again);
        let story = house.completed(&child, 2);
        assert_eq!((story.statuses(), story.results().len()), (vec!["running", "failed", "running", "completed"], 0));
        assert_eq!(house.asked(&again).texts(Role::User).count(), 2, "the model sees what was said before");
        assert_eq!(story.sandbox() == Some(place.sandbox.as_str()), abroad.sandbox(&place.sandbox)["status"] == "live");
    }
}

#[test]
fn a_sandbox_of_daytona_that_is_stopped_or_deleted_in_the_middle_of_a_tool_is_told() {
    a_blow_in_the_middle_of_a_tool_is_told(Daytona, [(Abroad::stop, "sandbox_stopped"), (Abroad::lose, "sandbox_dead")]);
}

/// To ask for a process wakes a sprite.
#[test]
fn a_sprite_that_turns_cold_or_is_deleted_in_the_middle_of_a_tool_is_told() {
    a_blow_in_the_middle_of_a_tool_is_told(Sprite, [(Abroad::stop, "orphaned"), (Abroad::lose, "sandbox_dead")]);
}

fn a_cancelled_run_leaves_its_machine_and_no_process(of: Runtimes) {
    let Some(abroad) = Abroad::start(of, &[]) else { return };
    let house = &abroad.house;
    let child = house.delegate(&bash("echo ran >> ran; sleep 600"));
    let place = abroad.in_a_tool(&child, "ran");
    let run = house.story(&child).run().to_owned();
    assert!(place.processes(&run).len() >= 3, "a runner, pi and a tool");
    house.scene.ask("POST", &format!("/api/threads/{child}/cancel"), &Value::Null);
    let story = house.ended(&child, 1);
    assert_eq!((story.statuses(), story.transcript()), (vec!["running", "cancelled"], place.session(&child)));
    until("nothing of it is left in the machine", || place.processes(&run).is_empty().then_some(()));
    assert_eq!((&abroad.sandbox(&place.sandbox)["status"], abroad.is_up(&place)), (&json!("live"), true));
}

#[test]
fn a_cancelled_run_leaves_its_sandbox_of_daytona_and_no_process() {
    a_cancelled_run_leaves_its_machine_and_no_process(Daytona);
}

#[test]
fn a_cancelled_run_leaves_its_sprite_and_no_process() {
    a_cancelled_run_leaves_its_machine_and_no_process(Sprite);
}

fn a_killed_runner_leaves_no_process(of: Runtimes) {
    let Some(abroad) = Abroad::start(of, &[]) else { return };
    let house = &abroad.house;
    let child = house.delegate(&bash("sleep 600 & echo ran >> ran; sleep 600"));
    let place = abroad.in_a_tool(&child, "ran");
    let run = house.story(&child).run().to_owned();
    place.kill_runner(&run);
    assert!(place.processes(&run).len() >= 2, "its tools go on");
    let story = house.ended(&child, 1);
    assert_eq!((story.statuses(), causes(&story)), (vec!["running", "failed"], vec!["runner_exit"]), "{}", story.told());
    assert_eq!(place.processes(&run), Vec::<i32>::new());
}

#[test]
fn a_runner_that_is_killed_in_a_sandbox_of_daytona_leaves_no_process() {
    a_killed_runner_leaves_no_process(Daytona);
}

#[test]
fn a_runner_that_is_killed_in_a_sprite_leaves_no_process() {
    a_killed_runner_leaves_no_process(Sprite);
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_machine_that_does_not_reach_the_server_goes_through_a_proxy() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}");
    let Some(abroad) = Abroad::start(Daytona, &["--machines-url", &url]) else { return };
    let house = &abroad.house;
    let child = house.delegate(&bash("echo through"));
    house.until(&child, "nothing is heard of it", |story| {
        story.of("signal.dispatch.warned").iter().any(|told| told["warning"] == SILENT).then_some(())
    });
    let mut proxy = Command::new(arbe_binary().unwrap());
    proxy.args(["stream-proxy", "--listen", &address.to_string(), "--upstream", &house.scene.url()]);
    let _proxy = Running(proxy.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    let story = house.completed(&child, 1);
    assert_eq!((story.results(), story.transcript()), (vec!["through\n"], abroad.place(&child).session(&child)));
}
