use super::*;

fn arguments(harness: Harness, begin: &Begin) -> String {
    let at = Places { sessions: Path::new("/s"), mirror: Path::new("/m.ts") };
    harness.arguments(begin, &at, Some("p/m"), "do it").join(" ")
}

#[test]
fn a_new_session_has_the_threads_id_and_a_known_one_its_file() {
    let (new, file) = (Begin::New { id: "t1".into() }, Begin::File { path: "/s/f.jsonl".into(), id: "t1".into() });
    let pi = "--mode rpc --session-dir /s --session-id t1 --model p/m --no-extensions --extension /m.ts";
    assert_eq!(arguments(Harness::Pi, &new), pi);
    assert_eq!(arguments(Harness::Pi, &file), pi.replace("--session-id t1", "--session /s/f.jsonl"));
    let claude = "-p --output-format stream-json --verbose --session-id t1 --model p/m -- do it";
    assert_eq!(arguments(Harness::ClaudeCode, &new), claude);
    assert_eq!(arguments(Harness::ClaudeCode, &file), claude.replace("--session-id", "--resume"));
    assert_eq!(arguments(Harness::Codex, &new), "exec --json --skip-git-repo-check --model p/m -- do it");
    assert_eq!(arguments(Harness::Codex, &file), "exec resume --json --skip-git-repo-check --model p/m t1 -- do it");
}

#[test]
fn a_harness_is_known_by_its_name() {
    for harness in Harness::ALL {
        assert_eq!(Harness::named(harness.descriptor().name), Some(harness));
    }
    assert_eq!(Harness::named("emacs"), None);
}

#[test]
fn every_harness_tells_its_end_in_its_own_way() {
    let stop = |reason: &str| Some(End { stop_reason: Some(reason.into()), error: None });
    let error = |why: &str| Some(End { stop_reason: Some("error".into()), error: Some(why.into()) });
    for (harness, event, expected) in [
        (Harness::ClaudeCode, json!({ "type": "result", "is_error": false, "subtype": "success" }), stop("stop")),
        (Harness::ClaudeCode, json!({ "type": "result", "is_error": true, "result": "API Error: 400" }), error("API Error: 400")),
        (Harness::ClaudeCode, json!({ "type": "assistant", "message": {} }), None),
        (Harness::Codex, json!({ "type": "turn.completed", "usage": {} }), stop("stop")),
        (Harness::Codex, json!({ "type": "turn.failed", "error": { "message": "max tokens" } }), error("max tokens")),
        (Harness::Codex, json!({ "type": "item.completed" }), None),
        (
            Harness::Pi,
            json!({ "type": "agent_end", "messages": [{ "role": "assistant", "stopReason": "length" }] }),
            stop("length"),
        ),
        (Harness::Pi, json!({ "type": "agent_end", "messages": [], "willRetry": true }), None),
        (Harness::Pi, json!({ "type": "turn_end" }), None),
    ] {
        let mut facts = Facts::default();
        facts.note(harness, &event);
        assert_eq!((facts.end, facts.spoke), (expected, true), "{event}");
    }
}

#[test]
fn the_key_of_a_model_stands_in_no_file() {
    let endpoint =
        Endpoint { api: "openai-completions".into(), base_url: "http://m/v1".into(), key_variable: Some("KEY".into()) };
    let models = models_of_pi(&endpoint, "m-1");
    assert_eq!(models["providers"]["arbe"]["apiKey"], "$KEY");
    assert_eq!(models["providers"]["arbe"]["models"][0]["id"], "m-1");
}
