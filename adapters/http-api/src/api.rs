//! The platform: commands and queries as resources under `/api`, and the doors to the streams of threads.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::any;
use commands::command::RegisterAgent;
use commands::ports::{Hands, Vault};
use commands::sessions::Sessions;
use commands::{Actor, CommandError, Commands, RealSource, Rejection};
use event_log::Log;
use events::{AgentId, AgentKind};
use queries::Queries;
use queries::entries::EntryFinder;
use queries::library::{Finder, Library};
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::app::{App, status};
use crate::auth::{self, Auth};
use crate::mcp::Door;
use crate::metrics::Template;
use crate::streams::headers;

mod access;
mod agents;
mod answer;
mod docs;
mod doors;
mod entries;
mod environments;
mod error;
mod extract;
mod houses;
mod inline;
mod runs;
mod sandboxes;
mod search;
mod secrets;
mod server;
mod strict;
#[cfg(test)]
mod tests;
mod threads;
mod upkeep;
mod words;

pub(crate) use docs::{Operation, Routes};
use error::ApiError;
pub(crate) use extract::Caller;
pub(crate) use strict::Strict;

/// What the server needs to be the platform.
#[derive(Clone, Debug)]
pub struct Platform {
    pub commands: Commands,
    pub queries: Queries,
    /// Where sessions are read; a server may keep none.
    pub library: Option<Arc<dyn Library>>,
    /// What finds entries and messages.
    pub search: Option<Search>,
    /// Where the values of secrets are; a server may keep none.
    pub secrets: Option<Secrets>,
    /// Who runs commands; a server may only record.
    pub hands: Option<Arc<dyn Hands>>,
    pub auth: auth::Options,
}

/// Finding things, and the door through which models do so.
#[derive(Clone, Debug)]
pub struct Search {
    pub entries: Arc<dyn EntryFinder>,
    pub messages: Arc<dyn Finder>,
    pub door: Option<Arc<dyn Door>>,
}

/// Values of secrets, and who else may have them.
#[derive(Clone)]
pub struct Secrets {
    pub vault: Arc<dyn Vault>,
    /// Opens `/api/secrets/resolve` as a bearer token; without one that path does not exist.
    pub resolve_token: Option<String>,
}

/// The token stays out of what is printed.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("vault", &self.vault).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(crate) struct Plane {
    pub(crate) commands: Commands,
    pub(crate) queries: Queries,
    pub(crate) sessions: Sessions,
    pub(crate) library: Option<Arc<dyn Library>>,
    pub(crate) search: Option<Search>,
    pub(crate) secrets: Option<Secrets>,
    pub(crate) hands: Option<Arc<dyn Hands>>,
    pub(crate) auth: Auth,
    folded: AtomicBool,
    /// Where the log ended when the server started.
    pub(crate) since: u64,
}

impl Plane {
    pub(crate) fn new(log: &Log, Platform { commands, queries, library, search, secrets, hands, auth }: Platform) -> Self {
        let folded = AtomicBool::new(commands.is_caught_up());
        let sessions = Sessions::new(log.clone(), Arc::new(RealSource));
        Self {
            commands,
            queries,
            sessions,
            library,
            search,
            secrets,
            hands,
            auth: Auth::new(auth),
            folded,
            since: log.position(),
        }
    }

    /// Whether the log was folded to its end once; before, too little is known to answer anybody.
    pub(crate) fn is_folded(&self) -> bool {
        self.folded.load(Ordering::Acquire)
    }

    pub(crate) async fn fold(&self) {
        if self.commands.caught_up().await.is_ok() {
            self.folded.store(true, Ordering::Release);
        }
    }

    /// The issuer has let somebody in whom we do not know: a human, as whom it signs up.
    async fn welcome(&self, agent: AgentId, name: Option<String>) -> Result<(), ApiError> {
        let name = name.filter(|name| !name.trim().is_empty() && name.len() <= 200 && !name.chars().any(char::is_control));
        let register = RegisterAgent { agent_id: Some(agent), kind: AgentKind::Human, runtime: None, name };
        match self.commands.execute(Actor::System, register, None).await {
            Ok(done) => Ok(self.commands.wait(done.position).await.map_err(CommandError::from)?),
            Err(CommandError::Rejected(Rejection::IdTaken)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

pub(crate) const PREFIX: &str = "/api/";
pub(crate) const OPENAPI: &str = "/openapi.json";

/// Built once: the routes, and the document that describes them.
#[derive(Debug)]
pub(crate) struct Api {
    router: Router,
    document: bytes::Bytes,
}

impl Api {
    pub(crate) fn new() -> Self {
        let routes = server::routes(Routes::new());
        let routes = houses::routes(routes);
        let routes = agents::routes(routes);
        let routes = environments::routes(routes);
        let routes = secrets::routes(routes);
        let routes = threads::routes(routes);
        let routes = entries::routes(routes);
        let routes = runs::routes(routes);
        let routes = inline::routes(routes);
        let routes = sandboxes::routes(routes);
        let routes = upkeep::routes(routes);
        let routes = search::routes(routes);
        let (router, document) = crate::pond::describe(doors::routes(routes)).finish();
        let router = router.route(secrets::RESOLVE, any(secrets::resolve));
        let router =
            router.fallback(|| async { ApiError::no_route() }).method_not_allowed_fallback(|| async { ApiError::method() });
        Self { router, document: document.to_string().into() }
    }
}

impl App {
    pub(crate) async fn api(self: Arc<Self>, mut request: Request<Body>) -> Response<Body> {
        let (started, method) = (Instant::now(), request.method().clone());
        let mut response = match (request.method(), request.uri().path()) {
            (&Method::OPTIONS, _) => {
                let mut response = status(StatusCode::NO_CONTENT);
                headers::preflight(response.headers_mut());
                let methods = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
                response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
                response
            }
            (&Method::GET | &Method::HEAD, OPENAPI) => {
                let mut response = Response::new(Body::from(self.api.document.clone()));
                response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response.extensions_mut().insert(Template(OPENAPI));
                response
            }
            (_, OPENAPI) => {
                let mut response = ApiError::method().into_response();
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET,HEAD"));
                response
            }
            _ => {
                let router = self.api.router.clone();
                request.extensions_mut().insert(self.clone());
                let Ok(response) = router.oneshot(request).await;
                response
            }
        };
        self.metrics.requests.count(response.extensions().get(), &method, response.status(), started.elapsed());
        headers::on_every(response.headers_mut());
        headers::for_browsers(response.headers_mut());
        let more = HeaderValue::from_static("x-arbe-position, allow, retry-after");
        response.headers_mut().append(header::ACCESS_CONTROL_EXPOSE_HEADERS, more);
        response
    }
}
