//! The machines, as the platform and their providers know them.

use crate::{Reply, Server, run, text};

#[test]
fn sandboxes_are_listed_asked_for_reported_and_resumed() {
    let server = Server::start(|request, _| match (request.method.as_str(), request.target.as_str()) {
        ("GET", target) if target.starts_with("/api/sandboxes?") => Reply::Json(
            200,
            r#"{"items":[{"sandbox_id":"s1","status":"live","provider":"local","provider_ref":"c17","environment_id":"e1","threads":["t1","t2"],"created_at":"2026-11-16T08:20:38Z"}],"next":null,"position":1}"#,
        ),
        ("GET", _) => Reply::Json(200, r#"{"sandbox_id":"s1","status":"pending","provider":"local","position":1}"#),
        (_, "/api/sandboxes" | "/api/sandboxes/s1/resume") => Reply::Json(201, r#"{"sandbox_id":"s2","position":4}"#),
        _ => Reply::Json(200, r#"{"position":5}"#),
    });
    let listed = run(&server, &["sandbox", "list", "--house", "h1"]);
    let line = "s1       live    local     c17  t1,t2    e1           2026-11-16 08:20:38";
    assert!(
        text(&listed.stdout).starts_with("SANDBOX  STATUS") && text(&listed.stdout).contains(line),
        "{}",
        text(&listed.stdout)
    );
    let shown = run(&server, &["sandbox", "show", "s1"]);
    assert_eq!(text(&shown.stdout), "SANDBOX   s1\nSTATUS    pending\nPROVIDER  local\n");
    for (line, target, body, out) in [
        (
            "request local --house h1 --thread t1",
            "/api/sandboxes",
            r#"{"house_id":"h1","provider":"local","thread_id":"t1"}"#,
            "s2\n",
        ),
        ("live s1 c17", "/api/sandboxes/s1/live", r#"{"provider_ref":"c17"}"#, ""),
        ("dead s1 --reason gone", "/api/sandboxes/s1/dead", r#"{"reason":"gone"}"#, ""),
        ("destroy s1", "/api/sandboxes/s1/destroyed", "{}", ""),
        ("resume s1 --provider local", "/api/sandboxes/s1/resume", r#"{"provider":"local"}"#, "s2\n"),
    ] {
        let done = run(&server, &["sandbox"].into_iter().chain(line.split(' ')).collect::<Vec<_>>());
        assert_eq!((done.status.code(), text(&done.stdout)), (Some(0), out), "{line}: {}", text(&done.stderr));
        let seen = server.seen();
        let sent = seen.iter().rfind(|request| request.method == "POST").unwrap();
        assert_eq!((sent.target.as_str(), sent.body.as_str()), (target, body), "{line}");
    }
}

#[test]
fn whether_a_machine_is_gone_already_is_said_when_it_is_destroyed() {
    for (shown, said) in [
        (r#"{"sandbox_id":"s1","status":"dead","destroyed_at":"2026-11-16T08:20:38Z"}"#, "destroyed\n"),
        (
            r#"{"sandbox_id":"s1","status":"dead","destroyed_at":null}"#,
            "it is being taken away, and the runs on it end; `arbe sandbox show s1` tells when it is gone\n",
        ),
    ] {
        let server = Server::start(move |request, _| match request.method.as_str() {
            "GET" => Reply::Json(200, shown),
            _ => Reply::Json(200, r#"{"position":5}"#),
        });
        let done = run(&server, &["sandbox", "destroy", "s1"]);
        assert_eq!((done.status.code(), text(&done.stderr)), (Some(0), said));
        let json = run(&server, &["sandbox", "destroy", "s1", "--json"]);
        let looks = server.seen().iter().filter(|request| request.target == "/api/sandboxes/s1").count();
        assert_eq!((text(&json.stdout), looks), ("{\"position\":5}\n", 1), "programs look for themselves");
    }
}

#[test]
fn sandboxes_are_listed_with_what_their_providers_say_and_strays_beside_them() {
    let server = Server::start(|request, _| match request.target.as_str() {
        "/api/sandboxes/reconcile" => Reply::Json(
            200,
            r#"{"items":[{"sandbox_id":"s1","provider":"local","provider_ref":"c17","verdict":"dead","why":"gone","threads":["t1"]},{"sandbox_id":null,"provider":"local","provider_ref":"c9","verdict":"stray","why":"it names no sandbox","threads":[]}],"position":7}"#,
        ),
        target if target.starts_with("/api/sandboxes?") => Reply::Json(
            200,
            r#"{"items":[{"sandbox_id":"s1","status":"dead","provider":"local","provider_ref":"c17"},{"sandbox_id":"s0","status":"dead","provider":"local"}],"next":null,"position":7}"#,
        ),
        _ => Reply::Json(200, r#"{"position":7}"#),
    });
    let listed = run(&server, &["sandbox", "list", "--house", "h1", "--reconcile"]);
    assert_eq!(server.seen()[0].body, r#"{"house_id":"h1"}"#);
    let lines: Vec<Vec<&str>> = text(&listed.stdout).lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1], ["s1", "dead", "dead", "local", "c17", "t1", "gone"], "{}", text(&listed.stdout));
    assert_eq!((&lines[2][..], &lines[3][..3]), (&["s0", "dead", "local"][..], &["stray", "local", "c9"][..]));
    let json = run(&server, &["sandbox", "list", "--house", "h1", "--reconcile", "--json"]);
    assert_eq!(text(&json.stdout).lines().count(), 3);
    assert!(text(&json.stdout).contains(r#""verdict":"stray""#), "{}", text(&json.stdout));
}

#[test]
fn the_sandboxes_of_one_provider_are_listed_as_many_as_asked_for() {
    let server = Server::start(|request, _| match request.target.as_str() {
        "/api/sandboxes/reconcile" => Reply::Json(
            200,
            r#"{"items":[{"sandbox_id":"s2","provider":"daytona","verdict":"live","threads":["t2"]},{"sandbox_id":null,"provider":"local","provider_ref":"c9","verdict":"stray","threads":[]}],"position":7}"#,
        ),
        target if target.contains("cursor=") => Reply::Json(
            200,
            r#"{"items":[{"sandbox_id":"s2","status":"live","provider":"daytona"},{"sandbox_id":"s3","status":"live","provider":"daytona"}],"next":null,"position":7}"#,
        ),
        target if target.starts_with("/api/sandboxes?") => {
            Reply::Json(200, r#"{"items":[{"sandbox_id":"s1","status":"live","provider":"local"}],"next":"c","position":7}"#)
        }
        _ => Reply::Json(200, r#"{"position":7}"#),
    });
    for (more, expected) in [
        ("--runtime daytona", &["s2", "s3"][..]),
        ("--provider daytona --limit 1", &["s2"]),
        ("--runtime daytona --reconcile", &["s2", "s3"]),
        ("--runtime local --reconcile", &["s1", "stray"]),
        ("--runtime sprite", &[]),
    ] {
        let line = ["sandbox", "list", "--house", "h1"].into_iter().chain(more.split(' '));
        let listed = run(&server, &line.collect::<Vec<_>>());
        let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
        let shown: Vec<String> = text(&listed.stdout).lines().skip(1).map(first).collect();
        assert_eq!(shown, expected, "{more}: {}", text(&listed.stderr));
    }
}
