use super::{SESSION, assert_survives, bundles, codec, write};
use crate::support::{directories, every_file, fixtures, golden, golden_of, parse, shared_fixtures, survive};

/// `adapter-native-restore-lossless`, `model-lossless-projection`: every real file there is comes back value by value.
#[test]
fn every_shared_session_comes_back_value_by_value() {
    let Some(shared) = shared_fixtures("claude-code") else { return };
    let files = survive(codec(), &shared);
    eprintln!("claude-code: {files} files equal");
    assert_eq!(files, every_file(&shared).len(), "a file belongs to no session");
}

/// Each recorded home stands beside the canonical form of everything in it.
#[test]
fn recorded_sessions_come_back_and_have_the_canonical_form_that_was_reviewed() {
    let homes = directories(&fixtures("claude-code"));
    assert!(homes.len() >= 3, "{homes:?}");
    for home in homes {
        assert_survives(&home);
        let contents = parse(codec(), &home);
        assert!(contents.faults.is_empty(), "{:?}", contents.faults);
        golden(&golden_of(&home), &contents);
    }
}

/// Placement rule 3: what nobody has heard of is carried whole.
#[test]
fn records_and_keys_that_nobody_has_heard_of_survive() {
    let home = tempfile::tempdir().unwrap();
    let lines = [
        r#"{"type":"hologram","cwd":"/srv/demo","payload":{"n":[1.50,1e400,-0]},"twice":1,"twice":2}"#,
        r#"{"type":"user","uuid":"u1","timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":[{"type":"smell","of":"rain"},{"type":"text","text":"hi","mood":7}],"tone":null},"aura":"blue"}"#,
        r#"{"type":"assistant","uuid":"a1","message":{"role":"assistant","content":[{"type":"gesture"},{"type":"tool_use","id":7}]}}"#,
        r#"{"type":"user","uuid":"u2","message":{"role":"user","content":{"of":"a new shape"}}}"#,
        r#"{"type":"user","uuid":"u3","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"},{"type":"tool_result"}]}}"#,
        r#"{"type":"user","uuid":"u4","message":{"role":"user","content":"\ud800 half a pair"}}"#,
        r#"[1,"not an object"]"#,
        "17",
    ];
    write(home.path(), &format!("projects/-srv-demo/{SESSION}.jsonl"), lines.join("\n"));
    assert_survives(home.path());
}

#[test]
fn side_files_of_every_form_come_back() {
    let home = tempfile::tempdir().unwrap();
    let side = format!("projects/-srv-demo/{SESSION}");
    write(home.path(), &format!("{side}.jsonl"), r#"{"type":"mode","cwd":"/srv/demo","mode":"plan"}"#);
    write(home.path(), &format!("{side}/tool-results/toolu_1.txt"), "a\u{1}b\r\nno newline at the end");
    write(home.path(), &format!("{side}/tool-results/page.pdf"), [0x25, 0xff, 0xfe, 0x00]);
    write(home.path(), &format!("{side}/tool-results/long.txt"), "x".repeat(codecs::seam::VALUE_MAX + 1));
    write(home.path(), &format!("{side}/tool-results/broken.json"), "{not json");
    write(home.path(), &format!("{side}/tool-results/empty.txt"), "");
    write(home.path(), &format!("{side}/custom-title.json"), r#"{"customTitle":"A name"}"#);
    write(home.path(), &format!("{side}/workflows/scripts/run.js"), "return 1\n");
    write(home.path(), "projects/-srv-demo/memory/MEMORY.md", "the project's, and no session's");
    let [bundle] = bundles(home.path()).try_into().unwrap();
    assert_eq!(bundle.files.len(), 8, "{:?}", bundle.files);
    assert_survives(home.path());
}
