//! Sessions from the clients' files into the log and back, with the binary as people run it.

#![expect(clippy::disallowed_methods, reason = "tests are told by their surroundings what to do")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

mod again;
mod archive;
mod bad_input;
mod forks;
mod threads;

struct Library {
    directory: TempDir,
}

impl Library {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn arbe(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arbe"));
        for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("ARBE_")) {
            command.env_remove(key);
        }
        let home = self.directory.path().join("home");
        command
            .args(args)
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", &home)
            .env("ARBE_DATA_DIR", self.directory.path().join("data"));
        command
    }

    /// Below the home that `sync` looks through.
    fn write(&self, file: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.directory.path().join("home").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// What a sync of the home says: of one client, and of what was wrong.
    fn sync(&self, client: &str) -> (Value, String) {
        let output = self.arbe(&["sync", "--json"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        (summary["clients"][client].clone(), said)
    }

    /// How far the log is: it moves only when something is appended.
    fn records(&self) -> u64 {
        self.json(&["log", "streams"]).iter().map(|row| row["units"].as_u64().unwrap()).sum()
    }

    fn json(&self, args: &[&str]) -> Vec<Value> {
        let output = self.arbe(&[args, &["--json"]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn fixtures(client: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sessions").join(client)
}

#[test]
fn what_is_synced_is_listed_and_comes_back_as_it_was() {
    let library = Library::new();
    let from = fixtures("pi");
    let sync = ["sync", "--client", "pi", "--from", from.to_str().unwrap()];
    let first = &library.json(&sync)[0]["clients"]["pi"];
    assert!(first["new_sessions"].as_u64().unwrap() >= 5 && first["faults"] == 0, "{first}");
    assert_eq!(first["new_messages"], first["messages"]);
    let again = &library.json(&sync)[0]["clients"]["pi"];
    assert_eq!((again["new_messages"].as_u64(), again["skipped"].as_u64()), (Some(0), first["bundles"].as_u64()), "{again}");
    let parsed = &library.json(&[&sync[..], &["--all"]].concat())[0]["clients"]["pi"];
    assert_eq!((parsed["skipped"].as_u64(), &parsed["unchanged"]), (Some(0), &first["messages"]), "{parsed}");

    let sessions = library.json(&["sessions", "--client", "pi"]);
    let id = sessions.iter().map(|row| row["session"].as_str().unwrap()).find(|id| id.contains("demo-078")).unwrap().to_owned();
    let out = library.directory.path().join("out");
    let restored = &library.json(&["restore", &id, "--to", "pi", "--dir", out.to_str().unwrap()])[0];
    assert_eq!(restored["native"], true);
    let file = PathBuf::from(restored["files"][0].as_str().unwrap());
    let values = |path: &Path| -> Vec<Value> {
        std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let original = walk(&from).into_iter().find(|path| path.file_name() == file.file_name()).unwrap();
    assert_eq!(values(&file), values(&original));

    let over = library.arbe(&["restore", &id, "--to", "pi", "--dir", out.to_str().unwrap()]);
    assert_eq!(over.status.code(), Some(4), "{}", String::from_utf8_lossy(&over.stderr));
    assert_eq!(library.arbe(&["restore", "nobody", "--to", "pi"]).status.code(), Some(3));
    assert_eq!(library.arbe(&["restore", &id, "--to", "emacs"]).status.code(), Some(3));
}

#[test]
fn a_session_goes_on_in_every_other_client() {
    let library = Library::new();
    let from = fixtures("pi");
    library.json(&["sync", "--client", "pi", "--from", from.to_str().unwrap()]);
    let sessions = library.json(&["sessions"]);
    let id = sessions.iter().map(|row| row["session"].as_str().unwrap()).find(|id| id.contains("demo-078")).unwrap().to_owned();
    let home = library.directory.path().join("elsewhere");
    for (client, command) in [("claude-code", "claude --resume"), ("codex", "codex resume"), ("opencode", "opencode import")] {
        let resumed = &library.json(&["resume", &id, "--with", client, "--home", home.to_str().unwrap()])[0];
        assert_eq!(resumed["native"], false);
        assert!(resumed["command"].as_str().unwrap().starts_with(command), "{resumed}");
        assert!(Path::new(resumed["files"][0].as_str().unwrap()).starts_with(&home), "{resumed}");
    }
}

#[test]
fn codec_check_says_how_many_are_equal() {
    let library = Library::new();
    for client in ["claude-code", "codex", "pi"] {
        let checked = &library.json(&["codec", "check", "--client", client, fixtures(client).to_str().unwrap()])[0];
        assert!(checked["files"].as_u64().unwrap() > 0 && checked["files"] == checked["equal"], "{client}: {checked}");
    }
    assert_eq!(library.arbe(&["codec", "check", "--client", "pi", "/nowhere"]).status.code(), Some(1));
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let children = std::fs::read_dir(directory).unwrap().map(|child| child.unwrap().path());
    children.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
