//! Whether a run has ended, from what can be known of it. Pure.

use std::time::Duration;

use commands::ports::{Exit, ProcessState, Verdict};

use crate::options::Patience;

/// What the log and the provider say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Since the last sign of life.
    pub(crate) silent: Duration,
    /// Since it was asked to stop.
    pub(crate) cancelled: Option<Duration>,
    /// `None`: the provider did not say.
    pub(crate) process: Option<ProcessState>,
    pub(crate) machine: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    Lives,
    /// Nothing is known, so nothing changes.
    Wait,
    /// It was asked to stop and has not.
    Stop,
    Cancelled,
    Exited(Exit),
    Orphaned,
    /// Its machine was stopped, and its process with it.
    MachineStopped,
    MachineDead {
        why: String,
    },
    /// It was asked to stop, and nobody can see whether it did.
    CancelledUnseen {
        why: String,
    },
    /// Nobody has seen anything of it for so long that nobody waits any more.
    Unreachable {
        why: String,
    },
}

pub(crate) fn judge(sight: &Sight, patience: &Patience) -> Judgement {
    match &sight.machine {
        Verdict::Dead { why } => return Judgement::MachineDead { why: why.clone() },
        Verdict::Unknown { why } => return unseen(sight, patience, why),
        Verdict::Live | Verdict::Resumable => {}
    }
    let asked_long_ago = sight.cancelled.is_some_and(|asked| asked >= patience.cancel);
    let stopped = sight.machine == Verdict::Resumable;
    match sight.process {
        // In a machine that stands still nothing runs, whether or not it says so.
        None | Some(ProcessState::Absent) if stopped && asked_long_ago => Judgement::Cancelled,
        None | Some(ProcessState::Absent) if stopped && sight.silent >= patience.orphan => Judgement::MachineStopped,
        None if stopped => Judgement::Wait,
        None => unseen(sight, patience, "the provider does not say what its process does"),
        Some(ProcessState::Running) if asked_long_ago => Judgement::Stop,
        // However long it is silent: a process that runs is not declared dead.
        Some(ProcessState::Running) => Judgement::Lives,
        Some(ProcessState::Exited(_) | ProcessState::Absent) if asked_long_ago => Judgement::Cancelled,
        Some(ProcessState::Exited(exit)) if sight.silent >= patience.settle => Judgement::Exited(exit),
        Some(ProcessState::Absent) if sight.silent >= patience.orphan => Judgement::Orphaned,
        Some(ProcessState::Exited(_) | ProcessState::Absent) => Judgement::Wait,
    }
}

/// What is not known changes nothing, but who asked for an end, or waits for one, is not left waiting for ever.
fn unseen(sight: &Sight, patience: &Patience, why: &str) -> Judgement {
    if sight.cancelled.is_some_and(|asked| asked >= patience.machine) {
        Judgement::CancelledUnseen { why: why.to_owned() }
    } else if sight.silent >= patience.unreachable {
        Judgement::Unreachable { why: why.to_owned() }
    } else {
        Judgement::Wait
    }
}

impl Sight {
    fn after(&self, time: Duration) -> Self {
        let (silent, cancelled) = (self.silent + time, self.cancelled.map(|asked| asked + time));
        Self { silent, cancelled, ..self.clone() }
    }
}

/// What it will come to if nothing else happens, and in how long. `None`: nothing, for ever.
pub(crate) fn forecast(sight: &Sight, patience: &Patience) -> Option<(Duration, Judgement)> {
    let now = judge(sight, patience);
    let silences = [patience.settle, patience.orphan, patience.unreachable].map(|limit| limit.saturating_sub(sight.silent));
    let asked = sight.cancelled.map(|asked| [patience.cancel, patience.machine].map(|limit| limit.saturating_sub(asked)));
    let mut moments: Vec<_> = silences.into_iter().chain(asked.into_iter().flatten()).collect();
    moments.sort_unstable();
    moments.into_iter().map(|time| (time, judge(&sight.after(time), patience))).find(|(_, then)| *then != now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight() -> Sight {
        let process = Some(ProcessState::Running);
        Sight { silent: Duration::from_secs(1), cancelled: None, process, machine: Verdict::Live }
    }

    fn said(sight: &Sight) -> Judgement {
        judge(sight, &Patience::default())
    }

    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_process_that_runs_is_never_an_orphan() {
        assert_eq!(said(&Sight { silent: LONG, ..sight() }), Judgement::Lives);
    }

    #[test]
    fn what_is_not_known_changes_nothing() {
        let unknown = Verdict::Unknown { why: "network".to_owned() };
        assert_eq!(said(&Sight { silent: LONG, process: None, ..sight() }), Judgement::Wait);
        assert_eq!(
            said(&Sight { silent: LONG, machine: unknown, process: Some(ProcessState::Absent), ..sight() }),
            Judgement::Wait
        );
    }

    #[test]
    fn a_run_without_a_process_is_an_orphan_after_silence() {
        let absent = Sight { process: Some(ProcessState::Absent), ..sight() };
        assert_eq!(said(&absent), Judgement::Wait);
        assert_eq!(said(&Sight { silent: Duration::from_secs(90), ..absent }), Judgement::Orphaned);
    }

    #[test]
    fn a_process_that_ended_has_a_moment_to_say_so_itself() {
        let exited = Sight { process: Some(ProcessState::Exited(Exit::Code(3))), ..sight() };
        assert_eq!(said(&exited), Judgement::Wait);
        assert_eq!(said(&Sight { silent: Duration::from_secs(20), ..exited }), Judgement::Exited(Exit::Code(3)));
    }

    #[test]
    fn a_dead_machine_ends_it_at_once_and_a_stopped_one_does_not() {
        let dead = Verdict::Dead { why: "404".to_owned() };
        assert_eq!(said(&Sight { machine: dead, process: None, ..sight() }), Judgement::MachineDead { why: "404".to_owned() });
        assert_eq!(said(&Sight { machine: Verdict::Resumable, process: Some(ProcessState::Absent), ..sight() }), Judgement::Wait);
    }

    #[test]
    fn in_a_machine_that_stands_still_nothing_runs_after_a_while_whatever_its_provider_says_of_processes() {
        for process in [None, Some(ProcessState::Absent)] {
            let stopped = Sight { machine: Verdict::Resumable, process, ..sight() };
            assert_eq!(said(&stopped), Judgement::Wait, "it may have been stopped just now, and be woken");
            assert_eq!(said(&Sight { silent: Duration::from_secs(90), ..stopped.clone() }), Judgement::MachineStopped);
            let asked = Some(Duration::from_secs(30));
            assert_eq!(said(&Sight { silent: LONG, cancelled: asked, ..stopped }), Judgement::Cancelled);
        }
        let runs = Sight { machine: Verdict::Resumable, silent: LONG, ..sight() };
        assert_eq!(said(&runs), Judgement::Lives, "it was seen to run");
    }

    #[test]
    fn who_asked_for_an_end_or_waits_for_one_is_not_left_waiting_for_ever() {
        let unknown = |silent, cancelled| {
            let machine = Verdict::Unknown { why: "network".to_owned() };
            let lost = Sight { silent, cancelled, machine, process: None };
            assert_eq!(said(&lost), said(&Sight { process: Some(ProcessState::Absent), ..lost.clone() }));
            (said(&lost), said(&Sight { machine: Verdict::Live, ..lost }))
        };
        let (minutes, day) = (Duration::from_secs(300), Duration::from_secs(24 * 3_600));
        assert_eq!(unknown(LONG, Some(minutes / 2)), (Judgement::Wait, Judgement::Wait));
        let (one, other) = unknown(LONG, Some(minutes));
        assert!(matches!((one, other), (Judgement::CancelledUnseen { .. }, Judgement::CancelledUnseen { .. })));
        assert_eq!(unknown(day - minutes, None), (Judgement::Wait, Judgement::Wait));
        let (one, other) = unknown(day, None);
        assert!(matches!((one, other), (Judgement::Unreachable { .. }, Judgement::Unreachable { .. })));
    }

    #[test]
    fn a_run_that_was_asked_to_stop_is_stopped_after_a_while() {
        let asked = |secs| Sight { cancelled: Some(Duration::from_secs(secs)), ..sight() };
        assert_eq!(said(&asked(5)), Judgement::Lives);
        assert_eq!(said(&asked(40)), Judgement::Stop);
        assert_eq!(said(&Sight { process: Some(ProcessState::Absent), ..asked(40) }), Judgement::Cancelled);
    }

    #[test]
    fn what_will_come_of_it_is_the_first_that_its_time_changes() {
        let told = |sight: Sight| forecast(&sight, &Patience::default()).map(|(time, then)| (time.as_secs(), then));
        assert_eq!(told(sight()), None, "a process that runs may go on");
        let unseen = told(Sight { process: None, ..sight() });
        assert!(matches!(unseen, Some((86_399, Judgement::Unreachable { .. }))), "{unseen:?}");
        let absent = Sight { process: Some(ProcessState::Absent), ..sight() };
        assert_eq!(told(absent.clone()), Some((89, Judgement::Orphaned)));
        let exited = Sight { process: Some(ProcessState::Exited(Exit::Code(3))), ..sight() };
        assert_eq!(told(exited), Some((14, Judgement::Exited(Exit::Code(3)))));
        let asked = Some(Duration::from_secs(5));
        assert_eq!(told(Sight { cancelled: asked, ..sight() }), Some((25, Judgement::Stop)));
        assert_eq!(told(Sight { cancelled: asked, ..absent }), Some((25, Judgement::Cancelled)));
    }
}
