//! The verbs against a server that answers as it is told, breaks connections and comes back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

mod asking;
mod permissions;
mod runs;
mod sandboxes;
mod secrets;
mod tail;

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

/// With something on stdin.
fn pipe(server: &Server, line: &[&str], given: &str) -> Output {
    let mut child = arbe(&server.url(), line).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(given.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

const UNAVAILABLE: Reply = Reply::Json(503, r#"{"error":{"code":"unavailable","message":"nothing was written"}}"#);
const CREATED: Reply = Reply::Json(201, r#"{"thread_id":"t1","stream_id":"arbe-thread-t1","position":7}"#);
const AT_1: &str = "0000000000000001_0000000000000001";
const AT_2: &str = "0000000000000001_0000000000000002";
