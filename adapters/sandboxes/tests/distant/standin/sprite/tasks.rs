//! The socket in a sprite: tasks that keep it from pausing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixListener;

use crate::standin::server::{self, Watch};
use crate::standin::shape::{self, Field, Kind, need};

const EXPIRE: &[Field] = &[need("expire", Kind::IntOrText)];
const LONGEST: u64 = 3600;

pub struct Tasks {
    directory: TempDir,
    held: Arc<Mutex<BTreeMap<String, u32>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Tasks {
    pub fn serve(watch: Watch) -> Self {
        let directory = TempDir::new().unwrap();
        let listener = UnixListener::bind(directory.path().join("api.sock")).unwrap();
        let held: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
        let state = held.clone();
        let router = Router::new().fallback(move |request: Request| handle(watch.clone(), state.clone(), request));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { directory, held, task }
    }

    pub fn directory(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    pub fn path(&self) -> PathBuf {
        self.directory().join("api.sock")
    }

    /// How often each was taken or refreshed.
    pub fn held(&self) -> BTreeMap<String, u32> {
        self.held.lock().clone()
    }
}

async fn handle(watch: Watch, held: Arc<Mutex<BTreeMap<String, u32>>>, request: Request) -> Response {
    let what = format!("{} {}", request.method(), request.uri());
    let violation = |why: &str| {
        watch.violate(format!("{what} in the sprite: {why}"));
        server::json(StatusCode::BAD_REQUEST, &json!({ "error": why }))
    };
    let Some(name) = request.uri().path().strip_prefix("/v1/tasks/").map(str::to_owned) else { return violation("no such path") };
    match request.method().as_str() {
        "PUT" => {
            let bytes = to_bytes(request.into_body(), 1 << 20).await.unwrap();
            let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            if let Err(why) = shape::check(&body, EXPIRE) {
                return violation(&why);
            }
            if body["expire"].as_u64().is_some_and(|seconds| seconds == 0 || seconds > LONGEST) {
                return violation("an hour at most");
            }
            *held.lock().entry(name.clone()).or_default() += 1;
            server::json(StatusCode::OK, &json!({ "name": name }))
        }
        "DELETE" => match held.lock().remove(&name) {
            Some(_) => server::empty(StatusCode::NO_CONTENT),
            None => server::json(StatusCode::NOT_FOUND, &json!({ "error": "not found" })),
        },
        _ => violation("no such verb"),
    }
}
