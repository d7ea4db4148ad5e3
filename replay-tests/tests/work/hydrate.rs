//! A thread goes on in another machine with a session that is made for it. If that is not what it should be, nothing is begun.

use std::fs;
use std::path::{Path, PathBuf};

use replay_tests::model::{Conversation, Role};
use serde_json::{Value, json};

use crate::house::{House, bash, now_ms};
use crate::machine::{Machine, Process};
use crate::scene::until;

struct Damage {
    name: &'static str,
    why: &'static str,
    /// The text that is there in the place of the whole one.
    left: fn(&str) -> Option<String>,
}

impl Damage {
    fn is_done_to(&self, session: &Path) {
        let whole = fs::read_to_string(session).unwrap();
        match (self.left)(&whole) {
            Some(text) => fs::write(session, text).unwrap(),
            None => fs::remove_file(session).unwrap(),
        }
    }
}

const DAMAGES: [Damage; 4] = [
    Damage { name: "missing", why: "the session that was made for this run is not at", left: |_| None },
    Damage { name: "empty", why: "it is empty", left: |_| Some(String::new()) },
    Damage { name: "torn", why: "is not JSON", left: |whole| Some(whole[..whole.len() - 20].to_owned()) },
    Damage { name: "short", why: "lacks what the thread holds: 1 of its lines", left: |whole| Some(without_the_last(whole)) },
];

fn without_the_last(whole: &str) -> String {
    let lines: Vec<_> = whole.lines().collect();
    lines[..lines.len() - 1].join("\n") + "\n"
}

/// A thread whose machine has died, on a new one on which nothing has run yet.
fn moved(house: &House, name: &str) -> (String, Machine) {
    let child = house.delegate(&bash(&format!("echo {name} > first")));
    house.completed(&child, 1);
    let dead = house.machine(&child);
    dead.destroy();
    house.command(&child, "true");
    let machine = house.machine(&child);
    assert_ne!(machine.sandbox, dead.sandbox);
    (child, machine)
}

/// Launches the next run while the machine does not reach the server: a runner reads the thread before it looks at the session.
fn launched_behind_a_closed_door(house: &House, child: &str, machine: &Machine, prompt: &str) -> PathBuf {
    let door = machine.directory.join("run/0.sock");
    fs::rename(&door, door.with_extension("closed")).unwrap();
    house.say(child, prompt);
    let is_runner = |process: &Process| process.name == "arbe-runner";
    until("the runner waits for the door", || machine.processes().iter().any(is_runner).then_some(()));
    let run = house.story(child).run().to_owned();
    machine.directory.join(format!("home/.arbe/runs/{run}/session.jsonl"))
}

fn open_the_door(machine: &Machine) {
    let door = machine.directory.join("run/0.sock");
    fs::rename(door.with_extension("closed"), door).unwrap();
}

#[test]
fn a_session_that_is_missing_or_damaged_when_the_run_begins_is_a_failure_with_its_cause_and_nothing_runs() {
    let Some(house) = House::start() else { return };
    let moved = DAMAGES.each_ref().map(|damage| moved(&house, damage.name));
    let prompt = |name: &str| format!("{} {name} {}", bash("echo again >> again"), house.id);
    for (it, (child, machine)) in DAMAGES.iter().zip(&moved) {
        let session = launched_behind_a_closed_door(&house, child, machine, &prompt(it.name));
        it.is_done_to(&session);
        open_the_door(machine);
    }
    for (damage, (child, machine)) in DAMAGES.iter().zip(&moved) {
        let before = house.story(child).transcript();
        let (class, why) = house.failed(child, 2);
        assert!(class == "hydrate" && why.contains(damage.why), "{}: {class}: {why}", damage.name);
        let story = house.story(child);
        assert_eq!(story.statuses(), ["running", "completed", "running", "failed"], "{}", story.told());
        assert_eq!((story.transcript(), machine.file("again")), (before, None), "{}", damage.name);
        until("nothing is left in the machine", || machine.processes().is_empty().then_some(()));
        let asked = house.scene.model.requests();
        let hears = |it: &Conversation| it.texts(Role::User).any(|text| text.contains(&prompt(damage.name)));
        assert!(!asked.iter().any(hears), "the model was asked");
    }
    let (child, machine) = &moved[0];
    house.say(child, &prompt("once more"));
    assert_eq!(house.completed(child, 3).transcript()[1..], machine.session(child)[1..]);
    let seen = house.asked(&prompt("once more"));
    assert_eq!(seen.texts(Role::User).next(), Some(&*bash("echo missing > first")), "and all is there again");
}

#[test]
fn a_thread_that_holds_no_whole_session_is_not_gone_on_with_and_says_so() {
    let Some(house) = House::start() else { return };
    let child = house.delegate(&bash("echo first > first"));
    house.completed(&child, 1);
    let stray = json!({ "type": "message", "id": "ffffffff", "parentId": "eeeeeeee", "timestamp": "2026-01-01T00:00:00.000Z",
        "message": { "role": "user", "content": [{ "type": "text", "text": "lost" }], "timestamp": 1 } });
    let token = house.token(&house.key(), &child, now_ms());
    let stream = format!("/api/stream/arbe-thread-{child}");
    let (status, answer) = house.scene.send_as(&token, "POST", &stream, &json!({ "type": "pi.entry", "payload": stray }));
    assert_eq!(status, 201, "{answer}");
    let dead = house.machine(&child);
    dead.destroy();
    house.say(&child, &bash("echo again >> again"));
    let (class, why) = house.failed(&child, 2);
    assert!(class == "hydrate" && why.contains("eeeeeeee, which is not there"), "{class}: {why}");
    let (story, machine) = (house.story(&child), house.machine(&child));
    assert!(machine.sandbox != dead.sandbox && !machine.was_launched(story.run()), "{}", story.told());
    assert_eq!((machine.file("again"), story.results().len()), (None::<String>, 1), "{}", story.told());
    assert_eq!(story.of("signal.dispatch.session_started").iter().filter(|told| is_of(told, story.run())).count(), 0);
}

fn is_of(told: &Value, run: &str) -> bool {
    told["run_id"] == run
}
