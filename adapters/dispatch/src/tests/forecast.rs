use std::time::Duration;

use commands::Actor;
use commands::ports::{Exit, ProcessState, Verdict};
use events::ThreadStatus;

use super::scene::*;
use crate::diagnose::Case;
use crate::judge::Sight;
use crate::options::Patience;
use crate::surroundings::Trouble;

fn follows(scene: &Scene, id: &str, server: &str, sight: Option<&Sight>) -> String {
    known(scene, id, server, sight, None, false)
}

/// With what is known of servers and of the machine.
fn known(
    scene: &Scene,
    id: &str,
    server: &str,
    sight: Option<&Sight>,
    unserved: Option<(Duration, Trouble)>,
    leaving: bool,
) -> String {
    let thread = thread(id);
    let status = scene.world.thread(&thread).map_or(ThreadStatus::Closed, |thread| thread.status);
    let room = scene.desk.room(&thread).cloned().unwrap_or_default();
    let tried = room.run.as_ref().map(|run| run.since);
    let (now, patience) = (scene.now, &Patience::default());
    Case { status, room: &room, sight, server, tried, unserved, leaving, now, patience }.follows()
}

fn sight(process: Option<ProcessState>, machine: Verdict) -> Sight {
    Sight { silent: Duration::from_secs(5), cancelled: None, process, machine }
}

#[test]
fn a_thread_at_rest_waits_for_words() {
    let mut scene = scene();
    assert_eq!(follows(&scene, "d", "one", None), "nothing until something is said here or a run is started");
    scene.says(ADA, "d", "do this");
    assert_eq!(follows(&scene, "d", "one", None), "the next run begins now, with what was said since the last");
    let said = scene.says(ADA, "t", "@pia hello");
    scene.desk.heard(&thread("t"), &said, &[PIA]);
    assert_eq!(follows(&scene, "t", "one", None), "bots answer what was said");
}

#[test]
fn a_run_on_its_way_is_its_servers_until_that_is_silent() {
    let mut scene = scene();
    scene.starts("d", "r1");
    assert_eq!(
        follows(&scene, "d", "one", None),
        "a server that has such machines claims it at once and brings it onto one; none has so far"
    );
    scene.is_claimed("d", None, &run("r1"), "one");
    scene.now += 20_000;
    assert!(follows(&scene, "d", "one", None).ends_with("if that cannot be reached it fails in 280 s"));
    let other = follows(&scene, "d", "two", None);
    assert!(other.starts_with("the server one brings") && other.ends_with("another takes over in 40 s"), "{other}");
    scene.is_cancelled("d");
    assert!(follows(&scene, "d", "one", None).starts_with("it was asked to stop"));
}

#[test]
fn a_run_that_no_server_will_ever_take_up_fails_in_time() {
    let mut scene = scene();
    scene.starts("d", "r1");
    let told = |secs| {
        let unserved = (Duration::from_secs(secs), Trouble::new("no_provider", "no machines of moon"));
        known(&scene, "d", "one", None, Some(unserved), false)
    };
    assert_eq!(told(0), "it fails now: no machines of moon");
    assert_eq!(told(40), "no server ever had such machines: if none comes it fails in 40 s; no machines of moon");
}

#[test]
fn what_is_on_a_machine_that_is_being_destroyed_waits_for_its_end() {
    let mut scene = scene();
    scene.starts("d", "r1");
    let told = |scene: &Scene, sight: Option<&Sight>| known(scene, "d", "one", sight, None, true);
    let expected = "its machine is being destroyed, as a member asked: ";
    assert_eq!(told(&scene, None), format!("{expected}it begins on another when that is gone"));
    scene.is_claimed("d", None, &run("r1"), "one");
    scene.entry(Actor::System, "d", None, "signal.dispatch.session_started", r#"{"run_id":"r1"}"#);
    for process in [None, Some(ProcessState::Running)] {
        let sight = sight(process, Verdict::Live);
        assert_eq!(told(&scene, Some(&sight)), format!("{expected}the run fails when that is gone"));
    }
}

#[test]
fn a_launched_run_goes_by_what_the_machine_says() {
    let mut scene = scene();
    scene.starts("d", "r1");
    scene.is_claimed("d", None, &run("r1"), "one");
    scene.entry(Actor::System, "d", None, "signal.dispatch.session_started", r#"{"run_id":"r1"}"#);
    let told = |sight: Sight| follows(&scene, "d", "one", Some(&sight));
    for (process, expected) in [
        (Some(ProcessState::Running), "nothing: its process runs, however long it is silent"),
        (Some(ProcessState::Exited(Exit::Signal(9))), "its process ended by signal 9: the run fails in 10 s unless"),
        (Some(ProcessState::Absent), "the machine knows no process of it: it is declared an orphan in 85 s unless"),
        (None, "its process is unknown: nothing changes until the provider says what it does"),
    ] {
        let told = told(sight(process, Verdict::Live));
        assert!(told.starts_with(expected), "{told}");
    }
    let unknown = told(sight(None, Verdict::Unknown { why: "no answer".to_owned() }));
    let expected =
        "the machine is unknown (no answer): nothing changes until it answers; else it is declared an orphan in 86395 s";
    assert!(unknown.starts_with(expected), "{unknown}");
    let stopped = told(sight(None, Verdict::Resumable));
    assert!(stopped.starts_with("the machine was stopped and nothing runs in it: the run fails in 85 s"), "{stopped}");
    let dead = Verdict::Dead { why: "404".to_owned() };
    assert_eq!(told(sight(None, dead)), "the machine is gone (404): all runs on it fail at the next look, within 10 s");
    let asked = Sight { cancelled: Some(Duration::from_secs(10)), ..sight(Some(ProcessState::Running), Verdict::Live) };
    assert_eq!(told(asked), "it was asked to stop: its process is stopped in 20 s");
    let elsewhere = follows(&scene, "d", "two", Some(&sight(Some(ProcessState::Running), Verdict::Live)));
    assert!(elsewhere.ends_with("; the server one watches it"), "{elsewhere}");
    assert_eq!(follows(&scene, "d", "one", None), "nothing changes until it has a machine that can be asked");
}
