//! The clients. A new one is a file and a line here.

use std::io;
use std::path::{Path, PathBuf};

use crate::artifact::Artifact;
use crate::restore::Serialize;
use crate::seam::Out;
use crate::source::Bundle;
use crate::{claude_code, codex, opencode, pi};

/// The read face of a codec.
pub trait Parse: Sync {
    /// What there is under a root, or the one session in a file.
    fn discover(&self, root: &Path) -> io::Result<Vec<Bundle>>;

    fn parse(&self, bundle: &Bundle, out: &mut Out<'_>);

    /// The source as it is, without canonical values in between: what a native restoration is held against.
    fn originals(&self, bundle: &Bundle) -> Vec<Artifact>;
}

/// Both faces, which share nothing but the name.
#[derive(Clone, Copy)]
pub struct Codec {
    /// The brand, as `source_agent` has it. Persisted; never renamed.
    pub origin: &'static str,
    /// Where the client keeps its sessions, below the home directory.
    pub homes: &'static [&'static str],
    /// What of it holds sessions; nothing else of a client is written.
    pub holds: &'static [&'static str],
    pub parse: &'static dyn Parse,
    pub serialize: &'static dyn Serialize,
}

pub const CODECS: &[Codec] = &[claude_code::CODEC, codex::CODEC, opencode::CODEC, pi::CODEC];

#[must_use]
pub fn find(origin: &str) -> Option<&'static Codec> {
    CODECS.iter().find(|codec| codec.origin == origin)
}

impl Codec {
    /// Whether a restored file may go there. What a session says of where it stood is the word of whoever recorded it.
    #[must_use]
    pub fn may_write(&self, path: &str) -> bool {
        match path.split_once('/') {
            Some((first, _)) => self.holds.contains(&first),
            // What a client is handed to import stands by itself.
            None => {
                self.holds.contains(&path) || path.ends_with(".jsonl") || (path.starts_with("ses_") && path.ends_with(".json"))
            }
        }
    }
}

/// Where a client's sessions are looked for.
#[must_use]
pub fn roots(codec: &Codec, home: &Path) -> Vec<PathBuf> {
    codec.homes.iter().map(|below| home.join(below)).filter(|root| root.exists()).collect()
}

impl std::fmt::Debug for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Codec").field("origin", &self.origin).finish_non_exhaustive()
    }
}
