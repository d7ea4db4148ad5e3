//! What bots ask to be allowed.

use crate::{Reply, Request, Server, run, text};

fn asked(request: &Request) -> Reply {
    match (request.method.as_str(), request.target.as_str()) {
        ("GET", "/api/threads/t1/entries?limit=200") => Reply::Json(
            200,
            r#"{"items":[
                {"seq":0,"id":"E0","ts":1794817238000,"type":"signal.permission.requested","payload":{"request_id":"r1.1","action":"bash","detail":"{\"command\":\"ls\"}"},"author_agent_id":"a1"},
                {"seq":1,"id":"E1","ts":1794817238000,"type":"signal.permission.requested","payload":{"request_id":"r1.2","action":"write"}}
            ],"next":"1","position":1}"#,
        ),
        ("GET", "/api/threads/t1/entries?limit=200&after=1") => Reply::Json(
            200,
            r#"{"items":[{"seq":2,"id":"E2","ts":1794817238000,"type":"signal.permission.resolved","payload":{"request_id":"r1.2","allowed":true}}],"next":null,"position":1}"#,
        ),
        ("GET", "/api/agents/a1") => Reply::Json(200, r#"{"agent_id":"a1","name":"pia"}"#),
        ("POST", _) => Reply::Json(201, r#"{"entries":[{"id":"E3","seq":3}],"position":4}"#),
        _ => Reply::Json(404, r#"{"error":{"code":"not_found","message":"no"}}"#),
    }
}

#[test]
fn requests_for_leave_are_listed_and_answered() {
    let server = Server::start(|request, _| asked(request));
    let listed = run(&server, &["permission", "list", "t1"]);
    let listed = text(&listed.stdout);
    assert!(listed.starts_with("REQUEST  SINCE"), "{listed}");
    assert!(listed.contains(r#"  pia  bash  {"command":"ls"}"#) && !listed.contains("r1.2"), "{listed}");
    let whole = run(&server, &["permission", "list", "t1", "--json"]);
    let whole = text(&whole.stdout);
    assert!(whole.starts_with(r#"{"request_id":"r1.1","action":"bash","#) && whole.lines().count() == 1, "{whole}");
    let resolved = |allowed: bool| {
        format!(r#"{{"payload":{{"allowed":{allowed},"request_id":"r1.1"}},"type":"signal.permission.resolved"}}"#)
    };
    let reason = r#"{"payload":{"reply_to":"E0","text":"not now"},"type":"chat"}"#;
    for (line, body, said) in [
        (&["allow", "t1", "r1.1"][..], resolved(true), "allowed\n"),
        (&["deny", "t1", "r1.1"], resolved(false), "denied\n"),
        (&["deny", "t1", "r1.1", "--reason", "not now"], format!("[{reason},{}]", resolved(false)), "denied\n"),
    ] {
        let done = run(&server, &[&["permission"], line].concat());
        assert_eq!((done.status.code(), text(&done.stderr)), (Some(0), said), "{line:?}");
        let seen = server.seen();
        let sent = seen.iter().rfind(|request| request.method == "POST").unwrap();
        let sent_body: serde_json::Value = serde_json::from_str(&sent.body).unwrap();
        assert_eq!((sent.target.as_str(), sent_body), ("/api/threads/t1/entries", serde_json::from_str(&body).unwrap()));
    }
    for (line, code) in [(["allow", "t1", "r1.2"], 0), (["deny", "t1", "r1.2"], 4), (["allow", "t1", "r9.1"], 3)] {
        let done = run(&server, &[&["permission"][..], &line].concat());
        assert_eq!(done.status.code(), Some(code), "{line:?}: {}", text(&done.stderr));
    }
    assert_eq!(server.seen().iter().filter(|request| request.method == "POST").count(), 3);
}
