//! The runner's own door, a socket in the machine: the mirror posts here without knowing the token, and a cancel is asked for here.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::permissions::Permissions;
use crate::processes;
use crate::thread::Thread;

/// As much as the server takes of one entry, and its envelope.
const BODY_MAX: usize = 16 << 20;
const ANSWER: Duration = Duration::from_secs(5);

/// Why a run is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Somebody said so.
    Cancel,
    /// The thread says that it is over.
    Over,
}

#[derive(Debug)]
pub struct Desk {
    pub thread: Arc<Thread>,
    /// When the stream last took something of this run.
    pub pulse: watch::Sender<Instant>,
    /// When the mirror last came here. `None`: it cannot have come yet.
    pub mirror: watch::Sender<Option<Instant>>,
    pub stop: mpsc::Sender<Stop>,
    pub permissions: Permissions,
}

/// Where the desk of a run is.
#[must_use]
pub fn socket(sessions: &Path, run: &str) -> PathBuf {
    sessions.join("run").join(format!("{run}.sock"))
}

pub fn open(desk: Arc<Desk>, socket: &Path) -> io::Result<()> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(socket)?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let desk = desk.clone();
            let own = stream.peer_cred().ok().and_then(|peer| peer.pid()).is_some_and(processes::is_ours);
            let serve = service_fn(move |request| {
                let desk = desk.clone();
                async move { Ok::<_, hyper::Error>(desk.answer(request, own).await) }
            });
            tokio::spawn(async move {
                // Who goes away in the middle asks again.
                drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), serve).await);
            });
        }
    });
    Ok(())
}

impl Desk {
    /// `own`: it was begun by this runner. Others of the machine may stop the run, and not speak for it.
    async fn answer(&self, request: Request<Incoming>, own: bool) -> Response<Full<Bytes>> {
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/entries" | "/permissions") if !own => reply(StatusCode::FORBIDDEN, Bytes::new()),
            (&Method::POST, "/entries") => {
                self.mirror.send_replace(Some(Instant::now()));
                self.forward(request).await
            }
            (&Method::POST, "/permissions") => self.ask(request).await,
            (&Method::POST, "/cancel") => {
                let _ = self.stop.send(Stop::Cancel).await;
                reply(StatusCode::ACCEPTED, Bytes::new())
            }
            (_, _) => reply(StatusCode::NOT_FOUND, Bytes::new()),
        }
    }

    /// Held until there is an answer.
    async fn ask(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let Ok(question) = Limited::new(request.into_body(), BODY_MAX).collect().await else {
            return reply(StatusCode::PAYLOAD_TOO_LARGE, Bytes::new());
        };
        let answer = self.permissions.ask(&self.thread, question.to_bytes()).await;
        match serde_json::to_vec(&answer) {
            Ok(answer) => reply(StatusCode::OK, answer.into()),
            Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, Bytes::new()),
        }
    }

    async fn forward(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let key = request.headers().get("idempotency-key").cloned();
        let Ok(body) = Limited::new(request.into_body(), BODY_MAX).collect().await else {
            return reply(StatusCode::PAYLOAD_TOO_LARGE, Bytes::new());
        };
        let body = body.to_bytes();
        match asks_for_leave(&body) {
            Ok(false) => {}
            Ok(true) => return reply(StatusCode::FORBIDDEN, Bytes::new()),
            Err(_) => return reply(StatusCode::BAD_REQUEST, Bytes::new()),
        }
        let Some(body) = self.thread.sayable(body) else { return reply(StatusCode::OK, Bytes::new()) };
        match self.thread.forward(key, body).await {
            Ok(answer) => {
                if answer.status < 300 {
                    self.pulse.send_replace(Instant::now());
                }
                reply(StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY), answer.body)
            }
            Err(_) => reply(StatusCode::BAD_GATEWAY, Bytes::new()),
        }
    }
}

/// A tool could show one thing to whoever allows it, and do another: requests are worded by the runner alone.
fn asks_for_leave(body: &[u8]) -> Result<bool, serde_json::Error> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default, rename = "type")]
        kind: Option<String>,
    }
    let one = |_| serde_json::from_slice(body).map(|only: Kind| vec![only]);
    let kinds = serde_json::from_slice::<Vec<Kind>>(body).or_else(one)?;
    Ok(kinds.iter().any(|it| it.kind.as_ref().is_some_and(|kind| kind.starts_with("signal.permission."))))
}

fn reply(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
}

/// Asks the runner of a run to cancel it.
pub async fn cancel(socket: &Path) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(b"POST /cancel HTTP/1.1\r\nhost: runner\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await?;
    let mut answer = Vec::new();
    tokio::time::timeout(ANSWER, stream.read_to_end(&mut answer)).await??;
    let heard = answer.starts_with(b"HTTP/1.1 202");
    if heard { Ok(()) } else { Err(io::Error::other("the runner did not understand")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_for_leave_comes_in_by_the_way_of_entries() {
        for (body, asks) in [
            (r#"{"type":"pi.entry","payload":{"type":"signal.permission.requested","n":1e999}}"#, false),
            (r#"[{"type":"pi.chunk","payload":{}},{"type":"signal.dispatch.heartbeat","payload":{}}]"#, false),
            (r#"{"type":"signal.permission.requested","payload":{}}"#, true),
            (r#"[{"text":"hello"},{"type":"signal.\u0070ermission.resolved","payload":{}}]"#, true),
        ] {
            assert_eq!(asks_for_leave(body.as_bytes()).ok(), Some(asks), "{body}");
        }
        for body in [r#"{"type":"pi.entry","type":"signal.permission.requested"}"#, "[", r#"{"type":7}"#] {
            assert!(asks_for_leave(body.as_bytes()).is_err(), "{body}");
        }
    }
}
