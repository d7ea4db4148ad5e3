//! The dependency rule: a crate leans only on crates of the layers below it.

use std::collections::BTreeMap;
use std::path::Path;

/// Crates by layer; siblings do not know each other. `replay-tests` and `cli` may use everything.
const LAYERS: [(&str, u32); 19] = [
    ("events", 0),
    ("event-log", 1),
    ("codecs", 1),
    ("commands", 2),
    ("projector", 2),
    ("session-source", 2),
    ("postgres-rows", 3),
    ("lance-sessions", 3),
    ("entry-index", 3),
    ("queries", 4),
    ("vault", 4),
    ("sandboxes", 4),
    ("embedders", 4),
    ("arbe-runner", 5),
    ("dispatch", 5),
    ("http-api", 5),
    ("mcp-server", 5),
    ("cli", 6),
    ("replay-tests", 7),
];

#[test]
fn every_crate_leans_only_on_lower_layers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let layers: BTreeMap<_, _> = LAYERS.into_iter().collect();
    let workspace = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = workspace.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
    let mut seen = 0;
    for member in members.split(',').map(|m| m.trim().trim_matches('"')).filter(|m| !m.is_empty()) {
        let manifest = std::fs::read_to_string(root.join(member).join("Cargo.toml")).unwrap();
        let name = Path::new(member).file_name().unwrap().to_str().unwrap();
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{member}: the folder's name is the crate's name");
        let layer = layers.get(name).unwrap_or_else(|| panic!("{name} has no layer"));
        let dependencies = manifest.split("[dev-dependencies]").next().unwrap();
        for (other, below) in &layers {
            let leans = dependencies
                .lines()
                .any(|line| line.starts_with(&format!("{other}.")) || line.starts_with(&format!("{other} =")));
            assert!(!leans || below < layer, "{name} (layer {layer}) leans on {other} (layer {below})");
            seen += usize::from(leans);
        }
    }
    assert!(seen >= 3, "the manifests were read");
}
