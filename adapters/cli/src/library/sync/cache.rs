//! Which sources have not changed since they were read. Disposable: without it everything is parsed again and nothing is appended.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::Context;
use codecs::registry::Codec;
use codecs::source::Bundle;
use serde::{Deserialize, Serialize};

use super::Counts;

/// The files of a bundle with their sizes and times, as one hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark(String);

type Seen = BTreeMap<String, (Mark, [u64; 5], u64)>;

/// A file of lines: whose it is, then what was seen, the last word of each counting. A run writes the lines of what it read.
#[derive(Debug)]
pub(super) struct Cache {
    path: PathBuf,
    /// Another log, or another house of it, has seen nothing yet.
    scope: String,
    /// How far the log is. One that was put back to an earlier state has not seen what came after.
    position: u64,
    seen: Seen,
    /// In the file; none if it is to be written anew.
    lines: usize,
    news: Vec<String>,
}

/// Lines that nobody needs any more, beside as many as there are others, before the file is written anew.
const STALE: usize = 256;

pub(super) fn name(codec: &Codec, bundle: &Bundle) -> String {
    format!("{} {}", codec.origin, bundle.root.join(bundle.main()).display())
}

/// A file that cannot be looked at is marked by the reason; that it cannot be read is said when it is.
pub(super) fn mark(bundle: &Bundle) -> Mark {
    let mut hasher = blake3::Hasher::new();
    for file in &bundle.files {
        let state = match codecs::source::metadata(&bundle.root.join(file)) {
            Ok(metadata) => {
                let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
                format!("{} {}", metadata.len(), modified.as_nanos())
            }
            Err(error) => error.to_string(),
        };
        hasher.update(format!("{} {state}\n", file.display()).as_bytes());
    }
    Mark(hasher.finalize().to_hex().to_string())
}

impl Cache {
    /// A cache that cannot be read is an empty one.
    pub(super) fn load(path: &Path, scope: &str, position: u64) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let (path, scope_of) = (path.to_owned(), scope.to_owned());
        let mut cache = Self { path, scope: scope_of, position, seen: Seen::new(), lines: 0, news: Vec::new() };
        let Some(seen) = text.strip_prefix(scope).and_then(|rest| rest.strip_prefix('\n')) else { return cache };
        // A line that a crash cut short: what is read so far counts, and the file is written anew.
        cache.lines = usize::from(text.ends_with('\n'));
        for line in seen.lines() {
            match serde_json::from_str(line) {
                Ok((name, mark, counts, position)) => drop(cache.seen.insert(name, (mark, counts, position))),
                Err(_) => {
                    cache.lines = 0;
                    break;
                }
            }
            cache.lines += usize::from(cache.lines > 0);
        }
        cache
    }

    pub(super) fn unchanged(&self, name: &str, mark: &Mark) -> Option<Counts> {
        let known = |(seen, _, position): &&(Mark, [u64; 5], u64)| seen == mark && *position <= self.position;
        let (_, [sessions, messages, parts, refused, faults], _) = self.seen.get(name).filter(known)?;
        let counts = Counts { bundles: 1, skipped: 1, sessions: *sessions, messages: *messages, ..Counts::default() };
        let unchanged = messages.saturating_sub(*refused);
        Some(Counts { parts: *parts, refused: *refused, faults: *faults, unchanged, ..counts })
    }

    /// When the log had come to `position`.
    pub(super) fn remember(&mut self, name: String, mark: Mark, counts: &Counts, position: u64) {
        let seen = (mark, [counts.sessions, counts.messages, counts.parts, counts.refused, counts.faults], position);
        self.news.push(line(&name, &seen));
        self.seen.insert(name, seen);
    }

    pub(super) fn save(&mut self) -> anyhow::Result<()> {
        if self.news.is_empty() {
            return Ok(());
        }
        let whole = self.lines == 0 || self.lines + self.news.len() > 2 * self.seen.len() + STALE;
        let written = if whole { self.write_anew() } else { self.append() };
        written.with_context(|| self.path.display().to_string())
    }

    fn append(&mut self) -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new().append(true).open(&self.path)?;
        file.write_all(self.news.concat().as_bytes())?;
        self.lines += self.news.len();
        self.news.clear();
        Ok(())
    }

    fn write_anew(&mut self) -> std::io::Result<()> {
        let beside = self.path.with_extension("new");
        let lines: String = self.seen.iter().map(|(name, seen)| line(name, seen)).collect();
        std::fs::write(&beside, format!("{}\n{lines}", self.scope))?;
        std::fs::rename(&beside, &self.path)?;
        self.lines = self.seen.len() + 1;
        self.news.clear();
        Ok(())
    }
}

fn line(name: &str, (mark, counts, position): &(Mark, [u64; 5], u64)) -> String {
    serde_json::json!([name, mark, counts, position]).to_string() + "\n"
}
