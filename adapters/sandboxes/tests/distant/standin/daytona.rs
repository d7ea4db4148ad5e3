//! A stand-in for Daytona: the control plane and the toolbox on one address.

mod files;
mod sessions;
mod shapes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::sessions::Session;
use super::guest::{Guest, Image};
use super::server::{self, Server, Watch};
use super::shape::{self, Field};

pub const TOKEN: &str = "dtn_stand_in";
const MOST_ON_A_PAGE: usize = 2;
const LARGEST: usize = 64 << 20;

pub struct Sandbox {
    order: usize,
    body: Value,
    state: String,
    recoverable: Option<bool>,
    /// So many looks until a start is done.
    starting: u32,
    activity: u32,
    guest: Arc<Guest>,
    sessions: BTreeMap<String, Session>,
}

#[derive(Clone)]
pub struct State {
    pub watch: Watch,
    address: String,
    image: Image,
    sandboxes: Arc<Mutex<BTreeMap<String, Sandbox>>>,
    /// No id is given twice.
    made: Arc<AtomicUsize>,
    slow_starts: Arc<Mutex<u32>>,
}

pub struct Daytona {
    server: Server,
    pub watch: Watch,
    state: State,
}

/// What is said and whether it is the caller's fault.
pub enum No {
    Violation(String),
    Said(StatusCode, String),
}

pub fn not_found(what: &str) -> No {
    No::Said(StatusCode::NOT_FOUND, format!("{what} not found"))
}

impl Daytona {
    pub async fn start() -> Self {
        Self::with(Vec::new()).await
    }

    /// Its sandboxes have these programs.
    pub async fn with(path: Vec<PathBuf>) -> Self {
        let image = Image { path, mount: None };
        let watch = Watch::default();
        let mut state = None;
        let server = server::serve(watch.clone(), |address| {
            let made = State {
                watch: watch.clone(),
                address: address.to_owned(),
                image,
                sandboxes: Arc::default(),
                made: Arc::default(),
                slow_starts: Arc::default(),
            };
            state = Some(made.clone());
            Router::new().fallback(move |request: Request| handle(made.clone(), request))
        });
        let server = server.await;
        Self { server, watch, state: state.unwrap() }
    }

    pub fn url(&self) -> String {
        format!("{}/api", self.server.address)
    }

    pub fn set_state(&self, id: &str, state: &str, recoverable: Option<bool>) {
        let mut sandboxes = self.state.sandboxes.lock();
        let sandbox = sandboxes.get_mut(id).unwrap();
        sandbox.state = state.to_owned();
        sandbox.recoverable = recoverable;
        sandbox.starting = u32::MAX;
        if state != "started" {
            sandbox.switch_off();
        }
    }

    /// As if somebody had deleted it.
    pub fn lose(&self, id: &str) {
        self.state.sandboxes.lock().remove(id).unwrap().switch_off();
    }

    pub fn state(&self, id: &str) -> Option<String> {
        self.state.sandboxes.lock().get(id).map(|sandbox| sandbox.state.clone())
    }

    pub fn body(&self, id: &str) -> Value {
        self.state.sandboxes.lock()[id].body.clone()
    }

    pub fn activity(&self, id: &str) -> u32 {
        self.state.sandboxes.lock()[id].activity
    }

    pub fn guest(&self, id: &str) -> Arc<Guest> {
        self.state.sandboxes.lock()[id].guest.clone()
    }

    /// Starts take so many looks.
    pub fn start_slowly(&self, looks: u32) {
        *self.state.slow_starts.lock() = looks;
    }

    pub fn count(&self) -> usize {
        self.state.sandboxes.lock().len()
    }
}

impl Sandbox {
    fn switch_off(&mut self) {
        self.guest.kill_all();
        self.sessions.clear();
    }

    fn shown(&self, id: &str, address: &str) -> Value {
        let body = |name: &str, otherwise: Value| self.body.get(name).cloned().unwrap_or(otherwise);
        let mut shown = json!({
            "id": id, "organizationId": "org", "name": body("name", json!(id)), "snapshot": body("snapshot", json!("default")),
            "user": "daytona", "env": body("env", json!({})), "labels": body("labels", json!({})), "public": false,
            "networkBlockAll": false, "kvm": false, "target": "us", "cpu": 1, "gpu": 0, "memory": 1, "disk": 3,
            "state": self.state, "desiredState": "started", "autoStopInterval": body("autoStopInterval", json!(15)),
            "autoDeleteInterval": body("autoDeleteInterval", json!(-1)), "createdAt": "2026-01-01T00:00:00.000Z",
            "updatedAt": "2026-01-01T00:00:00.000Z", "toolboxProxyUrl": format!("{address}/toolbox"),
        });
        if let Some(recoverable) = self.recoverable {
            shown["recoverable"] = json!(recoverable);
            shown["errorReason"] = json!("told to");
        }
        shown
    }
}

async fn handle(state: State, request: Request) -> Response {
    let what = format!("{} {}", request.method(), request.uri());
    // The vendor's SDK looks for news here, and does without them.
    if request.uri().path().starts_with("/api/socket.io") {
        return server::empty(StatusCode::NOT_FOUND);
    }
    if server::bearer(request.headers()) != Some(TOKEN) {
        state.watch.violate(format!("{what}: without the token"));
        return server::json(StatusCode::UNAUTHORIZED, &json!({ "statusCode": 401, "message": "Unauthorized" }));
    }
    match route(&state, request).await {
        Ok(response) => response,
        Err(No::Said(status, message)) => {
            let body = json!({
                "statusCode": status.as_u16(), "message": message, "error": message, "path": what,
                "timestamp": "2026-01-01T00:00:00Z"
            });
            server::json(status, &body)
        }
        Err(No::Violation(why)) => {
            state.watch.violate(format!("{what}: {why}"));
            server::json(StatusCode::BAD_REQUEST, &json!({ "statusCode": 400, "message": why, "path": what }))
        }
    }
}

async fn route(state: &State, request: Request) -> Result<Response, No> {
    let path = request.uri().path().to_owned();
    let parts: Vec<String> = path.split('/').skip(1).map(decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["api", "sandbox", rest @ ..] => control(state, rest, request).await,
        ["toolbox", id, rest @ ..] => {
            let guest = {
                let sandboxes = state.sandboxes.lock();
                let sandbox = sandboxes.get(*id).ok_or_else(|| not_found("Sandbox"))?;
                if sandbox.state != "started" {
                    return Err(No::Said(StatusCode::BAD_REQUEST, "the sandbox is not running".to_owned()));
                }
                sandbox.guest.clone()
            };
            match rest {
                ["process", rest @ ..] => sessions::route(state, id, &guest, rest, request).await,
                ["files", rest @ ..] => files::route(&guest, rest, request).await,
                ["user-home-dir"] if request.method() == Method::GET => {
                    asked(&request, &[])?;
                    Ok(server::json(StatusCode::OK, &json!({ "dir": guest.home() })))
                }
                _ => Err(unknown(&request)),
            }
        }
        _ => Err(unknown(&request)),
    }
}

async fn control(state: &State, rest: &[&str], request: Request) -> Result<Response, No> {
    let method = request.method().clone();
    match (method.as_str(), rest) {
        ("POST", []) => create(state, request).await,
        ("GET", []) => list(state, &request),
        (verb, [named, more @ ..]) => {
            let id = identify(state, named)?;
            match (verb, more) {
                ("GET", []) => {
                    asked(&request, shapes::VERBOSE)?;
                    look(state, &id)
                }
                ("DELETE", []) => {
                    asked(&request, &[])?;
                    let mut gone = state.sandboxes.lock().remove(&id).ok_or_else(|| not_found("Sandbox"))?;
                    gone.switch_off();
                    gone.state = "destroyed".to_owned();
                    Ok(server::json(StatusCode::OK, &gone.shown(&id, &state.address)))
                }
                ("POST", [verb]) => change(state, &id, verb, &request),
                ("POST", ["autostop", minutes]) => set(state, &id, "autoStopInterval", minutes),
                ("POST", ["autodelete", minutes]) => set(state, &id, "autoDeleteInterval", minutes),
                ("PUT", ["labels"]) => {
                    let body = body(request, shapes::LABELS).await?;
                    state.sandboxes.lock().get_mut(&id).ok_or_else(|| not_found("Sandbox"))?.body["labels"] =
                        body["labels"].clone();
                    Ok(server::json(StatusCode::OK, &body))
                }
                ("GET", ["toolbox-proxy-url"]) => {
                    Ok(server::json(StatusCode::OK, &json!({ "url": format!("{}/toolbox", state.address) })))
                }
                _ => Err(unknown(&request)),
            }
        }
        _ => Err(unknown(&request)),
    }
}

fn identify(state: &State, named: &str) -> Result<String, No> {
    let sandboxes = state.sandboxes.lock();
    let found = sandboxes.iter().find(|(id, sandbox)| *id == named || sandbox.body.get("name") == Some(&json!(named)));
    found.map(|(id, _)| id.clone()).ok_or_else(|| not_found(&format!("Sandbox with ID or name {named}")))
}

async fn create(state: &State, request: Request) -> Result<Response, No> {
    asked(&request, &[])?;
    let body = body(request, shapes::CREATE).await?;
    if body.get("snapshot").is_some() && ["cpu", "memory", "disk"].iter().any(|size| body.get(size).is_some()) {
        return Err(No::Violation("Cannot specify Sandbox resources when using a snapshot".to_owned()));
    }
    let name = body.get("name").cloned();
    let mut sandboxes = state.sandboxes.lock();
    if name.is_some() && sandboxes.values().any(|sandbox| sandbox.body.get("name") == name.as_ref()) {
        return Err(No::Said(StatusCode::CONFLICT, "Sandbox with this name already exists".to_owned()));
    }
    let order = state.made.fetch_add(1, Ordering::Relaxed);
    let id = format!("5a4d-{order:04}-{}", std::process::id());
    let env = serde_json::from_value(body.get("env").cloned().unwrap_or_else(|| json!({}))).unwrap();
    let starting = *state.slow_starts.lock();
    let sandbox = Sandbox {
        order,
        body,
        state: if starting == 0 { "started" } else { "creating" }.to_owned(),
        recoverable: None,
        starting,
        activity: 0,
        guest: Arc::new(Guest::new(&state.image, env)),
        sessions: BTreeMap::new(),
    };
    let shown = sandbox.shown(&id, &state.address);
    sandboxes.insert(id, sandbox);
    Ok(server::json(StatusCode::OK, &shown))
}

fn list(state: &State, request: &Request) -> Result<Response, No> {
    let pairs = server::query(request);
    shape::check_query(&pairs, shapes::LIST, &["states", "snapshots", "regionIds", "sandboxClasses"]).map_err(No::Violation)?;
    let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let limit: usize = value("limit").map_or(100, |limit| limit.parse().unwrap());
    if !(1..=200).contains(&limit) {
        return Err(No::Violation("limit is between 1 and 200".to_owned()));
    }
    let labels: BTreeMap<String, String> = match value("labels").map(serde_json::from_str) {
        None => BTreeMap::new(),
        Some(labels) => labels.map_err(|error| No::Violation(error.to_string()))?,
    };
    let from: usize = value("cursor").map_or(0, |cursor| cursor.parse().unwrap());
    let prefix = value("name").unwrap_or_default();
    let sandboxes = state.sandboxes.lock();
    let mut found: Vec<(usize, Value)> = sandboxes.iter().map(|(id, one)| (one.order, one.shown(id, &state.address))).collect();
    found.sort_by_key(|(order, _)| *order);
    found.retain(|(_, shown)| shown["name"].as_str().unwrap().starts_with(prefix));
    found.retain(|(_, shown)| labels.iter().all(|(name, value)| shown["labels"][name] == json!(value)));
    let page = limit.min(MOST_ON_A_PAGE);
    let items: Vec<Value> = found.iter().skip(from).take(page).map(|(_, shown)| shown.clone()).collect();
    let next = (from + page < found.len()).then(|| (from + page).to_string());
    Ok(server::json(StatusCode::OK, &json!({ "items": items, "nextCursor": next })))
}

fn look(state: &State, id: &str) -> Result<Response, No> {
    let mut sandboxes = state.sandboxes.lock();
    let sandbox = sandboxes.get_mut(id).ok_or_else(|| not_found("Sandbox"))?;
    if matches!(sandbox.state.as_str(), "creating" | "starting") {
        sandbox.starting = sandbox.starting.saturating_sub(1);
        if sandbox.starting == 0 {
            sandbox.state = "started".to_owned();
        }
    }
    Ok(server::json(StatusCode::OK, &sandbox.shown(id, &state.address)))
}

fn change(state: &State, id: &str, verb: &str, request: &Request) -> Result<Response, No> {
    asked(request, if verb == "stop" { shapes::STOP } else { &[] })?;
    let mut sandboxes = state.sandboxes.lock();
    let sandbox = sandboxes.get_mut(id).ok_or_else(|| not_found("Sandbox"))?;
    match (verb, sandbox.state.as_str()) {
        ("last-activity", _) => {
            sandbox.activity += 1;
            return Ok(server::empty(StatusCode::CREATED));
        }
        ("start", "stopped" | "archived" | "paused") | ("recover", "error") => {
            sandbox.starting = *state.slow_starts.lock();
            sandbox.recoverable = None;
            sandbox.state = if sandbox.starting == 0 { "started" } else { "starting" }.to_owned();
        }
        ("stop", "started") => {
            sandbox.switch_off();
            sandbox.state = "stopped".to_owned();
        }
        ("start" | "recover" | "stop", now) => {
            return Err(No::Said(StatusCode::BAD_REQUEST, format!("Sandbox is {now}")));
        }
        _ => return Err(unknown(request)),
    }
    Ok(server::json(StatusCode::OK, &sandbox.shown(id, &state.address)))
}

fn set(state: &State, id: &str, field: &str, minutes: &str) -> Result<Response, No> {
    let minutes: i64 = minutes.parse().map_err(|_| No::Violation("minutes are a number".to_owned()))?;
    let mut sandboxes = state.sandboxes.lock();
    let sandbox = sandboxes.get_mut(id).ok_or_else(|| not_found("Sandbox"))?;
    sandbox.body[field] = json!(minutes);
    Ok(server::json(StatusCode::OK, &sandbox.shown(id, &state.address)))
}

pub fn unknown(request: &Request) -> No {
    No::Violation(format!("no {} here", request.method()))
}

pub fn asked(request: &Request, fields: &[Field]) -> Result<Vec<(String, String)>, No> {
    let pairs = server::query(request);
    shape::check_query(&pairs, fields, &[]).map_err(No::Violation)?;
    Ok(pairs)
}

pub async fn bytes(request: Request) -> Result<Bytes, No> {
    to_bytes(request.into_body(), LARGEST).await.map_err(|error| No::Violation(error.to_string()))
}

pub async fn body(request: Request, fields: &[Field]) -> Result<Value, No> {
    let kind = request.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/json") {
        return Err(No::Violation(format!("a body of {kind:?}")));
    }
    let value: Value = serde_json::from_slice(&bytes(request).await?).map_err(|error| No::Violation(error.to_string()))?;
    shape::check(&value, fields).map_err(No::Violation)?;
    Ok(value)
}

fn decoded(part: &str) -> String {
    let url: reqwest::Url = format!("http://x/?p={}", part.replace('+', "%2B")).parse().unwrap();
    let (_, value) = url.query_pairs().next().unwrap();
    value.into_owned()
}

pub const A_MOMENT: Duration = Duration::from_millis(20);
