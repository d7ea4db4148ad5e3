//! How soon work begins, and how much of it goes on at once.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdout, Stdio};
use std::time::{Duration, Instant};

use replay_tests::agents::{Agents, Home};
use replay_tests::model::Model;

use crate::house::{House, bash};

const TIMES: usize = 5;
const AT_ONCE: usize = 20;
const OVERHEAD: Duration = Duration::from_millis(1_500);

/// From the start of pi to its first answer, by itself.
fn pi_alone(home: &Home) -> Duration {
    let mut shell = home.shell("exec pi --mode rpc --no-session --model scripted/scripted-1").unwrap();
    let started = Instant::now();
    let mut pi = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    pi.stdin.as_mut().unwrap().write_all(b"{\"id\":\"1\",\"type\":\"get_state\"}\n").unwrap();
    let mut answer = String::new();
    BufReader::<ChildStdout>::new(pi.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    let took = started.elapsed();
    assert!(answer.contains("\"success\":true"), "{answer}");
    pi.kill().unwrap();
    pi.wait().unwrap();
    took
}

/// From the request to the first entry of pi on the thread.
fn first_entry(house: &House) -> Duration {
    let started = Instant::now();
    let child = house.delegate("Say something.");
    house.until(&child, "pi has said something", |story| (!story.transcript().is_empty()).then_some(()));
    let took = started.elapsed();
    house.completed(&child, 1);
    took
}

/// Past the harness, which keeps to itself what a test that passes prints.
fn print(figures: &str) {
    let _ = writeln!(std::io::stderr(), "{figures}");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn the_first_entry_of_pi_is_there_soon_after_pi_can_be() {
    let Some(house) = House::alone() else { return };
    let (model, agents) = (Model::start().unwrap(), Agents::install().unwrap().unwrap());
    let home = agents.home(&model).unwrap();
    // Once each, for what is read from the disk the first time.
    pi_alone(&home);
    first_entry(&house);
    let alone = median((0..TIMES).map(|_| pi_alone(&home)).collect());
    let delegated = median((0..TIMES).map(|_| first_entry(&house)).collect());
    let overhead = delegated.saturating_sub(alone);
    print(&format!("from a delegate to pi's first entry {delegated:.2?}, pi by itself {alone:.2?}: {overhead:.2?} are ours"));
    assert!(overhead <= OVERHEAD, "{overhead:?}");
}

#[test]
fn twenty_runs_at_once_are_completed_and_each_thread_holds_its_own() {
    let Some(house) = House::alone() else { return };
    let started = Instant::now();
    let tasks: Vec<_> = (0..AT_ONCE).map(|n| house.delegate(&bash(&format!("echo own-{n} >> own; sleep 1; cat own")))).collect();
    let stories: Vec<_> = tasks.iter().map(|task| house.completed(task, 1)).collect();
    print(&format!("{AT_ONCE} runs at once took {:.1?}", started.elapsed()));
    for (n, (task, story)) in tasks.iter().zip(&stories).enumerate() {
        let machine = house.machine(task);
        assert_eq!((story.results(), story.statuses()), (vec![&*format!("own-{n}\n")], vec!["running", "completed"]));
        assert_eq!(story.transcript(), machine.session(task), "{n}");
    }
    let mut sandboxes: Vec<_> = stories.iter().filter_map(|story| story.sandbox()).collect();
    sandboxes.sort_unstable();
    sandboxes.dedup();
    assert_eq!(sandboxes.len(), AT_ONCE);
}
