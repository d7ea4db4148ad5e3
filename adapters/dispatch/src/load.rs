//! What is under way and what failed, counted for whoever watches the server.

use std::collections::BTreeMap;
use std::time::Duration;

use commands::ports::Load;
use events::Entry;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::desk::{Desk, Room, Run};
use crate::dispatcher::Inner;
use crate::due::Job;

/// Classes come from runs, too, so there may be any.
const CLASSES_MAX: usize = 64;
const CLASS_LENGTH_MAX: usize = 48;
const OTHER: &str = "other";
const STATES: [&str; 4] = ["waiting", "starting", "running", "stopping"];
const KINDS: [&str; 12] =
    ["drive", "watch", "next", "reply", "notice", "lost", "give_up", "unclaimed", "stray", "keep", "reap", "sweep"];

#[derive(Debug, Default)]
pub(crate) struct Tally {
    driving: Mutex<BTreeMap<&'static str, u64>>,
    failures: Mutex<BTreeMap<String, u64>>,
}

/// Until it is dropped, by whatever ends the driver.
pub(crate) struct Driving<'a>(&'a Tally, &'static str);

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        self.0.driving.lock().entry(self.1).and_modify(|count| *count = count.saturating_sub(1));
    }
}

#[derive(Deserialize)]
struct Failing {
    error_class: String,
}

impl Tally {
    pub(crate) fn begin(&self, job: &Job) -> Driving<'_> {
        *self.driving.lock().entry(kind(job)).or_default() += 1;
        Driving(self, kind(job))
    }

    pub(crate) fn failures(&self) -> BTreeMap<String, u64> {
        self.failures.lock().clone()
    }

    /// Of everything in the log, each entry once.
    pub(crate) fn hear(&self, entry: &Entry) {
        if !matches!(entry.kind.as_str(), "signal.dispatch.failed" | "signal.thread.pi_failed") {
            return;
        }
        let Ok(Failing { error_class }) = entry.payload.decode() else { return };
        let mut failures = self.failures.lock();
        let plain = error_class.len() <= CLASS_LENGTH_MAX
            && error_class.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
        let known = failures.contains_key(&error_class) || failures.len() < CLASSES_MAX;
        let class = if plain && known { error_class } else { OTHER.to_owned() };
        *failures.entry(class).or_default() += 1;
    }
}

fn kind(job: &Job) -> &'static str {
    match job {
        Job::Drive { .. } => "drive",
        Job::Watch { .. } => "watch",
        Job::Next { .. } => "next",
        Job::Reply { .. } => "reply",
        Job::Notice { .. } => "notice",
        Job::Lost { .. } => "lost",
        Job::GiveUp { .. } => "give_up",
        Job::Unclaimed { .. } => "unclaimed",
        Job::Stray { .. } => "stray",
        Job::Keep { .. } => "keep",
        Job::Reap { .. } => "reap",
        Job::Sweep => "sweep",
    }
}

fn state(run: &Run) -> &'static str {
    match (&run.server, run.cancelled, run.launched) {
        (None, _, _) => "waiting",
        (Some(_), Some(_), _) => "stopping",
        (Some(_), None, false) => "starting",
        (Some(_), None, true) => "running",
    }
}

/// When what nobody has begun yet came.
fn waiting(room: &Room) -> Option<u64> {
    let run = room.run.iter().filter(|run| run.server.is_none()).map(|run| run.since);
    let turns = room.turns.values().filter(|turn| turn.server.is_none() && !turn.late);
    run.chain(turns.filter_map(|turn| turn.said.as_ref().map(|said| said.ts))).min()
}

fn zeros(names: &[&'static str]) -> BTreeMap<&'static str, u64> {
    names.iter().map(|name| (*name, 0)).collect()
}

/// The runs by how far they are, and when the first of what waits came.
pub(crate) fn standing(desk: &Desk) -> (BTreeMap<&'static str, u64>, Option<u64>) {
    let mut runs = zeros(&STATES);
    for run in desk.open().filter_map(|(_, room)| room.run.as_ref()) {
        *runs.entry(state(run)).or_default() += 1;
    }
    (runs, desk.open().filter_map(|(_, room)| waiting(room)).min())
}

impl Inner {
    pub(crate) fn load(&self) -> Load {
        let mut driving = zeros(&KINDS);
        driving.extend(self.tally.driving.lock().iter());
        let (runs, oldest) = standing(&self.desk.lock());
        let oldest_waiting = oldest.map(|since| Duration::from_millis(self.now().saturating_sub(since)));
        Load { runs, driving, failures: self.tally.failures(), oldest_waiting }
    }
}
