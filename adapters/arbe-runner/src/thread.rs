//! The thread, as its scoped door shows it: what stands on it is read, and what happens is said there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use events::dispatch::{Heartbeat, PermissionRequested, PermissionResolved, PiWaiting, SessionStarted, Warned};
use events::{Entry, Json, RunId, ThreadId};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::RwLock;

use crate::http::{Address, Asked, Client, NoAnswer, Reply};
use crate::outcome::Outcome;
use crate::pieces::Pieces;
use crate::session::Line;
use crate::{plain, redact};

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const PATIENCE: Duration = Duration::from_secs(20);
/// Longer than the server waits.
const POLL: Duration = Duration::from_secs(90);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum SayError {
    /// It may be tried again.
    #[error("the stream cannot be reached: {0}")]
    Unreachable(String),
    /// It will not be taken.
    #[error("the stream refuses it: {status} {message}")]
    Refused { status: u16, message: String },
    /// Somebody else said what this contradicts.
    #[error("it was settled otherwise: {message}")]
    Settled { message: String },
}

impl From<NoAnswer> for SayError {
    fn from(error: NoAnswer) -> Self {
        Self::Unreachable(error.to_string())
    }
}

/// Entries from somewhere on, and where they end.
#[derive(Debug)]
pub struct Page {
    pub entries: Vec<Entry>,
    pub next: String,
    pub up_to_date: bool,
    cursor: Option<String>,
}

#[derive(Debug)]
pub struct Thread {
    id: ThreadId,
    run: RunId,
    short: Client,
    /// Held by whoever waits for what comes.
    live: Client,
    token: RwLock<String>,
    /// The longest first.
    secrets: Vec<String>,
    pieces: Mutex<Pieces>,
}

impl Thread {
    #[must_use]
    pub fn new(address: &Address, id: ThreadId, run: RunId, token: String, secrets: &[String]) -> Arc<Self> {
        let (short, live) = (Client::new(address.clone()), Client::new(address.clone()));
        let pieces = Mutex::new(Pieces::new(secrets));
        Arc::new(Self { id, run, short, live, token: RwLock::new(token), secrets: secrets.to_vec(), pieces })
    }

    /// The key under which a line of the session is posted, whoever posts it. The mirror derives the same.
    #[must_use]
    pub fn key_of(&self, line: &str) -> String {
        format!("{}:{line}", self.id)
    }

    /// What of the mirror's words can be passed on now. `None`: a secret may begin there, and more is waited for.
    pub fn sayable(&self, body: Bytes) -> Option<Bytes> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner).pass(body)
    }

    /// Passes on what the mirror says, whole but for the values of secrets: a thread is read by more than may have them.
    pub async fn forward(&self, key: Option<HeaderValue>, body: Bytes) -> Result<Reply, NoAnswer> {
        let body = redact::json(&self.secrets, body);
        let headers = key.map(|key| (KEY, key)).into_iter().collect();
        self.ask(&self.short, Asked { method: Method::POST, below: String::new(), headers, body }, PATIENCE).await
    }

    pub async fn heartbeat(&self) -> Result<(), SayError> {
        // Two are as good as one, so it needs no key.
        let beat = json!({ "type": "signal.dispatch.heartbeat", "payload": Heartbeat { run_id: self.run.clone() } });
        said(self.forward(None, plain::json(&beat)).await?)
    }

    pub async fn started(&self, started: &SessionStarted) -> Result<(), SayError> {
        self.signal("signal.dispatch.session_started", started, &format!("{}:session_started", self.run)).await
    }

    pub async fn requested(&self, requested: &PermissionRequested) -> Result<(), SayError> {
        self.signal("signal.permission.requested", requested, &format!("{}:requested", requested.request_id)).await
    }

    pub async fn waiting(&self, waiting: &PiWaiting, request: &str) -> Result<(), SayError> {
        self.signal("signal.dispatch.pi_waiting", waiting, &format!("{request}:waiting")).await
    }

    pub async fn withdrawn(&self, resolved: &PermissionResolved) -> Result<(), SayError> {
        self.signal("signal.permission.resolved", resolved, &format!("{}:withdrawn", resolved.request_id)).await
    }

    /// Of each kind once.
    pub async fn warned(&self, warned: &Warned) -> Result<(), SayError> {
        self.signal("signal.dispatch.warned", warned, &format!("{}:{}", self.run, warned.warning)).await
    }

    async fn signal(&self, kind: &str, payload: &impl Serialize, key: &str) -> Result<(), SayError> {
        self.say(key, plain::json(&json!({ "type": kind, "payload": payload }))).await
    }

    pub async fn tell(&self, line: &Line) -> Result<(), SayError> {
        #[derive(Serialize)]
        struct Told<'a> {
            #[serde(rename = "type")]
            kind: &'a str,
            payload: &'a Json,
        }
        self.say(&self.key_of(&line.id), body(&Told { kind: line.kind, payload: &line.json })).await
    }

    async fn say(&self, key: &str, entry: Bytes) -> Result<(), SayError> {
        let key = HeaderValue::from_str(key).map_err(|error| SayError::Refused { status: 0, message: error.to_string() })?;
        said(self.forward(Some(key), entry).await?)
    }

    /// The fixed key makes a second word of the same end harmless.
    pub async fn finish(&self, outcome: &Outcome) -> Result<(), SayError> {
        let ended = match outcome {
            Outcome::Completed => json!({ "status": "completed" }),
            Outcome::Cancelled => json!({ "status": "cancelled" }),
            Outcome::Orphaned => json!({ "status": "failed", "reason": "exit" }),
            Outcome::Failed { class, message, exit_code } => {
                let reason = if *class == crate::outcome::class::TIMEOUT { "timeout" } else { "error" };
                let failure = json!({ "error_class": class, "message": message, "exit_code": exit_code });
                json!({ "status": "failed", "reason": reason, "failure": failure })
            }
        };
        let key = HeaderValue::from_str(&format!("{}:terminal", self.run));
        let headers = key.into_iter().map(|key| (KEY, key)).collect();
        let below = format!("/runs/{}/finish", self.run);
        let body = redact::json(&self.secrets, plain::json(&ended));
        said(self.ask(&self.short, Asked { method: Method::POST, below, headers, body }, PATIENCE).await?)
    }

    /// A token lives for two hours; a run may live longer. The door takes one that expired while nobody was there to renew it, too.
    pub async fn renew(&self) -> Result<(), SayError> {
        #[derive(Deserialize)]
        struct Renewed {
            token: String,
        }
        let asked = Asked { method: Method::POST, below: "/token".to_owned(), ..Asked::default() };
        let reply = self.send(&self.short, asked, PATIENCE).await?;
        let renewed = serde_json::from_slice::<Renewed>(&reply.body);
        said(reply)?;
        let renewed = renewed.map_err(|error| SayError::Refused { status: 0, message: error.to_string() })?;
        *self.token.write().await = renewed.token;
        Ok(())
    }

    /// What stands there from `offset` on; `live` waits for more.
    pub async fn read(&self, offset: &str, live: Option<&Page>) -> Result<Page, SayError> {
        let cursor = live.and_then(|page| page.cursor.as_deref()).map_or(String::new(), |cursor| format!("&cursor={cursor}"));
        let (client, live) = if live.is_some() { (&self.live, "&live=long-poll") } else { (&self.short, "") };
        let below = format!("?offset={offset}{live}{cursor}");
        let reply = self.ask(client, Asked { below, ..Asked::default() }, POLL).await?;
        let header = |name: &str| reply.header(name).map(str::to_owned);
        let (next, cursor) = (header("stream-next-offset"), header("stream-cursor"));
        let up_to_date = header("stream-up-to-date").is_some();
        let entries = if reply.status == 204 { Ok(Vec::new()) } else { serde_json::from_slice(&reply.body) };
        said(reply)?;
        let refused = |message: String| SayError::Refused { status: 0, message };
        let entries = entries.map_err(|error| refused(format!("what it holds is not understood: {error}")))?;
        Ok(Page { entries, next: next.ok_or_else(|| refused("it does not say where it ends".to_owned()))?, up_to_date, cursor })
    }

    /// Nothing was done for a token that expired, so it is asked again with a fresh one.
    async fn ask(&self, client: &Client, asked: Asked, patience: Duration) -> Result<Reply, NoAnswer> {
        let reply = self.send(client, asked.clone(), patience).await?;
        if reply.status != 401 {
            return Ok(reply);
        }
        match self.renew().await {
            Ok(()) => self.send(client, asked, patience).await,
            Err(error @ SayError::Unreachable(_)) => Err(NoAnswer::because(error)),
            Err(SayError::Refused { .. } | SayError::Settled { .. }) => Ok(reply),
        }
    }

    async fn send(&self, client: &Client, mut asked: Asked, patience: Duration) -> Result<Reply, NoAnswer> {
        let bearer = HeaderValue::from_str(&format!("Bearer {}", self.token.read().await));
        asked.headers.extend(bearer.into_iter().map(|mut bearer| {
            bearer.set_sensitive(true);
            (AUTHORIZATION, bearer)
        }));
        asked.headers.push((header::ACCEPT, HeaderValue::from_static("application/json")));
        if asked.method == Method::POST {
            asked.headers.push((CONTENT_TYPE, HeaderValue::from_static("application/json")));
        }
        client.ask(asked, patience).await
    }
}

fn body(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).map(Bytes::from).unwrap_or_default()
}

fn said(reply: Reply) -> Result<(), SayError> {
    let told: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let told = |key: &str| told["error"][key].as_str().unwrap_or_default().to_owned();
    let (code, message) = (told("code"), || told("message"));
    match reply.status {
        200..=299 => Ok(()),
        // Worth another try, as is whatever a server or a proxy does when it is not itself.
        408 | 425 | 429 | 500..=599 => Err(SayError::Unreachable(format!("{} {}", reply.status, message()))),
        409 if code == "conflict" => Err(SayError::Unreachable(message())),
        409 => Err(SayError::Settled { message: message() }),
        status => Err(SayError::Refused { status, message: message() }),
    }
}

/// Tries until it is said, it is refused, or the time is over.
pub async fn insist<T, F>(within: Duration, mut attempt: impl FnMut() -> F) -> Result<T, SayError>
where
    F: Future<Output = Result<T, SayError>>,
{
    let end = tokio::time::Instant::now() + within;
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt().await {
            Err(SayError::Unreachable(_)) if tokio::time::Instant::now() + pause < end => {}
            settled => return settled,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
