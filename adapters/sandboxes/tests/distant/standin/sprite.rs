//! A stand-in for the sprites: their REST interface, the socket for commands, and the socket in a sprite for tasks.

mod exec;
mod files;
mod tasks;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use self::tasks::Tasks;
use super::guest::{Guest, Image};
use super::server::{self, Server, Watch};
use super::shape::{self, Field, Kind, may, need};

pub const TOKEN: &str = "org/stand-in/token";
const MOST_ON_A_PAGE: usize = 2;
const LARGEST: usize = 64 << 20;

const URL_SETTINGS: &[Field] =
    &[may("auth", Kind::OneOf(&["sprite", "public"])), may("private_access", Kind::OneOf(&["admins", "org_users"]))];
const CONFIG: &[Field] =
    &[may("ram_mb", Kind::Int), may("cpus", Kind::Int), may("region", Kind::Text), may("storage_gb", Kind::Int)];
/// As @fly/sprites 0.1.0 writes it.
const CREATE: &[Field] = &[
    need("name", Kind::Text),
    may("config", Kind::One(CONFIG)),
    may("environment", Kind::TextMap),
    may("url_settings", Kind::One(URL_SETTINGS)),
    may("labels", Kind::Texts),
    may("wait_for_capacity", Kind::Bool),
    may("runtime", Kind::OneOf(&["default", "dev"])),
];
const UPDATE: &[Field] = &[may("url_settings", Kind::One(URL_SETTINGS)), may("labels", Kind::Texts)];
const LIST: &[Field] = &[
    may("max_results", Kind::Int),
    may("continuation_token", Kind::Text),
    may("prefix", Kind::Text),
    may("bulk_load", Kind::Bool),
];
const RULE: &[Field] = &[may("domain", Kind::Text), may("action", Kind::OneOf(&["allow", "deny"])), may("include", Kind::Text)];
const POLICY: &[Field] = &[need("rules", Kind::Many(RULE))];
const CHECKPOINT: &[Field] = &[may("comment", Kind::Text)];

pub struct One {
    order: usize,
    body: Value,
    status: String,
    policy: Option<Value>,
    checkpoints: Vec<String>,
    guest: Arc<Guest>,
}

#[derive(Clone)]
pub struct State {
    pub watch: Watch,
    image: Image,
    sprites: Arc<Mutex<BTreeMap<String, One>>>,
}

pub struct Sprites {
    server: Server,
    pub watch: Watch,
    state: State,
    pub tasks: Tasks,
}

pub enum No {
    Violation(String),
    Said(StatusCode, String),
    /// Of files, with a code.
    File(StatusCode, &'static str, String),
}

impl Sprites {
    pub async fn start() -> Self {
        let watch = Watch::default();
        let tasks = Tasks::serve(watch.clone());
        Self::of(watch, tasks, Image::default()).await
    }

    /// Its sprites have these programs, and the socket where every sprite has it.
    pub async fn with(path: Vec<PathBuf>) -> Self {
        let watch = Watch::default();
        let tasks = Tasks::serve(watch.clone());
        let mount = Some((tasks.directory(), "/.sprite"));
        Self::of(watch, tasks, Image { path, mount }).await
    }

    async fn of(watch: Watch, tasks: Tasks, image: Image) -> Self {
        let state = State { watch: watch.clone(), image, sprites: Arc::default() };
        let made = state.clone();
        let server =
            server::serve(watch.clone(), move |_| Router::new().fallback(move |request: Request| handle(made.clone(), request)));
        Self { server: server.await, watch, state, tasks }
    }

    pub fn url(&self) -> String {
        self.server.address.clone()
    }

    /// A cold sprite has lost its processes.
    pub fn set_status(&self, name: &str, status: &str) {
        let mut sprites = self.state.sprites.lock();
        let sprite = sprites.get_mut(name).unwrap();
        sprite.status = status.to_owned();
        if status == "cold" {
            sprite.guest.kill_all();
        }
    }

    /// As if somebody had deleted it.
    pub fn lose(&self, name: &str) {
        self.state.sprites.lock().remove(name).unwrap().guest.kill_all();
    }

    pub fn status(&self, name: &str) -> Option<String> {
        self.state.sprites.lock().get(name).map(|sprite| sprite.status.clone())
    }

    pub fn body(&self, name: &str) -> Value {
        self.state.sprites.lock()[name].body.clone()
    }

    pub fn policy(&self, name: &str) -> Option<Value> {
        self.state.sprites.lock()[name].policy.clone()
    }

    pub fn guest(&self, name: &str) -> Arc<Guest> {
        self.state.sprites.lock()[name].guest.clone()
    }

    pub fn count(&self) -> usize {
        self.state.sprites.lock().len()
    }

    pub fn task_socket(&self) -> PathBuf {
        self.tasks.path()
    }
}

impl One {
    fn shown(&self, name: &str) -> Value {
        json!({
            "id": format!("sprite-{}", self.order), "name": name, "organization": "stand-in", "status": self.status,
            "config": self.body.get("config"), "environment": self.body.get("environment"),
            "labels": self.body.get("labels"), "url": format!("https://{name}.sprites.example"),
            "url_settings": { "auth": "sprite" }, "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"
        })
    }
}

async fn handle(state: State, request: Request) -> Response {
    let what = format!("{} {}", request.method(), request.uri());
    if server::bearer(request.headers()) != Some(TOKEN) {
        state.watch.violate(format!("{what}: without the token"));
        return server::json(StatusCode::UNAUTHORIZED, &json!({ "error": "unauthorized" }));
    }
    match route(&state, request).await {
        Ok(response) => response,
        Err(No::Said(status, message)) => server::json(status, &json!({ "error": message, "message": message })),
        Err(No::File(status, code, path)) => server::json(status, &json!({ "error": code, "code": code, "path": path })),
        Err(No::Violation(why)) => {
            state.watch.violate(format!("{what}: {why}"));
            server::json(StatusCode::BAD_REQUEST, &json!({ "error": "bad_request", "message": why }))
        }
    }
}

async fn route(state: &State, request: Request) -> Result<Response, No> {
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let method = request.method().clone();
    let ["v1", "sprites", rest @ ..] = parts.as_slice() else { return Err(unknown(&request)) };
    match (method.as_str(), rest) {
        ("POST", []) => create(state, request).await,
        ("GET", []) => list(state, &request),
        (verb, [name, more @ ..]) => {
            let guest = {
                let mut sprites = state.sprites.lock();
                let sprite = sprites.get_mut(*name).ok_or_else(|| said(StatusCode::NOT_FOUND, "sprite not found"))?;
                // Whatever is done in a sprite wakes it.
                if matches!(more, ["exec" | "fs", ..]) {
                    sprite.status = "running".to_owned();
                }
                sprite.guest.clone()
            };
            match (verb, more) {
                ("GET" | "PUT" | "DELETE", []) => itself(state, name, request).await,
                (_, ["exec", rest @ ..]) => exec::route(&guest, rest, request),
                (_, ["fs", verb]) => files::route(&guest, verb, request).await,
                ("POST", ["policy", "network"]) => {
                    let policy = body(request, POLICY).await?;
                    state.sprites.lock().get_mut(*name).unwrap().policy = Some(policy);
                    Ok(server::empty(StatusCode::NO_CONTENT))
                }
                ("GET", ["policy", "network"]) => {
                    let policy = state.sprites.lock()[*name].policy.clone().unwrap_or_else(|| json!({ "rules": [] }));
                    Ok(server::json(StatusCode::OK, &policy))
                }
                ("POST", ["checkpoint"]) => {
                    body(request, CHECKPOINT).await?;
                    let mut sprites = state.sprites.lock();
                    let checkpoints = &mut sprites.get_mut(*name).unwrap().checkpoints;
                    checkpoints.push(format!("v{}", checkpoints.len() + 1));
                    Ok(ndjson(&[
                        json!({ "type": "info", "data": "Creating checkpoint", "time": "2026-01-01T00:00:00Z" }),
                        json!({ "type": "complete", "data": "Checkpoint created", "time": "2026-01-01T00:00:00Z" }),
                    ]))
                }
                ("GET", ["checkpoints"]) => {
                    let shown = |id: &String| json!({ "id": id, "create_time": "2026-01-01T00:00:00Z", "comment": "" });
                    let checkpoints: Vec<Value> = state.sprites.lock()[*name].checkpoints.iter().map(shown).collect();
                    Ok(server::json(StatusCode::OK, &json!(checkpoints)))
                }
                _ => Err(unknown(&request)),
            }
        }
        _ => Err(unknown(&request)),
    }
}

async fn itself(state: &State, name: &str, request: Request) -> Result<Response, No> {
    match request.method().as_str() {
        "DELETE" => {
            let gone = state.sprites.lock().remove(name);
            if let Some(gone) = gone {
                gone.guest.kill_all();
            }
            Ok(server::empty(StatusCode::NO_CONTENT))
        }
        "PUT" => {
            let update = body(request, UPDATE).await?;
            let mut sprites = state.sprites.lock();
            let sprite = sprites.get_mut(name).unwrap();
            for (field, value) in update.as_object().unwrap() {
                sprite.body[field] = value.clone();
            }
            Ok(server::json(StatusCode::OK, &sprite.shown(name)))
        }
        _ => Ok(server::json(StatusCode::OK, &state.sprites.lock()[name].shown(name))),
    }
}

async fn create(state: &State, request: Request) -> Result<Response, No> {
    let body = body(request, CREATE).await?;
    let name = body["name"].as_str().unwrap().to_owned();
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.bytes().all(plain) || !(1..=63).contains(&name.len()) {
        return Err(No::Violation(format!("{name:?} is no name")));
    }
    let mut sprites = state.sprites.lock();
    if sprites.contains_key(&name) {
        return Err(said(StatusCode::CONFLICT, "sprite already exists"));
    }
    let env = serde_json::from_value(body.get("environment").cloned().unwrap_or_else(|| json!({}))).unwrap();
    let order = sprites.values().map(|sprite| sprite.order + 1).max().unwrap_or_default();
    let guest = Arc::new(Guest::new(&state.image, env));
    let sprite = One { order, body, status: "cold".to_owned(), policy: None, checkpoints: Vec::new(), guest };
    let shown = sprite.shown(&name);
    sprites.insert(name, sprite);
    Ok(server::json(StatusCode::CREATED, &shown))
}

fn list(state: &State, request: &Request) -> Result<Response, No> {
    let pairs = asked(request, LIST, &[])?;
    let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let limit: usize = value("max_results").map_or(50, |limit| limit.parse().unwrap());
    if !(1..=50).contains(&limit) {
        return Err(No::Violation("max_results is between 1 and 50".to_owned()));
    }
    let prefix = value("prefix").unwrap_or_default();
    let after = value("continuation_token").unwrap_or_default();
    let sprites = state.sprites.lock();
    let found: Vec<&String> = sprites.keys().filter(|name| name.starts_with(prefix) && name.as_str() > after).collect();
    let page: Vec<&String> = found.iter().copied().take(limit.min(MOST_ON_A_PAGE)).collect();
    let has_more = page.len() < found.len();
    let shown: Vec<Value> = page.iter().map(|name| sprites[*name].shown(name)).collect();
    let mut answer = json!({ "sprites": shown, "has_more": has_more, "running": 0, "warm": 0, "cold": 0, "name": "stand-in" });
    if has_more {
        answer["next_continuation_token"] = json!(page.last());
    }
    Ok(server::json(StatusCode::OK, &answer))
}

pub fn said(status: StatusCode, what: &str) -> No {
    No::Said(status, what.to_owned())
}

pub fn unknown(request: &Request) -> No {
    No::Violation(format!("no {} here", request.method()))
}

pub fn asked(request: &Request, fields: &[Field], repeated: &[&str]) -> Result<Vec<(String, String)>, No> {
    let pairs = server::query(request);
    shape::check_query(&pairs, fields, repeated).map_err(No::Violation)?;
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
    asked(&request, &[], &[])?;
    let value: Value = serde_json::from_slice(&bytes(request).await?).map_err(|error| No::Violation(error.to_string()))?;
    shape::check(&value, fields).map_err(No::Violation)?;
    Ok(value)
}

pub fn ndjson(lines: &[Value]) -> Response {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Response::builder().header("content-type", "application/x-ndjson").body(Body::from(text)).unwrap()
}
