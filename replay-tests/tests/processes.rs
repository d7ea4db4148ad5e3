//! Several real processes on one store. `soak` runs the same for longer.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use replay_tests::servers::arbe_binary;
use replay_tests::soak::{Options, StoreKind, run};

fn holds(store: StoreKind, seconds: u64) {
    let outcome = run(Options { duration: Duration::from_secs(seconds), store, seed: 7 }).unwrap();
    assert!(outcome.problems.is_empty(), "{:#?}", outcome.problems);
    assert!(outcome.kills >= 3 && outcome.acknowledged > 100, "{outcome:?}");
}

#[test]
fn kill_9_of_either_server_on_shared_files_loses_and_doubles_nothing() {
    holds(StoreKind::File, 8);
}

#[test]
fn kill_9_of_either_server_on_a_faulty_s3_loses_and_doubles_nothing() {
    holds(StoreKind::S3, 8);
}

#[test]
fn an_append_is_answered_only_after_its_bytes_are_synced() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-s", "600", "-e", "trace=pwrite64,fdatasync,writev,write,sendto", "-o"]).arg(&trace);
    strace.arg(arbe_binary().unwrap()).args(["serve", "--listen", "127.0.0.1:0", "--database-url", "none", "--data-dir"]);
    strace.arg(directory.path());
    let Ok(mut child) = strace.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        println!("skipped: strace is not installed");
        return;
    };
    let host = announced(&mut child);
    ask(&host, "PUT", "");
    ask(&host, "POST", "MARKED-PAYLOAD");
    let trace = std::fs::read_to_string(&trace).unwrap();
    // The server is what strace started; other threads of it may have written first.
    let stopped = Command::new("pkill").args(["-P", &child.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    child.wait().unwrap();

    let lines: Vec<&str> = trace.lines().collect();
    let written =
        lines.iter().position(|l| l.contains("pwrite64(") && l.contains("MARKED-PAYLOAD")).expect("the append is written");
    let answered = lines.iter().rposition(|l| l.contains("HTTP/1.1 204")).expect("the append is answered");
    let synced = lines[written..].iter().position(|l| l.contains("fdatasync") && l.trim_end().ends_with("= 0")).expect("a sync");
    assert!(written + synced < answered, "{}", lines[written..=answered].join("\n"));
}

/// The address in the server's first line.
fn announced(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.split("http://").nth(1).unwrap().split(',').next().unwrap().to_owned()
}

fn ask(host: &str, method: &str, body: &str) {
    let mut stream = TcpStream::connect(host).unwrap();
    let headers = format!("host: x\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: {}", body.len());
    write!(stream, "{method} /v1/stream/s HTTP/1.1\r\n{headers}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
}
