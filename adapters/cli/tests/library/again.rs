//! What a second look at the same sources may do, and may not.

use serde_json::{Value, json};

use super::{Library, fixtures, walk};

const FILE: &str = ".claude/projects/-srv-demo/7acd37a8-2745-4b58-a8a9-46164b22ad9e.jsonl";
const SESSION: &str = "7acd37a8-2745-4b58-a8a9-46164b22ad9e";

pub(crate) fn said(id: &str, cwd: &str, text: &str) -> String {
    let message = json!({ "role": "user", "content": text });
    json!({ "type": "user", "uuid": id, "cwd": cwd, "timestamp": "2026-01-01T00:00:00.5Z", "message": message }).to_string()
        + "\n"
}

fn texts(library: &Library, out: &str) -> Vec<String> {
    let out = library.directory.path().join(out);
    library.json(&["restore", SESSION, "--to", "claude-code", "--dir", out.to_str().unwrap()]);
    let file = out.join(FILE.strip_prefix(".claude/").unwrap());
    let text = std::fs::read_to_string(file).unwrap();
    let content = |line: &str| serde_json::from_str::<Value>(line).unwrap()["message"]["content"].as_str().map(str::to_owned);
    text.lines().filter_map(content).collect()
}

#[test]
fn everything_again_appends_no_event() {
    let library = Library::new();
    for (client, place) in [("claude-code", ".claude"), ("codex", ".codex"), ("pi", ".pi/agent")] {
        let from = fixtures(client);
        for file in walk(&from).into_iter().filter(|file| !file.to_string_lossy().ends_with(".canonical.json")) {
            let relative = file.strip_prefix(&from).unwrap();
            library.write(&format!("{place}/{}", relative.display()), std::fs::read(&file).unwrap());
        }
    }
    for file in walk(&fixtures("opencode").join("1.1.34")) {
        let relative = file.strip_prefix(fixtures("opencode").join("1.1.34")).unwrap().to_owned();
        library.write(&format!(".local/share/opencode/{}", relative.display()), std::fs::read(&file).unwrap());
    }
    let first = library.json(&["sync"]).remove(0);
    let records = library.records();
    for again in [&["sync"][..], &["sync", "--all"]] {
        let again = library.json(again).remove(0);
        for client in ["claude-code", "codex", "opencode", "pi"] {
            let (first, again) = (&first["clients"][client], &again["clients"][client]);
            assert!(first["new_messages"].as_u64() > Some(0) && first["refused"] == 0, "{client}: {first}");
            assert_eq!((&again["new_messages"], &again["new_sessions"]), (&json!(0), &json!(0)), "{client}");
            assert_eq!(again["unchanged"], first["messages"], "{client}");
        }
        assert_eq!(library.records(), records, "not one event more");
    }
}

#[test]
fn of_a_file_that_grew_only_the_new_is_appended() {
    let library = Library::new();
    let old = said("u1", "/srv/demo", "one") + &said("u2", "/srv/demo", "two");
    library.write(FILE, &old);
    library.sync("claude-code");
    let records = library.records();
    library.write(FILE, old + &said("u3", "/srv/demo", "three"));
    let (grown, _) = library.sync("claude-code");
    assert_eq!((&grown["new_messages"], &grown["unchanged"], &grown["refused"]), (&json!(1), &json!(2), &json!(0)), "{grown}");
    assert_eq!(library.records(), records + 1);
    assert_eq!(texts(&library, "out"), ["one", "two", "three"]);
}

#[test]
fn what_a_corrupted_source_says_changes_nothing_that_is_stored() {
    let library = Library::new();
    library.write(FILE, said("u1", "/srv/demo", "one") + &said("u2", "/srv/demo", "two"));
    library.sync("claude-code");
    let records = library.records();
    library.write(FILE, said("u1", "/srv/demo", "CORRUPTED") + "{\"type\":\"user\",\"uuid\":\"u2\"\n");
    let (again, said) = library.sync("claude-code");
    assert_eq!((&again["new_messages"], &again["faults"]), (&json!(0), &json!(1)), "{again}");
    assert!(said.contains("-srv-demo") && said.contains(":2: not JSON"), "{said}");
    assert_eq!(library.records(), records);
    assert_eq!(texts(&library, "out"), ["one", "two"]);
}

#[test]
fn a_source_that_is_gone_leaves_what_was_recorded() {
    let library = Library::new();
    let file = library.write(FILE, said("u1", "/srv/demo", "one"));
    library.sync("claude-code");
    let records = library.records();
    std::fs::remove_file(file).unwrap();
    library.sync("claude-code");
    assert_eq!(library.records(), records);
    assert_eq!(library.json(&["sessions"]).len(), 1);
    assert_eq!(texts(&library, "out"), ["one"]);
}

/// `source_agent` and `project` do not change; what is new belongs to the session all the same.
#[test]
fn a_session_keeps_the_project_it_began_with_wherever_it_goes_on() {
    let library = Library::new();
    let title = "{\"type\":\"summary\",\"summary\":\"About it\",\"leafUuid\":\"x\"}\n".to_owned();
    let steps = [title, said("u1", "/srv/demo", "one"), said("u2", "/srv/elsewhere", "two"), said("u3", "/srv/third", "three")];
    let mut projects = Vec::new();
    for end in 1..=steps.len() {
        library.write(FILE, steps[..end].concat());
        let (summary, _) = library.sync("claude-code");
        assert_eq!((&summary["new_messages"], &summary["refused"]), (&json!(1), &json!(0)), "{end}: {summary}");
        projects.push(library.json(&["sessions"])[0]["project"].as_str().unwrap().to_owned());
    }
    projects.dedup();
    assert_eq!(projects.len(), 1, "{projects:?}");
    assert_eq!(texts(&library, "out"), ["one", "two", "three"]);

    let moved = Library::new();
    moved.write(FILE, steps[1..].concat());
    moved.sync("claude-code");
    assert_eq!(moved.json(&["sessions"])[0]["project"], "/srv/demo", "the first that the records name");
}

/// Two files of one session that say otherwise where it is: all of both is taken, whichever comes first, and said once.
#[test]
fn two_files_of_one_session_are_one_session_wherever_they_say_it_is() {
    let library = Library::new();
    let file = |cwd: &str, ids: std::ops::Range<u32>| {
        let header = format!(
            "{{\"type\":\"session\",\"version\":3,\"id\":\"twin\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"{cwd}\"}}\n"
        );
        let line = |id: u32| {
            format!(
                "{{\"type\":\"message\",\"id\":\"m{id}\",\"timestamp\":\"2026-01-01T00:00:01.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{id}\"}}}}\n"
            )
        };
        header + &ids.map(line).collect::<String>()
    };
    library.write(".pi/agent/sessions/--a--/2026-01-01T00-00-00-000Z_twin.jsonl", file("/srv/a", 0..4));
    library.write(".pi/agent/sessions/--b--/2026-01-01T00-00-00-000Z_twin.jsonl", file("/srv/b", 4..9));
    let (first, said) = library.sync("pi");
    assert_eq!((&first["new_messages"], &first["refused"]), (&json!(10), &json!(0)), "{said}");
    let (again, _) = library.sync("pi");
    assert_eq!((&again["new_messages"], &again["refused"]), (&json!(0), &json!(0)));
    let records = library.records();
    library.json(&["sync", "--all"]);
    assert_eq!(library.records(), records, "nothing was left out");
    let out = library.directory.path().join("out");
    let told = &library.json(&["restore", "twin", "--to", "pi", "--dir", out.to_str().unwrap()])[0];
    let lines = |file: &Value| std::fs::read_to_string(file.as_str().unwrap()).unwrap().lines().count();
    let files = told["files"].as_array().unwrap();
    assert_eq!(files.iter().map(lines).sum::<usize>(), 10, "{told}");
    let originals = [file("/srv/a", 0..4), file("/srv/b", 4..9)];
    let whole = |path: &Value| originals.contains(&std::fs::read_to_string(path.as_str().unwrap()).unwrap());
    assert!(files.iter().any(whole), "the file that the session names is as it was");
}

/// A log that was put back to an earlier state has not seen what came after.
#[test]
fn what_a_backup_does_not_hold_is_recorded_again() {
    let library = Library::new();
    library.write(".claude/projects/-srv-demo/7acd37a8-2745-4b58-a8a9-46164b22ad9e.jsonl", said("u1", "/srv/demo", "one"));
    library.sync("claude-code");
    let (log, backup) = (library.directory.path().join("data/log"), library.directory.path().join("backup"));
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        let copied = std::process::Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap();
        assert!(copied.success());
    };
    copy(&log, &backup);
    let both = said("u1", "/srv/demo", "one") + &said("u2", "/srv/demo", "two");
    library.write(".claude/projects/-srv-demo/7acd37a8-2745-4b58-a8a9-46164b22ad9e.jsonl", both);
    assert_eq!(library.sync("claude-code").0["new_messages"], 1);
    std::fs::remove_dir_all(&log).unwrap();
    copy(&backup, &log);
    assert_eq!(library.sync("claude-code").0["new_messages"], 1, "it is not in the log");
}
