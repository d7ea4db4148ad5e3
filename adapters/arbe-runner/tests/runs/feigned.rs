//! Harnesses that do what pi does not do here, or not when it is asked to: shell scripts that speak as it does.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Scene, ended, until, word};

const SPEAKS: &str = r#"
greet() { printf '{"id":"greeting","type":"response","data":{"sessionFile":"%s","sessionId":"s1","messageCount":0}}\n' "$1"; }
work() {
    printf '%s\n' '{"type":"response","command":"prompt","success":true}' '{"type":"agent_start"}'
    printf '%s\n' '{"type":"agent_end","willRetry":false,"messages":[{"role":"assistant","stopReason":"stop"}]}'
}
rest() { printf '%s\n' '{"id":"resting","type":"response","data":{"isStreaming":false,"isCompacting":false}}'; }
"#;

fn script(greeting: &str, prompted: &str) -> String {
    format!(
        "{SPEAKS}\nwhile read -r line; do case \"$line\" in *'\"greeting\"'*) {greeting};; *'\"prompt\"'*) {prompted};; \
         *'\"resting\"'*) rest;; esac; done"
    )
}

fn started(entries: &[Value]) -> bool {
    entries.iter().any(|entry| entry["type"] == "signal.dispatch.session_started")
}

#[tokio::test(flavor = "multi_thread")]
async fn work_of_which_nothing_is_written_down_is_not_completed() {
    for (thread, file, why) in [("f-gone", "/nowhere/s.jsonl", "cannot be read"), ("f-empty", "/dev/null", "is empty")] {
        let scene = Scene::feigned(thread, &script(&format!("greet {file}"), "work")).await;
        let done = scene.run("r1", "hello").await;
        assert_eq!(done.status.code(), Some(1), "{}", done.stderr);
        let failure = scene.stream.finishes().pop().unwrap()["failure"].clone();
        assert_eq!(failure["error_class"], "mirror", "{failure}");
        assert!(failure["message"].as_str().unwrap().contains(why), "{failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harness_that_does_not_take_its_long_prompt_can_be_cancelled() {
    let hung = format!("greet /nowhere; sleep {}", word(11));
    let scene = Scene::feigned("f-hung", &script(&hung, "work")).await;
    let child = scene.begin("r1", &"long ".repeat(60_000));
    scene.stream.until("it is to be prompted", started).await;
    kill_process(Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap(), Signal::TERM).unwrap();
    let done = ended(child).await;
    assert_eq!(done.status.code(), Some(3), "{}", done.stderr);
    assert_eq!(scene.stream.finishes(), [json!({ "status": "cancelled" })]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_expired_is_renewed_and_nothing_is_lost() {
    let lines = "printf '%s\\n' '{\"type\":\"session\",\"id\":\"s1\",\"cwd\":\"/\"}' '{\"type\":\"label\",\"id\":\"a\"}' >\"$HOME/s.jsonl\"";
    let waits = "touch \"$HOME/prompted\"; until test -e \"$HOME/go\"; do sleep 0.05; done; work";
    let scene = Scene::feigned("f-late", &script(&format!("{lines}; greet \"$HOME/s.jsonl\""), waits)).await;
    let child = scene.begin("r1", "hello");
    until("it works", || scene.path("home").join("prompted").exists()).await;
    scene.stream.expire();
    std::fs::write(scene.path("home").join("go"), "").unwrap();
    let done = ended(child).await;
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    assert_eq!(scene.stream.finishes(), [json!({ "status": "completed" })]);
    assert_eq!(scene.stream.transcript().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_harness_complains_of_is_without_secrets() {
    let mut scene = Scene::feigned("f-words", "echo \"no model for $GH\" >&2; exit 3").await;
    scene.set("GH", "hunter-2222");
    scene.set("ARBE_SECRET_NAMES", "GH");
    let done = scene.run("r1", "hello").await;
    assert_eq!(done.status.code(), Some(1));
    assert!(done.stderr.contains("no model for […]") && !done.stderr.contains("hunter"), "{}", done.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harness_that_complains_with_a_nul_has_an_end_that_a_server_takes() {
    for (thread, script, said) in [
        ("f-nul", "printf 'no\\000model\\n' >&2; exit 3".to_owned(), "no\u{fffd}model"),
        (
            "f-nul-told",
            script(
                "greet /nowhere",
                "printf '%s\\n' '{\"type\":\"response\",\"command\":\"prompt\",\"success\":false,\"error\":\"not\\u0000so\"}'",
            ),
            "not\u{fffd}so",
        ),
    ] {
        let scene = Scene::feigned(thread, &script).await;
        let done = scene.run("r1", "hello").await;
        assert_eq!(done.status.code(), Some(1), "{}", done.stderr);
        let failure = scene.stream.finishes().pop().unwrap()["failure"].clone();
        assert!(failure["message"].as_str().unwrap().contains(said), "{failure}");
        let left: Value = serde_json::from_slice(&std::fs::read(scene.sessions().join("run/r1.json")).unwrap()).unwrap();
        assert!(left["message"].as_str().unwrap().contains(said), "{left}");
    }
}
