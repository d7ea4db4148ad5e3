//! Threads that are gone on with, here and elsewhere.

use events::{Entry, ThreadId};
use serde_json::{Value, json};

use codecs::artifact::Body;
use codecs::lineage::Lineage;
use codecs::restore::{Place, restore};
use codecs::seam::{Out, Parsed};
use codecs::thread::{ORIGIN, Thread, begin, entry};
use events::session::Timestamp;

use crate::support::Scene;

fn answer(scene: &Scene) -> String {
    scene.file().pop().unwrap()["message"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_in_the_same_machine_goes_on_and_tells_nothing_twice() {
    let Some(scene) = Scene::start("t-again").await else { return };
    assert_eq!(scene.run("r1", "first").await.status.code(), Some(0));
    let done = scene.run("r2", "second").await;
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    assert!(answer(&scene).contains("users=2"), "{}", answer(&scene));
    assert_eq!(scene.stream.transcript(), scene.file());
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_fresh_machine_the_session_is_made_of_what_the_thread_holds() {
    let Some(scene) = Scene::start("t-fresh").await else { return };
    assert_eq!(scene.run("r1", "RUN: echo one").await.status.code(), Some(0));
    let first = scene.file();
    let fresh = scene.elsewhere();
    let done = fresh.run("r2", "second").await;
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    assert!(answer(&fresh).contains("users=2"), "{}", answer(&fresh));
    assert_eq!(fresh.file()[1..first.len()], first[1..]);
    assert_eq!(fresh.stream.transcript()[1..], fresh.file()[1..], "and the header of the first place stays");

    // Back in the first machine, whose file lacks the second turn.
    let done = scene.run("r3", "third").await;
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    assert!(scene.stream.transcript().last().unwrap().to_string().contains("users=3"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_codec_rebuilds_is_value_equal_and_loaded() {
    let Some(scene) = Scene::start("t-codec").await else { return };
    assert_eq!(scene.run("r1", "RUN: echo one").await.status.code(), Some(0));
    let mut fresh = scene.elsewhere();
    let rebuilt = rebuilt(&scene, &fresh.path("tree").to_string_lossy());
    let lines: Vec<Value> = rebuilt.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[1..], scene.file()[1..]);
    std::fs::write(fresh.path("session.jsonl"), rebuilt).unwrap();
    let path = fresh.path("session.jsonl").to_string_lossy().into_owned();
    fresh.set("ARBE_SESSION_FILE", &path);
    let done = fresh.run("r2", "second").await;
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    let last = fresh.stream.transcript().pop().unwrap();
    assert!(last.to_string().contains("users=2"), "{last}");
}

fn rebuilt(scene: &Scene, directory: &str) -> String {
    rebuilt_of(&scene.stream.thread, &scene.stream.entries(), directory)
}

fn rebuilt_of(thread: &str, entries: &[Value], directory: &str) -> String {
    let id = ThreadId::new(thread).unwrap();
    let entries: Vec<Entry> = entries.iter().map(|it| Entry::from_json(&it.to_string()).unwrap()).collect();
    let (mut session, mut messages) = (None, Vec::new());
    let mut sink = |it| {
        match it {
            Parsed::Session(it) => session = Some(it),
            Parsed::Message(_, it) => messages.push(it),
        }
        Ok(())
    };
    let mut out = Out::new(ORIGIN, Timestamp::from_millis(0).unwrap(), &mut sink);
    let handle = begin(&mut out, Thread { id: &id, project: "house-1" }, &entries[0]).unwrap();
    entries.iter().enumerate().for_each(|(n, it)| entry(&mut out, handle, &id, n as u64, it, None));
    assert_eq!(out.finish().unwrap(), []);
    let lineage = Lineage::new(session.unwrap(), messages, Vec::new()).unwrap();
    let pi = codecs::registry::CODECS.iter().find(|codec| codec.origin == "pi").unwrap();
    let restored = restore(pi, &lineage, &Place { directory: directory.to_owned() }).unwrap();
    let Body::Lines(_) = &restored.artifacts[0].body else { panic!("{restored:?}") };
    restored.artifacts[0].body.to_text().unwrap()
}

/// Not every model numbers its calls over a whole session.
#[test]
fn a_session_whose_calls_of_tools_share_an_id_comes_back_value_for_value() {
    let usage = json!({ "input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2,
        "cost": { "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0 } });
    let mut lines =
        vec![json!({ "type": "session", "version": 3, "id": "t-ids", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/old" })];
    let mut add = |message: Value| {
        let n = lines.len();
        let parent = if n == 1 { Value::Null } else { format!("{:08x}", n - 1).into() };
        let at = format!("2026-01-01T00:00:{n:02}.000Z");
        lines.push(
            json!({ "type": "message", "id": format!("{n:08x}"), "parentId": parent, "timestamp": at, "message": message }),
        );
    };
    add(json!({ "role": "user", "content": [{ "type": "text", "text": "go" }], "timestamp": 1 }));
    for turn in 0..3 {
        let call = |n: u32| json!({ "type": "toolCall", "id": "call_1", "name": "bash", "arguments": { "command": format!("echo {turn}.{n}") } });
        add(
            json!({ "role": "assistant", "content": [call(0), call(1)], "api": "openai-completions", "provider": "arbe", "model": "m1",
            "usage": usage, "stopReason": "toolUse", "timestamp": 2 }),
        );
        for n in 0..2 {
            let text = format!("{turn}.{n}\n");
            add(json!({ "role": "toolResult", "toolCallId": "call_1", "toolName": "bash",
                "content": [{ "type": "text", "text": text }], "isError": false, "timestamp": 3 }));
        }
    }
    let kind = |line: &Value| arbe_runner::session::kind_of(line);
    let entry = |(n, line): (usize, &Value)| {
        json!({ "id": format!("01J9ZK3T6V8X0Q2R4S6T8V{n:04}"), "ts": 1_730_000_000_000_u64 + n as u64, "type": kind(line), "v": 1,
            "author_agent_id": "00000000-0000-0000-0000-000000000002", "payload": line })
    };
    let entries: Vec<Value> = lines.iter().enumerate().map(entry).collect();
    let text = rebuilt_of("t-ids", &entries, "/new");
    let back: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(back[1..], lines[1..]);
    let session = arbe_runner::session::Session::read(&text).unwrap();
    assert_eq!((session.cwd.as_str(), session.messages), ("/new", 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_missing_or_unsound_fails_the_run_before_pi_starts() {
    let Some(mut scene) = Scene::start("t-hydrate").await else { return };
    let header = |cwd: &str| json!({ "type": "session", "version": 3, "id": "x", "cwd": cwd }).to_string() + "\n";
    for (name, text, why) in [
        ("missing", None, "is not at"),
        ("torn", Some(header("/tmp") + "{\"type\":"), "line 2 is not JSON"),
        ("empty", Some(String::new()), "it is empty"),
        ("place", Some(header("/nowhere/at/all")), "/nowhere/at/all, which is not here"),
    ] {
        let path = scene.path(name);
        text.into_iter().for_each(|text| std::fs::write(&path, text).unwrap());
        scene.set("ARBE_SESSION_FILE", &path.to_string_lossy());
        let done = scene.run(&format!("r-{name}"), "RUN: touch ran").await;
        assert_eq!(done.status.code(), Some(1), "{}", done.stderr);
        let failure = scene.stream.finishes().pop().unwrap()["failure"].clone();
        assert_eq!(failure["error_class"], "hydrate", "{failure}");
        assert!(failure["message"].as_str().unwrap().contains(why), "{failure}");
    }
    assert!(!scene.path("tree").join("ran").exists());
    assert_eq!(scene.stream.kinds("pi."), [] as [String; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_lacks_what_the_thread_holds_fails_the_run_before_pi_starts() {
    let Some(scene) = Scene::start("t-short").await else { return };
    assert_eq!(scene.run("r1", "first").await.status.code(), Some(0));
    let mut fresh = scene.elsewhere();
    let whole = rebuilt(&scene, &fresh.path("tree").to_string_lossy());
    let lines: Vec<_> = whole.lines().collect();
    std::fs::write(fresh.path("short"), lines[..lines.len() - 1].join("\n")).unwrap();
    let path = fresh.path("short").to_string_lossy().into_owned();
    fresh.set("ARBE_SESSION_FILE", &path);
    assert_eq!(fresh.run("r2", "second").await.status.code(), Some(1));
    let failure = fresh.stream.finishes().pop().unwrap()["failure"].clone();
    assert_eq!(failure["error_class"], "hydrate", "{failure}");
    assert!(failure["message"].as_str().unwrap().contains("lacks what the thread holds: 1 of its lines"), "{failure}");
    assert_eq!(fresh.stream.transcript(), scene.file());
}
