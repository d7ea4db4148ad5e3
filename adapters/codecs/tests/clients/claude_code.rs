//! Claude Code.

mod damage;
mod foreign;
mod lineage;
mod provenance;
mod round_trip;

use std::path::Path;

use codecs::check::{self, Contents};
use codecs::registry::Codec;
use codecs::source::Bundle;

use crate::support::{survive, told, write};

const PROJECT: &str = "projects/-srv-demo";
const SESSION: &str = "11111111-2222-4333-8444-555555555555";

fn codec() -> &'static Codec {
    crate::support::codec("claude-code")
}

fn bundles(home: &Path) -> Vec<Bundle> {
    codec().parse.discover(home).unwrap()
}

/// What one session file parses to.
fn parse(contents: impl AsRef<[u8]>) -> Contents {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), &format!("{PROJECT}/{SESSION}.jsonl"), contents);
    let [bundle] = bundles(home.path()).try_into().unwrap();
    check::parse(codec(), &bundle).unwrap()
}

fn assert_survives(home: &Path) {
    survive(codec(), home);
}
