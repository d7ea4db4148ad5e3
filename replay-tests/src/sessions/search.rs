//! Searches over everything: of a server that is warm, and of a process that is new every time.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::json;

use super::client::Client;
use super::corpus;
use super::words::Words;
use crate::servers::ArbeServer;

const QUESTIONS: u64 = 450;
const MIX: [Kind; 6] = [Kind::Said, Kind::Said, Kind::Fragment, Kind::Name, Kind::Said, Kind::Absent];
/// Questions of a few words, and of many.
const LENGTHS: [usize; 4] = [1, 2, 4, 12];
const NEW_PROCESSES: usize = 11;
/// Letters that a word has to have, for a piece of it to be looked for.
const LONG: usize = 8;
/// No word of the sessions has any of these.
const STRANGE: [&str; 6] = ["zu", "qui", "wex", "jo", "haf", "ky"];

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// What somebody asked in one of the sessions, in part.
    Said,
    /// A piece of a word, plain or as camelCase.
    Fragment,
    /// A dotted name, as somebody wrote it.
    Name,
    /// Words that are nowhere, alone or beside some that are.
    Absent,
}

/// Milliseconds, and how many got an answer.
#[derive(Debug)]
pub(super) struct Times {
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) asked: usize,
    pub(super) answered: usize,
}

#[derive(Debug)]
pub(super) struct Searched {
    pub(super) mode: String,
    /// Milliseconds of the very first, which is in none of the others.
    pub(super) first: f64,
    pub(super) all: Times,
    pub(super) said: Times,
    pub(super) fragments: Times,
    pub(super) names: Times,
    pub(super) absent: Times,
    /// Questions that were answered.
    pub(super) answered: Vec<String>,
}

struct Asked {
    kind: Kind,
    question: String,
    ms: f64,
    answered: bool,
}

impl Kind {
    fn question(self, number: u64, sessions: u64) -> String {
        let asked = corpus::asked(number * 7_919 % (sessions / corpus::CLIENTS).max(1));
        let words: Vec<&str> = asked.split_whitespace().collect();
        match self {
            Self::Said => some(&words, number, LENGTHS[number as usize % LENGTHS.len()]),
            Self::Fragment => fragment(&words, number),
            Self::Name => name(&words, number),
            Self::Absent => absent(&words, number),
        }
    }
}

fn some(words: &[&str], number: u64, length: usize) -> String {
    let length = length.min(words.len());
    let from = (number as usize * 31) % (words.len() - length + 1);
    words[from..from + length].join(" ")
}

/// The inner letters of a word.
fn fragment(words: &[&str], number: u64) -> String {
    let long: Vec<&str> = words.iter().copied().filter(|word| word.len() >= LONG).collect();
    let Some(word) = long.get(number as usize % long.len().max(1)) else { return some(words, number, 1) };
    let mut piece = word[1..word.len() - 1].to_owned();
    if (number / MIX.len() as u64).is_multiple_of(2) {
        let middle = piece.len() / 2;
        piece[middle..=middle].make_ascii_uppercase();
    }
    piece
}

fn name(words: &[&str], number: u64) -> String {
    let joined = words.iter().find(|word| word.contains('.'));
    joined.map_or_else(|| some(words, number, 2), |name| (*name).to_owned())
}

/// A name that is there as it is typed may be answered whatever stands beside it.
fn absent(words: &[&str], number: u64) -> String {
    let words: Vec<&str> = words.iter().copied().filter(|word| !word.contains('.')).collect();
    let mut draw = Words::new(number);
    let mut strange = || -> String { (0..3).map(|_| STRANGE[draw.below(STRANGE.len() as u64) as usize]).collect() };
    let (word, mut next) = (strange(), strange());
    next[..1].make_ascii_uppercase();
    match number / MIX.len() as u64 % 3 {
        0 => word,
        1 => format!("{word}{next}"),
        _ => format!("{} {word}{next}", some(&words, number, 2)),
    }
}

impl Times {
    fn of<'a>(asked: impl Iterator<Item = &'a Asked>) -> anyhow::Result<Self> {
        let asked: Vec<&Asked> = asked.collect();
        let mut times: Vec<f64> = asked.iter().map(|it| it.ms).collect();
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied().context("nothing was asked");
        let answered = asked.iter().filter(|it| it.answered).count();
        Ok(Self { p50: at(0.5)?, p95: at(0.95)?, asked: asked.len(), answered })
    }
}

/// Asks a server again and again.
pub(super) async fn ask(server: &ArbeServer, sessions: u64) -> anyhow::Result<Searched> {
    let mut client = Client::new(server).await?;
    let (mut all, mut mode) = (Vec::new(), None);
    for number in 0..QUESTIONS {
        let kind = MIX[number as usize % MIX.len()];
        let question = kind.question(number, sessions);
        let (found, took) = client.post("/v1/search", &json!({ "protocol_version": 1, "query": question })).await?;
        let told = found["mode"].as_str().context("an answer has a mode")?;
        let before = mode.get_or_insert_with(|| told.to_owned());
        ensure!(before.as_str() == told, "{question:?} was looked for by {told}, and what was asked before by {before}");
        let answered = found["sessions"].as_array().is_some_and(|sessions| !sessions.is_empty());
        all.push(Asked { kind, question, ms: took.as_secs_f64() * 1e3, answered });
    }
    let (first, warm) = all.split_first().context("nothing was asked")?;
    let of = |kind: Kind| Times::of(warm.iter().filter(move |it| it.kind == kind));
    Ok(Searched {
        mode: mode.context("nothing was asked")?,
        first: first.ms,
        all: Times::of(warm.iter())?,
        said: of(Kind::Said)?,
        fragments: of(Kind::Fragment)?,
        names: of(Kind::Name)?,
        absent: of(Kind::Absent)?,
        answered: all.iter().filter(|it| it.answered).map(|it| it.question.clone()).collect(),
    })
}

/// The median of processes that ask one thing each, which a server could answer.
pub(super) fn alone(
    data: &Path,
    questions: &[String],
    model: Option<&str>,
    mut before: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for question in questions.iter().take(NEW_PROCESSES) {
        before()?;
        let mut command = Command::new(crate::directories::arbe_binary()?);
        command.args(["search", "--json", "--data-dir"]).arg(data).arg("--").arg(question);
        command.env_remove("ARBE_EMBED_MODEL").envs(model.map(|model| ("ARBE_EMBED_MODEL", model)));
        let since = Instant::now();
        let ended = command.output()?;
        times.push(since.elapsed().as_secs_f64() * 1e3);
        ensure!(ended.status.success(), "{question:?}: {:?}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
    }
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().context("no question was answered")
}
