//! Commands over a socket.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::{No, asked, said, unknown};
use crate::standin::guest::Guest;
use crate::standin::server;
use crate::standin::shape::{Field, Kind, may, need};

/// As the vendor documents it, and as its SDK asks.
const EXEC: &[Field] = &[
    need("cmd", Kind::Text),
    may("path", Kind::Text),
    may("stdin", Kind::Bool),
    may("env", Kind::Text),
    may("dir", Kind::Text),
    may("tty", Kind::Bool),
    may("rows", Kind::Int),
    may("cols", Kind::Int),
    may("detachable", Kind::Bool),
    may("cc", Kind::Bool),
    may("max_run_after_disconnect", Kind::Text),
];

pub fn route(guest: &Guest, rest: &[&str], request: Request) -> Result<Response, No> {
    match (request.method().as_str(), rest) {
        ("GET", []) if request.headers().contains_key("upgrade") => {
            let pairs = asked(&request, EXEC, &["cmd", "env"])?;
            let running = Running::begin(guest, &pairs)?;
            server::upgrade(request, move |socket| running.serve(socket)).map_err(No::Violation)
        }
        ("GET", []) => Ok(server::json(StatusCode::OK, &json!({ "sessions": [] }))),
        _ => Err(unknown(&request)),
    }
}

struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    output: mpsc::Receiver<Vec<u8>>,
    after_disconnect: Option<Duration>,
}

impl Running {
    fn begin(guest: &Guest, pairs: &[(String, String)]) -> Result<Self, No> {
        let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let argv: Vec<String> = pairs.iter().filter(|(name, _)| name == "cmd").map(|(_, value)| value.clone()).collect();
        let env =
            pairs.iter().filter(|(name, _)| name == "env").map(|(_, pair)| pair.split_once('=')).collect::<Option<Vec<_>>>();
        let env = env.ok_or_else(|| No::Violation("env is KEY=VALUE".to_owned()))?;
        let env: BTreeMap<String, String> = env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut command = guest.command(&argv, value("dir"), &env);
        let takes_input = value("stdin") == Some("true");
        if takes_input {
            command.stdin(Stdio::piped());
        }
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| said(StatusCode::BAD_REQUEST, &error.to_string()))?;
        let (sender, output) = mpsc::channel(64);
        tokio::spawn(read(child.stdout.take().unwrap(), 1, sender.clone()));
        tokio::spawn(read(child.stderr.take().unwrap(), 2, sender));
        let stdin = child.stdin.take();
        let after_disconnect = limit(value("max_run_after_disconnect").unwrap_or("10s"))?;
        Ok(Self { child, stdin, output, after_disconnect })
    }

    async fn serve(mut self, mut socket: server::Socket) {
        let info = json!({ "type": "session_info", "session_id": self.child.id().map(|pid| pid.to_string()), "tty": false });
        if socket.send(Message::Text(info.to_string().into())).await.is_err() {
            return self.abandoned().await;
        }
        let mut exited = None;
        loop {
            tokio::select! {
                biased;
                Some(bytes) = self.output.recv() => {
                    if socket.send(Message::Binary(bytes.into())).await.is_err() {
                        return self.abandoned().await;
                    }
                }
                came = socket.next(), if exited.is_none() => match came {
                    Some(Ok(Message::Binary(bytes))) => self.input(&bytes).await,
                    Some(Ok(Message::Text(text))) => self.signal(text.as_str()),
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return self.abandoned().await,
                },
                status = self.child.wait(), if exited.is_none() => exited = Some(status.unwrap()),
                () = tokio::time::sleep(Duration::from_millis(50)), if exited.is_some() => break,
            }
        }
        let code = exited.map(code).unwrap_or_default();
        let _ = socket.send(Message::Binary(vec![3, code].into())).await;
        // The vendor keeps the socket open for a while, and callers must not wait for that.
        let _ = tokio::time::timeout(Duration::from_secs(5), async { while let Some(Ok(_)) = socket.next().await {} }).await;
    }

    async fn input(&mut self, message: &[u8]) {
        match message.split_first() {
            Some((0, bytes)) => {
                if let Some(stdin) = &mut self.stdin {
                    let _ = stdin.write_all(bytes).await;
                }
            }
            Some((4, _)) => self.stdin = None,
            Some(_) | None => {}
        }
    }

    fn signal(&self, text: &str) {
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        if let (Some("signal"), Some(signal), Some(pid)) = (message["type"].as_str(), message["signal"].as_str(), self.child.id())
        {
            let signal = signal.trim_start_matches("SIG");
            let _ = std::process::Command::new("kill").args(["-s", signal, "--", &format!("-{pid}")]).status();
        }
    }

    /// The caller is gone. What is still printed is read and forgotten.
    async fn abandoned(mut self) {
        self.stdin = None;
        let mut output = self.output;
        tokio::spawn(async move { while output.recv().await.is_some() {} });
        let Some(limit) = self.after_disconnect else {
            let _ = self.child.wait().await;
            return;
        };
        if tokio::time::timeout(limit, self.child.wait()).await.is_err()
            && let Some(pid) = self.child.id()
        {
            let _ = std::process::Command::new("kill").args(["-KILL", "--", &format!("-{pid}")]).status();
            let _ = self.child.wait().await;
        }
    }
}

/// `0` is for ever.
fn limit(text: &str) -> Result<Option<Duration>, No> {
    if text == "0" {
        return Ok(None);
    }
    let seconds = text.strip_suffix('s').and_then(|seconds| seconds.parse().ok());
    seconds.map(|seconds| Some(Duration::from_secs(seconds))).ok_or_else(|| No::Violation(format!("{text:?} is no duration")))
}

fn code(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    u8::try_from(code).unwrap_or(u8::MAX)
}

async fn read(mut from: impl AsyncRead + Unpin, stream: u8, to: mpsc::Sender<Vec<u8>>) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let mut message = vec![stream];
        message.extend_from_slice(&buffer[..read]);
        if to.send(message).await.is_err() {
            return;
        }
    }
}
