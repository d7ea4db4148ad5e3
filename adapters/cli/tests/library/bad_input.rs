//! Bad input of every kind: each has its own answer, and whatever else was there is recorded.

use serde_json::{Value, json};

use super::Library;
use super::again::said;

const BAD: &str = ".claude/projects/-srv-demo/7acd37a8-2745-4b58-a8a9-46164b22ad9e.jsonl";
const SESSION: &str = "7acd37a8-2745-4b58-a8a9-46164b22ad9e";

/// A home with a good session of each client that writes lines, beside what a test puts there.
fn beside() -> Library {
    let library = Library::new();
    library.write(".claude/projects/-srv-demo/8bcd37a8-2745-4b58-a8a9-46164b22ad9e.jsonl", said("g1", "/srv/demo", "good"));
    library.write(
        ".pi/agent/sessions/--srv-demo--/2026-01-01T00-00-00-000Z_good.jsonl",
        "{\"type\":\"session\",\"version\":3,\"id\":\"good\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/srv/demo\"}\n",
    );
    library
}

/// Syncs, and sees to it that the good sessions are there. Returns what was said of the client, and of faults.
fn synced(library: &Library, client: &str) -> (Value, String) {
    let answer = library.sync(client);
    let sessions = library.json(&["sessions"]);
    for good in ["8bcd37a8-2745-4b58-a8a9-46164b22ad9e", "good"] {
        assert!(sessions.iter().any(|row| row["session"] == good), "{good}: {sessions:?}");
    }
    answer
}

fn restored(library: &Library, to: &str) -> Vec<Value> {
    let out = library.directory.path().join(format!("out-{to}"));
    let told = &library.json(&["restore", SESSION, "--to", to, "--dir", out.to_str().unwrap()])[0];
    let text = std::fs::read_to_string(told["files"][0].as_str().unwrap()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn good_lines(around: impl AsRef<[u8]>) -> Vec<u8> {
    [said("u1", "/srv/demo", "before").as_bytes(), around.as_ref(), said("u2", "/srv/demo", "after").as_bytes()].concat()
}

#[test]
fn an_oversized_value_becomes_a_mark_of_its_size() {
    let library = beside();
    let long = "x".repeat(codecs::seam::VALUE_MAX + 1);
    library.write(BAD, good_lines(said("big", "/srv/demo", &long)));
    let (summary, said) = synced(&library, "claude-code");
    assert_eq!((&summary["new_messages"], &summary["faults"]), (&json!(4), &json!(1)), "{summary}");
    assert!(said.contains(&format!("{SESSION}.jsonl:2: a value of {} bytes is more than is kept", long.len())), "{said}");
    let lines = restored(&library, "claude-code");
    assert_eq!(lines[1]["message"]["content"], format!("pond:truncated:{}", long.len()));
    assert_eq!((&lines[0]["message"]["content"], &lines[2]["message"]["content"]), (&json!("before"), &json!("after")));
}

#[test]
fn invalid_utf_8_is_a_fault_of_its_line() {
    let library = beside();
    library.write(BAD, good_lines(b"{\"type\":\"\xff\"}\n"));
    let (summary, said) = synced(&library, "claude-code");
    assert_eq!((&summary["new_messages"], &summary["faults"]), (&json!(3), &json!(1)), "{summary}");
    assert!(said.contains(&format!("claude-code: projects/-srv-demo/{SESSION}.jsonl:2: not UTF-8")), "{said}");
    assert_eq!(restored(&library, "claude-code").len(), 2);
}

#[test]
fn a_line_cut_off_is_a_fault_and_is_read_when_it_is_whole() {
    let library = beside();
    let (start, end) = (good_lines(""), said("u3", "/srv/demo", "last"));
    library.write(BAD, [&start, &end.as_bytes()[..60]].concat());
    let (summary, told) = synced(&library, "claude-code");
    assert_eq!((&summary["new_messages"], &summary["faults"]), (&json!(3), &json!(1)), "{summary}");
    assert!(told.contains(&format!("{SESSION}.jsonl:3: not JSON: cut off")), "{told}");
    library.write(BAD, [&start, end.as_bytes()].concat());
    let (summary, _) = synced(&library, "claude-code");
    assert_eq!((&summary["new_messages"], &summary["faults"]), (&json!(1), &json!(0)), "{summary}");
}

/// The whole process stays far below what the limit of the memory is.
#[test]
fn a_line_of_200_mb_is_a_fault_and_takes_no_more_memory_than_a_line_may() {
    const LONG: usize = 200_000_000;
    const LIMIT_KIB: u64 = 600 << 10;
    let library = beside();
    let line = [b"{\"type\":\"user\",\"text\":\"".to_vec(), vec![b'x'; LONG], b"\"}\n".to_vec()].concat();
    let bytes = line.len();
    library.write(BAD, good_lines(line));
    let mut command = library.command(&["sync", "--json"]);
    let mut child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|it| it.trim().trim_end_matches(" kB").parse().ok());
        peak = kib.unwrap_or(0).max(peak);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert!(child.wait().unwrap().success());
    assert!(peak < LIMIT_KIB, "{peak} KiB");
    assert_eq!(restored(&library, "claude-code").len(), 2);
    let output = library.arbe(&["sync", "--all"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("{SESSION}.jsonl:2: a line of {bytes} bytes is more than is read")), "{said}");
    synced(&library, "claude-code");
}

/// Of records they are carried as they are; of sessions they are refused when one is to be restored.
#[test]
fn parents_in_a_circle_are_recorded_and_sessions_in_a_circle_are_refused() {
    let library = beside();
    let linked = |id: &str, parent: &str| {
        let mut record: Value = serde_json::from_str(&said(id, "/srv/demo", id)).unwrap();
        record["parentUuid"] = json!(parent);
        format!("{record}\n")
    };
    library.write(BAD, linked("u1", "u2") + &linked("u2", "u1"));
    let header = |id: &str, parent: &str| {
        let base = json!({ "thread_id": parent, "end_ordinal_exclusive": 1, "end_byte_offset": 1 });
        let payload = json!({ "id": id, "cwd": "/srv/demo", "timestamp": "2026-01-01T00:00:00Z", "forked_from_id": parent, "history_base": base });
        json!({ "timestamp": "2026-01-01T00:00:00Z", "ordinal": 0, "type": "session_meta", "payload": payload }).to_string()
    };
    for (id, parent) in [("one", "two"), ("two", "one")] {
        library.write(&format!(".codex/sessions/2026/01/01/rollout-2026-01-01T00-00-00-{id}.jsonl"), header(id, parent));
    }
    let (summary, _) = synced(&library, "claude-code");
    assert_eq!((&summary["new_messages"], &summary["faults"]), (&json!(3), &json!(0)), "{summary}");
    for client in ["claude-code", "codex", "pi"] {
        assert!(restored(&library, client).len() >= 2, "{client}");
    }
    for client in ["codex", "pi"] {
        let refused = library.arbe(&["restore", "one", "--to", client, "--dir", library.directory.path().to_str().unwrap()]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(4), "{said}");
        assert!(said.contains("session two goes on from session one"), "{said}");
    }
}

#[test]
fn an_id_that_stands_twice_is_a_fault_and_both_are_kept() {
    let library = beside();
    library.write(BAD, good_lines(said("u1", "/srv/demo", "again")));
    let (summary, told) = synced(&library, "claude-code");
    assert_eq!((&summary["new_messages"], &summary["faults"]), (&json!(4), &json!(1)), "{summary}");
    assert!(told.contains(&format!("{SESSION}.jsonl:2: ")) && told.contains("u1"), "{told}");
    let texts: Vec<_> = restored(&library, "claude-code").iter().map(|it| it["message"]["content"].clone()).collect();
    assert_eq!(texts, ["before", "again", "after"]);
}

/// A newer file is read as far as it is known and carried whole; a database that is none is told.
#[test]
fn a_version_that_nobody_knows_is_carried_and_a_database_of_another_kind_is_told() {
    let library = beside();
    let file = ".pi/agent/sessions/--srv-demo--/2026-01-01T00-00-00-000Z_newer.jsonl";
    let lines = "{\"type\":\"session\",\"version\":99,\"id\":\"newer\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/srv/demo\"}\n\
                 {\"type\":\"telepathy\",\"id\":\"1\",\"thought\":[1,2.50]}\n";
    library.write(file, lines);
    library.write(".local/share/opencode/opencode.db", "no database at all, but long enough to be looked at".repeat(40));
    let (summary, told) = synced(&library, "pi");
    assert_eq!(summary["new_messages"], 3, "{summary}");
    assert!(told.contains("pi: ") && told.contains("version 99"), "{told}");
    assert!(told.contains("opencode: opencode.db: cannot be read"), "{told}");
    let out = library.directory.path().join("out");
    let restored = &library.json(&["restore", "newer", "--to", "pi", "--dir", out.to_str().unwrap()])[0];
    assert_eq!(std::fs::read_to_string(restored["files"][0].as_str().unwrap()).unwrap(), lines);
}

/// A pipe would be read for ever, and links may lead nowhere.
#[test]
fn what_is_no_file_is_told_and_not_read() {
    let library = beside();
    let directory = library.write(BAD, good_lines("")).parent().unwrap().to_owned();
    let named = |name: &str| directory.join(format!("{name}cd37a8-2745-4b58-a8a9-46164b22ad9e.jsonl"));
    let sessions = library.directory.path().join("home/.pi/agent/sessions/--srv-demo--");
    let database = library.write(".local/share/opencode/x", "").with_file_name("opencode.db");
    for pipe in [&sessions.join("2026-01-01T00-00-00-000Z_pipe.jsonl"), &database] {
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    }
    std::os::unix::fs::symlink(named("9b"), named("9b")).unwrap();
    std::os::unix::fs::symlink("nowhere.jsonl", sessions.join("2026-01-01T00-00-00-000Z_link.jsonl")).unwrap();
    let (summary, told) = synced(&library, "pi");
    assert_eq!(summary["faults"], 2, "{told}");
    assert!(told.contains("pipe.jsonl: cannot be read: not a regular file"), "{told}");
    assert!(told.contains("link.jsonl: cannot be read: No such file"), "{told}");
    assert!(told.contains("opencode.db: cannot be read: "), "{told}");
    for (client, path, files, equal) in [("pi", &sessions, 3, 1), ("claude-code", &directory, 3, 2)] {
        let checked = library.arbe(&["codec", "check", "--client", client, "--json", path.to_str().unwrap()]);
        let said: Value = serde_json::from_slice(&checked.stdout).unwrap();
        assert_eq!(checked.status.code(), Some(1), "{said}");
        assert_eq!((&said["files"], &said["equal"]), (&json!(files), &json!(equal)), "{said}");
    }
}
