use codecs::check;
use serde_json::json;

use super::{SESSION, assert_survives, assistant, bundles, codec, home, recorded, session, user, write};
use crate::support::{directories, every_file, fixtures, golden, golden_of, parse, shared_fixtures, survive};

/// `adapter-native-restore-lossless`, `model-lossless-projection`: every real file there is comes back value by value.
#[test]
fn every_shared_session_comes_back_value_by_value() {
    let Some(shared) = shared_fixtures("opencode") else { return };
    let mut files = 0;
    for home in directories(&shared) {
        files += survive(codec(), &home);
        let seen: Vec<_> = bundles(&home).into_iter().flat_map(|it| it.files).map(|file| home.join(file)).collect();
        // Not the git objects of snapshots, nor the number of opencode's migrations.
        let ours = |file: &std::path::PathBuf| !file.iter().any(|step| step == "snapshots" || step == "migration");
        let left: Vec<_> = every_file(&home).into_iter().filter(|it| ours(it) && !seen.contains(it)).collect();
        assert!(left.is_empty(), "in no session: {left:?}");
    }
    eprintln!("opencode: {files} files equal");
}

/// Each recorded home stands beside the canonical form of everything in it.
#[test]
fn recorded_sessions_come_back_and_have_the_canonical_form_that_was_reviewed() {
    let recordings = directories(&fixtures("opencode"));
    assert!(recordings.len() >= 6, "{recordings:?}");
    for recording in recordings {
        let home = recorded(&recording);
        assert_survives(home.path());
        let contents = parse(codec(), home.path());
        assert!(contents.faults.is_empty(), "{:?}", contents.faults);
        golden(&golden_of(&recording), &contents);
    }
}

/// Placement rules 2 and 3: what nobody has heard of stays with the message, or is carried whole.
#[test]
fn records_and_keys_that_nobody_has_heard_of_survive() {
    let mut odd = assistant("msg_b", 2_000, Some(2_100));
    odd["aura"] = json!({"n": [1.5, null]});
    let parts = vec![
        json!({"type": "hologram", "of": ["rain"]}),
        json!({"type": "text", "text": "hi", "mood": 7}),
        json!({"type": "tool", "callID": 7}),
        json!({"type": "tool", "callID": "c", "tool": "t", "state": {"status": "dreaming", "input": {"a": 1}, "output": "x"}}),
        json!({"type": "file"}),
        json!({"no": "type"}),
    ];
    let oracle = json!({"id": "msg_c", "sessionID": SESSION, "role": "oracle", "time": {"created": 2_200}});
    let last = (assistant("msg_d", 2_300, Some(2_400)), vec![]);
    let home = home(&[
        (user("msg_a", 1_500), vec![json!({"type": "smell"})]),
        (odd, parts),
        (oracle, vec![json!({"type": "text", "text": "?"})]),
        last,
    ]);
    for (file, contents) in [
        (format!("storage/omens/{SESSION}.json"), r#"[1e400,-0,{"twice":1,"twice":2},"\ud800"]"#.to_owned()),
        (format!("storage/omens/{SESSION}/deep/er.json"), "17".to_owned()),
        (format!("storage/todo/{SESSION}.json"), "[]".to_owned()),
        (format!("storage/session_diff/{SESSION}.json"), "[]".to_owned()),
        ("storage/project/p.json".to_owned(), r#"{"id":"p","worktree":"/srv/demo"}"#.to_owned()),
        ("storage/session/p/ses_2.json".to_owned(), session("ses_2", json!({"parentID": SESSION, "mystery": true}))),
    ] {
        write(home.path(), &file, contents);
    }
    let [bundle] = bundles(home.path()).try_into().unwrap();
    assert_eq!(bundle.files.len(), 19, "{:?}", bundle.files);
    assert!(check::parse(codec(), &bundle).unwrap().faults.is_empty());
    assert_survives(home.path());
}
