//! A server that can be told to fail, and that remembers what it was asked.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tower::ServiceExt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Status(u16),
    /// As a proxy says it, and not the vendor.
    ForeignNotFound,
    Hang,
    DropBefore,
    /// The work is done, and nobody is told.
    DropAfter,
}

#[derive(Clone, Default)]
pub struct Watch {
    faults: Arc<Mutex<VecDeque<(String, Fault, bool)>>>,
    violations: Arc<Mutex<Vec<String>>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Watch {
    /// The next request that begins with this fails.
    pub fn fail_once(&self, request: &str, fault: Fault) {
        self.faults.lock().push_back((request.to_owned(), fault, false));
    }

    /// Every request that begins with this fails, until `heal`.
    pub fn fail(&self, request: &str, fault: Fault) {
        self.faults.lock().push_back((request.to_owned(), fault, true));
    }

    pub fn heal(&self) {
        self.faults.lock().clear();
    }

    pub fn violate(&self, what: String) {
        self.violations.lock().push(what);
    }

    /// Verb, path and query of everything that was asked.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().clone()
    }

    pub fn count(&self, request: &str) -> usize {
        self.seen.lock().iter().filter(|seen| seen.starts_with(request)).count()
    }

    pub fn violations(&self) -> usize {
        self.violations.lock().len()
    }

    #[track_caller]
    pub fn assert_clean(&self) {
        let violations = self.violations.lock();
        assert!(violations.is_empty(), "requests that are not as published: {violations:#?}");
    }

    fn fault(&self, request: &str) -> Option<Fault> {
        let mut faults = self.faults.lock();
        let at = faults.iter().position(|(prefix, _, _)| request.starts_with(prefix.as_str()))?;
        let (_, fault, stays) = faults[at];
        if !stays {
            faults.remove(at);
        }
        Some(fault)
    }
}

pub struct Server {
    pub address: String,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub async fn serve(watch: Watch, router: impl FnOnce(&str) -> Router) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = router(&address);
    let task = tokio::spawn(async move {
        // They end with the server.
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let (watch, router) = (watch.clone(), router.clone());
            connections.spawn(async move {
                let service = service_fn(move |request| answer(watch.clone(), router.clone(), request));
                // An error is how a connection is dropped.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades().await;
            });
        }
    });
    Server { address, task }
}

async fn answer(watch: Watch, router: Router, request: hyper::Request<Incoming>) -> Result<Response, io::Error> {
    let what = format!("{} {}", request.method(), request.uri());
    watch.seen.lock().push(what.clone());
    let request = request.map(Body::new);
    let dropped = || Err(io::Error::other("told to drop the connection"));
    match watch.fault(&what) {
        None => Ok(router.oneshot(request).await.unwrap()),
        Some(Fault::Status(status)) => {
            let why = serde_json::json!({ "statusCode": status, "message": "told to fail", "error": "told to fail" });
            Ok(json(StatusCode::from_u16(status).unwrap(), &why))
        }
        Some(Fault::ForeignNotFound) => {
            Ok(Response::builder().status(404).body(Body::from("<html>no such page</html>")).unwrap())
        }
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::DropBefore) => dropped(),
        Some(Fault::DropAfter) => {
            let _ = router.oneshot(request).await;
            dropped()
        }
    }
}

pub fn json(status: StatusCode, value: &Value) -> Response {
    let builder = Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
    builder.body(Body::from(value.to_string())).unwrap()
}

pub fn empty(status: StatusCode) -> Response {
    Response::builder().status(status).body(Body::empty()).unwrap()
}

pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

pub fn query(request: &Request) -> Vec<(String, String)> {
    let url = format!("http://x{}", request.uri());
    let url: reqwest::Url = url.parse().unwrap();
    url.query_pairs().into_owned().collect()
}

pub type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Becomes a socket, or says why not.
pub fn upgrade<F>(mut request: Request, then: impl FnOnce(Socket) -> F + Send + 'static) -> Result<Response, String>
where
    F: Future<Output = ()> + Send,
{
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    if !header("upgrade").eq_ignore_ascii_case("websocket") || header("sec-websocket-version") != "13" {
        return Err("no upgrade to a socket".to_owned());
    }
    let key = header("sec-websocket-key");
    let upgrading = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(upgraded) = upgrading.await {
            then(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await).await;
        }
    });
    let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    let response = response.header(header::CONNECTION, "Upgrade").header(header::UPGRADE, "websocket");
    Ok(response.header("sec-websocket-accept", derive_accept_key(key.as_bytes())).body(Body::empty()).unwrap())
}
