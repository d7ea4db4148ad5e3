//! The verbs against a server that answers as it is told, breaks connections and comes back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

#[derive(Clone, Debug, Default)]
struct Request {
    method: String,
    target: String,
    token: String,
    key: String,
    body: String,
}

enum Reply {
    Json(u16, &'static str),
    Stream {
        status: u16,
        next: &'static str,
        body: &'static str,
    },
    /// The connection ends after the request was read.
    Hang,
}

/// Answers with `answer(request, number of the request)`.
struct Server {
    runtime: Runtime,
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    fn start(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let requests = seen.clone();
        runtime.spawn(async move {
            loop {
                let Ok((mut stream, _)) = listener.accept().await else { return };
                let (requests, answer) = (requests.clone(), answer.clone());
                tokio::spawn(async move {
                    let Some(request) = read(&mut stream).await else { return };
                    let number = {
                        let mut requests = requests.lock().unwrap();
                        requests.push(request.clone());
                        requests.len()
                    };
                    write(&mut stream, answer(&request, number)).await;
                });
            }
        });
        Self { runtime, address, seen }
    }

    fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn stop(self) {
        self.runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let header = |name: &str| {
        let found = head.lines().filter_map(|line| line.split_once(": ")).find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    let length: usize = header("content-length").parse().unwrap_or(0);
    while bytes.len() < end + length {
        stream.read_buf(&mut bytes).await.ok()?;
    }
    let mut line = head.split(' ');
    Some(Request {
        method: line.next()?.to_owned(),
        target: line.next()?.to_owned(),
        token: header("authorization"),
        key: header("idempotency-key"),
        body: String::from_utf8(bytes[end..].to_vec()).unwrap(),
    })
}

async fn write(stream: &mut TcpStream, reply: Reply) {
    let (status, headers, body) = match reply {
        Reply::Json(status, body) => (status, String::new(), body),
        Reply::Stream { status, next, body } => {
            (status, format!("stream-next-offset: {next}\r\nstream-up-to-date: true\r\n"), body)
        }
        Reply::Hang => return,
    };
    let length = if status == 204 { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    let head = format!("HTTP/1.1 {status} OK\r\nconnection: close\r\n{length}{headers}\r\n");
    let _ = stream.write_all((head + body).as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Sees nothing of the machine that it runs on.
fn arbe(url: &str, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arbe"));
    command.args(line).env_clear().env("HOME", "/nonexistent").env("TZ", "UTC").env("ARBE_URL", url).env("ARBE_TOKEN", "arbe_t");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(server: &Server, line: &[&str]) -> Output {
    arbe(&server.url(), line).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const UNAVAILABLE: Reply = Reply::Json(503, r#"{"error":{"code":"unavailable","message":"nothing was written"}}"#);
const CREATED: Reply = Reply::Json(201, r#"{"thread_id":"t1","stream_id":"arbe-thread-t1","position":7}"#);

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

const FIRST: &str =
    r#"[{"id":"1","ts":1794817238000,"type":"chat","v":1,"author_agent_id":"a1","payload":{"text":"good morning"}}]"#;
const SECOND: &str =
    r#"[{"id":"2","ts":1794817239000,"type":"chat","v":1,"author_agent_id":"a1","payload":{"text":"still here"}}]"#;
const AT_1: &str = "0000000000000001_0000000000000001";
const AT_2: &str = "0000000000000001_0000000000000002";

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
fn sandboxes_are_listed_asked_for_reported_and_resumed() {
    let server = Server::start(|request, _| match (request.method.as_str(), request.target.as_str()) {
        ("GET", target) if target.starts_with("/api/sandboxes?") => Reply::Json(
            200,
            r#"{"items":[{"sandbox_id":"s1","status":"live","provider":"local","provider_ref":"c17","environment_id":"e1","created_at":"2026-11-16T08:20:38Z"}],"next":null,"position":1}"#,
        ),
        ("GET", _) => Reply::Json(200, r#"{"sandbox_id":"s1","status":"pending","provider":"local","position":1}"#),
        (_, "/api/sandboxes" | "/api/sandboxes/s1/resume") => Reply::Json(201, r#"{"sandbox_id":"s2","position":4}"#),
        _ => Reply::Json(200, r#"{"position":5}"#),
    });
    let listed = run(&server, &["sandbox", "list", "--house", "h1"]);
    let line = "s1       live    local     c17  e1           2026-11-16 08:20:38";
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
