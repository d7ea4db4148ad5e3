use events::session::{Content, Message, Provenance};

use crate::support::{Files, canonical, codec, fixtures, golden, golden_of, moved, shared_fixtures, shown, survive};
use codecs::check;
use codecs::fault::{Fault, What};
use codecs::lineage::Lineage;

mod foreign;

pub const HEADER: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/srv/demo"}"#;
const HELLO: &str = r#"{"type":"message","id":"e1","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"hello"}}"#;

fn file(lines: &[&str]) -> Files {
    Files::of(&[("sessions/--srv-demo--/2026-01-01T00-00-00-000Z_s1.jsonl", lines.join("\n"))])
}

fn only(files: &Files) -> (events::session::Session, Vec<Message>, Vec<Fault>) {
    let mut contents = files.parse(codec("pi"));
    let (session, messages) = contents.sessions.remove(0);
    (session, messages, contents.faults)
}

/// `adapter-native-restore-lossless`, `model-lossless-projection`
#[test]
fn sessions_of_ours_survive_and_mean_what_they_meant() {
    let root = fixtures("pi");
    assert_eq!(survive(codec("pi"), &root), 5);
    for bundle in codec("pi").parse.discover(&root).unwrap() {
        let contents = check::parse(codec("pi"), &bundle).unwrap();
        assert_eq!(contents.faults, []);
        golden(&golden_of(&root.join(bundle.main())), &contents);
    }
}

#[test]
fn sessions_of_others_survive() {
    let Some(root) = shared_fixtures("pi") else { return };
    let files = survive(codec("pi"), &root);
    eprintln!("pi: {files} files equal");
    assert!(files > 0);
}

/// `adapter-integrity-opaque-ids`
#[test]
fn a_fork_hangs_on_the_session_whose_file_it_names() {
    let parents = [
        (r#""parentSession":"/home/me/.pi/agent/sessions/--x--/2026-01-01T00-00-00-000Z_01a1-b_c.jsonl""#, Some("01a1-b_c")),
        (r#""parentSession":"C:\\pi\\2026-01-01T00-00-00-000Z_p.jsonl""#, Some("p")),
        (r#""branchedFrom":"/x/2025-12-09T00-52-54-397Z_d97339c6.jsonl""#, Some("d97339c6")),
        (r#""parentSession":"named.jsonl""#, Some("named")),
        (r#""parentSession":"/x/2026-01-01T00-00-00-000Z_s1.jsonl""#, None),
        (r#""parentSession":"/x/.jsonl""#, None),
        (r#""parentSession":7.5"#, Some("7.5")),
        (r#""other":1"#, None),
    ];
    for (field, parent) in parents {
        let header = HEADER.replace(r#""cwd""#, &format!(r#"{field},"cwd""#));
        let (session, ..) = only(&file(&[&header]));
        assert_eq!(session.parent_session_id.as_ref().map(|it| it.as_str()), parent, "{field}");
        assert_eq!((session.project.as_str(), session.created_at.to_string().as_str()), ("/srv/demo", "2026-01-01T00:00:00Z"));
    }
}

/// `adapter-integrity-no-silent-drops`: each fault names adapter, file and line, and the rest is there.
#[test]
fn what_is_broken_is_told_and_the_rest_is_kept() {
    let cases: [(&str, Vec<u8>, Option<u64>, usize); 7] = [
        ("malformed", format!("{HEADER}\n{{\"type\":\n{HELLO}\n").into(), Some(2), 2),
        ("not UTF-8", [HEADER.as_bytes(), b"\n\"\xff\"\n", HELLO.as_bytes()].concat(), Some(2), 2),
        ("cut off", format!("{HEADER}\n{HELLO}\n{}", &HELLO[..40]).into(), Some(3), 2),
        ("two on a line", format!("{HEADER}{HELLO}").into(), None, 2),
        ("header-less", format!("{HELLO}\n").into(), Some(1), 1),
        ("broken header", format!("{}\n{HELLO}\n", &HEADER[..50]).into(), Some(1), 1),
        ("no values but texts", format!("{HEADER}\n\"a\"\n7\nnull\n").into(), None, 4),
    ];
    for (name, body, line, messages) in cases {
        let path = "sessions/--srv-demo--/2026-01-01T00-00-00-000Z_s1.jsonl";
        let files = Files::of(&[(path, body)]);
        let (session, kept, faults) = only(&files);
        assert_eq!((session.id.as_str(), kept.len()), ("s1", messages), "{name}");
        assert_eq!(faults.first().map(|it| it.location.line), line.map(Some), "{name}");
        assert!(faults.iter().all(|it| it.adapter == "pi" && &*it.location.file == path), "{name}: {faults:?}");
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(check::check(codec("pi"), &files.bundles(codec("pi"))[0], scratch.path()).unwrap(), [], "{name}");
    }
}

#[test]
fn an_empty_file_is_told_and_nothing_is_made_up() {
    let files = file(&[""]);
    let contents = files.parse(codec("pi"));
    assert!(contents.sessions.is_empty());
    assert!(matches!(contents.faults.as_slice(), [Fault { what: What::Missing("the header"), .. }]));
    let scratch = tempfile::tempdir().unwrap();
    assert_eq!(check::check(codec("pi"), &files.bundles(codec("pi"))[0], scratch.path()).unwrap(), []);
}

/// `model-project-non-empty`: the directory stands in for a header, but only one that pi made.
#[test]
fn a_session_without_a_project_is_left_out() {
    let beside = Files::of(&[("here/x_s1.jsonl", HELLO)]);
    let contents = beside.parse(codec("pi"));
    assert!(contents.sessions.is_empty());
    assert!(contents.faults.iter().any(|it| it.what == What::Missing("the project")), "{:?}", contents.faults);
    let (session, ..) = only(&file(&[HELLO]));
    assert_eq!(session.project, "--srv-demo--");
}

#[test]
fn entries_with_one_id_are_all_kept() {
    let (_, messages, faults) = only(&file(&[HEADER, HELLO, HELLO, &HELLO.replace("hello", "other")]));
    let ids: Vec<_> = messages.iter().map(|it| it.id.as_str()).collect();
    assert_eq!((ids, faults.len()), (vec!["s1", "e1", "e1~2", "e1~3"], 0));
}

/// `model-part-provenance`: split at the byte, nothing added or lost.
#[test]
fn what_pi_puts_around_a_persons_words_is_told_apart() {
    let skill = "<skill name=\"a\" location=\"/s/SKILL.md\">\nReferences are relative to /s.\n\nDo it.\n</skill>";
    let cases: Vec<(String, Vec<&str>)> = vec![
        ("just words".into(), vec!["c"]),
        (String::new(), vec!["c"]),
        (skill.into(), vec!["i"]),
        (format!("{skill}\n\nthe world – ✓"), vec!["i", "c"]),
        (format!("{skill}\nthe world"), vec!["c"]),
        (format!("{}\n</skill>\n\nmore", skill.replace("Do it.", "Do\n</skill>\nit.")), vec!["i", "c"]),
        (format!("see {skill}"), vec!["c"]),
        ("<skill name=\"a\">x</skill>".into(), vec!["c"]),
        ("<skill name=\"a\" location=\"b\">\n</skill>".into(), vec!["i"]),
        ("<file name=\"/a.txt\">\none\n</file>\nwhat?".into(), vec!["i", "c"]),
        ("<file name=\"/a.txt\">\none\n</file>\n<file name=\"/b.png\"></file>\nwhat?".into(), vec!["i", "c"]),
        ("<file name=\"/a.txt\">\none\n</file>\n".into(), vec!["i"]),
        ("<file name=\"/a.txt\">never closed".into(), vec!["c"]),
        ("<file name=\"/a\n\">x</file>\n".into(), vec!["c"]),
    ];
    for (text, expected) in cases {
        let quoted = serde_json::to_string(&text).unwrap();
        for content in [quoted.clone(), format!(r#"[{{"type":"text","text":{quoted}}}]"#)] {
            let line = format!(r#"{{"type":"message","id":"e1","message":{{"role":"user","content":{content}}}}}"#);
            let files = file(&[HEADER, &line]);
            let (_, messages, _) = only(&files);
            let parts = messages[1].parts();
            let kinds: Vec<_> =
                parts.iter().map(|part| if part.provenance == Provenance::Injected { "i" } else { "c" }).collect();
            assert_eq!(kinds, expected, "{text:?}");
            assert_eq!(parts.iter().filter_map(|part| part.body.text()).collect::<String>(), text);
            let scratch = tempfile::tempdir().unwrap();
            assert_eq!(check::check(codec("pi"), &files.bundles(codec("pi"))[0], scratch.path()).unwrap(), []);
        }
    }
}

/// `model-part-provenance`, by entry: role, and what is conversation (c) and what is not (i).
#[test]
fn every_entry_is_what_the_format_says() {
    let cases = [
        (r#""type":"compaction","summary":"x""#, "user i"),
        (r#""type":"branch_summary","summary":"x""#, "user i"),
        (r#""type":"custom_message","content":"x""#, "user i"),
        (r#""type":"message","message":{"role":"hookMessage","content":"x"}"#, "user i"),
        (r#""type":"message","message":{"role":"custom","content":[{"type":"text","text":"x"}]}"#, "user i"),
        (r#""type":"message","message":{"role":"bashExecution","command":"ls","output":"x"}"#, "user ci"),
        (r#""type":"message","message":{"role":"bashExecution","output":"x"}"#, "system "),
        (r#""type":"message","message":{"role":"user","content":7}"#, "system "),
        (r#""type":"message","message":{"role":"assistant","content":"x"}"#, "assistant c"),
        (r#""type":"message","message":{"role":"assistant"}"#, "system "),
        (
            r#""type":"message","message":{"role":"assistant","content":[{"type":"thinking","thinking":"x"},{"type":"toolCall","id":"1","name":"n","arguments":{}}]}"#,
            "assistant cc",
        ),
        (r#""type":"message","message":{"role":"toolResult","toolCallId":"1","content":[]}"#, "tool i"),
        (r#""type":"message","message":{"role":"toolResult","content":[]}"#, "system "),
        (r#""type":"message","message":{"role":"toolResult","toolCallId":"1"}"#, "system "),
        (r#""type":"message","message":{"role":"system","content":"x"}"#, "system "),
        (r#""type":"context_edit","replacement":"x""#, "system "),
        (r#""type":"label","label":"x""#, "system "),
        (r#""type":"never_seen","content":"x""#, "system "),
        (r#""kind":"no type""#, "system "),
    ];
    for (fields, expected) in cases {
        let files = file(&[HEADER, &format!("{{{fields}}}")]);
        let (_, messages, faults) = only(&files);
        let parts = messages[1].parts();
        let kinds: String = parts.iter().map(|it| if it.provenance == Provenance::Injected { 'i' } else { 'c' }).collect();
        assert_eq!(format!("{} {kinds}", messages[1].role().as_str()), expected, "{fields}");
        assert!(faults.is_empty());
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(check::check(codec("pi"), &files.bundles(codec("pi"))[0], scratch.path()).unwrap(), [], "{fields}");
    }
}

#[test]
fn a_result_of_one_text_is_that_text_and_any_other_is_its_blocks() {
    let result = |content: &str| {
        let line = format!(
            r#"{{"type":"message","message":{{"role":"toolResult","toolCallId":"1","isError":true,"content":{content}}}}}"#
        );
        let (_, messages, _) = only(&file(&[HEADER, &line]));
        let Content::Tool(parts) = &messages[1].content else { panic!("{messages:?}") };
        let events::session::ToolBody::ToolResult(result) = &parts[0].body else { panic!("{parts:?}") };
        assert!(result.is_failure && result.name.is_none());
        result.result.get().to_owned()
    };
    assert_eq!(result(r#"[{"type":"text","text":"x"}]"#), r#""x""#);
    assert_eq!(result(r#"[{"type":"text","text":"\ud800"}]"#), r#"[{"type":"text","text":"\ud800"}]"#);
    assert_eq!(result(r#"[{"type":"text","text":"x"},{"type":"image"}]"#), r#"[{"type":"text","text":"x"},{"type":"image"}]"#);
}

#[test]
fn discovery_takes_session_files_only() {
    let files = Files::of(&[
        ("auth.json", "{}"),
        ("models.jsonl", HEADER),
        ("sessions/--a--/2_b.jsonl", HEADER),
        ("sessions/--a--/1_a.jsonl", HEADER),
        ("sessions/--a--/notes.txt", ""),
        ("sessions/flat.jsonl", HEADER),
    ]);
    let names = |bundles: Vec<codecs::source::Bundle>| -> Vec<String> {
        bundles.iter().map(|it| it.main().to_string_lossy().into_owned()).collect()
    };
    let found = names(files.bundles(codec("pi")));
    assert_eq!(found, ["sessions/--a--/1_a.jsonl", "sessions/--a--/2_b.jsonl", "sessions/flat.jsonl"]);
    let one = files.0.path().join("sessions/--a--/1_a.jsonl");
    assert_eq!(names(codec("pi").parse.discover(&one).unwrap()), ["1_a.jsonl"]);
    assert!(codec("pi").parse.discover(&files.0.path().join("nowhere")).is_err());
}

/// `adapter-lineage-complete-restore`
#[test]
fn a_fork_is_restored_with_its_parent() {
    let child = HEADER.replace(r#""s1""#, r#""s2""#).replace(r#""cwd""#, r#""parentSession":"/x/2026_s1.jsonl","cwd""#);
    let files = Files::of(&[("sessions/--d--/1_s1.jsonl", [HEADER, HELLO].join("\n")), ("sessions/--d--/2_s2.jsonl", child)]);
    let contents = files.parse(codec("pi"));
    let lineages = check::lineages(contents.sessions);
    assert_eq!(lineages.len(), 1);
    let paths: Vec<_> = codec("pi").serialize.native(&lineages[0]).unwrap().into_iter().map(|it| it.path).collect();
    assert_eq!(paths, ["sessions/--d--/1_s1.jsonl", "sessions/--d--/2_s2.jsonl"]);
}
