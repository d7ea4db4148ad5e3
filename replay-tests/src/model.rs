//! A model that says what its script says, on loopback, in the three dialects that the coding agents speak: Anthropic's messages, and
//! OpenAI's responses and chat completions. It keeps every request.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

mod anthropic;
mod chat;
mod conversation;
mod responses;
mod script;

pub use self::conversation::{Conversation, Role, Turn};
use self::script::{Plan, Reply};

/// Between two pieces of what is spelled: longer than a mirror gathers them.
const PAUSE: Duration = Duration::from_millis(120);

/// Runs on threads of its own until dropped.
pub struct Model {
    address: SocketAddr,
    asked: Asked,
    runtime: Option<Runtime>,
}

#[derive(Clone, Default)]
struct Asked {
    requests: Arc<Mutex<Vec<Conversation>>>,
    keys: Arc<Mutex<BTreeSet<String>>>,
}

impl Asked {
    /// Which request this is, and how often the same was asked before.
    fn note(&self, conversation: &Conversation) -> (usize, usize) {
        let mut requests = self.requests.lock();
        let before = requests.iter().filter(|it| *it == conversation).count();
        requests.push(conversation.clone());
        (requests.len(), before)
    }
}

impl Model {
    pub fn start() -> Result<Self> {
        Self::listen("127.0.0.1:0")
    }

    pub fn listen(address: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("model").enable_all().build()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind(address))?;
        let address = listener.local_addr()?;
        let asked = Asked::default();
        let router = Router::new().fallback(answer).layer(DefaultBodyLimit::disable()).with_state(asked.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, asked, runtime: Some(runtime) })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked so far, in order.
    pub fn requests(&self) -> Vec<Conversation> {
        self.asked.requests.lock().clone()
    }

    /// The bearer tokens that it was shown.
    pub fn keys(&self) -> BTreeSet<String> {
        self.asked.keys.lock().clone()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[derive(Clone, Copy)]
enum Dialect {
    Anthropic,
    Responses,
    Chat,
}

async fn answer(State(asked): State<Asked>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    asked.keys.lock().extend(bearer.map(str::to_owned));
    let path = uri.path();
    let dialect = match path.rsplit('/').next() {
        Some("messages") => Dialect::Anthropic,
        Some("responses") => Dialect::Responses,
        Some("completions") => Dialect::Chat,
        Some("count_tokens") => return in_json(StatusCode::OK, &json!({"input_tokens": 10})),
        Some("models") => return in_json(StatusCode::OK, &json!({"object": "list", "data": []})),
        _ => return in_json(StatusCode::NOT_FOUND, &json!({"error": {"message": format!("there is no {path}")}})),
    };
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return in_json(StatusCode::BAD_REQUEST, &json!({"error": {"message": "not JSON"}}));
    };
    let conversation = match dialect {
        Dialect::Anthropic => anthropic::read(&request),
        Dialect::Responses => responses::read(&request),
        Dialect::Chat => chat::read(&request),
    };
    let (number, before) = asked.note(&conversation);
    match script::plan(&conversation, before) {
        Plan::Refuse(status) => {
            let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "the script says no"}});
            in_json(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), &error)
        }
        Plan::Reply(reply) => {
            let said = Said { number, reply: &reply, model: request.get("model").cloned().unwrap_or_default() };
            let events = match dialect {
                Dialect::Anthropic => anthropic::write(&said),
                Dialect::Responses => responses::write(&said),
                Dialect::Chat => chat::write(&said),
            };
            stream_of(events, &reply)
        }
    }
}

/// A reply with what makes it unlike any other.
struct Said<'a> {
    number: usize,
    reply: &'a Reply,
    model: Value,
}

impl Said<'_> {
    fn id(&self, prefix: &str) -> String {
        format!("{prefix}_{:04}", self.number)
    }
}

/// Server-sent events, with their names where the dialect has them. One that hangs never gets past its middle.
fn stream_of(events: Vec<Value>, reply: &Reply) -> Response {
    let shown = if reply.hangs { events.len() / 2 } else { events.len() };
    let event = |event: &Value| match (event, event.get("type").and_then(Value::as_str)) {
        (Value::String(text), _) => format!("data: {text}\n\n"),
        (_, Some(name)) => format!("event: {name}\ndata: {event}\n\n"),
        (_, None) => format!("data: {event}\n\n"),
    };
    let texts = events[..shown].iter().map(event);
    let (texts, pause): (Vec<String>, _) =
        if reply.spells { (texts.collect(), PAUSE) } else { (vec![texts.collect()], Duration::ZERO) };
    let first = stream::iter(texts).then(move |text| async move {
        tokio::time::sleep(pause).await;
        Ok::<_, Infallible>(Bytes::from(text))
    });
    let body = if reply.hangs { Body::from_stream(first.chain(stream::pending())) } else { Body::from_stream(first) };
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

fn in_json(status: StatusCode, value: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}
