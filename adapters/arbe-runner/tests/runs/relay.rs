//! Ports that lead out through sockets.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::process::Command;

fn relay() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arbe-runner"));
    command.arg("relay").stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn what_goes_into_a_port_comes_out_of_its_socket() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("out.sock");
    let outside = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = outside.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                drop(tokio::io::copy(&mut read, &mut write).await);
            });
        }
    });
    let port = free_port().await;
    let way = format!("{port}={}", socket.display());
    let mut child = relay().args([&way, "--", "sh", "-c", "echo ready; exec sleep 30"]).spawn().unwrap();
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).await.unwrap();
    let mut said = vec![7_u8; 300_000];
    said[299_999] = 9;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (mut read, mut write) = stream.split();
    let mut heard = Vec::new();
    let (_, read) = tokio::join!(
        async {
            write.write_all(&said).await.unwrap();
            write.shutdown().await.unwrap();
        },
        tokio::time::timeout(Duration::from_secs(10), read.read_to_end(&mut heard))
    );
    read.unwrap().unwrap();
    assert!(heard == said);
    let pid = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(143), "the command was told, and its end is ours");
}

#[tokio::test]
async fn a_connection_waits_for_whoever_listens_outside_to_come_back() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("out.sock");
    let port = free_port().await;
    let way = format!("{port}={}", socket.display());
    let mut child = relay().args([&way, "--", "sh", "-c", "echo ready; exec sleep 30"]).spawn().unwrap();
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).await.unwrap();
    // One that gives up is not heard of later.
    let mut gone = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    gone.write_all(b"of one who is gone").await.unwrap();
    drop(gone);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"of one who waits").await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let outside = UnixListener::bind(&socket).unwrap();
    let (mut heard, _) = tokio::time::timeout(Duration::from_secs(5), outside.accept()).await.unwrap().unwrap();
    let mut said = [0; 16];
    heard.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"of one who waits");
    heard.write_all(b"answer").await.unwrap();
    drop(heard);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "answer");
    assert!(tokio::time::timeout(Duration::from_secs(1), outside.accept()).await.is_err());
}

#[tokio::test]
async fn the_code_of_the_command_is_the_relays() {
    for (script, code) in [("exit 7", 7), ("kill -9 $$", 137), ("true", 0)] {
        let ended = relay().args(["--", "sh", "-c", script]).output().await.unwrap();
        assert_eq!(ended.status.code(), Some(code), "{script}");
    }
}

#[tokio::test]
async fn what_is_no_way_or_a_port_that_is_taken_is_told_before_the_command_runs() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = format!("{}=/x", taken.local_addr().unwrap().port());
    for (arguments, code) in
        [(vec!["x=/y", "--", "echo", "ran"], 2), (vec!["1=/y"], 2), (vec!["--"], 2), (vec![&taken, "--", "echo", "ran"], 1)]
    {
        let ended = relay().args(&arguments).output().await.unwrap();
        assert_eq!((ended.status.code(), ended.stdout.is_empty()), (Some(code), true), "{arguments:?}");
    }
}
