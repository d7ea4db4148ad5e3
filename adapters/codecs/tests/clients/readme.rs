use std::path::{Path, PathBuf};

use crate::support::every_file;

/// What the README says guards a rule is there.
#[test]
fn every_test_and_file_that_the_table_of_rules_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("README.md")).unwrap();
    let sources = [every_file(&root.join("src")), every_file(&root.join("tests"))].concat();
    let sources: String = sources.iter().map(|it: &PathBuf| std::fs::read_to_string(it).unwrap()).collect();
    let rules: Vec<_> = text.lines().filter(|it| it.starts_with("| `model-") || it.starts_with("| `adapter-")).collect();
    assert_eq!(rules.len(), 15);
    for name in rules.iter().flat_map(|rule| rule.split('`').skip(3).step_by(2)) {
        let there = if name.contains('/') { root.join(name).is_file() } else { sources.contains(&format!("fn {name}()")) };
        assert!(there, "{name}");
    }
}
