//! Codex from 0.166 on: a fork's file holds only what came after, and names where the rest is.

use std::path::{Path, PathBuf};

use super::{Library, fixtures};

const PARENT: &str = "sessions/2026/11/16/rollout-2026-11-16T14-15-34-01a1e4b6-993b-7f92-a2b7-a85ccc7b3db4.jsonl";
const FORK: &str = "sessions/2026/11/16/rollout-2026-11-16T14-15-36-01a1e4b6-a214-76a1-9d2b-9352287e7538.jsonl";
const ID: &str = "01a1e4b6-a214-76a1-9d2b-9352287e7538";

fn original(file: &str) -> Vec<u8> {
    std::fs::read(fixtures("codex").join("0.166.0").join(file)).unwrap()
}

fn synced(files: &[&str]) -> Library {
    let library = Library::new();
    for file in files {
        library.write(&format!(".codex/{file}"), original(file));
    }
    library.sync("codex");
    library
}

fn restored(library: &Library, client: &str, out: &Path) -> Vec<PathBuf> {
    let told = &library.json(&["restore", ID, "--to", client, "--dir", out.to_str().unwrap()])[0];
    told["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap().into()).collect()
}

#[test]
fn a_fork_is_restored_with_the_history_that_it_only_names() {
    let library = synced(&[PARENT, FORK]);
    let out = library.directory.path().join("out");
    let mut files = restored(&library, "codex", &out);
    files.sort();
    assert_eq!(files, [out.join(PARENT), out.join(FORK)]);
    assert_eq!(std::fs::read(out.join(PARENT)).unwrap(), original(PARENT), "it is named by bytes");

    std::fs::remove_file(out.join(FORK)).unwrap();
    assert_eq!(restored(&library, "codex", &out), [out.join(FORK)], "what is there already stays");
    std::fs::remove_file(out.join(FORK)).unwrap();
    std::fs::write(out.join(PARENT), "{}\n").unwrap();
    let refused = library.arbe(&["restore", ID, "--to", "codex", "--dir", out.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(4), "another file stands where the history has to be");
}

#[test]
fn another_client_gets_the_whole_conversation_of_a_fork() {
    let library = synced(&[PARENT, FORK]);
    for client in ["claude-code", "pi", "opencode"] {
        let out = library.directory.path().join(client);
        let files = restored(&library, client, &out);
        let text: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
        assert_eq!(files.len(), 1, "{client}: the parent is not a session of its own here");
        for (of, words) in [("parent", spoken(PARENT)), ("fork", spoken(FORK))] {
            assert!(!words.is_empty());
            for words in words {
                let words = serde_json::to_string(&words).unwrap();
                assert!(text.contains(words.trim_matches('"')), "{client}: {of}: {words}");
            }
        }
    }
}

/// What a person said in the file.
fn spoken(file: &str) -> Vec<String> {
    let text = String::from_utf8(original(file)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let typed = lines.filter(|line| line["payload"]["item"]["type"] == "UserMessage");
    typed.filter_map(|line| line["payload"]["item"]["content"][0]["text"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_fork_whose_parent_is_not_recorded_is_refused() {
    let library = synced(&[FORK]);
    for client in ["codex", "pi"] {
        let out = library.directory.path().join(client);
        let refused = library.arbe(&["restore", ID, "--to", client, "--dir", out.to_str().unwrap()]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(4), "{said}");
        assert!(said.contains("goes on from session 01a1e4b6-993b-7f92-a2b7-a85ccc7b3db4"), "{said}");
        assert!(!out.exists());
    }
}
