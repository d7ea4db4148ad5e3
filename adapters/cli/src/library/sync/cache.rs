//! Which sources have not changed since they were read. Disposable: without it everything is parsed again and nothing is appended.

use std::collections::BTreeMap;
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

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    /// Another log, or another house of it, has seen nothing yet.
    scope: String,
    seen: BTreeMap<String, (Mark, [u64; 4])>,
}

#[derive(Debug)]
pub(super) struct Cache {
    path: PathBuf,
    stored: Stored,
}

pub(super) fn name(codec: &Codec, bundle: &Bundle) -> String {
    format!("{} {}", codec.origin, bundle.root.join(bundle.main()).display())
}

pub(super) fn mark(bundle: &Bundle) -> anyhow::Result<Mark> {
    let mut hasher = blake3::Hasher::new();
    for file in &bundle.files {
        let path = bundle.root.join(file);
        let metadata = std::fs::metadata(&path).with_context(|| path.display().to_string())?;
        let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        hasher.update(format!("{} {} {}\n", file.display(), metadata.len(), modified.as_nanos()).as_bytes());
    }
    Ok(Mark(hasher.finalize().to_hex().to_string()))
}

impl Cache {
    /// A cache that cannot be read is an empty one.
    pub(super) fn load(path: &Path, scope: &str) -> Self {
        let stored: Option<Stored> = std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let stored = stored.filter(|stored| stored.scope == scope);
        let stored = stored.unwrap_or_else(|| Stored { scope: scope.to_owned(), seen: BTreeMap::new() });
        Self { path: path.to_owned(), stored }
    }

    pub(super) fn unchanged(&self, name: &str, mark: &Mark) -> Option<Counts> {
        let (_, [sessions, messages, parts, faults]) = self.stored.seen.get(name).filter(|(seen, _)| seen == mark)?;
        let counts = Counts { bundles: 1, skipped: 1, sessions: *sessions, messages: *messages, ..Counts::default() };
        Some(Counts { parts: *parts, faults: *faults, unchanged: *messages, ..counts })
    }

    pub(super) fn remember(&mut self, name: String, mark: Mark, counts: &Counts) {
        self.stored.seen.insert(name, (mark, [counts.sessions, counts.messages, counts.parts, counts.faults]));
    }

    pub(super) fn save(&self) -> anyhow::Result<()> {
        let context = || self.path.display().to_string();
        let beside = self.path.with_extension("new");
        std::fs::write(&beside, serde_json::to_vec(&self.stored)?).with_context(context)?;
        std::fs::rename(&beside, &self.path).with_context(context)
    }
}
