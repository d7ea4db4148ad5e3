//! Tasks, commands and runs.

use crate::{AT_1, AT_2, CREATED, Reply, Server, pipe, run, text};

#[test]
fn runs_are_started_and_finished() {
    let server = Server::start(|request, _| match request.target.as_str() {
        "/api/threads/t1/runs" => Reply::Json(201, r#"{"run_id":"r1","position":4}"#),
        _ => Reply::Json(200, r#"{"position":5}"#),
    });
    assert_eq!(text(&run(&server, &["thread", "start", "t1"]).stdout), "r1\n");
    let failure = ["--message", "no", "--exit-code", "101"];
    for (more, body) in [
        (&["--status", "completed"][..], r#"{"status":"completed"}"#),
        (
            &[&["--status", "failed"][..], &failure].concat(),
            r#"{"status":"failed","failure":{"error_class":"error","message":"no","exit_code":101}}"#,
        ),
    ] {
        let done = run(&server, &[&["thread", "finish", "t1", "r1"], more].concat());
        assert_eq!((done.status.code(), text(&done.stderr)), (Some(0), "finished\n"));
        let seen = server.seen();
        let sent = seen.iter().rfind(|request| request.method == "POST").unwrap();
        assert_eq!((sent.target.as_str(), sent.body.as_str()), ("/api/threads/t1/runs/r1/finish", body));
    }
}

const MEMBERS: &str = r#"{"items":[{"agent_id":"a1","kind":"human","name":"pia"},{"agent_id":"b1","kind":"bot","name":"Pia"}],"next":null,"position":1}"#;
const ENTRIES: [&str; 3] = [
    r#"[{"id":"1","ts":1794817238000,"type":"chat","v":1,"author_agent_id":null,"payload":{"text":"fix it"}}]"#,
    r#"[{"id":"2","ts":1794817239000,"type":"signal.thread.status_changed","v":2,"author_agent_id":null,"payload":{"status":"completed"}}]"#,
    r#"[{"id":"2","ts":1794817239000,"type":"signal.thread.status_changed","v":2,"author_agent_id":null,"payload":{"status":"failed"}}]"#,
];

#[test]
fn a_task_is_given_to_a_bot_by_name_and_followed_to_its_end() {
    for (end, code, told) in [(1, 0, ""), (2, 1, "arbe: the run of c1 has failed\n")] {
        let server = Server::start(move |request, _| match request.target.as_str() {
            "/api/threads/t1" => Reply::Json(200, r#"{"thread_id":"t1","house_id":"h1","position":1}"#),
            target if target.starts_with("/api/houses/h1/members?") => Reply::Json(200, MEMBERS),
            "/api/threads/t1/delegate" => Reply::Json(201, r#"{"thread_id":"c1","stream_id":"arbe-thread-c1","position":4}"#),
            target if target.contains("offset=-1") => Reply::Stream { status: 200, next: AT_1, body: ENTRIES[0] },
            target if target.contains(AT_1) => Reply::Stream { status: 200, next: AT_2, body: ENTRIES[end] },
            _ => Reply::Json(200, r#"{"position":5}"#),
        });
        let done = pipe(&server, &["thread", "delegate", "t1", "--agent", "pia", "--follow", "-"], "fix it\n");
        assert_eq!((done.status.code(), text(&done.stderr)), (Some(code), told));
        assert!(text(&done.stdout).starts_with("c1\n2026-11-16 08:20:38  arbe  chat  fix it\n"), "{}", text(&done.stdout));
        let sent = server.seen().into_iter().find(|request| request.method == "POST").unwrap();
        assert_eq!(sent.body, r#"{"agent_id":"b1","prompt":"fix it"}"#);
    }
    let server = Server::start(|_, _| CREATED);
    let id = "2f1c8a52-0000-4000-8000-000000000000";
    let done = run(&server, &["thread", "delegate", "t1", "look", "--agent", id, "--name", "n", "--sandbox", "s1"]);
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(0), "t1\n"), "{}", text(&done.stderr));
    assert_eq!(server.seen()[0].body, format!(r#"{{"agent_id":"{id}","name":"n","sandbox_id":"s1","prompt":"look"}}"#));
}

/// As the server names the command of whoever asks with the key `k`.
fn output(stream: &str, said: &str) -> String {
    let (thread, agent) = (events::ThreadId::new("t1").unwrap(), "2f1c8a52-0000-4000-8000-000000000000".parse().unwrap());
    let id = format!("one.{}", commands::ports::command_mark(&thread, agent, "k"));
    let entry = |id: &str, stream: &str, said: &str| {
        serde_json::json!({ "id": "1", "ts": 1, "type": "signal.command.output", "v": 1, "author_agent_id": null,
            "payload": { "command_id": id, "stream": stream, "text": said } })
    };
    let warned = |run: &str, warning: &str, message: &str| {
        serde_json::json!({ "id": "2", "ts": 1, "type": "signal.dispatch.warned", "v": 1, "author_agent_id": null,
            "payload": { "run_id": run, "warning": warning, "message": message } })
    };
    let own = id.strip_prefix("one.").unwrap();
    let told = [
        entry("one.other", "stdout", "of somebody else\n"),
        warned("other", "secret_missing", "THEIRS is bound but not set"),
        warned(own, "secret_missing", &format!("{stream} is bound but not set")),
        warned(own, "command_timeout", "at its end"),
        entry(&id, stream, said),
    ];
    serde_json::json!(told).to_string()
}

#[test]
fn a_command_prints_what_it_prints_and_ends_as_it_ended() {
    let (first, second): (&'static str, &'static str) = (output("stdout", "out\n").leak(), output("stderr", "err\n").leak());
    let server = Server::start(move |request, _| match request.target.as_str() {
        "/api/me" => Reply::Json(200, r#"{"agent_id":"2f1c8a52-0000-4000-8000-000000000000","houses":[],"position":1}"#),
        "/api/threads/t1/commands" => {
            let code = if request.body.contains("fail") { 7 } else { 0 };
            let done = [
                r#"{"command_id":"one.x","exit_code":0,"output":"out\nerr\n","truncated":false,"duration_ms":1,"position":4}"#,
                r#"{"command_id":"one.x","exit_code":7,"output":"out\nerr\n","truncated":true,"duration_ms":1,"position":4}"#,
            ];
            Reply::Json(201, done[usize::from(code == 7)])
        }
        target if target.contains("offset=now") => {
            Reply::Stream { status: 200, next: "0000000000000001_0000000000000000", body: "[]" }
        }
        target if target.contains("0000000000000001_0000000000000000") => Reply::Stream { status: 200, next: AT_2, body: first },
        _ => Reply::Stream { status: 200, next: "0000000000000001_0000000000000004", body: second },
    });
    let done = run(&server, &["thread", "run", "t1", "--idempotency-key", "k", "--timeout", "90s", "--", "echo", "a b"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(text(&done.stdout).starts_with("out\n") && !text(&done.stdout).contains("somebody"), "{}", text(&done.stdout));
    assert!(text(&done.stderr).starts_with("stdout is bound but not set\n"), "{done:?}");
    assert!(!text(&done.stderr).contains("THEIRS") && !text(&done.stderr).contains("at its end"), "{done:?}");
    let sent = server.seen().into_iter().find(|request| request.method == "POST").unwrap();
    assert_eq!((sent.body.as_str(), sent.key.as_str()), (r#"{"command":"echo 'a b'","timeout":90}"#, "k"));
    let done = run(&server, &["thread", "run", "t1", "--json", "--cwd", "web", "--", "fail"]);
    assert_eq!(done.status.code(), Some(7));
    assert_eq!(text(&done.stderr), "there was more output than the thread keeps\narbe: the command ended with exit code 7\n");
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&told["exit_code"], &told["output"]), (&7.into(), &"out\nerr\n".into()));
}

#[test]
fn a_command_gives_its_exit_code_on_whether_it_is_shown_or_told_in_json() {
    for (ran, code) in [
        (r#"{"exit_code":0,"output":"","position":4}"#, 0),
        (r#"{"exit_code":3,"output":"","position":4}"#, 3),
        (r#"{"exit_code":143,"output":"","position":4}"#, 143),
        (r#"{"exit_code":null,"output":"","error_class":"command_timeout","why":"it took longer than 1s","position":4}"#, 124),
        (r#"{"exit_code":null,"output":"","why":"outcome unknown: the server that ran it was stopped","position":4}"#, 1),
    ] {
        let server = Server::start(move |request, _| match request.target.as_str() {
            "/api/me" => Reply::Json(200, r#"{"agent_id":"2f1c8a52-0000-4000-8000-000000000000","houses":[],"position":1}"#),
            "/api/threads/t1/commands" => Reply::Json(201, ran),
            _ => Reply::Stream { status: 200, next: AT_1, body: "[]" },
        });
        for more in [&["--", "make"][..], &["--json", "--", "make"][..]] {
            let done = run(&server, &[&["thread", "run", "t1"], more].concat());
            assert_eq!(done.status.code(), Some(code), "{ran}: {}", text(&done.stderr));
        }
    }
    let refused = r#"{"error":{"code":"sandbox_dead","message":"the sandbox is dead; resume it first"}}"#;
    let server = Server::start(move |_, _| Reply::Json(409, refused));
    assert_eq!(run(&server, &["thread", "run", "t1", "--json", "--", "make"]).status.code(), Some(4));
}

#[test]
fn runs_are_stopped_resumed_and_explained() {
    let server = Server::start(|request, _| match request.target.as_str() {
        "/api/threads/t1/runs" => Reply::Json(201, r#"{"run_id":"r2","position":4}"#),
        "/api/threads/t1/entries" => Reply::Json(201, r#"{"entries":[{"id":"01E","seq":3}],"position":9}"#),
        "/api/threads/t1/diagnosis" => Reply::Json(
            200,
            r#"{"thread_id":"t1","status":"running","run":{"run_id":"r1","since_ms":1794817238000,"server":"one","claims":1,"seen_ms":1794817238000,"silent_ms":95000,"launched":true,"cancel_asked_ms":null},"open_commands":[],"words_waiting":0,"answers_open":0,"machine":{"sandbox_id":"s1","provider":"local","provider_ref":"m","recorded":"live","verdict":"unknown","why":"no answer","process":{"state":"unknown"},"threads":["t1"]},"forecast":"the machine is unknown (no answer): nothing changes until it answers","position":4}"#,
        ),
        "/api/houses/h1/prune" => Reply::Json(
            200,
            r#"{"ended":[{"thread_id":"t1","run_id":"r1","status":"failed","why":"gone"}],"taken":[],"left":[{"thread_id":null,"run_id":null,"sandbox_id":"s2","why":"there is work on it"}],"position":4}"#,
        ),
        _ => Reply::Json(200, r#"{"position":5}"#),
    });
    let asked = run(&server, &["thread", "cancel", "t1"]);
    assert_eq!((asked.status.code(), text(&asked.stderr)), (Some(0), "asked to stop\n"));
    assert_eq!(server.seen()[0].target, "/api/threads/t1/cancel");
    assert_eq!(text(&run(&server, &["thread", "resume", "t1"]).stdout), "r2\n");
    assert_eq!(text(&run(&server, &["thread", "resume", "t1", "go on"]).stdout), "01E\n");
    let said = server.seen().into_iter().rfind(|request| request.target.ends_with("/entries")).unwrap();
    assert_eq!(said.body, r#"{"text":"go on"}"#);
    let why = run(&server, &["thread", "diagnose", "t1"]);
    for line in [
        "silent for         1m 35s\n",
        "machine is         unknown\n",
        "because            no answer\n",
        "nothing changes until it answers\n",
    ] {
        assert!(text(&why.stdout).contains(line), "{}", text(&why.stdout));
    }
    let swept = run(&server, &["thread", "prune", "--house", "h1"]);
    let table = "WHAT   THREAD  RUN  SANDBOX  STATUS  WHY\nended  t1      r1            failed  gone\nleft                s2               there is work on it\n";
    assert_eq!(text(&swept.stdout), table);
    let json = run(&server, &["thread", "prune", "--house", "h1", "--json"]);
    assert_eq!(text(&json.stdout).lines().count(), 1);
}
