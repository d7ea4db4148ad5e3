use std::collections::BTreeSet;
use std::time::Duration;

use commands::Actor;
use events::ThreadId;

use super::scene::*;
use crate::desk::turn_id;
use crate::due::{Job, Look};
use crate::options::{Door, Manners, Options, Patience, Runner};

pub(super) fn options(server: &str) -> Options {
    Options {
        server: server.to_owned(),
        provider: "local".to_owned(),
        relayed: BTreeSet::new(),
        door: Door { url: String::new(), address: String::new() },
        harnesses: ["pi".to_owned()].into(),
        runners: [("yard".to_owned(), Runner::At("runner".to_owned()))].into(),
        model: None,
        reach: Default::default(),
        patience: Patience::default(),
        manners: Manners::default(),
    }
}

fn due(scene: &Scene, server: &str, later: Duration) -> Vec<Job> {
    let options = options(server);
    let now = scene.now + later.as_millis() as u64;
    let look = Look { world: &scene.world, desk: &scene.desk, options: &options, now };
    scene.desk.open().flat_map(|(id, room)| look.of_room(id, room)).collect()
}

fn drive(id: &str, run_id: &str) -> Job {
    Job::Drive { thread: thread(id), run: run(run_id) }
}

const NOW: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn a_run_is_driven_by_who_claimed_it_and_by_another_after_long_silence() {
    let mut scene = scene();
    scene.starts("d", "r1");
    assert_eq!(due(&scene, "one", NOW), [drive("d", "r1")]);
    scene.is_claimed("d", None, &run("r1"), "one");
    assert_eq!(due(&scene, "one", NOW), [drive("d", "r1")], "after a restart it goes on");
    assert_eq!(due(&scene, "two", NOW), []);
    assert_eq!(due(&scene, "two", LONG), [drive("d", "r1")]);
    scene.entry(Actor::System, "d", None, "signal.dispatch.session_started", r#"{"run_id":"r1"}"#);
    assert_eq!(due(&scene, "one", NOW), [Job::Watch { thread: thread("d"), run: run("r1") }]);
    scene.ends("d");
    assert_eq!(due(&scene, "one", LONG), []);
}

#[test]
fn a_claim_is_no_sign_of_life_so_a_run_that_others_took_up_is_still_silent() {
    let mut scene = scene();
    scene.starts("d", "r1");
    scene.is_claimed("d", None, &run("r1"), "one");
    scene.entry(Actor::System, "d", None, "signal.dispatch.session_started", r#"{"run_id":"r1"}"#);
    let seen = |scene: &Scene| scene.desk.run(&thread("d"), &run("r1")).unwrap().seen;
    let first = seen(&scene);
    let patience = Patience::default();
    let taken_up = patience.orphan + patience.watch * 2;
    assert_eq!(due(&scene, "two", taken_up - patience.watch), [], "its own server has the first look");
    assert_eq!(due(&scene, "two", taken_up), [drive("d", "r1")]);
    scene.now += taken_up.as_millis() as u64;
    scene.is_claimed("d", None, &run("r1"), "two");
    assert_eq!(seen(&scene), first);
    assert_eq!(due(&scene, "one", NOW), [], "it is the other's now");
}

#[test]
fn signs_of_life_are_those_of_the_run() {
    let mut scene = scene();
    scene.starts("d", "r1");
    let seen = |scene: &Scene| scene.desk.run(&thread("d"), &run("r1")).unwrap().seen;
    let first = seen(&scene);
    scene.now += 50;
    scene.says(ADA, "d", "are you there?");
    assert_eq!(seen(&scene), first);
    scene.entry(Actor::Agent(PIA), "d", None, "pi.chunk", "{}");
    assert!(seen(&scene) > first);
}

#[test]
fn what_is_said_to_a_driven_thread_is_taken_up_by_its_next_run_once() {
    let mut scene = scene();
    let first = scene.says(ADA, "d", "do this");
    assert_eq!(due(&scene, "one", NOW), [Job::Next { thread: thread("d"), said: first }]);
    scene.starts("d", "r1");
    let about = scene.desk.run(&thread("d"), &run("r1")).unwrap().about.clone();
    assert_eq!(about, 0..2, "from the beginning to the run's own beginning");
    let later = scene.says(ADA, "d", "and that");
    scene.says(PIA, "d", "my own words");
    assert_eq!(due(&scene, "one", NOW), [drive("d", "r1")]);
    scene.ends("d");
    assert_eq!(due(&scene, "one", NOW), [Job::Next { thread: thread("d"), said: later }]);
}

#[test]
fn a_request_to_stop_stands_with_the_run_it_is_about() {
    let mut scene = scene();
    scene.starts("d", "r1");
    scene.is_cancelled("d");
    assert!(scene.desk.run(&thread("d"), &run("r1")).unwrap().cancelled.is_some());
}

#[test]
fn an_answer_is_open_until_its_last_words() {
    let mut scene = scene();
    let said = scene.says(ADA, "t", "@pia hello");
    assert_eq!(scene.desk.unheard().len(), 1);
    scene.desk.heard(&thread("t"), &said, &[PIA]);
    let turn = turn_id(&thread("t"), &said, PIA);
    let reply = Job::Reply { thread: thread("t"), turn: turn.clone() };
    assert_eq!(due(&scene, "one", NOW), std::slice::from_ref(&reply));
    scene.is_claimed("t", Some(PIA), &turn, "one");
    assert_eq!(due(&scene, "two", NOW), []);
    assert_eq!(due(&scene, "two", LONG), [reply]);
    scene.answers(PIA, &turn, "hello Ada");
    assert_eq!(due(&scene, "one", LONG), []);
    assert_eq!(scene.desk.unheard().len(), 1, "a bot's words may be meant for another");
}

#[test]
fn a_bot_waits_a_moment_after_its_own_words_before_it_answers_a_bot_and_not_before_it_answers_a_person() {
    let mut scene = scene();
    let cooldown = Manners::default().cooldown;
    let said = scene.says(ADA, "t", "@rex ask pia");
    let first = turn_id(&thread("t"), &said, REX);
    scene.desk.heard(&thread("t"), &said, &[REX]);
    scene.answers(REX, &first, "@pia what do you think?");
    let asked = scene.desk.unheard().pop().unwrap().1.id;
    scene.desk.heard(&thread("t"), &asked, &[PIA]);
    let turn = turn_id(&thread("t"), &asked, PIA);
    assert_eq!(due(&scene, "one", NOW), [Job::Reply { thread: thread("t"), turn: turn.clone() }], "it has said nothing yet");
    scene.answers(PIA, &turn, "@rex I think so");
    let asked = scene.desk.unheard().pop().unwrap().1.id;
    scene.desk.heard(&thread("t"), &asked, &[REX]);
    let reply = Job::Reply { thread: thread("t"), turn: turn_id(&thread("t"), &asked, REX) };
    assert_eq!(due(&scene, "one", NOW), []);
    let spoke = scene.desk.room(&thread("t")).unwrap().spoken[&REX].last;
    let passed = Duration::from_millis(scene.now - spoke);
    assert_eq!(due(&scene, "one", cooldown - passed - Duration::from_millis(1)), []);
    assert_eq!(due(&scene, "one", cooldown - passed), std::slice::from_ref(&reply));
    let said = scene.says(ADA, "t", "@rex and you?");
    scene.desk.heard(&thread("t"), &said, &[REX]);
    let at_once = Job::Reply { thread: thread("t"), turn: turn_id(&thread("t"), &said, REX) };
    assert_eq!(due(&scene, "one", NOW), [at_once]);
}

#[test]
fn an_answer_that_ended_before_its_words_were_looked_at_is_not_given_again() {
    let mut scene = scene();
    let said = scene.says(ADA, "t", "@pia hello");
    let turn = turn_id(&thread("t"), &said, PIA);
    scene.is_claimed("t", Some(PIA), &turn, "one");
    scene.answers(PIA, &turn, "hello Ada");
    scene.desk.heard(&thread("t"), &said, &[PIA]);
    assert_eq!(due(&scene, "one", LONG), []);
}

#[test]
fn a_failed_answer_is_over() {
    let mut scene = scene();
    let said = scene.says(ADA, "t", "@pia hello");
    let turn = turn_id(&thread("t"), &said, PIA);
    scene.desk.heard(&thread("t"), &said, &[PIA]);
    let failed = format!(r#"{{"run_id":"{turn}","error_class":"x","message":"y"}}"#);
    scene.entry(Actor::System, "t", None, "signal.dispatch.failed", &failed);
    assert_eq!(due(&scene, "one", LONG), []);
}

#[test]
fn a_command_is_lost_when_its_server_is_back_without_it_or_silent_for_long() {
    let mut scene = scene();
    scene.is_claimed("t", None, &run("c1"), "one");
    let started = r#"{"command_id":"run.c1","command":"ls"}"#;
    scene.entry(Actor::System, "t", Some(ADA), "signal.command.started", started);
    let lost = [Job::Lost { thread: thread("t"), command: "run.c1".to_owned() }];
    assert_eq!(due(&scene, "one", NOW), lost);
    assert_eq!(due(&scene, "two", NOW), []);
    assert_eq!(due(&scene, "two", LONG), lost);
    let finished = r#"{"command_id":"run.c1","truncated":false,"duration_ms":1}"#;
    scene.entry(Actor::System, "t", Some(ADA), "signal.command.finished", finished);
    assert_eq!(due(&scene, "two", LONG), []);
}

#[test]
fn a_result_answers_the_end_of_the_child_and_is_told_once() {
    let mut scene = scene();
    let child = commands::command::Delegate {
        thread_id: thread("t"),
        child_thread_id: Some(thread("c")),
        agent_id: PIA,
        name: None,
        environment_id: None,
        sandbox_id: None,
        tags: Vec::new(),
        prompt: Some("@rex is not meant".to_owned()),
        run_id: Some(run("r1")),
    };
    let environment = commands::command::CreateEnvironment {
        house_id: events::HouseId::new("h").unwrap(),
        environment_id: Some(events::EnvironmentId::new("e").unwrap()),
        name: "e".to_owned(),
        config: events::JsonObject::parse("{}").unwrap(),
    };
    scene.given(Actor::Agent(ADA), environment);
    let environment_id = Some(events::EnvironmentId::new("e").unwrap());
    scene.given(Actor::Agent(ADA), commands::command::Delegate { environment_id, ..child });
    scene.ends("c");
    let told: Vec<_> = due(&scene, "one", NOW);
    let [Job::Notice { thread: parent, finished }] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(parent, &thread("t"));
    let chat = format!(r#"{{"text":"@rex look","reply_to":"{finished}"}}"#);
    scene.entry(Actor::System, "t", Some(PIA), "chat", &chat);
    assert_eq!(due(&scene, "one", LONG), []);
    let heard: Vec<ThreadId> = scene.desk.unheard().into_iter().map(|(thread, _)| thread).collect();
    assert_eq!(heard, [], "a result triggers nobody");
}
