//! One entry per kind and version, as it was first written. The files are never regenerated: a reader of today must read them for ever.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::{Entry, KINDS};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

pub(super) fn fixture(kind: &str, v: u32) -> io::Result<String> {
    fs::read_to_string(directory().join(kind).join(format!("v{v}.json")))
}

fn fixtures() -> Vec<PathBuf> {
    let children = |path: PathBuf| fs::read_dir(path).unwrap().map(|child| child.unwrap().path());
    children(directory()).flat_map(children).collect()
}

#[test]
fn every_registered_kind_and_version_has_a_fixture() {
    let missing: Vec<_> = KINDS.iter().filter(|(kind, v)| fixture(kind, *v).is_err()).collect();
    assert!(missing.is_empty(), "without a fixture: {missing:?}");
}

#[test]
fn every_transcript_kind_we_write_has_a_fixture() {
    for kind in ["pi.chunk", "pi.assistant", "pi.tool_result", "pi.compaction", "pi.entry"] {
        assert!(fixture(kind, 1).is_ok(), "{kind}");
    }
}

#[test]
fn every_fixture_decodes_under_the_kind_and_version_it_is_filed_under() {
    for path in fixtures() {
        let entry = Entry::from_json(&fs::read_to_string(&path).unwrap()).unwrap();
        let filed = Path::new(&entry.kind).join(format!("v{}.json", entry.v));
        assert!(path.ends_with(filed), "{}", path.display());
        entry.event().unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
    }
}

#[test]
fn a_fixture_of_the_current_version_is_written_again_byte_for_byte() {
    for path in fixtures() {
        let text = fs::read_to_string(&path).unwrap();
        let entry = Entry::from_json(&text).unwrap();
        let event = entry.event().unwrap();
        if event.version() == entry.v {
            let again = Entry::of(entry.id, entry.ts, entry.author_agent_id, &event);
            assert_eq!(again.to_json(), text.trim_end(), "{}", path.display());
        }
    }
}
