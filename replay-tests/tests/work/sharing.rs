//! Machines: one for each task, unless one is named; and what becomes of those who share one that dies.

use std::fs;

use replay_tests::model::Role;
use serde_json::json;

use crate::house::{House, bash};
use crate::scene::until;

#[test]
fn three_tasks_at_once_have_three_machines_and_see_nothing_of_each_other() {
    let Some(house) = House::start() else { return };
    let machines = house.scene.machine("").directory;
    let look = format!("while ! [ -e go ]; do sleep 0.1; done; ls -A; cat {}/*/work/own; true", machines.display());
    let tasks = [1, 2, 3].map(|n| house.delegate(&bash(&format!("echo {n} > own; {look}"))));
    let at_once = tasks.each_ref().map(|task| house.in_a_tool(task, "own"));
    at_once.iter().for_each(|machine| fs::write(machine.directory.join("work/go"), "").unwrap());
    let stories = tasks.each_ref().map(|task| house.completed(task, 1));
    for (n, (task, story)) in tasks.iter().zip(&stories).enumerate() {
        assert!(story.results()[0].starts_with("go\nown\ncat: "), "{:?}", story.results());
        assert_eq!(at_once[n].file("own"), Some(format!("{}\n", n + 1)));
        assert_eq!(story.transcript(), at_once[n].session(task));
    }
    let mut sandboxes = stories.each_ref().map(|story| story.sandbox().unwrap());
    sandboxes.sort_unstable();
    assert!(sandboxes[0] != sandboxes[1] && sandboxes[1] != sandboxes[2], "{sandboxes:?}");
}

#[test]
fn a_machine_that_is_named_is_shared() {
    let Some(house) = House::start() else { return };
    let first = house.delegate(&bash("echo from the first > shared"));
    let sandbox = house.completed(&first, 1).sandbox().unwrap().to_owned();
    let second = house.delegate_with(json!({ "prompt": bash("cat shared"), "sandbox_id": sandbox }));
    let story = house.completed(&second, 1);
    assert_eq!((story.results(), story.sandbox()), (vec!["from the first\n"], Some(sandbox.as_str())));
    assert_eq!(story.transcript(), house.machine(&second).session(&second), "each has a session of its own");
}

#[test]
fn all_who_share_a_dead_machine_go_on_together_on_another_and_the_model_sees_what_was_said() {
    let Some(house) = House::start() else { return };
    let (one, other) = (format!("remember one of {}", house.id), format!("remember another of {}", house.id));
    let first = house.delegate(&one);
    let dead = house.completed(&first, 1).sandbox().unwrap().to_owned();
    let second = house.delegate_with(json!({ "prompt": other, "sandbox_id": dead }));
    house.completed(&second, 1);
    let third = house.delegate_with(json!({ "prompt": bash("echo ran >> ran; sleep 600"), "sandbox_id": dead }));
    house.in_a_tool(&third, "ran").destroy();

    let (class, why) = house.failed(&third, 1);
    assert_eq!(class, "sandbox_dead", "{why}");
    assert_eq!(house.scene.get(&format!("/api/sandboxes/{dead}"))["status"], "dead");
    assert_eq!(house.story(&first).sandbox(), Some(dead.as_str()), "nobody moves before he is spoken to");

    let again = format!("what was it, {}?", house.id);
    house.say(&first, &again);
    let fresh = house.completed(&first, 2).sandbox().unwrap().to_owned();
    assert_ne!(fresh, dead);
    for thread in [&first, &second, &third] {
        let story = house.story(thread);
        assert_eq!(story.of("signal.thread.sandbox_resumed"), [&json!({ "sandbox_id": fresh, "from_sandbox_id": dead })]);
        let row = house.scene.get(&format!("/api/threads/{thread}"));
        assert_eq!((row["sandbox_id"].as_str(), story.sandbox()), (Some(fresh.as_str()), Some(fresh.as_str())));
        assert_eq!(story.warned().len(), 1, "what became of the tree is said to all: {}", story.told());
    }
    let seen: Vec<_> = house.asked(&again).turns.iter().map(|turn| (turn.role, turn.text.clone())).collect();
    let answer = format!("I heard: {one}").chars().take(69).collect::<String>();
    assert_eq!(seen, [(Role::User, one), (Role::Assistant, answer), (Role::User, again)]);

    house.say(&second, &format!("and you, {}?", house.id));
    assert_eq!(house.completed(&second, 2).sandbox(), Some(fresh.as_str()));
    let seen = house.asked(&format!("and you, {}?", house.id));
    assert_eq!(seen.texts(Role::User).next(), Some(other.as_str()));
}

#[test]
fn a_busy_machine_that_a_member_has_destroyed_is_gone_with_all_that_ran_on_it_and_the_thread_says_why() {
    let Some(house) = House::start() else { return };
    let child = house.delegate(&bash("echo ran >> ran; sleep 600"));
    let machine = house.in_a_tool(&child, "ran");
    let command = std::thread::scope(|scope| {
        let command = scope.spawn(|| house.command(&child, "echo begun > begun; sleep 600"));
        until("the command has begun", || machine.file("begun").filter(|text| text.ends_with('\n')));
        house.scene.ask("POST", &format!("/api/sandboxes/{}/destroyed", machine.sandbox), &json!({}));
        command.join().unwrap()
    });
    let expected = (&json!("command_broken"), &json!("the machine is gone: a member had it destroyed"));
    assert_eq!((&command["error_class"], &command["why"]), expected, "{command}");
    let (class, why) = house.failed(&child, 1);
    assert_eq!((class.as_str(), why.as_str()), ("sandbox_dead", "the machine is gone: a member had it destroyed"));
    assert!(machine.processes().is_empty() && !machine.directory.exists());
    let row = || house.scene.get(&format!("/api/sandboxes/{}", machine.sandbox));
    until("it is recorded", || row()["destroyed_at"].is_string().then_some(()));
    house.say(&child, &bash("cat ran"));
    let story = house.completed(&child, 2);
    assert_eq!(story.results().last(), Some(&"ran\n"), "{}", story.told());
}

#[test]
fn a_fresh_machine_begins_with_the_tree_that_was_kept_and_the_thread_says_so() {
    let Some(house) = House::start() else { return };
    let child = house.delegate(&bash("echo kept > kept"));
    let dead = house.completed(&child, 1).sandbox().unwrap().to_owned();
    let trees = house.scene.data().join("log/trees").join(&house.id);
    until("the tree is kept", || trees.join(&dead).exists().then_some(()));
    house.scene.machine(&dead).destroy();
    house.say(&child, &bash("cat kept"));
    let story = house.completed(&child, 2);
    assert_eq!(story.results().last(), Some(&"kept\n"));
    let warned = story.warned();
    assert_eq!((warned.len(), &warned[0]["warning"]), (1, &json!("tree_restored")), "{}", story.told());
    assert!(story.sandbox() != Some(dead.as_str()) && story.transcript().len() > 8, "{}", story.told());
}

#[test]
fn an_idle_machine_of_delegated_work_is_taken_away_and_its_thread_goes_on_on_another() {
    let Some(house) = House::apart(&["--reap-after", "1s"], &json!({})) else { return };
    house.command(&house.chat, "echo stays > stays");
    let prompt = bash("echo kept > kept");
    let child = house.delegate(&prompt);
    house.completed(&child, 1);
    let machine = house.machine(&child);
    until("the machine is taken away", || (!machine.directory.exists()).then_some(()));
    assert_eq!(house.machine(&house.chat).file("stays").as_deref(), Some("stays\n"), "one of a chat is not");
    house.say(&child, &bash("cat kept"));
    let story = house.completed(&child, 2);
    assert_eq!(story.results().last(), Some(&"kept\n"), "{}", story.told());
    assert!(story.sandbox().is_some_and(|sandbox| sandbox != machine.sandbox), "{}", story.told());
    assert_eq!(house.asked("cat kept").texts(Role::User).next(), Some(prompt.as_str()));
}
