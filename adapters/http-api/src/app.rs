//! Routes, and what every request shares.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use bytes::{Bytes, BytesMut};
use event_log::{Command, Log, PeerReply, SubmitError};
use futures::StreamExt;
use tokio::sync::{Semaphore, watch};

use crate::api::{self, Api, Plane, Platform};
use crate::errors::Error;
use crate::health;
use crate::mcp;
use crate::metrics::{self, Metrics};
use crate::pond;
use crate::streams::{self, frames::Frames};
use crate::subscriptions::Subscriptions;

#[derive(Clone, Debug)]
pub struct Options {
    /// Guards `/v1/stream` as a bearer token.
    pub secret: Option<String>,
    /// How clients reach this server, if not as the `Host` header says.
    pub public_url: Option<String>,
    pub long_poll_timeout: Duration,
    /// Larger request bodies are refused.
    pub body_limit: usize,
    /// Bytes in one read.
    pub page_limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            secret: None,
            public_url: None,
            long_poll_timeout: Duration::from_secs(30),
            body_limit: 32 << 20,
            page_limit: 4 << 20,
        }
    }
}

#[derive(Debug)]
pub struct App {
    pub(crate) log: Log,
    pub(crate) options: Options,
    pub(crate) metrics: Metrics,
    pub(crate) frames: Frames,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) api: Api,
    /// Empty while the server starts; `None` in a server of streams only.
    pub(crate) plane: OnceLock<Option<Plane>>,
    /// Bytes of request bodies that may be in memory.
    bodies: Semaphore,
    /// Live readers are sent home when this turns true.
    pub(crate) closing: watch::Sender<bool>,
}

const BODIES_MAX: usize = 512 << 20;
/// A body must have arrived by then.
const BODY_PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const STREAMS: &str = "/v1/stream/";
const RESERVED: &str = "__ds/";
pub(crate) const PEER_SUBMIT: &str = "/internal/v1/submit";
pub(crate) const PEER_HEALTH: &str = "/internal/v1/health";
pub(crate) const PEER_SECRET: &str = "x-arbe-peer";

impl App {
    /// Without a platform this is a server of streams only, and everything under `/api` is unavailable.
    pub async fn open(
        log: Log,
        platform: Option<Platform>,
        options: Options,
    ) -> Result<Arc<Self>, crate::subscriptions::OpenError> {
        let app = Self::starting(log, options).await?;
        app.started(platform);
        Ok(app)
    }

    /// Serves streams, health and metrics until the platform is there.
    pub async fn starting(log: Log, options: Options) -> Result<Arc<Self>, crate::subscriptions::OpenError> {
        let subscriptions = Subscriptions::open(log.clone()).await?;
        Ok(Arc::new(Self {
            log,
            options,
            metrics: Metrics::default(),
            frames: Frames::default(),
            subscriptions,
            api: Api::new(),
            plane: OnceLock::new(),
            bodies: Semaphore::new(BODIES_MAX),
            closing: watch::Sender::new(false),
        }))
    }

    /// `/api` opens as soon as the commands have folded the log.
    pub fn started(self: &Arc<Self>, platform: Option<Platform>) {
        let app = self.clone();
        let plane = platform.map(|platform| Plane::new(&self.log, platform));
        if self.plane.set(plane).is_ok() && self.plane().is_some_and(|plane| !plane.is_folded()) {
            tokio::spawn(async move {
                if let Some(plane) = app.plane() {
                    plane.fold().await;
                }
            });
        }
    }

    pub(crate) fn plane(&self) -> Option<&Plane> {
        self.plane.get().and_then(Option::as_ref)
    }

    /// Stops what works in the background; the log can then be closed.
    pub async fn close(&self) {
        self.subscriptions.close().await;
    }

    pub(crate) async fn handle(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        let path = request.uri().path();
        if let Some(stream) = path.strip_prefix(STREAMS) {
            let stream = stream.to_owned();
            let browser = request.headers().contains_key(header::ORIGIN);
            let mut response = match self.clone().stream(&stream, request).await {
                Ok(response) => response,
                Err(error) => error.into_response(),
            };
            streams::headers::on_every(response.headers_mut());
            if browser {
                streams::headers::for_browsers(response.headers_mut());
            }
            self.metrics.count(response.status());
            return response;
        }
        if path.starts_with(api::PREFIX) || path == api::OPENAPI {
            return self.api(request).await;
        }
        if matches!(path, pond::SEARCH | pond::GET | pond::INGEST | pond::SCHEMA) {
            return self.pond(request).await;
        }
        if path == mcp::PATH {
            return self.mcp(request).await;
        }
        match (request.method(), path) {
            (&Method::GET, "/healthz") => health::live(),
            (&Method::GET, "/readyz") => health::ready(&self).await,
            (&Method::GET, "/metrics") => metrics::render(&self).await,
            (&Method::GET, PEER_HEALTH) => match self.is_peer(request.headers()) {
                Ok(()) => health::log(&self),
                Err(error) => error.into_response(),
            },
            (&Method::POST, PEER_SUBMIT) => self.peer(request).await.unwrap_or_else(Error::into_response),
            _ => Error::NoRoute.into_response(),
        }
    }

    async fn stream(self: Arc<Self>, raw: &str, request: Request<Body>) -> Result<Response<Body>, Error> {
        if request.method() == Method::OPTIONS {
            let mut response = status(StatusCode::NO_CONTENT);
            streams::headers::preflight(response.headers_mut());
            return Ok(response);
        }
        let Some(reserved) = raw.strip_prefix(RESERVED) else {
            self.authorize(request.headers())?;
            let name = streams::name(raw)?;
            match self.options.secret {
                None => streams::refuse_platform(&name, request.headers())?,
                Some(_) => streams::refuse_platform_writes(&name, request.method())?,
            }
            return streams::dispatch(self, name, request).await;
        };
        if !crate::subscriptions::carries_own_authority(reserved) {
            self.authorize(request.headers())?;
        }
        let reserved = reserved.to_owned();
        let base = self.base_url(request.headers());
        let (parts, body) = request.into_parts();
        let body = self.body(body).await?;
        let query = parts.uri.query().unwrap_or_default();
        let response = self.subscriptions.handle(&parts.method, &reserved, query, &parts.headers, body, &base).await;
        Ok(response.map(Body::from))
    }

    pub(crate) fn authorize(&self, headers: &HeaderMap) -> Result<(), Error> {
        let Some(secret) = &self.options.secret else { return Ok(()) };
        let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let given = given
            .split_at_checked(7)
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "))
            .map_or(&[][..], |(_, token)| token);
        if same(given, secret.as_bytes()) { Ok(()) } else { Err(Error::Unauthorized) }
    }

    /// Reads a body whole, up to the limit.
    pub(crate) async fn body(&self, body: Body) -> Result<Bytes, Error> {
        let limit = self.options.body_limit;
        // Hopeless from the start: nothing is read, nor asked for.
        if hyper::body::Body::size_hint(&body).lower() > 2 * limit as u64 {
            return Err(Error::TooLarge { limit });
        }
        tokio::time::timeout(BODY_PATIENCE, collect(body, limit, &self.bodies)).await.map_err(|_| Error::SlowBody)?
    }

    pub(crate) fn base_url(&self, headers: &HeaderMap) -> String {
        match &self.options.public_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => {
                let host = headers.get(header::HOST).and_then(|v| v.to_str().ok()).unwrap_or("localhost");
                format!("http://{host}")
            }
        }
    }

    fn is_peer(&self, headers: &HeaderMap) -> Result<(), Error> {
        let given = headers.get(PEER_SECRET).map(HeaderValue::as_bytes).unwrap_or_default();
        if same(given, self.log.cluster().peer_secret.as_bytes()) { Ok(()) } else { Err(Error::Unauthorized) }
    }

    /// A command that another server of this log passed on.
    async fn peer(&self, request: Request<Body>) -> Result<Response<Body>, Error> {
        self.is_peer(request.headers())?;
        let body = axum::body::to_bytes(request.into_body(), self.options.body_limit * 2).await.map_err(|_| Error::BrokenBody)?;
        let command = Command::from_wire(&body).ok_or(Error::BrokenBody)?;
        let reply = PeerReply::from(self.log.submit_forwarded(command).await);
        Ok(Response::new(Body::from(reply.encode())))
    }
}

/// A body that is too long is read on for a while and thrown away: a client that is still sending would not see the answer.
async fn collect(body: Body, limit: usize, room: &Semaphore) -> Result<Bytes, Error> {
    let mut frames = body.into_data_stream();
    let mut first = None;
    let mut rest = BytesMut::new();
    let mut len = 0;
    let mut permits = room.try_acquire_many(0).ok();
    while len <= limit.saturating_mul(2)
        && let Some(frame) = frames.next().await
    {
        let frame = frame.map_err(|_| Error::BrokenBody)?;
        len += frame.len();
        if len > limit {
            rest = BytesMut::new();
            continue;
        }
        let permit = room.try_acquire_many(frame.len() as u32).map_err(|_| Error::from(SubmitError::Overloaded))?;
        match &mut permits {
            Some(permits) => permits.merge(permit),
            None => permits = Some(permit),
        }
        if first.is_none() {
            first = Some(frame);
        } else {
            rest.extend_from_slice(&frame);
        }
    }
    if len > limit {
        return Err(Error::TooLarge { limit });
    }
    let first = first.unwrap_or_default();
    Ok(if rest.is_empty() { first } else { [first.as_ref(), rest.as_ref()].concat().into() })
}

/// Takes as long for a wrong secret as for the right one.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differences) == 0
}

pub(crate) fn status(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}
