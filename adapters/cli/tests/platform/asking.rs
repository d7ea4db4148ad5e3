//! What is asked once, again, or not at all, and what is said of it.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::{CREATED, Reply, Server, UNAVAILABLE, arbe, run, text};

#[test]
fn a_command_is_tried_again_under_the_same_key() {
    let server = Server::start(|_, number| match number {
        1 => UNAVAILABLE,
        2 => Reply::Hang,
        _ => CREATED,
    });
    let done = run(&server, &["thread", "create", "hello", "--house", "h1", "--tag", "a"]);
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(0), "t1\n"), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("trying again"), "{}", text(&done.stderr));
    let seen = server.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|request| request.key == seen[0].key && request.key.len() == 32), "{seen:?}");
    assert_eq!((seen[2].method.as_str(), seen[2].target.as_str()), ("POST", "/api/threads"));
    assert_eq!(seen[2].body, r#"{"house_id":"h1","name":"hello","tags":["a"]}"#);
    assert_eq!(seen[2].token, "Bearer arbe_t");
}

#[test]
fn an_unknown_outcome_is_said_with_the_key_to_repeat_it() {
    let server = Server::start(|_, _| Reply::Hang);
    let done = run(&server, &["say", "t1", "hi", "--idempotency-key", "once"]);
    assert_eq!(done.status.code(), Some(1));
    let told = text(&done.stderr);
    assert!(told.contains("outcome is unknown") && told.contains("--idempotency-key once"), "{told}");
    assert!(server.seen().len() > 2);
    assert!(server.seen().iter().all(|request| request.key == "once"));
}

#[test]
fn a_server_that_cannot_write_leaves_no_doubt() {
    let server = Server::start(|_, _| UNAVAILABLE);
    let done = run(&server, &["say", "t1", "hi"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains("nothing was written (unavailable)"), "{}", text(&done.stderr));
}

#[test]
fn refusals_have_exit_codes_and_are_not_repeated() {
    for (status, code, expected) in [
        (401, "unauthenticated", 4),
        (403, "forbidden", 4),
        (404, "not_found", 3),
        (409, "conflict", 4),
        (422, "thread_closed", 4),
        (422, "environment_not_found", 3),
        (422, "not_a_member", 3),
    ] {
        let body: &'static str = format!(r#"{{"error":{{"code":"{code}","message":"because"}}}}"#).leak();
        let server = Server::start(move |_, _| Reply::Json(status, body));
        let done = run(&server, &["thread", "close", "t1"]);
        assert_eq!(done.status.code(), Some(expected), "{status}");
        assert!(text(&done.stderr).contains("because") && text(&done.stderr).contains(code), "{}", text(&done.stderr));
        assert_eq!((server.seen().len(), text(&done.stdout)), (1, ""));
    }
}

#[test]
fn what_is_no_agents_id_is_not_found_and_not_asked_for() {
    let server = Server::start(|_, _| CREATED);
    for line in [
        "thread create x --house h1 --agent reviewer",
        "thread create x --house h1 --parent-agent reviewer",
        "thread list --house h1 --agent reviewer",
        "agent show reviewer",
        "agent key issue reviewer",
        "member add reviewer --house h1",
        "member role reviewer owner --house h1",
        "say t1 hello --to reviewer",
    ] {
        let done = run(&server, &line.split(' ').collect::<Vec<_>>());
        assert_eq!(done.status.code(), Some(3), "{line}: {}", text(&done.stderr));
        assert!(text(&done.stderr).contains("reviewer") && text(&done.stderr).contains("arbe agent list"), "{line}");
    }
    assert_eq!(server.seen().len(), 0, "nothing was asked");
    let done = run(&server, &["say", "t1", "hello", "--reply-to", "e1"]);
    assert_eq!((done.status.code(), server.seen().len()), (Some(2), 0));
}

#[test]
fn who_is_no_server_of_ours_and_where_none_is_are_told_apart() {
    let server = Server::start(|_, _| Reply::Json(200, "<html>"));
    let done = run(&server, &["whoami"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains("not arbe's API"), "{}", text(&done.stderr));
    let url = server.url();
    server.stop();
    let started = Instant::now();
    let done = arbe(&url, &["whoami"]).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains("arbe serve") && text(&done.stderr).contains("ARBE_URL"), "{}", text(&done.stderr));
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn lists_are_read_to_the_end_and_json_is_passed_on_as_it_is() {
    let server = Server::start(|request, _| match request.target.as_str() {
        "/api/me" => {
            Reply::Json(200, r#"{"agent_id":"a1","houses":[{"house_id":"h1","name":"lab","role":"owner"}],"position":1}"#)
        }
        target if target.contains("cursor=c1") => {
            Reply::Json(200, r#"{"items":[{"thread_id":"t2","n":1.10}],"next":null,"position":1}"#)
        }
        _ => Reply::Json(200, r#"{"items":[{"thread_id":"t1","name":"one","tags":["x"]}],"next":"c1","position":1}"#),
    });
    let done = run(&server, &["thread", "list", "--pinned", "--json"]);
    assert_eq!(
        text(&done.stdout),
        "{\"thread_id\":\"t1\",\"name\":\"one\",\"tags\":[\"x\"]}\n{\"thread_id\":\"t2\",\"n\":1.10}\n"
    );
    assert_eq!(server.seen()[1].target, "/api/threads?house=h1&pinned=true&limit=200");
    assert_eq!(server.seen()[2].target, "/api/threads?house=h1&pinned=true&limit=200&cursor=c1");
    let done = run(&server, &["thread", "list", "--limit", "1", "--house", "h2"]);
    assert!(
        text(&done.stdout).starts_with("THREAD  NAME") && text(&done.stdout).contains("t1      one"),
        "{}",
        text(&done.stdout)
    );
    assert_eq!(server.seen()[3].target, "/api/threads?house=h2&limit=1");
}

#[test]
fn a_house_must_be_chosen_among_several() {
    let body = r#"{"houses":[{"house_id":"h1","name":"lab"},{"house_id":"h2","name":"home"}]}"#;
    let server = Server::start(move |_, _| Reply::Json(200, body));
    let done = run(&server, &["member", "list"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("h2     home"), "{}", text(&done.stderr));
}

#[test]
fn what_is_said_can_come_from_stdin() {
    let server = Server::start(|_, _| Reply::Json(201, r#"{"entries":[{"id":"01E","seq":3}],"position":9}"#));
    let mut child = arbe(&server.url(), &["say", "t1", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("two\nlines\n".as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(0), "01E\n"));
    assert_eq!(
        (server.seen()[0].target.as_str(), server.seen()[0].body.as_str()),
        ("/api/threads/t1/entries", r#"{"text":"two\nlines"}"#)
    );
}

#[test]
fn a_token_that_others_can_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("owner-token");
    std::fs::write(&file, "arbe_owner\n").unwrap();
    let server = Server::start(|_, _| Reply::Json(200, r#"{"agent_id":"a1","kind":"human","name":"ada","houses":[]}"#));
    for (mode, warned) in [(0o600, false), (0o644, true)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut command = arbe(&server.url(), &["whoami"]);
        let done = command.env_remove("ARBE_TOKEN").env("ARBE_DATA_DIR", directory.path()).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        assert_eq!(text(&done.stderr).contains("chmod 600"), warned);
        assert!(text(&done.stdout).contains("ada"));
    }
    assert_eq!(server.seen()[0].token, "Bearer arbe_owner");
}

#[test]
fn there_is_a_manual_page_for_every_verb() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    assert!(arbe("", &["man", pages.to_str().unwrap()]).status().unwrap().success());
    for (page, words) in
        [("arbe.1", "Exit codes"), ("arbe-thread-finish.1", "how a run ended"), ("arbe-sandbox.1", "every thread that pointed")]
    {
        let page = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(page.contains(words), "{page}");
    }
    let one = arbe("", &["man"]).output().unwrap();
    assert!(text(&one.stdout).contains(".TH arbe 1"), "{}", text(&one.stdout));
}
