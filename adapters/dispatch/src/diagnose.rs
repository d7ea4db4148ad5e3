//! What is known of a thread's run, and what follows from it. Nothing is changed.

use std::time::Duration;

use commands::ports::{Diagnosis, Exit, FoundMachine, FoundRun, HandsError, Verdict};
use commands::{CommandError, Rejection};
use events::{RunId, ThreadId, ThreadStatus};

use crate::desk::{Room, Run};
use crate::dispatcher::Inner;
use crate::judge::{Judgement, Sight, forecast, judge};
use crate::options::Patience;
use crate::reconcile::{ANSWER, late, probed};
use crate::surroundings::Trouble;
use crate::watch::{Placed, machine_of};

impl Inner {
    pub(crate) async fn diagnose(&self, id: &ThreadId) -> Result<Diagnosis, HandsError> {
        let thread = self.outside.commands.with_world(|world| world.thread(id).cloned());
        let thread = thread.ok_or(CommandError::Rejected(Rejection::NotFound { what: "thread" }))?;
        let room = self.desk.lock().room(id).cloned().unwrap_or_default();
        let (machine, sight) = self.found(id, room.run.as_ref()).await;
        Ok(Diagnosis {
            thread_id: id.clone(),
            status: thread.status,
            run: room.run.as_ref().map(|run| self.told(run)),
            open_commands: room.commands.keys().cloned().collect(),
            words_waiting: room.words.len() as u64,
            answers_open: room.turns.len() as u64,
            machine,
            forecast: self.follows(id, thread.status, &room, sight.as_ref()),
        })
    }

    fn told(&self, run: &Run) -> FoundRun {
        FoundRun {
            run_id: run.run_id.clone(),
            since_ms: run.since,
            server: run.server.clone(),
            claims: run.claims,
            seen_ms: run.seen,
            silent_ms: self.now().saturating_sub(run.seen),
            launched: run.launched,
            cancel_asked_ms: run.cancelled,
        }
    }

    /// The thread's machine, and how its run stands there if it was launched.
    async fn found(&self, id: &ThreadId, run: Option<&Run>) -> (Option<FoundMachine>, Option<Sight>) {
        let launched = run.filter(|run| run.launched);
        let standing = self.outside.commands.with_world(|world| {
            let on = machine_of(world, id, launched)?;
            let (sandbox, threads) = (world.sandbox(&on)?.clone(), world.threads_on(&on).cloned().collect());
            Some((on, sandbox, threads))
        });
        let Some((sandbox_id, sandbox, threads)) = standing else { return (None, launched.map(|run| self.blind(run))) };
        let unknown = |why: &str| Verdict::Unknown { why: why.to_owned() };
        let (verdict, sight) = match (self.placed(id, launched), launched) {
            (Ok(Some(placed)), Some(run)) => {
                let sight = self.soon(&placed, run).await;
                (sight.machine.clone(), Some(sight))
            }
            (Ok(Some(placed)), None) => (probed(placed.machines, &placed.provider_ref).await, None),
            (Ok(None), _) => (unknown("no machine is recorded for it yet"), launched.map(|run| self.blind(run))),
            (Err(later), _) => (unknown(&later.to_string()), None),
        };
        let recorded = if sandbox.destroyed { "destroyed" } else { sandbox.status.as_str() }.to_owned();
        let process = sight.as_ref().map(|sight| sight.process.into());
        let ((verdict, why), provider, provider_ref) = (verdict.seen(), sandbox.provider, sandbox.provider_ref);
        (Some(FoundMachine { sandbox_id, provider, provider_ref, recorded, verdict, why, process, threads }), sight)
    }

    async fn soon(&self, placed: &Placed, run: &Run) -> Sight {
        let seen = tokio::time::timeout(ANSWER, self.sight(placed, run)).await;
        seen.unwrap_or_else(|_| Sight { machine: late(), ..self.blind(run) })
    }

    pub(crate) fn follows(&self, id: &ThreadId, status: ThreadStatus, room: &Room, sight: Option<&Sight>) -> String {
        let (server, now, patience) = (self.options.server.as_str(), self.now(), &self.options.patience);
        let of_run = |(id, _): &&(RunId, u64)| room.run.as_ref().is_some_and(|run| run.run_id == *id);
        let tried = self.tried.lock().values().find(of_run).map(|(_, at)| *at);
        let (unserved, leaving) = self.outside.commands.with_world(|world| {
            let run = room.run.as_ref();
            let on = machine_of(world, id, run).and_then(|on| world.sandbox(&on));
            (run.and_then(|run| self.unserved(world, id, run, Duration::MAX)), on.is_some_and(|it| it.leaving))
        });
        Case { status, room, sight, server, tried, unserved, leaving, now, patience }.follows()
    }
}

/// All that a forecast is made of.
pub(crate) struct Case<'a> {
    pub(crate) status: ThreadStatus,
    pub(crate) room: &'a Room,
    /// Of a run that was launched and has a machine.
    pub(crate) sight: Option<&'a Sight>,
    /// Who says this.
    pub(crate) server: &'a str,
    /// When it first tried to bring the run onto its machine.
    pub(crate) tried: Option<u64>,
    /// Why nobody takes the run up, and how long it still waits for somebody.
    pub(crate) unserved: Option<(Duration, Trouble)>,
    /// A member wants the run's machine destroyed.
    pub(crate) leaving: bool,
    pub(crate) now: u64,
    pub(crate) patience: &'a Patience,
}

impl Case<'_> {
    pub(crate) fn follows(&self) -> String {
        match self.status {
            ThreadStatus::Running => match &self.room.run {
                Some(run) if run.launched => self.launched(run),
                Some(run) => self.on_its_way(run),
                None => "nothing: the log names no run of it".to_owned(),
            },
            ThreadStatus::Closed => "nothing: the chat is closed".to_owned(),
            ThreadStatus::Open if !self.room.turns.is_empty() => "bots answer what was said".to_owned(),
            ThreadStatus::Open => "nothing until something is said here".to_owned(),
            ThreadStatus::Idle | ThreadStatus::Completed | ThreadStatus::Failed | ThreadStatus::Cancelled => {
                if self.room.words.is_empty() {
                    "nothing until something is said here or a run is started".to_owned()
                } else {
                    "the next run begins now, with what was said since the last".to_owned()
                }
            }
        }
    }

    fn left(&self, since: u64, patience: Duration) -> String {
        seconds(patience.saturating_sub(Duration::from_millis(self.now.saturating_sub(since))))
    }

    fn on_its_way(&self, run: &Run) -> String {
        if run.cancelled.is_some() {
            return "it was asked to stop: it ends as cancelled before it is launched".to_owned();
        }
        match &self.unserved {
            Some((left, trouble)) if left.is_zero() => return format!("it fails now: {trouble}"),
            Some((left, trouble)) => {
                return format!("no server ever had such machines: if none comes it fails in {}; {trouble}", seconds(*left));
            }
            None if self.leaving => {
                return "its machine is being destroyed, as a member asked: it begins on another when that is gone".to_owned();
            }
            None => {}
        }
        match &run.server {
            None => "a server that has such machines claims it at once and brings it onto one; none has so far".to_owned(),
            Some(server) if server == self.server => {
                let left = self.left(self.tried.unwrap_or(self.now), self.patience.machine);
                format!("this server brings it onto its machine; if that cannot be reached it fails in {left}")
            }
            Some(server) => {
                let left = self.left(run.stirred(), self.patience.lease);
                format!("the server {server} brings it onto its machine; without a sign of life another takes over in {left}")
            }
        }
    }

    fn launched(&self, run: &Run) -> String {
        if self.leaving {
            return "its machine is being destroyed, as a member asked: the run fails when that is gone".to_owned();
        }
        let Some(sight) = self.sight else { return "nothing changes until it has a machine that can be asked".to_owned() };
        let next_look = format!("at the next look, within {}", seconds(self.patience.watch));
        let told = match (judge(sight, self.patience), forecast(sight, self.patience)) {
            (Judgement::Wait | Judgement::Lives, Some((time, then))) => {
                let told = outcome(&then, &format!("in {}", seconds(time)));
                unseen(sight).map_or_else(|| told.clone(), |unseen| format!("{unseen}; else {told}"))
            }
            (Judgement::Lives, None) => "nothing: its process runs, however long it is silent".to_owned(),
            (Judgement::Wait, None) => unseen(sight).unwrap_or_else(|| "nothing".to_owned()),
            (
                now @ (Judgement::Stop
                | Judgement::Cancelled
                | Judgement::Exited(_)
                | Judgement::Orphaned
                | Judgement::MachineStopped
                | Judgement::MachineDead { .. }
                | Judgement::CancelledUnseen { .. }
                | Judgement::Unreachable { .. }),
                _,
            ) => outcome(&now, &next_look),
        };
        match &run.server {
            Some(server) if server != self.server => format!("{told}; the server {server} watches it"),
            Some(_) | None => told,
        }
    }
}

/// What is not known of it, if that keeps everything as it is.
fn unseen(sight: &Sight) -> Option<String> {
    match (&sight.machine, sight.process) {
        (Verdict::Unknown { why }, _) => Some(format!("the machine is unknown ({why}): nothing changes until it answers")),
        (Verdict::Live, None) => Some("its process is unknown: nothing changes until the provider says what it does".to_owned()),
        (Verdict::Live, Some(_)) | (Verdict::Resumable | Verdict::Dead { .. }, _) => None,
    }
}

fn outcome(judgement: &Judgement, when: &str) -> String {
    match judgement {
        Judgement::Lives | Judgement::Wait => "nothing".to_owned(),
        Judgement::Stop => format!("it was asked to stop: its process is stopped {when}"),
        Judgement::Cancelled => format!("it was asked to stop and does not run: it ends as cancelled {when}"),
        Judgement::Exited(exit) => {
            format!("its process ended {}: the run fails {when} unless it says itself how it ended", ended(*exit))
        }
        Judgement::Orphaned => {
            format!("the machine knows no process of it: it is declared an orphan {when} unless it gives a sign of life")
        }
        Judgement::MachineStopped => {
            format!(
                "the machine was stopped and nothing runs in it: the run fails {when}, and what is said then wakes the machine"
            )
        }
        Judgement::MachineDead { why } => format!("the machine is gone ({why}): all runs on it fail {when}"),
        Judgement::CancelledUnseen { .. } => {
            format!("it was asked to stop: it ends as cancelled {when}, whatever its process does")
        }
        Judgement::Unreachable { .. } => format!("it is declared an orphan {when} unless something is seen of it"),
    }
}

pub(crate) fn ended(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("with {code}"),
        Exit::Signal(signal) => format!("by signal {signal}"),
        Exit::Sandbox(signal) => format!("with its sandbox, which was killed from outside by signal {signal}"),
        Exit::TimedOut => "after too long a time".to_owned(),
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_millis().div_ceil(1_000))
}
