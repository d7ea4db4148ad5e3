//! The server is killed at each step of a run. The next one goes on where it was, and nothing happens twice.

use std::time::Duration;

use serde_json::{Value, json};

use crate::house::{House, bash};
use crate::scene::until;
use crate::story::Story;

/// What is known of a run from outside.
struct Seen<'a> {
    house: &'a House,
    thread: &'a str,
    story: Story,
}

impl Seen<'_> {
    fn machine(&self) -> Option<crate::machine::Machine> {
        self.story.sandbox().map(|sandbox| self.house.scene.machine(sandbox))
    }

    fn has(&self, kind: &str) -> bool {
        !self.story.of(kind).is_empty()
    }
}

type Moment = (&'static str, fn(&Seen<'_>) -> bool);

const BEGINNING: [Moment; 8] = [
    ("it was asked for", |_| true),
    ("it is claimed", |seen| seen.has("signal.dispatch.claimed")),
    ("its machine is asked for", |seen| seen.machine().is_some()),
    ("its machine is being made", |seen| seen.machine().is_some_and(|machine| machine.directory.exists() && !machine.is_made())),
    ("its machine is made", |seen| seen.machine().is_some_and(|machine| machine.is_made())),
    ("its task is written", |seen| seen.machine().is_some_and(|machine| machine.has_task(seen.story.run()))),
    ("it is launched", |seen| seen.machine().is_some_and(|machine| machine.was_launched(seen.story.run()))),
    ("its session has started", |seen| seen.has("signal.dispatch.session_started")),
];

const ENDING: [Moment; 5] = [
    ("its tool runs", |seen| seen.machine().is_some_and(|machine| machine.file("ran").is_some())),
    ("its tool has ended", |seen| seen.has("pi.tool_result")),
    ("the model has answered", |seen| seen.story.stops().contains(&"stop")),
    ("its end is known in its machine", |seen| {
        seen.machine().is_some_and(|machine| machine.knows_the_end(seen.thread, seen.story.run()))
    }),
    ("its end is told", |seen| !seen.story.ends().is_empty()),
];

/// Killed when a run has come so far; `reach` waits for that.
fn is_survived(house: &House, moment: &str, reach: impl FnOnce(&str)) {
    let thread = house.delegate(&bash("echo ran >> ran; sleep 2"));
    reach(&thread);
    house.scene.kill();
    std::thread::sleep(Duration::from_millis(200));
    house.scene.start_again(&[]);

    let story = house.completed(&thread, 1);
    let machine = house.machine(&thread);
    let once = [("ran", "ran\n"), ("made", "made\n")];
    once.iter().for_each(|(file, line)| assert_eq!(machine.file(file).as_deref(), Some(*line), "{moment}"));
    assert_eq!(story.statuses(), ["running", "completed"], "{moment}");
    assert_eq!(story.transcript(), machine.session(&thread), "{moment}");
    let told = |story: &Story| (!results(story, &thread).is_empty()).then_some(());
    house.until(&house.chat, "the parent is told", told);
    let parent = house.story(&house.chat);
    let finished = parent.of("signal.thread.child_finished");
    let finished = finished.iter().filter(|told| told["child_thread_id"] == json!(thread)).count();
    assert_eq!((finished, results(&parent, &thread).len()), (1, 1), "{moment}: {}", parent.told());
}

/// A house whose machines take a while to be made.
fn house() -> Option<House> {
    House::apart(&[], &json!({ "setup": "echo made >> made; sleep 1" }))
}

fn survives(moments: &[Moment]) {
    let Some(house) = house() else { return };
    for (moment, reached) in moments {
        let reach = |thread: &str| {
            until(moment, || reached(&Seen { house: &house, thread, story: house.story(thread) }).then_some(()));
        };
        is_survived(&house, moment, reach);
    }
}

/// What was said in the parent in answer to the end of the child.
fn results<'a>(parent: &'a Story, child: &str) -> Vec<&'a Value> {
    let ends = parent.entries("signal.thread.child_finished");
    let end = ends.iter().find(|entry| entry["payload"]["child_thread_id"] == child);
    parent.of("chat").into_iter().filter(|told| end.is_some_and(|end| told["reply_to"] == end["id"])).collect()
}

#[test]
fn kill_9_of_the_server_while_a_run_begins_neither_loses_nor_doubles_it() {
    survives(&BEGINNING);
}

#[test]
fn kill_9_of_the_server_while_a_run_works_and_ends_neither_loses_nor_doubles_it() {
    survives(&ENDING);
}

#[test]
#[ignore = "five minutes; the named moments are tested above"]
fn kill_9_of_the_server_at_any_moment_neither_loses_nor_doubles_a_run() {
    let Some(house) = house() else { return };
    for moment in (0..7_000).step_by(200).map(Duration::from_millis) {
        is_survived(&house, &format!("after {moment:?}"), |_| std::thread::sleep(moment));
    }
}

#[test]
fn kill_9_of_the_server_right_after_a_further_word_neither_loses_nor_doubles_it() {
    let Some(house) = House::apart(&[], &json!({})) else { return };
    let thread = house.delegate(&bash("echo ran >> ran"));
    house.completed(&thread, 1);
    let again = format!("{} again, {}", bash("echo again >> ran"), house.id);
    house.say(&thread, &again);
    house.scene.kill();
    house.scene.start_again(&[]);
    let story = house.completed(&thread, 2);
    assert_eq!(story.statuses(), ["running", "completed", "running", "completed"], "{}", story.told());
    assert_eq!(house.machine(&thread).file("ran").as_deref(), Some("ran\nagain\n"));
    assert_eq!(story.transcript(), house.machine(&thread).session(&thread));
}

#[test]
fn a_command_that_dies_with_its_server_is_told_as_unknown_and_not_run_again() {
    let Some(house) = House::apart(&[], &json!({})) else { return };
    house.say(&house.chat, &format!("@Pia TOOL: run_command {}", json!({ "command": "echo ran >> ran; sleep 30" })));
    let machine = house.in_a_tool(&house.chat, "ran");
    house.scene.kill();
    until("the command has ended with its server", || machine.processes().is_empty().then_some(()));
    house.scene.start_again(&[]);
    let answered = |story: &Story| story.of("pi.assistant").iter().any(|told| told["stopReason"] == "stop").then_some(());
    house.until(&house.chat, "the bot has answered all the same", answered);
    let story = house.story(&house.chat);
    let (begun, finished) = (story.of("signal.command.started"), story.of("signal.command.finished"));
    assert_eq!((begun.len(), finished.len(), &finished[0]["exit_code"]), (1, 1, &Value::Null), "{}", story.told());
    let given = story.of("pi.tool_result");
    assert!(given[0]["content"][0]["text"].as_str().unwrap().contains("unknown"), "{}", story.told());
    assert_eq!(machine.file("ran").as_deref(), Some("ran\n"));
}

#[test]
fn a_run_whose_words_the_stream_does_not_take_any_more_has_failed_and_the_thread_says_so() {
    let Some(house) = House::apart(&[], &json!({})) else { return };
    let thread = house.delegate(&bash("echo ran >> ran; sleep 4"));
    let machine = house.in_a_tool(&thread, "ran");
    house.scene.kill();
    house.scene.start_again(&["--token-key", "another key than the one that signed the token of the run"]);
    let (class, why) = house.failed(&thread, 1);
    assert!(class == "mirror" && why.contains("did not reach the thread"), "{class}: {why}");
    let story = house.story(&thread);
    assert!(story.transcript().len() < machine.session(&thread).len(), "it was noticed without need: {}", story.told());
    assert_eq!((machine.file("ran").as_deref(), machine.processes().len()), (Some("ran\n"), 0));
}

#[test]
fn a_run_that_ends_while_no_server_runs_is_told_by_the_next() {
    let Some(house) = House::apart(&[], &json!({})) else { return };
    let thread = house.delegate(&bash("echo ran >> ran; sleep 600"));
    let machine = house.in_a_tool(&thread, "ran");
    let pi = machine.child_of(&machine.process("arbe-runner"));
    house.scene.kill();
    pi.kill();
    until("pi is gone", || machine.processes().iter().all(|it| it.pid != pi.pid).then_some(()));
    house.scene.start_again(&[]);
    let (class, why) = house.failed(&thread, 1);
    assert_eq!((class.as_str(), why.as_str()), ("signal", "the harness was killed by signal 9"));
    let story = house.story(&thread);
    assert_eq!(story.transcript(), machine.session(&thread));
    assert_eq!(machine.file("ran").as_deref(), Some("ran\n"));
}
