//! Search as people and models use it, over sessions that lie in this repository.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

struct Home(tempfile::TempDir);

impl Home {
    /// The sessions of all clients.
    fn synced() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        for client in ["claude-code", "codex", "opencode", "pi"] {
            let from = fixtures().join("sessions").join(client);
            let done = home.run(&["sync", "--client", client, "--from", from.to_str().unwrap()]);
            assert!(done.status.success(), "{client}: {}", String::from_utf8_lossy(&done.stderr));
        }
        home
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arbe"));
        command.arg("--data-dir").arg(self.0.path()).args(args).env_remove("ARBE_EMBED_MODEL");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let done = self.run(&[&["--json"], args].concat());
        let text = String::from_utf8(done.stdout).unwrap();
        serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    }

    fn found(&self, query: &str) -> Vec<String> {
        let found = self.json(&["search", "--limit", "20", "--", query]);
        let id = |session: &Value| format!("{} {}", session["session_id"].as_str().unwrap(), session["score"]);
        found["sessions"].as_array().unwrap().iter().map(id).collect()
    }
}

fn queries() -> Vec<String> {
    let text = std::fs::read_to_string(fixtures().join("search/known-items.tsv")).unwrap();
    text.lines().skip(1).map(|line| line.split('\t').nth(2).unwrap().to_owned()).collect()
}

#[test]
fn known_items_are_found_first_and_what_was_never_said_is_not_found() {
    let home = Home::synced();
    let scores = home.json(&["eval", fixtures().join("search/known-items.tsv").to_str().unwrap()]);
    let strata = scores["strata"].as_array().unwrap();
    assert_eq!(strata.len(), 7, "{scores}");
    for stratum in strata {
        assert_eq!(stratum["success_at_1"], 1.0, "{stratum}");
    }
    let nothing = home.run(&["search", "resolveQuantumLedger"]);
    assert_eq!(nothing.status.code(), Some(3));
    assert!(nothing.stdout.is_empty());
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("nobody says \"resolvequantumledger\""));
}

#[test]
fn a_rebuilt_index_finds_the_same_in_the_same_order() {
    let home = Home::synced();
    let before: Vec<_> = queries().iter().map(|query| home.found(query)).collect();
    assert!(before.iter().any(|found| found.len() > 3), "{before:?}");
    for args in [&["rebuild", "entries", "sessions"][..], &["verify", "entries", "sessions"]] {
        let done = home.run(args);
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let after: Vec<_> = queries().iter().map(|query| home.found(query)).collect();
    assert_eq!(before, after);
}

#[test]
fn bad_input_is_named_and_explaining_tells_what_was_done() {
    let home = Home::synced();
    for (args, told) in [
        (&["search", "--limit", "51", "word"][..], "limit is between 1 and 50"),
        (&["search", "--min-score", "2", "word"], "min_score is between 0 and 1"),
        (&["search", "--since", "2026-02-01", "--until", "2026-01-01", "word"], "since is not before until"),
    ] {
        let done = home.run(args);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && said.contains(told), "{args:?}: {:?} {said}", done.status);
    }
    let explained = home.json(&["search", "--explain", "--client", "codex", "Hilbert"]);
    let plan = explained["keyword_plan"].as_str().unwrap();
    assert!(plan.contains("before ranking") && plan.contains("codex"), "{plan}");
    assert!(explained["sessions"][0]["keyword"].is_number(), "{explained}");
}

#[test]
fn a_model_searches_over_stdio() {
    let home = Home::synced();
    let mut server = home.command(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let hello = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    let search = json!({ "name": "pond_search", "arguments": { "query": "turned the sign around" } });
    let mut input = server.stdin.take().unwrap();
    for line in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": search }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": { "uri": "stats://pond" } }),
    ] {
        writeln!(input, "{line}").unwrap();
    }
    drop(input);
    let output = server.wait_with_output().unwrap();
    let answers: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answer =
        |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("no answer {id}: {answers:?}"));
    let found = answer(2)["result"]["content"][0]["text"].as_str().unwrap();
    assert!(found.contains("0199e4a5-5b78-78f2-b041-6b876f71fdab") && found.contains("I turned the sign around"), "{found}");
    let stats = answer(3)["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(stats.contains("\"searchable_messages\""), "{stats}");
}
