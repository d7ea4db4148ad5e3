//! `arbe stream-proxy` between a client and a server that both look at every byte.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const BODY: usize = 300 << 10;
const TOO_LONG: Duration = Duration::from_secs(20);

struct Proxy {
    child: Child,
    address: String,
}

impl Proxy {
    fn start(upstream: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arbe"));
        command.args(["stream-proxy", "--listen", "127.0.0.1:0", "--body-limit-mib", "1", "--upstream", upstream]);
        let mut child =
            command.env_clear().env("HOME", "/nonexistent").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split_once("http://").unwrap().1.split(' ').next().unwrap().to_owned();
        Self { child, address }
    }

    fn ask(&self, head: &str, body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TOO_LONG)).unwrap();
        stream.write_all(format!("{head}\r\nHost: {}\r\nConnection: close\r\n", self.address).as_bytes()).unwrap();
        stream.write_all(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes()).unwrap();
        // One that is too long is not read to its end.
        let _ = stream.write_all(body);
        stream
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Message {
    first: String,
    /// With names in lower case, sorted.
    headers: Vec<String>,
    body: Vec<u8>,
}

impl Message {
    fn read(stream: &mut impl Read) -> Self {
        let mut reader = BufReader::new(stream);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let first = lines.remove(0);
        let named = |line: String| {
            let (name, value) = line.split_once(':').unwrap();
            format!("{}: {}", name.to_lowercase(), value.trim())
        };
        let mut headers: Vec<String> = lines.into_iter().map(named).collect();
        headers.sort();
        let length =
            headers.iter().find_map(|header| header.strip_prefix("content-length: ")).map_or(0, |it| it.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        Self { first, headers, body }
    }

    fn without(mut self, names: &[&str]) -> Self {
        self.headers.retain(|header| !names.iter().any(|name| header.starts_with(&format!("{name}:"))));
        self
    }
}

fn bytes(seed: usize) -> Vec<u8> {
    (0..BODY).map(|n| (n * 31 + n / 256 + seed) as u8).collect()
}

fn headers(lines: &[&str], length: usize) -> Vec<String> {
    let mut headers: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    headers.push(format!("content-length: {length}"));
    headers.sort();
    headers
}

#[test]
fn what_is_posted_and_what_is_answered_pass_byte_for_byte() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = upstream.local_addr().unwrap();
    let proxy = Proxy::start(&format!("http://{at}/base"));
    let sent = [
        "accept: application/json",
        "accept-encoding: gzip",
        "authorization: Bearer scoped.to.one",
        "content-type: application/octet-stream",
        "idempotency-key: t1:0001",
        "x-odd: one, two",
        "x-odd: three",
    ];
    let given = [
        "content-encoding: gzip",
        "content-type: text/odd",
        "date: Thu, 01 Jan 1970 00:00:00 GMT",
        "location: /elsewhere",
        "set-cookie: a=1",
        "set-cookie: b=2",
        "stream-next-offset: 7_7",
    ];
    for status in [201, 307, 401, 409, 499, 599, 799] {
        let target = "arbe-thread-t1/runs/r1/finish?x=%7Ea+b&&y";
        let mut client = proxy.ask(&format!("POST /api/stream/{target} HTTP/1.1\r\n{}", sent.join("\r\n")), &bytes(status));
        let (mut server, _) = upstream.accept().unwrap();
        let heard = Message::read(&mut server);
        assert_eq!(heard.first, format!("POST /base/api/stream/{target} HTTP/1.1"));
        assert!(heard.body == bytes(status), "{status}");
        assert!(heard.headers.contains(&format!("host: {at}")), "{:?}", heard.headers);
        assert_eq!(heard.without(&["host"]).headers, headers(&sent, BODY));

        let head = format!("HTTP/1.1 {status} Odd\r\n{}\r\ncontent-length: {BODY}\r\n", given.join("\r\n"));
        server.write_all(format!("{head}keep-alive: timeout=5\r\nconnection: close\r\n\r\n").as_bytes()).unwrap();
        server.write_all(&bytes(status + 1)).unwrap();
        drop(server);
        let answer = Message::read(&mut client).without(&["connection"]);
        assert!(answer.first.starts_with(&format!("HTTP/1.1 {status}")), "{}", answer.first);
        assert_eq!(answer.headers, headers(&given, BODY), "{status}");
        assert!(answer.body == bytes(status + 1), "{status}");
    }
}

#[test]
fn a_live_answer_comes_as_it_grows() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(&format!("http://{}", upstream.local_addr().unwrap()));
    let (seen, go_on) = mpsc::channel();
    let served = thread::spawn(move || {
        let (mut server, _) = upstream.accept().unwrap();
        let heard = Message::read(&mut server);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        server.write_all(format!("{head}5\r\nfirst\r\n").as_bytes()).unwrap();
        let told = go_on.recv_timeout(TOO_LONG);
        server.write_all(b"6\r\nsecond\r\n0\r\n\r\n").unwrap();
        told.unwrap();
        heard.first
    });
    let live = "arbe-thread-t1?offset=1_2&live=long-poll";
    let mut client = proxy.ask(&format!("GET /{live} HTTP/1.1"), b"");
    let has = |heard: &[u8], word: &[u8]| heard.windows(word.len()).any(|it| it == word);
    let mut heard = Vec::new();
    let mut piece = [0; 1024];
    for word in [b"first".as_slice(), b"second"] {
        while !has(&heard, word) {
            let read = client.read(&mut piece).unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&piece[..read]);
        }
        // The second is not waited for.
        let _ = seen.send(());
    }
    assert!(heard.starts_with(b"HTTP/1.1 200") && has(&heard, b"content-type: text/event-stream"));
    assert_eq!(served.join().unwrap(), format!("GET /api/stream/{live} HTTP/1.1"));
}

#[test]
fn what_is_not_passed_on_is_told_by_its_status() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Proxy::start(&format!("http://{nobody}"));
    for (line, body, status) in [
        ("GET /arbe-thread-t1", 0, 502),
        ("GET /api/me", 0, 404),
        ("POST /api/stream/arbe-house-h1", 0, 404),
        ("POST /arbe-thread-t1", (1 << 20) + 1, 413),
    ] {
        let answer = Message::read(&mut proxy.ask(&format!("{line} HTTP/1.1"), &vec![b'x'; body]));
        assert!(answer.first.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {}", answer.first);
        assert!(!String::from_utf8(answer.body).unwrap().contains(&nobody.to_string()), "{line}");
    }
}
