//! Sub-agents are child sessions, wherever the client kept them.

use codecs::check::{self, Contents};
use codecs::lineage::Lineage;

use super::{SESSION, assert_survives, bundles, codec, told, write};

fn line(uuid: &str, parent: Option<&str>, text: &str, more: &str) -> String {
    let parent = parent.map_or("null".to_owned(), |it| format!("\"{it}\""));
    format!(
        r#"{{"type":"user","uuid":"{uuid}","parentUuid":{parent},"sessionId":"{SESSION}","cwd":"/srv/demo","timestamp":"2026-01-01T00:00:00Z","message":{{"role":"user","content":"{text}"}}{more}}}"#
    )
}

fn parse(home: &std::path::Path) -> Contents {
    let [bundle] = bundles(home).try_into().unwrap();
    check::parse(codec(), &bundle).unwrap()
}

/// Id, parent and words of every session.
fn family(contents: &Contents) -> Vec<(String, Option<String>, Vec<String>)> {
    assert_eq!(contents.faults, []);
    let parent = |it: &events::session::Session| it.parent_session_id.as_ref().map(ToString::to_string);
    contents.sessions.iter().map(|(session, messages)| (session.id.to_string(), parent(session), told(messages))).collect()
}

fn said(words: &[&str]) -> Vec<String> {
    words.iter().map(|it| format!("user text({it})")).collect()
}

/// `adapter-lineage-complete-restore`
#[test]
fn side_chains_in_the_sessions_file_are_children_by_their_root() {
    let home = tempfile::tempdir().unwrap();
    let side = r#","isSidechain":true"#;
    let lines = [
        line("m1", None, "begin", ""),
        line("a1", None, "first task", side),
        line("b1", None, "second task", side),
        line("a2", Some("a1"), "first goes on", side),
        line("m2", Some("m1"), "go on", ""),
        line("b2", Some("b1"), "second goes on", side),
        line("c1", Some("gone"), "its parent is not there", side),
    ];
    write(home.path(), &format!("projects/-srv-demo/{SESSION}.jsonl"), lines.join("\n"));
    let parent = Some(SESSION.to_owned());
    assert_eq!(
        family(&parse(home.path())),
        [
            (SESSION.to_owned(), None, said(&["begin", "go on"])),
            (format!("{SESSION}/a1"), parent.clone(), said(&["first task", "first goes on"])),
            (format!("{SESSION}/b1"), parent.clone(), said(&["second task", "second goes on"])),
            (format!("{SESSION}/c1"), parent, said(&["its parent is not there"])),
        ]
    );
    assert_survives(home.path());
}

#[test]
fn agents_beside_the_sessions_file_are_children_of_the_session_they_name() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), &format!("projects/-srv-demo/{SESSION}.jsonl"), line("m1", None, "begin", ""));
    write(home.path(), "projects/-srv-demo/agent-0a0a0a0a.jsonl", line("a1", None, "task", r#","isSidechain":true"#));
    let parent = Some(SESSION.to_owned());
    assert_eq!(
        family(&parse(home.path())),
        [(SESSION.to_owned(), None, said(&["begin"])), (format!("{SESSION}/0a0a0a0a"), parent.clone(), said(&["task"])),]
    );
    assert_survives(home.path());
    std::fs::remove_file(home.path().join(format!("projects/-srv-demo/{SESSION}.jsonl"))).unwrap();
    assert_eq!(family(&parse(home.path())), [(format!("{SESSION}/0a0a0a0a"), parent, said(&["task"]))]);
    assert_survives(home.path());
}

#[test]
fn agents_below_the_sessions_directory_are_children_with_what_is_told_of_them() {
    let home = tempfile::tempdir().unwrap();
    let side = format!("projects/-srv-demo/{SESSION}");
    let flow = format!("{side}/subagents/workflows/wf_1");
    write(home.path(), &format!("{side}.jsonl"), line("m1", None, "begin", ""));
    write(home.path(), &format!("{side}/subagents/agent-a1.jsonl"), line("x1", None, "task", ""));
    let meta = r#"{"agentType":"reviewer","description":"Look at it","toolUseId":"toolu_1","spawnDepth":1}"#;
    write(home.path(), &format!("{side}/subagents/agent-a1.meta.json"), meta);
    write(home.path(), &format!("{flow}/agent-a2.jsonl"), line("y1", None, "count", ""));
    write(home.path(), &format!("{flow}/journal.jsonl"), "{\"type\":\"launched\"}\n{\"type\":\"result\"}\n");
    let contents = parse(home.path());
    let parent = Some(SESSION.to_owned());
    let carried = |words: &[&str], times: usize| [said(words), vec!["system".to_owned(); times]].concat();
    let mut found = family(&contents);
    found.sort();
    assert_eq!(
        found,
        [
            (SESSION.to_owned(), None, carried(&["begin"], 2)),
            (format!("{SESSION}/a1"), parent.clone(), carried(&["task"], 1)),
            (format!("{SESSION}/a2"), parent, said(&["count"])),
        ]
    );
    let (agent, _) = contents.sessions.iter().find(|(it, _)| it.id.as_str().ends_with("/a1")).unwrap();
    let facts: serde_json::Value = serde_json::from_str(agent.options["source"].get()).unwrap();
    assert_eq!((&facts["agent_type"], &facts["tool_use_id"]), (&"reviewer".into(), &"toolu_1".into()));
    assert_survives(home.path());
}

#[test]
fn what_is_left_of_a_session_whose_own_file_is_gone_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let side = format!("projects/-srv-demo/{SESSION}");
    write(home.path(), &format!("{side}/subagents/agent-a1.jsonl"), line("x1", None, "task", ""));
    write(home.path(), &format!("{side}/tool-results/t.txt"), "spilled");
    let contents = parse(home.path());
    assert_eq!(
        family(&contents),
        [
            (format!("{SESSION}/a1"), Some(SESSION.to_owned()), said(&["task"])),
            (SESSION.to_owned(), None, vec!["system".to_owned()]),
        ]
    );
    assert_eq!(contents.sessions[1].0.project, "-srv-demo");
    assert_survives(home.path());
}

#[test]
fn a_fork_names_the_session_and_the_message_it_was_cut_at() {
    let home = tempfile::tempdir().unwrap();
    let other = "99999999-2222-4333-8444-555555555555";
    let from = |uuid: &str| format!(r#","forkedFrom":{{"sessionId":"{other}","messageUuid":"{uuid}"}}"#);
    let lines =
        [line("m1", None, "one", &from("m1")), line("m2", Some("m1"), "two", &from("m2")), line("m3", Some("m2"), "new", "")];
    write(home.path(), &format!("projects/-srv-demo/{SESSION}.jsonl"), lines.join("\n"));
    let (session, _) = &parse(home.path()).sessions[0];
    assert_eq!(session.parent_session_id.as_ref().unwrap().as_str(), other);
    assert_eq!(session.parent_message_id.as_ref().unwrap().as_str(), "m2");
    assert_survives(home.path());
}

/// The name that a tool for copies put before the id does not belong to it.
#[test]
fn the_id_is_the_one_that_the_files_name_ends_with() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), &format!("projects/-srv-demo/2026-01-01-{SESSION}.jsonl"), line("m1", None, "one", ""));
    assert_eq!(parse(home.path()).sessions[0].0.id.as_str(), SESSION);
    assert_survives(home.path());
}

#[test]
fn a_session_is_restored_with_its_children_and_no_deeper() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), &format!("projects/-srv-demo/{SESSION}.jsonl"), line("m1", None, "begin", ""));
    write(home.path(), &format!("projects/-srv-demo/{SESSION}/subagents/agent-a1.jsonl"), line("x1", None, "task", ""));
    let mut sessions = parse(home.path()).sessions;
    let (main, messages) = sessions.remove(0);
    let mut deeper = sessions[0].clone();
    deeper.0.id = "deeper".parse().unwrap();
    deeper.0.parent_session_id = Some(sessions[0].0.id.clone());
    let lineage = Lineage::new(main.clone(), messages.clone(), sessions.clone()).unwrap();
    assert_eq!(codec().serialize.native(&lineage).unwrap().len(), 2);
    sessions.push(deeper);
    assert!(Lineage::new(main, messages, sessions).is_err());
}
