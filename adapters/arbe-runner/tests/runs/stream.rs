//! A stand-in for the server: the scoped door of one thread, as a runner sees it, which can fail on demand.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Whose token it is.
const BOT: &str = "00000000-0000-0000-0000-000000000002";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    #[default]
    Well,
    /// Nothing is answered but with 503.
    Down,
    /// Only what belongs to a transcript is answered with 503.
    NoTranscript,
    /// Only the end of a run is answered with 503.
    NoFinish,
}

#[derive(Debug, Default)]
struct State {
    entries: Vec<Value>,
    receipts: HashMap<String, (String, u16)>,
    finishes: Vec<Value>,
    mood: Mood,
    /// How often a token has expired.
    expired: usize,
}

#[derive(Clone, Debug)]
pub struct Stream {
    pub url: String,
    pub thread: String,
    state: Arc<Mutex<State>>,
    grown: watch::Sender<usize>,
}

impl Stream {
    pub async fn start(thread: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/api/stream/arbe-thread-{thread}", listener.local_addr().unwrap());
        let stream = Self { url, thread: thread.to_owned(), state: Arc::default(), grown: watch::Sender::new(0) };
        let served = stream.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let stream = served.clone();
                let serve = service_fn(move |request| {
                    let stream = stream.clone();
                    async move { Ok::<_, hyper::Error>(stream.answer(request).await) }
                });
                tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), serve));
            }
        });
        stream
    }

    /// Its own, so that none of another test is taken for it.
    pub fn token(&self) -> String {
        format!("token-of-{}", self.thread)
    }

    /// Every token that was given out; the door still renews them.
    pub fn expire(&self) {
        self.state.lock().unwrap().expired += 1;
    }

    fn good(&self) -> String {
        match self.state.lock().unwrap().expired {
            0 => self.token(),
            times => format!("{}-{times}", self.token()),
        }
    }

    pub fn feels(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    /// As the server itself.
    pub fn say(&self, kind: &str, payload: Value) {
        self.put(json!({ "type": kind, "v": 1, "payload": payload }));
    }

    fn put(&self, mut entry: Value) {
        let mut state = self.state.lock().unwrap();
        let n = state.entries.len();
        entry["id"] = format!("01J9ZK3T6V8X0Q2R4S6T8V{n:04}").into();
        entry["ts"] = (1_730_000_000_000_u64 + n as u64).into();
        state.entries.push(entry);
        self.grown.send_replace(n + 1);
    }

    pub fn entries(&self) -> Vec<Value> {
        self.state.lock().unwrap().entries.clone()
    }

    pub fn finishes(&self) -> Vec<Value> {
        self.state.lock().unwrap().finishes.clone()
    }

    pub fn kinds(&self, prefix: &str) -> Vec<String> {
        let kinds = self.entries().iter().map(|entry| entry["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        kinds.into_iter().filter(|kind| kind.starts_with(prefix)).collect()
    }

    /// The session that was mirrored, line by line.
    pub fn transcript(&self) -> Vec<Value> {
        let pi = |entry: &&Value| entry["type"].as_str().is_some_and(|kind| kind.starts_with("pi.") && kind != "pi.chunk");
        self.entries().iter().filter(pi).map(|entry| entry["payload"].clone()).collect()
    }

    pub async fn until(&self, what: &str, mut check: impl FnMut(&[Value]) -> bool) {
        for _ in 0..600 {
            if check(&self.entries()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("not within 30 s: {what}: {:?}", self.kinds(""));
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        if self.state.lock().unwrap().mood == Mood::Down {
            return reply(503, &json!({ "error": { "code": "unavailable", "message": "down" } }));
        }
        let below = parts.uri.path().rsplit_once(&self.thread).map(|(_, below)| below.to_owned()).unwrap_or_default();
        let (given, good) = (header("authorization"), format!("Bearer {}", self.good()));
        let renewed = below == "/token" && given.starts_with(&format!("Bearer {}", self.token()));
        if given != good && !renewed {
            return reply(401, &json!({ "error": { "code": "unauthorized", "message": "who are you" } }));
        }
        match (parts.method, below.as_str()) {
            (Method::GET, "") => self.read(parts.uri.query().unwrap_or_default()).await,
            (Method::POST, "/token") => reply(201, &json!({ "token": self.good() })),
            (Method::POST, "") => self.append(&header("idempotency-key"), &body),
            (Method::POST, finish) if finish.ends_with("/finish") => self.finish(&header("idempotency-key"), &body),
            (_, _) => reply(404, &json!({ "error": { "code": "not_found", "message": "" } })),
        }
    }

    fn append(&self, key: &str, body: &Bytes) -> Response<Full<Bytes>> {
        let posted: Value = serde_json::from_slice(body).unwrap();
        let posted = if let Value::Array(posted) = posted { posted } else { vec![posted] };
        if self.state.lock().unwrap().mood == Mood::NoTranscript && posted[0]["type"].as_str().unwrap().starts_with("pi.") {
            return reply(503, &json!({ "error": { "code": "unavailable", "message": "down" } }));
        }
        if let Some(known) = self.known(key, body) {
            return known;
        }
        let signed = |it: &Value| json!({ "type": it["type"], "v": 1, "author_agent_id": BOT, "payload": it["payload"] });
        posted.iter().for_each(|entry| self.put(signed(entry)));
        reply(201, &json!({ "entries": [], "position": 1 }))
    }

    fn finish(&self, key: &str, body: &Bytes) -> Response<Full<Bytes>> {
        assert!(key.ends_with(":terminal"), "{key}");
        if self.state.lock().unwrap().mood == Mood::NoFinish {
            return reply(503, &json!({ "error": { "code": "unavailable", "message": "down" } }));
        }
        if let Some(known) = self.known(key, body) {
            return known;
        }
        self.state.lock().unwrap().finishes.push(serde_json::from_slice(body).unwrap());
        reply(200, &json!({ "position": 1 }))
    }

    fn known(&self, key: &str, body: &Bytes) -> Option<Response<Full<Bytes>>> {
        if key.is_empty() {
            return None;
        }
        let text = String::from_utf8_lossy(body).into_owned();
        let mut state = self.state.lock().unwrap();
        let (first, status) = state.receipts.entry(key.to_owned()).or_insert_with(|| (text.clone(), 0));
        let answer = match (*first == text, *status) {
            (true, 0) => None,
            (true, _) => Some(reply(200, &json!({ "position": 1 }))),
            (false, _) => Some(reply(409, &json!({ "error": { "code": "idempotency_key_reused", "message": key } }))),
        };
        *status = 200;
        answer
    }

    async fn read(&self, query: &str) -> Response<Full<Bytes>> {
        let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let from: usize = value("offset").and_then(|offset| offset.strip_prefix("at_")).map_or(0, |at| at.parse().unwrap());
        if value("live").is_some() {
            let mut grown = self.grown.subscribe();
            drop(tokio::time::timeout(Duration::from_secs(2), grown.wait_for(|len| *len > from)).await);
        }
        let entries = self.entries();
        let status = if entries.len() <= from && value("live").is_some() { 204 } else { 200 };
        let mut response = reply(status, &json!(entries[from.min(entries.len())..]));
        let headers = response.headers_mut();
        headers.insert("stream-next-offset", format!("at_{}", entries.len()).parse().unwrap());
        headers.insert("stream-up-to-date", "true".parse().unwrap());
        headers.insert("stream-cursor", "7".parse().unwrap());
        response
    }
}

fn reply(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let body = if status == 204 { Bytes::new() } else { body.to_string().into() };
    Response::builder().status(status).header("content-type", "application/json").body(Full::new(body)).unwrap()
}
