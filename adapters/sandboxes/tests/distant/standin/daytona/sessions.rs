//! Commands: short ones, and those of sessions, whose output is kept and followed.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use futures::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::{A_MOMENT, No, State, asked, body, not_found, shapes, unknown};
use crate::standin::guest::Guest;
use crate::standin::server;

const LIMIT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Session {
    commands: Vec<Arc<Begun>>,
}

struct Begun {
    id: String,
    command: String,
    exit: Mutex<Option<i32>>,
    /// Stream and bytes, in the order in which they came.
    log: Mutex<Vec<(u8, Vec<u8>)>>,
}

impl Begun {
    fn shown(&self) -> Value {
        match *self.exit.lock() {
            Some(code) => json!({ "id": self.id, "command": self.command, "exitCode": code }),
            None => json!({ "id": self.id, "command": self.command }),
        }
    }

    fn printed(&self, wanted: Option<u8>) -> String {
        let log = self.log.lock();
        let chosen = log.iter().filter(|(stream, _)| wanted.is_none_or(|wanted| wanted == *stream));
        String::from_utf8_lossy(&chosen.flat_map(|(_, bytes)| bytes.clone()).collect::<Vec<u8>>()).into_owned()
    }
}

pub async fn route(state: &State, id: &str, guest: &Arc<Guest>, rest: &[&str], request: Request) -> Result<Response, No> {
    let method = request.method().clone();
    if !matches!(rest, [.., "logs"]) {
        asked(&request, &[])?;
    }
    match (method.as_str(), rest) {
        ("POST", ["execute"]) => execute(guest, &body(request, shapes::EXECUTE).await?).await,
        ("POST", ["session"]) => {
            let wanted = body(request, shapes::SESSION).await?["sessionId"].as_str().unwrap().to_owned();
            let mut sandboxes = state.sandboxes.lock();
            let sessions = &mut sandboxes.get_mut(id).ok_or_else(|| not_found("Sandbox"))?.sessions;
            if sessions.contains_key(&wanted) {
                return Err(No::Said(StatusCode::CONFLICT, "session already exists".to_owned()));
            }
            sessions.insert(wanted, Session::default());
            Ok(server::empty(StatusCode::CREATED))
        }
        ("GET", ["session", session]) => {
            let commands: Vec<Value> = commands(state, id, session)?.iter().map(|command| command.shown()).collect();
            Ok(server::json(StatusCode::OK, &json!({ "sessionId": session, "commands": commands })))
        }
        ("DELETE", ["session", session]) => {
            let mut sandboxes = state.sandboxes.lock();
            let sessions = &mut sandboxes.get_mut(id).ok_or_else(|| not_found("Sandbox"))?.sessions;
            sessions.remove(*session).ok_or_else(|| not_found("session"))?;
            Ok(server::empty(StatusCode::NO_CONTENT))
        }
        ("POST", ["session", session, "exec"]) => {
            let wanted = body(request, shapes::SESSION_EXECUTE).await?;
            begin(state, id, guest, session, &wanted).await
        }
        ("GET", ["session", session, "command", command]) => {
            Ok(server::json(StatusCode::OK, &find(state, id, session, command)?.shown()))
        }
        ("GET", ["session", session, "command", command, "logs"]) => {
            let pairs = asked(&request, shapes::LOGS)?;
            let begun = find(state, id, session, command)?;
            if pairs.iter().any(|(name, value)| name == "follow" && value == "true") {
                return server::upgrade(request, |socket| follow(socket, begun)).map_err(No::Violation);
            }
            let logs =
                json!({ "output": begun.printed(None), "stdout": begun.printed(Some(1)), "stderr": begun.printed(Some(2)) });
            Ok(server::json(StatusCode::OK, &logs))
        }
        _ => Err(unknown(&request)),
    }
}

fn commands(state: &State, id: &str, session: &str) -> Result<Vec<Arc<Begun>>, No> {
    let sandboxes = state.sandboxes.lock();
    let sandbox = sandboxes.get(id).ok_or_else(|| not_found("Sandbox"))?;
    Ok(sandbox.sessions.get(session).ok_or_else(|| not_found("session"))?.commands.clone())
}

fn find(state: &State, id: &str, session: &str, command: &str) -> Result<Arc<Begun>, No> {
    let commands = commands(state, id, session)?;
    commands.into_iter().find(|begun| begun.id == command).ok_or_else(|| not_found("command"))
}

fn shell(command: &str) -> Vec<String> {
    ["sh", "-c", command].map(str::to_owned).to_vec()
}

async fn execute(guest: &Guest, wanted: &Value) -> Result<Response, No> {
    let env: BTreeMap<String, String> =
        wanted.get("envs").map_or_else(BTreeMap::new, |env| serde_json::from_value(env.clone()).unwrap());
    let mut command = guest.command(&shell(wanted["command"].as_str().unwrap()), wanted["cwd"].as_str(), &env);
    let running = command.kill_on_drop(true).spawn().map_err(|error| No::Said(StatusCode::BAD_REQUEST, error.to_string()))?;
    let limit = wanted["timeout"].as_u64().map_or(LIMIT, Duration::from_secs);
    match tokio::time::timeout(limit, running.wait_with_output()).await {
        Err(_) => Err(No::Said(StatusCode::REQUEST_TIMEOUT, "command execution timeout".to_owned())),
        Ok(output) => {
            let output = output.unwrap();
            let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            Ok(server::json(StatusCode::OK, &json!({ "exitCode": code(output.status), "result": printed })))
        }
    }
}

fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

async fn begin(state: &State, id: &str, guest: &Arc<Guest>, session: &str, wanted: &Value) -> Result<Response, No> {
    let command = wanted["command"].as_str().unwrap().to_owned();
    let number = commands(state, id, session)?.len();
    let begun = Arc::new(Begun { id: format!("cmd-{number}"), command, exit: Mutex::default(), log: Mutex::default() });
    let mut process = guest.command(&shell(&begun.command), None, &BTreeMap::new());
    process.stdin(Stdio::null());
    let mut child = process.spawn().map_err(|error| No::Said(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let readers = [
        tokio::spawn(keep(child.stdout.take().unwrap(), 1, begun.clone())),
        tokio::spawn(keep(child.stderr.take().unwrap(), 2, begun.clone())),
    ];
    {
        let mut sandboxes = state.sandboxes.lock();
        let sandbox = sandboxes.get_mut(id).ok_or_else(|| not_found("Sandbox"))?;
        sandbox.sessions.get_mut(session).ok_or_else(|| not_found("session"))?.commands.push(begun.clone());
    }
    let ended = begun.clone();
    let waiting = tokio::spawn(async move {
        let status = child.wait().await.unwrap();
        // What goes on in the background may hold the output open.
        for reader in readers {
            let _ = tokio::time::timeout(A_MOMENT * 5, reader).await;
        }
        *ended.exit.lock() = Some(code(status));
    });
    if wanted["runAsync"] == json!(true) || wanted["async"] == json!(true) {
        return Ok(server::json(StatusCode::ACCEPTED, &json!({ "cmdId": begun.id })));
    }
    waiting.await.unwrap();
    let code = begun.exit.lock().unwrap();
    let done = json!({
        "cmdId": begun.id, "exitCode": code, "output": begun.printed(None), "stdout": begun.printed(Some(1)),
        "stderr": begun.printed(Some(2))
    });
    Ok(server::json(StatusCode::OK, &done))
}

async fn keep(mut from: impl AsyncRead + Unpin, stream: u8, begun: Arc<Begun>) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        begun.log.lock().push((stream, buffer[..read].to_vec()));
    }
}

async fn follow(mut socket: server::Socket, begun: Arc<Begun>) {
    let mut sent = 0;
    loop {
        let ended = begun.exit.lock().is_some();
        let news: Vec<(u8, Vec<u8>)> = begun.log.lock()[sent..].to_vec();
        sent += news.len();
        for (stream, bytes) in news {
            let message = [vec![stream; 3], bytes].concat();
            if socket.send(Message::Binary(message.into())).await.is_err() {
                return;
            }
        }
        if ended {
            break;
        }
        tokio::time::sleep(A_MOMENT).await;
    }
    // Any other code is an error to the vendor's SDK.
    let _ = socket.close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() })).await;
    while let Some(Ok(_)) = socket.next().await {}
}
