//! Values that are given and never shown.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::{Reply, Server, pipe, run, text};

#[test]
fn a_secret_is_made_or_rotated_with_the_value_on_stdin_alone() {
    let server = Server::start(|request, _| match (request.method.as_str(), request.target.contains("name=NEW")) {
        ("GET", true) => Reply::Json(200, r#"{"items":[],"next":null,"position":1}"#),
        ("GET", false) => Reply::Json(200, r#"{"items":[{"secret_id":"s1","name":"OLD"}],"next":null,"position":1}"#),
        _ => Reply::Json(200, r#"{"secret_id":"s1","house_id":"h1","name":"X","position":2}"#),
    });
    for (name, method, target, body) in [
        ("NEW", "POST", "/api/secrets", r#"{"house_id":"h1","name":"NEW","value":"sk-1"}"#),
        ("OLD", "PUT", "/api/secrets/s1/value", r#"{"value":"sk-1"}"#),
    ] {
        let done = pipe(&server, &["secret", "set", name, "--house", "h1"], "sk-1\n");
        assert_eq!((done.status.code(), text(&done.stdout)), (Some(0), ""), "{}", text(&done.stderr));
        let sent = server.seen().pop().unwrap();
        assert_eq!((sent.method.as_str(), sent.target.as_str(), sent.body.as_str()), (method, target, body));
        assert!(!text(&done.stderr).contains("sk-1"), "{}", text(&done.stderr));
    }
    assert_eq!(server.seen()[0].target, "/api/secrets?house=h1&name=NEW&limit=1");
    let done = pipe(&server, &["secret", "set", "NEW", "--house", "h1", "--json"], "sk-1");
    assert!(text(&done.stdout).contains(r#""secret_id":"s1""#), "{}", text(&done.stdout));
    let before = server.seen().len();
    for given in ["\n", "sk\0x"] {
        assert_eq!(pipe(&server, &["secret", "set", "NEW", "--house", "h1"], given).status.code(), Some(2), "{given:?}");
    }
    assert_eq!(server.seen().len(), before, "nothing was asked");
    assert_eq!(run(&server, &["secret", "view", "NEW", "--house", "h1"]).status.code(), Some(3));
    assert_eq!(run(&server, &["secret", "delete", "OLD", "--house", "h1"]).status.code(), Some(0));
    assert_eq!(server.seen().pop().unwrap().target, "/api/secrets/s1");
}

#[test]
fn a_secret_that_somebody_else_made_or_an_earlier_try_did_is_no_failure() {
    let taken = r#"{"error":{"code":"name_taken","message":"taken"}}"#;
    let reused = r#"{"error":{"code":"idempotency_key_reused","message":"reused"}}"#;
    let none = r#"{"items":[],"next":null,"position":1}"#;
    let one = r#"{"items":[{"secret_id":"s1"}],"next":null,"position":1}"#;
    let done = r#"{"secret_id":"s1","house_id":"h1","name":"X","position":2}"#;
    for replies in [[(200, none), (409, taken), (200, one), (200, done)], [(200, one), (409, reused), (201, done), (200, done)]] {
        let server = Server::start(move |_, number| Reply::Json(replies[number - 1].0, replies[number - 1].1));
        let set = pipe(&server, &["secret", "set", "X", "--house", "h1", "--idempotency-key", "k"], "v");
        assert_eq!(set.status.code(), Some(0), "{}", text(&set.stderr));
    }
}

#[test]
fn secrets_are_listed_with_the_age_of_their_values_and_told_exactly_in_json() {
    let one = r#"{"secret_id":"s1","house_id":"h1","name":"TOKEN","bound_by":["e1"],"author_id":"a1",
        "created_at":"2019-05-04T03:02:01.000Z","rotated_at":"2020-01-02T03:04:05.678Z"}"#;
    let bound = r#"{"environment_id":"e1","name":"e","house_id":"h1","created_at":"2019-05-04T03:02:01.000Z","config":{},
        "secret_bindings":[{"name":"TOKEN","required":true,"exists":true,"rotated_at":"2020-01-02T03:04:05.678Z"},
        {"name":"NICE","required":false,"exists":false},{"name":"OLD","required":true,"exists":true}]}"#;
    let page: &'static str = format!(r#"{{"items":[{one}],"next":null,"position":1}}"#).leak();
    let server = Server::start(move |request, _| match request.target.split('?').next() {
        Some("/api/secrets") => Reply::Json(200, page),
        Some("/api/secrets/s1") => Reply::Json(200, one),
        _ => Reply::Json(200, bound),
    });
    let listed = run(&server, &["secret", "list", "--house", "h1"]);
    let listed = text(&listed.stdout).lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(listed[0].starts_with("NAME   ROTATED") && listed[0].ends_with("BY"), "{listed:?}");
    assert!(listed[1].starts_with("TOKEN  ") && listed[1].contains(" days ago  s1") && listed[1].ends_with("a1"), "{listed:?}");
    let viewed = run(&server, &["secret", "view", "TOKEN", "--house", "h1"]);
    assert!(text(&viewed.stdout).lines().any(|line| line.starts_with("ROTATED") && line.ends_with(" days ago")), "{viewed:?}");
    let json = run(&server, &["secret", "list", "--house", "h1", "--json"]);
    assert!(text(&json.stdout).contains(r#""rotated_at":"2020-01-02T03:04:05.678Z""#), "{json:?}");

    let environment = run(&server, &["env", "view", "e1"]);
    let secrets: Vec<_> = text(&environment.stdout).lines().filter(|line| line.starts_with("SECRET")).collect();
    assert!(secrets[0].contains("TOKEN (required, rotated ") && secrets[0].ends_with(" days ago)"), "{secrets:?}");
    assert_eq!(secrets[1..], ["SECRET       NICE (optional, not there)", "SECRET       OLD (required)"]);
}

#[test]
fn an_environment_is_made_with_what_it_binds() {
    let server = Server::start(|_, _| Reply::Json(201, r#"{"environment_id":"e1","position":2}"#));
    for (more, bindings) in [
        (vec![], ""),
        (
            vec!["--secret", "A", "--optional-secret", "C", "--secret", "B"],
            r#","secret_bindings":[{"name":"A","required":true},{"name":"B","required":true},{"name":"C","required":false}]"#,
        ),
    ] {
        let made = run(&server, &[vec!["env", "create", "rust", "--house", "h1"], more].concat());
        assert_eq!((made.status.code(), text(&made.stdout)), (Some(0), "e1\n"), "{made:?}");
        let sent = server.seen().into_iter().rfind(|request| request.method == "POST").unwrap();
        assert_eq!(sent.body, format!(r#"{{"house_id":"h1","name":"rust","config":{{}}{bindings}}}"#));
    }
}

/// What a terminal showed while `typed` was put in after the prompt, and how the terminal was afterwards.
fn at_a_terminal(server: &Server, line: &str, typed: &str) -> Option<String> {
    let script = std::path::Path::new("/usr/bin/script");
    if !script.exists() {
        return None;
    }
    let line = format!("trap : INT; '{}' {line}; echo code $?; /bin/stty -a", env!("CARGO_BIN_EXE_arbe"));
    let mut command = Command::new(script);
    command.args(["-qfec", &line, "/dev/null"]).env_clear().env("HOME", "/nonexistent").env("SHELL", "/bin/sh");
    command.env("ARBE_URL", server.url()).env("ARBE_TOKEN", "arbe_t");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (mut shown, mut output) = (Vec::new(), child.stdout.take().unwrap());
    let mut more = [0; 1024];
    while !String::from_utf8_lossy(&shown).contains("not shown") {
        let count = output.read(&mut more).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&shown));
        shown.extend_from_slice(&more[..count]);
    }
    let mut keys = child.stdin.take().unwrap();
    keys.write_all(typed.as_bytes()).unwrap();
    output.read_to_end(&mut shown).unwrap();
    child.wait().unwrap();
    Some(String::from_utf8(shown).unwrap())
}

#[test]
fn a_value_that_is_typed_is_not_shown_and_the_terminal_is_as_before() {
    let server = Server::start(|request, _| match request.method.as_str() {
        "GET" => Reply::Json(200, r#"{"items":[],"next":null,"position":1}"#),
        _ => Reply::Json(201, r#"{"secret_id":"s1","house_id":"h1","name":"NEW","position":2}"#),
    });
    let line = "secret set NEW --house h1";
    let Some(left) = at_a_terminal(&server, line, "sk-typed\u{3}") else { return };
    assert!(!left.contains("sk-typed") && left.contains("code 130") && left.contains(" echo "), "{left}");
    assert!(server.seen().is_empty(), "nothing was asked");
    let shown = at_a_terminal(&server, line, "sk-typed\nsk-more\n\u{4}").unwrap();
    assert!(!shown.contains("sk-") && shown.contains("code 0") && shown.contains(" echo "), "{shown}");
    let sent = server.seen().into_iter().find(|request| request.method == "POST").unwrap();
    assert_eq!(sent.body, r#"{"house_id":"h1","name":"NEW","value":"sk-typed\nsk-more"}"#);
}
