//! Sessions out of one house and into another, as one file.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Library, fixtures};

const CLIENTS: [(&str, &str); 4] = [("claude-code", "claude-code"), ("codex", "codex"), ("opencode", "opencode"), ("pi", "pi")];

fn full() -> Library {
    let library = Library::new();
    for (client, directory) in CLIENTS {
        let from = fixtures(directory);
        library.json(&["sync", "--skip", "update-indexes", "--client", client, "--from", from.to_str().unwrap()]);
    }
    library
}

fn export(library: &Library, name: &str) -> PathBuf {
    let file = library.directory.path().join(name);
    library.json(&["export", file.to_str().unwrap()]);
    file
}

fn lines(file: &Path) -> Vec<String> {
    let text = zstd::decode_all(std::fs::File::open(file).unwrap()).unwrap();
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

/// An archive of these lines with a right end.
fn sealed(file: &Path, lines: &[String]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let count = |kind: &str| lines.iter().filter(|line| line.starts_with(&format!("{{\"{kind}\""))).count();
    let checksum = blake3::hash(text.as_bytes()).to_hex().to_string();
    let end = json!({"end": {"sessions": count("session"), "messages": count("message"), "checksum": checksum}});
    write(file, &format!("{text}{end}\n"));
}

fn write(file: &Path, text: &str) {
    let mut out = zstd::Encoder::new(std::fs::File::create(file).unwrap(), 3).unwrap();
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap();
}

#[test]
fn an_archive_brings_every_session_into_another_house_and_nothing_twice() {
    let (one, two) = (full(), Library::new());
    let archive = export(&one, "all.pond");
    let file = archive.to_str().unwrap();
    let taken = &two.json(&["import", file])[0]["clients"];
    let listed = |library: &Library| library.json(&["sessions"]);
    assert_eq!(listed(&one), listed(&two));
    for (client, _) in CLIENTS {
        let counts = &taken[client];
        assert!(counts["new_messages"].as_u64().unwrap() > 0 && counts["refused"] == 0, "{client}: {counts}");
        assert_eq!(counts["new_messages"], counts["messages"], "{client}");
    }
    let ids: Vec<_> = listed(&two).iter().map(|row| row["session"].as_str().unwrap().to_owned()).collect();
    let id = ids.iter().find(|id| id.contains("demo-078")).unwrap();
    assert!(!two.json(&["get", id])[0]["messages"].as_array().unwrap().is_empty(), "it is in the datasets too");

    assert!(std::fs::read(export(&two, "again.pond")).unwrap() == std::fs::read(&archive).unwrap(), "nothing was lost or added");
    let records = two.records();
    let again = &two.json(&["sync", "--import-from", file])[0]["clients"]["pi"];
    assert_eq!((&again["new_messages"], &again["unchanged"]), (&json!(0), &again["messages"]));
    assert_eq!(two.records(), records);
    assert_eq!(two.arbe(&["export", file]).status.code(), Some(4), "never over an existing file");
}

#[test]
fn only_what_is_asked_for_is_exported_and_stdout_will_do() {
    let library = full();
    let out = library.arbe(&["export", "-", "--client", "pi"]);
    assert!(out.status.success());
    let file = library.directory.path().join("pi.pond");
    std::fs::write(&file, out.stdout).unwrap();
    let sessions: Vec<Value> = lines(&file).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let agents = sessions.iter().filter_map(|line| line["session"]["source_agent"].as_str());
    assert!(agents.clone().count() >= 5 && agents.clone().all(|agent| agent == "pi"));
}

#[test]
fn an_archive_that_is_not_whole_or_not_right_changes_nothing() {
    let library = Library::new();
    let from = fixtures("pi");
    library.json(&["sync", "--client", "pi", "--from", from.to_str().unwrap()]);
    let whole = export(&library, "whole.pond");
    let good = lines(&whole);
    let body = &good[..good.len() - 1];
    let bad = library.directory.path().join("bad.pond");
    let other = Library::new();
    other.json(&["sync", "--only", "import", "--client", "pi", "--from", fixtures("codex").to_str().unwrap()]);
    let records = other.records();
    let refused = |what: &str| {
        let done = other.arbe(&["import", bad.to_str().unwrap()]);
        let told = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(1), "{what}: {told}");
        assert!(told.contains(what), "{what}: {told}");
        assert_eq!(other.records(), records, "{what}");
    };
    let bytes = std::fs::read(&whole).unwrap();
    std::fs::write(&bad, &bytes[..bytes.len() / 2]).unwrap();
    refused("bad.pond");
    write(&bad, &(body.join("\n") + "\n"));
    refused("before its end");
    write(&bad, &good.join("\n").replace("assistant", "assistent"));
    refused("bad.pond: line");
    write(&bad, &(good.join("\n").replacen("demo", "dema", 1) + "\n"));
    refused("it was changed since it was made");
    write(&bad, &(good.join("\n") + "\n{}\n"));
    refused("something follows its end");
    sealed(&bad, &[&[r#"{"archive":{"version":7}}"#.to_owned()], &body[1..]].concat());
    refused("an archive of version 7; this arbe reads 1");
    sealed(&bad, &[&body[..1], &body[2..]].concat());
    refused("line 2: a message of no session");
    sealed(&bad, &[&body[..], &[body[0].clone()]].concat());
    refused("a second head");
    let thread = body[1].replace(r#""source_agent":"pi""#, r#""source_agent":"arbe""#);
    sealed(&bad, &[body[0].clone(), thread]);
    refused("claims to be a thread");
    std::fs::write(&bad, "not zstd").unwrap();
    refused("not an archive of sessions");
}

#[test]
fn an_archive_cannot_name_what_others_were_given() {
    let library = Library::new();
    let from = fixtures("pi");
    library.json(&["sync", "--client", "pi", "--from", from.to_str().unwrap()]);
    let good = lines(&export(&library, "good.pond"));
    let part = json!({"id": "p", "type": "file", "provenance": "conversational", "media_type": "image/png",
        "url": format!("pond://blob/{}", "0".repeat(64))});
    let message = json!({"message": {"id": "thief", "timestamp": "2026-01-01T00:00:00Z", "role": "user", "content": [part]}});
    let bad = library.directory.path().join("bad.pond");
    sealed(&bad, &[good[0].clone(), good[1].clone(), message.to_string()]);
    let counts = &library.json(&["import", bad.to_str().unwrap()])[0]["clients"]["pi"];
    assert_eq!((&counts["refused"], &counts["new_messages"]), (&json!(1), &json!(0)), "{counts}");
}

#[test]
fn a_client_that_nobody_knows_is_a_slip_and_makes_no_archive() {
    let library = full();
    let file = library.directory.path().join("nope.pond");
    for line in [&["export", file.to_str().unwrap(), "--client", "nope"][..], &["sessions", "--client", "nope"]] {
        let done = library.arbe(line);
        let told = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{line:?}: {told}");
        assert!(told.contains("there is no client \"nope\"; known are claude-code, codex, opencode, pi"), "{line:?}: {told}");
    }
    assert!(!file.exists());
    let listed = library.arbe(&["sessions", "--client", "codex"]);
    assert!(listed.status.success() && String::from_utf8(listed.stderr).unwrap().contains("`arbe thread list`"));
}
