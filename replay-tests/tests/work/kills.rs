//! Whatever is killed in a machine, its run ends with the cause on the thread, and nothing of it stays or happens twice.

use replay_tests::model::Role;

use crate::house::{House, bash};
use crate::machine::{Machine, Process};
use crate::scene::until;

struct Victim {
    find: fn(&Machine, &str) -> Process,
    class: &'static str,
    why: &'static str,
}

fn supervisor(machine: &Machine, run: &str) -> Process {
    machine.supervisor(run)
}

fn bubblewrap(machine: &Machine, run: &str) -> Process {
    machine.child_of(&machine.supervisor(run))
}

fn runner(machine: &Machine, _: &str) -> Process {
    machine.process("arbe-runner")
}

/// The mirror is a part of it.
fn pi(machine: &Machine, _: &str) -> Process {
    machine.child_of(&machine.process("arbe-runner"))
}

const VICTIMS: [Victim; 4] = [
    Victim { find: supervisor, class: "runner_exit", why: "the sandbox was killed from outside, by signal 9" },
    Victim { find: bubblewrap, class: "runner_exit", why: "the sandbox was killed from outside, by signal 9" },
    Victim { find: runner, class: "runner_exit", why: "the runner, or the sandbox around it, was ended by signal 9" },
    Victim { find: pi, class: "signal", why: "the harness was killed by signal 9" },
];

#[test]
fn kill_9_of_a_sandbox_its_runner_or_pi_in_the_middle_of_a_tool_is_a_failure_with_its_cause() {
    let Some(house) = House::start() else { return };
    let first = |n: usize| bash(&format!("echo {n} >> ran; sleep 600"));
    let threads: Vec<_> = (0..VICTIMS.len()).map(|n| house.delegate(&first(n))).collect();
    for (thread, victim) in threads.iter().zip(&VICTIMS) {
        let machine = house.in_a_tool(thread, "ran");
        let found = (victim.find)(&machine, house.story(thread).run());
        found.kill();
    }
    let sandboxes: Vec<_> = threads.iter().map(|thread| house.machine(thread).sandbox).collect();
    for (n, (thread, victim)) in threads.iter().zip(&VICTIMS).enumerate() {
        let (class, why) = house.failed(thread, 1);
        assert!(class == victim.class && why.contains(victim.why), "{n}: {class}: {why}");
        let machine = house.machine(thread);
        until("nothing is left in the machine", || machine.processes().is_empty().then_some(()));
        assert_eq!(machine.file("ran"), Some(format!("{n}\n")));
    }
    for (n, thread) in threads.iter().enumerate() {
        let again = format!("{} go on with {n}, {}", bash("cat ran"), house.id);
        house.say(thread, &again);
        let story = house.completed(thread, 2);
        assert_eq!(story.results().last().copied(), Some(&*format!("{n}\n")));
        assert_eq!(story.sandbox(), Some(&*sandboxes[n]), "the machine is not to blame");
        let seen = house.asked(&again);
        assert!(seen.texts(Role::User).next().is_some_and(|text| text == first(n)), "{n}: {seen:#?}");
    }
}

#[test]
fn a_run_that_takes_its_own_session_away_is_a_failure_and_not_silent_for_ever() {
    let Some(house) = House::start() else { return };
    let thread = house.delegate(&bash("rm -rf ~/.arbe; echo gone"));
    let (class, why) = house.failed(&thread, 1);
    assert!(["harness", "exit", "mirror"].contains(&&*class), "{class}: {why}");
    let machine = house.machine(&thread);
    until("nothing is left in the machine", || machine.processes().is_empty().then_some(()));
}

#[test]
fn a_run_that_went_down_with_its_host_is_an_orphan_and_says_so() {
    let Some(house) = House::start() else { return };
    let thread = house.delegate(&bash("echo ran >> ran; sleep 600"));
    let machine = house.in_a_tool(&thread, "ran");
    let run = house.story(&thread).run().to_owned();
    machine.supervisor(&run).kill();
    machine.belongs_to_an_earlier_boot(&run);
    let story = house.ended(&thread, 1);
    assert_eq!((story.statuses(), story.of("signal.thread.pi_session_orphaned").len()), (vec!["running", "failed"], 1));
    assert_eq!(story.of("signal.thread.pi_session_orphaned")[0]["run_id"], *run);
    assert_eq!(story.of("signal.thread.status_changed")[1]["reason"], "orphaned", "{}", story.told());
    assert_eq!(machine.file("ran").as_deref(), Some("ran\n"));
}
