//! How runs end, and what the thread knows of it.

use serde_json::json;

use crate::stream::Mood;
use crate::support::{Scene, ended, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_a_tool_is_on_the_thread_line_by_line_and_completed() {
    let Some(scene) = Scene::start("t-tool").await else { return };
    // In two pieces: whole, it would be left out of what is told.
    let token = scene.stream.token();
    let (one, two) = token.split_at(token.len() / 2);
    let token = format!("ARBE_STREAM_TOKEN={one}''{two}");
    let look = format!("echo hi; env | grep -c ARBE_STREAM_TOKEN; grep -lzsxF {token} /proc/[0-9]*/environ; echo end");
    let done = scene.run("r1", &format!("RUN: {look}")).await;
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    assert_eq!(scene.stream.transcript(), scene.file());
    assert_eq!(scene.stream.finishes(), [json!({ "status": "completed" })]);
    let started = scene.stream.entries().into_iter().find(|entry| entry["type"] == "signal.dispatch.session_started");
    assert_eq!(started.unwrap()["payload"], json!({ "run_id": "r1", "session_ref": "t-tool" }));
    let roles: Vec<_> = scene.stream.kinds("pi.").into_iter().filter(|kind| kind != "pi.chunk").collect();
    let expected = ["pi.entry", "pi.entry", "pi.entry", "pi.entry", "pi.assistant", "pi.tool_result", "pi.assistant"];
    assert_eq!(roles, expected);
    let result = scene.file().into_iter().find(|line| line["message"]["role"] == "toolResult").unwrap();
    assert_eq!(result["message"]["content"][0]["text"], "hi\n0\nend\n", "no process shows its token to tools");
}

#[tokio::test(flavor = "multi_thread")]
async fn live_pieces_come_before_the_message_they_belong_to() {
    let Some(scene) = Scene::start("t-slow").await else { return };
    assert_eq!(scene.run("r1", "SLOW").await.status.code(), Some(0));
    let chunks: Vec<_> = scene.stream.entries().into_iter().filter(|entry| entry["type"] == "pi.chunk").collect();
    // As many as there are pieces at most, and fewer where the stream is slow.
    assert!((1..=20).contains(&chunks.len()), "coalesced: {}", chunks.len());
    let text: String = chunks.iter().filter_map(|chunk| chunk["payload"]["delta"].as_str()).collect();
    assert!(
        "piece0 piece1 piece2 piece3 piece4 piece5 piece6 piece7 piece8 piece9 ".starts_with(&text) && !text.is_empty(),
        "{text}"
    );
    let message = scene.file().pop().unwrap();
    assert!(chunks.iter().all(|chunk| chunk["payload"]["of"] == message["message"]["timestamp"]), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_a_model_spells_is_not_in_the_pieces_put_together() {
    let Some(mut scene) = Scene::start("t-spell").await else { return };
    scene.set("GH", "hunter-2222");
    scene.set("ARBE_SECRET_NAMES", "GH");
    let done = scene.run("r1", "SPELL it is hunter-2222, he said").await;
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    let chunks: Vec<_> = scene.stream.entries().into_iter().filter(|entry| entry["type"] == "pi.chunk").collect();
    let text: String = chunks.iter().filter_map(|chunk| chunk["payload"]["delta"].as_str()).collect();
    assert!("it is […], he said".starts_with(&text) && text.contains("[…]"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_errors_of_the_model_and_then_an_answer_are_completed() {
    let Some(scene) = Scene::start("t-retry").await else { return };
    let done = scene.run("r1", "FAIL 3").await;
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    assert_eq!(scene.stream.finishes(), [json!({ "status": "completed" })]);
    let failures = scene.file().iter().filter(|line| line["message"]["stopReason"] == "error").count();
    assert_eq!((failures, scene.stream.transcript()), (3, scene.file()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_for_good_fails_the_run_though_pi_exits_with_0() {
    for (thread, prompt, why) in [("t-400", "HTTP 400", "400"), ("t-500", "FAIL 9", "500")] {
        let Some(scene) = Scene::start(thread).await else { return };
        let done = scene.run("r1", prompt).await;
        assert_eq!(done.status.code(), Some(1), "{}", done.stderr);
        let finish = scene.stream.finishes().pop().unwrap();
        assert_eq!((&finish["status"], &finish["failure"]["error_class"]), (&json!("failed"), &json!("model")));
        assert!(finish["failure"]["message"].as_str().unwrap().contains(why), "{finish}");
        assert_eq!(finish["failure"]["exit_code"], json!(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_cut_for_its_length_is_completed() {
    let Some(scene) = Scene::start("t-length").await else { return };
    assert_eq!(scene.run("r1", "LENGTH").await.status.code(), Some(0));
    assert_eq!(scene.file().pop().unwrap()["message"]["stopReason"], "length");
    assert_eq!(scene.stream.finishes(), [json!({ "status": "completed" })]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harness_that_cannot_start_is_told_with_its_last_words() {
    let Some(mut scene) = Scene::start("t-start").await else { return };
    scene.set("ARBE_HARNESS_COMMAND", r#"["/bin/sh","-c","echo no such model >&2; exit 3"]"#);
    assert_eq!(scene.run("r1", "x").await.status.code(), Some(1));
    let finish = scene.stream.finishes().pop().unwrap();
    let message = "the harness said nothing and exited with 3: no such model";
    assert_eq!(finish["failure"], json!({ "error_class": "start", "message": message, "exit_code": 3 }));

    scene.set("ARBE_HARNESS_COMMAND", r#"["/etc"]"#);
    assert_eq!(scene.run("r2", "x").await.status.code(), Some(1));
    let failure = scene.stream.finishes().pop().unwrap()["failure"].clone();
    assert_eq!(failure["error_class"], "start");
    assert!(failure["message"].as_str().unwrap().starts_with("the harness cannot be started: /etc: "), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coding_agent_that_is_not_installed_is_told_with_what_installs_it() {
    let Some(mut scene) = Scene::start("t-absent").await else { return };
    for (run, command, why) in [
        ("r1", r#"["/nowhere/pi"]"#, "there is no /nowhere/pi in this machine"),
        // Its own name, on the path.
        ("r2", "", "there is no pi in this machine"),
        ("r3", r#"["/usr/bin/env","no-such-node"]"#, "no-such-node"),
    ] {
        scene.set("ARBE_HARNESS_COMMAND", command);
        assert_eq!(scene.run(run, "x").await.status.code(), Some(1));
        let failure = scene.stream.finishes().pop().unwrap()["failure"].clone();
        let message = failure["message"].as_str().unwrap();
        assert_eq!(failure["error_class"], "start");
        assert!(message.starts_with("the coding agent is not installed: ") && message.contains(why), "{message}");
        assert!(message.contains("`arbe tools install`"), "{message}");
    }
}

/// What the runner leaves for whoever looks into the machine.
fn left(scene: &Scene) -> serde_json::Value {
    let text = std::fs::read_to_string(scene.sessions().join("run").join("r1.json")).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_cannot_be_told_is_left_in_the_machine_and_told_when_the_stream_is_back() {
    let Some(scene) = Scene::start("t-left").await else { return };
    let child = scene.begin("r1", "hello");
    scene.stream.feels(Mood::NoFinish);
    until("it is left", || left(&scene)["status"] == "completed").await;
    assert_eq!((&left(&scene)["unsaid"], &left(&scene)["run_id"]), (&json!("it has not been told yet"), &json!("r1")));
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(scene.stream.finishes(), [] as [serde_json::Value; 0]);
    scene.stream.feels(Mood::Well);
    let done = ended(child).await;
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    assert_eq!(scene.stream.finishes(), [json!({ "status": "completed" })]);
    assert_eq!((&left(&scene)["status"], &left(&scene)["unsaid"]), (&json!("completed"), &json!(null)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_waits_to_tell_its_end_goes_when_it_is_asked_to_and_leaves_the_end_behind() {
    let Some(scene) = Scene::start("t-hurry").await else { return };
    let child = scene.begin("r1", "hello");
    scene.stream.feels(Mood::NoFinish);
    until("it is left", || left(&scene)["status"] == "completed").await;
    let pid = rustix::process::Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let asked = std::time::Instant::now();
    let done = ended(child).await;
    assert!(asked.elapsed() < std::time::Duration::from_secs(9), "{:?}", asked.elapsed());
    assert_eq!(done.status.code(), Some(4), "{}", done.stderr);
    assert_eq!(left(&scene)["status"], "completed");
    assert!(left(&scene)["unsaid"].as_str().unwrap().contains("503"), "{}", left(&scene));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_mirror_could_not_post_the_runner_posts() {
    let Some(scene) = Scene::start("t-mend").await else { return };
    let child = scene.begin("r1", "RUN: echo hi");
    scene.stream.feels(Mood::NoTranscript);
    until("the mirror has given up", || gone(&scene)).await;
    scene.stream.feels(Mood::Well);
    let done = ended(child).await;
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("arbe-mirror: the stream is not reached"), "{}", done.stderr);
    assert_eq!(scene.stream.transcript(), scene.file());
    assert_eq!(scene.stream.finishes(), [json!({ "status": "completed" })]);
    let entries = scene.stream.entries();
    let warned: Vec<_> = entries.iter().filter(|entry| entry["type"] == "signal.dispatch.warned").collect();
    assert_eq!((warned.len(), &warned[0]["payload"]["warning"]), (1, &json!("mirror_mended")), "{warned:?}");
}

/// pi has written its last line, and its mirror has given up.
fn gone(scene: &Scene) -> bool {
    let began = scene.sessions().join("run").join("r1.sock").exists();
    let written = std::fs::read_dir(scene.sessions()).is_ok_and(|mut files| {
        files.any(|file| file.is_ok_and(|file| std::fs::read_to_string(file.path()).is_ok_and(|text| text.contains("DONE"))))
    });
    !began && written
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_wait_for_a_stream_that_comes_back() {
    let Some(scene) = Scene::start("t-back").await else { return };
    let child = scene.begin("r1", "RUN: sleep 4; echo hi");
    scene.stream.until("the tool is called", |entries| entries.iter().any(|entry| entry["type"] == "pi.assistant")).await;
    scene.stream.feels(Mood::Down);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    scene.stream.feels(Mood::Well);
    assert_eq!(ended(child).await.status.code(), Some(0));
    assert_eq!(scene.stream.transcript(), scene.file());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_not_there_is_said_before_anything_runs() {
    let Some(mut scene) = Scene::start("t-none").await else { return };
    scene.set("ARBE_STREAM_URL", "http://127.0.0.1:9");
    let done = scene.run("r1", "RUN: touch ran").await;
    assert_eq!(done.status.code(), Some(4));
    assert!(done.stderr.contains("arbe-runner: mirror: the stream cannot be reached"), "{}", done.stderr);
    assert!(!scene.path("tree").join("ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_is_refused_at_once() {
    let Some(mut scene) = Scene::start("t-token").await else { return };
    scene.set("ARBE_STREAM_TOKEN", "another-token");
    let done = scene.run("r1", "RUN: touch ran").await;
    assert_eq!(done.status.code(), Some(4), "{}", done.stderr);
    assert!(done.stderr.contains("401") && !done.stderr.contains("another-token"), "{}", done.stderr);
    assert!(!scene.path("tree").join("ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_begun_is_not_begun_again() {
    let Some(scene) = Scene::start("t-twice").await else { return };
    assert_eq!(scene.run("r1", "hello").await.status.code(), Some(0));
    let before = scene.stream.entries().len();
    assert_eq!(scene.run("r1", "RUN: touch ran").await.status.code(), Some(5));
    assert_eq!((scene.stream.entries().len(), scene.stream.finishes().len()), (before, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_a_key_that_a_tool_prints_does_not_leave_the_machine() {
    let Some(mut scene) = Scene::start("t-key").await else { return };
    scene.set("PEM", "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEF\n-----END PRIVATE KEY-----\n");
    scene.set("ARBE_SECRET_NAMES", "PEM");
    let ended = scene.run("r1", "RUN: echo \"$PEM\" | tail -n +2 | sed 's/^/> /'").await;
    assert!(ended.status.success(), "{}", ended.stderr);
    let told = serde_json::to_string(&scene.stream.entries()).unwrap();
    assert!(told.contains("> […]\\n> […]\\n> -----END PRIVATE KEY-----"), "{told}");
    assert!(!told.contains("MIIEvQ") && !told.contains("hkiG9w"), "{told}");
}

#[tokio::test]
async fn a_secret_that_a_tool_prints_does_not_leave_the_machine() {
    let Some(mut scene) = Scene::start("t_printed").await else { return };
    scene.set("GH", "hunter-\"2222");
    scene.set("ARBE_SECRET_NAMES", "GH");
    let ended = scene.run("r1", "RUN: echo \"value is $GH\"").await;
    assert!(ended.status.success(), "{}", ended.stderr);
    let told = serde_json::to_string(&scene.stream.entries()).unwrap();
    assert!(told.contains("value is […]"), "{told}");
    assert!(!told.contains("hunter"), "{told}");
}
