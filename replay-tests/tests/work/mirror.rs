//! The mirror cannot say what pi does, while pi and its runner live. The thread says so, and has everything in the end.

use std::fs;

use serde_json::{Value, json};

use crate::house::{House, bash};
use crate::machine::{Machine, Process};
use crate::scene::until;
use crate::story::Story;

/// Lets itself into pi by its debugger, and takes from the mirror every way to the runner. pi goes on: its model is asked by other means.
const MUTE: &str = "
let found;
while (!found) found = await fetch(`http://127.0.0.1:9229/json`).then((answer) => answer.json(), () => undefined);
const socket = new WebSocket(found[0].webSocketDebuggerUrl);
const expression = `process.getBuiltinModule(\"http\").Agent.prototype.addRequest = () => {}`;
socket.onopen = () => socket.send(JSON.stringify({ id: 1, method: `Runtime.evaluate`, params: { expression } }));
socket.onmessage = ({ data }) => process.exit(JSON.parse(data).result.exceptionDetails ? 1 : 0);
";

/// With a server that is used to the pauses between two signs of life.
fn house() -> Option<House> {
    House::apart(&["--orphan-after", "12s"], &json!({}))
}

/// A tool that shows that it runs, and waits until it may end.
fn waits(first: &str) -> String {
    bash(&format!("{first} echo ran >> ran; while ! [ -e go ]; do sleep 0.1; done; cat ran"))
}

fn go(machine: &Machine) {
    fs::write(machine.directory.join("work/go"), "").unwrap();
}

fn warnings<'a>(story: &'a Story, warning: &str) -> Vec<&'a Value> {
    story.of("signal.dispatch.warned").into_iter().filter(|told| told["warning"] == warning).collect()
}

/// The way out of the machine, for as long as a run lasts.
fn relay(machine: &Machine) -> Process {
    machine.process("arbe-helper")
}

#[test]
fn a_mirror_that_dies_in_pi_is_told_while_pi_works_and_the_runner_tells_what_it_could_not() {
    let Some(house) = house() else { return };
    let child = house.delegate(&waits(&format!("kill -USR1 $PPID && node --input-type=module -e '{MUTE}' && ")));
    let machine = house.in_a_tool(&child, "ran");
    let pi = machine.child_of(&machine.process("arbe-runner"));
    let lost = |story: &Story| warnings(story, "mirror_lost").first().map(|told| told["run_id"].clone());
    let run = house.until(&child, "it is told that the mirror is lost", lost);
    let story = house.story(&child);
    assert_eq!((&run, story.statuses()), (&json!(story.run()), vec!["running"]), "{}", story.told());
    assert!(machine.processes().iter().any(|it| it.pid == pi.pid), "pi lives");
    let before = story.of("signal.dispatch.heartbeat").len();
    let beats = |story: &Story| (story.of("signal.dispatch.heartbeat").len() > before).then_some(());
    house.until(&child, "the runner gives signs of life", beats);

    go(&machine);
    let story = house.completed(&child, 1);
    assert_eq!((story.transcript(), story.results()), (machine.session(&child), vec!["ran\n"]));
    assert_eq!(["mirror_lost", "mirror_mended"].map(|it| warnings(&story, it).len()), [1, 1], "{}", story.told());
    assert_eq!((story.statuses(), warnings(&story, "mirror_silent").len()), (vec!["running", "completed"], 0));
}

#[test]
fn a_mirror_that_does_not_reach_the_stream_is_told_while_pi_works_and_all_comes_when_it_does() {
    let Some(house) = house() else { return };
    let child = house.delegate(&waits(""));
    let machine = house.in_a_tool(&child, "ran");
    let relay = relay(&machine);
    relay.stop();
    let silent = |story: &Story| (!warnings(story, "mirror_silent").is_empty()).then_some(());
    house.until(&child, "it is told that nothing is heard", silent);
    go(&machine);
    let is_result = |line: &Value| line["message"]["role"] == "toolResult";
    until("the tool has ended", || machine.session(&child).iter().any(is_result).then_some(()));
    let story = house.story(&child);
    assert_eq!((story.results().len(), story.statuses()), (0, vec!["running"]), "{}", story.told());

    relay.go_on();
    let story = house.completed(&child, 1);
    assert_eq!((story.transcript(), story.results()), (machine.session(&child), vec!["ran\n"]));
    assert_eq!(warnings(&story, "mirror_silent").len(), 1, "{}", story.told());
    assert_eq!((story.statuses(), machine.file("ran").as_deref()), (vec!["running", "completed"], Some("ran\n")));
}

#[test]
fn a_run_that_never_reaches_the_stream_again_can_be_cancelled_and_leaves_nothing() {
    let Some(house) = house() else { return };
    let child = house.delegate(&waits(""));
    let machine = house.in_a_tool(&child, "ran");
    relay(&machine).stop();
    let silent = |story: &Story| (!warnings(story, "mirror_silent").is_empty()).then_some(());
    house.until(&child, "it is told that nothing is heard", silent);
    house.scene.ask("POST", &format!("/api/threads/{child}/cancel"), &Value::Null);
    let story = house.ended(&child, 1);
    assert_eq!(story.statuses(), ["running", "cancelled"], "{}", story.told());
    until("nothing is left in the machine", || machine.processes().is_empty().then_some(()));
}
