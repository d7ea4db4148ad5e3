//! A home directory with made-up sessions of all four clients, in the files that they write.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;
use serde_json::{Value, json};

use super::words::Words;

mod claude;
mod codex;
mod opencode;
mod pi;

/// How many messages a session has: a few are long, most are short. Its mean is `MEAN`.
const LENGTHS: [u64; 5] = [10, 40, 100, 250, 850];
pub(super) const MEAN: u64 = 250;
pub(super) const CLIENTS: u64 = 4;
const BEGINNING: u64 = 1_767_225_600;

/// Writes `sessions` sessions, a quarter of them for each client, below `home`.
pub(super) fn write(home: &Path, sessions: u64) -> anyhow::Result<()> {
    let mut database = opencode::database(home)?;
    for number in 0..sessions {
        let mut plan = Plan::of(number);
        match number % CLIENTS {
            0 => lines(&claude::file(home, &plan), &claude::records(&mut plan))?,
            1 => lines(&codex::file(home, &plan), &codex::records(&mut plan))?,
            2 => lines(&pi::file(home, &plan), &pi::records(&mut plan))?,
            _ => opencode::insert(&mut database, &mut plan)?,
        }
    }
    Ok(())
}

/// Lets the session of Claude Code at `place` grow by `messages`; returns the bytes that were added.
pub(super) fn grow(home: &Path, place: u64, round: u64, messages: u64) -> anyhow::Result<u64> {
    let mut plan = Plan::of(place * CLIENTS);
    let path = claude::file(home, &plan);
    plan.words = Words::new(mixed(plan.number, round));
    plan.length = messages;
    plan.begun += 1_000_000 + round * 60;
    let text: String = claude::records(&mut plan).iter().map(|record| format!("{record}\n")).collect();
    let mut file = OpenOptions::new().append(true).open(&path).with_context(|| path.display().to_string())?;
    file.write_all(text.as_bytes())?;
    Ok(text.len() as u64)
}

/// What is asked first in the session of Claude Code at `place`.
pub(super) fn asked(place: u64) -> String {
    let mut plan = Plan::of(place * CLIENTS);
    // Drawn for the message, before its text.
    plan.words.uuid();
    plan.asked()
}

fn mixed(number: u64, round: u64) -> u64 {
    (number << 20) ^ (round + 1).wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// What a session is made of, the same every time.
struct Plan {
    number: u64,
    id: String,
    project: String,
    /// Messages.
    length: u64,
    /// Seconds since 1970.
    begun: u64,
    words: Words,
}

impl Plan {
    fn of(number: u64) -> Self {
        let mut words = Words::new(number);
        let id = words.uuid();
        let project = format!("/srv/project-{}", number % 37);
        let length = LENGTHS[(number / CLIENTS) as usize % LENGTHS.len()];
        Self { number, id, project, length, begun: BEGINNING + number * 3_600, words }
    }

    fn millis(&self, at: u64) -> u64 {
        (self.begun + at * 7) * 1_000 + at % 1_000
    }

    fn time(&self, at: u64) -> String {
        humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(self.millis(at))).to_string()
    }

    fn asked(&mut self) -> String {
        self.words.text(50)
    }

    fn said(&mut self) -> String {
        self.words.text(90)
    }

    fn ran(&mut self) -> String {
        self.words.text(260)
    }

    fn command(&mut self) -> Value {
        json!({ "command": format!("grep -rn '{}' src", self.words.text(4)), "description": self.words.text(6) })
    }
}

fn lines(path: &Path, records: &[Value]) -> anyhow::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    let mut file = BufWriter::new(File::create(path).with_context(|| path.display().to_string())?);
    for record in records {
        writeln!(file, "{record}")?;
    }
    Ok(file.flush()?)
}
