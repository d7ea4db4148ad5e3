//! A thread that is followed.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};
use std::time::Duration;

use crate::{AT_1, AT_2, Reply, Request, Server, UNAVAILABLE, arbe, run, text};

const FIRST: &str =
    r#"[{"id":"1","ts":1794817238000,"type":"chat","v":1,"author_agent_id":"a1","payload":{"text":"good morning"}}]"#;
const SECOND: &str =
    r#"[{"id":"2","ts":1794817239000,"type":"chat","v":1,"author_agent_id":"a1","payload":{"text":"still here"}}]"#;

fn thread(request: &Request) -> Reply {
    let target = request.target.as_str();
    if target == "/api/agents/a1" {
        return Reply::Json(200, r#"{"agent_id":"a1","kind":"human","name":"ada","position":1}"#);
    }
    if target.contains("offset=now") {
        return Reply::Stream { status: 200, next: AT_1, body: "[]" };
    }
    if target.contains(AT_1) {
        return Reply::Hang;
    }
    Reply::Stream { status: 200, next: AT_1, body: FIRST }
}

/// A process that outlives no test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_tail_waits_for_its_server_and_goes_on_from_the_last_offset() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("server.url");
    let server = Server::start(|request, _| thread(request));
    std::fs::write(&file, server.url()).unwrap();
    let mut command = arbe("", &["tail", "t1"]);
    let mut tail = Ended(command.env_remove("ARBE_URL").env("ARBE_DATA_DIR", directory.path()).spawn().unwrap());
    let mut lines = BufReader::new(tail.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "2026-11-16 08:20:38  ada  chat  good morning");
    assert!(server.seen()[1].target.ends_with("/api/threads/t1/stream?offset=0000000000000001_0000000000000000"));
    server.stop();

    // It comes back at another port.
    let server = Server::start(|request, number| match request.target.as_str() {
        _ if number == 1 => UNAVAILABLE,
        target if target.contains(AT_1) => Reply::Stream { status: 200, next: AT_2, body: SECOND },
        target if target.contains(AT_2) => {
            std::thread::sleep(Duration::from_millis(100));
            Reply::Stream { status: 204, next: AT_2, body: "" }
        }
        _ => thread(request),
    });
    std::fs::write(&file, server.url()).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "2026-11-16 08:20:39  ada  chat  still here");
    std::thread::sleep(Duration::from_millis(300));
    assert!(Command::new("kill").args(["-INT", &tail.0.id().to_string()]).status().unwrap().success());
    let mut told = String::new();
    tail.0.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(tail.0.wait().unwrap().code(), Some(0));
    assert!(told.contains(&format!("waiting, to go on from {AT_1}")) && told.contains("connected again"), "{told}");
    assert!(told.ends_with(&format!("arbe tail t1 --from {AT_2}\n")), "{told}");
    assert!(lines.next().is_none());
}

#[test]
fn a_tail_that_does_not_follow_ends_with_the_thread_and_gives_offsets() {
    let server = Server::start(|_, _| Reply::Stream { status: 200, next: AT_1, body: FIRST });
    let done = run(&server, &["tail", "t1", "--from-start", "--no-follow", "--json"]);
    assert_eq!(done.status.code(), Some(0));
    let entry = FIRST.trim_matches(['[', ']']);
    assert_eq!(text(&done.stdout), format!("{{\"next_offset\":\"{AT_1}\",\"entry\":{entry}}}\n"));
    assert_eq!((server.seen().len(), server.seen()[0].target.as_str()), (1, "/api/threads/t1/stream?offset=-1"));
}

#[test]
fn a_tail_of_what_is_not_there_ends_with_not_found() {
    let server = Server::start(|_, _| Reply::Json(404, r#"{"error":{"code":"not_found","message":"no such thread"}}"#));
    let done = run(&server, &["tail", "t1"]);
    assert_eq!((done.status.code(), text(&done.stderr)), (Some(3), "arbe: no such thread (not_found)\n"));
}
