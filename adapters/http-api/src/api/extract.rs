//! What handlers take: who asks, and checked input. What is not expected is refused.

use std::sync::Arc;

use axum::body::Body as RawBody;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use bytes::Bytes;
use events::{AgentId, ThreadId};
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Plane;
use super::docs::{Input, Operation};
use super::error::ApiError;
use super::strict::Strict;
use crate::app::App;
use crate::auth::{Claim, Refusal};
use crate::streams::headers::{self, IDEMPOTENCY_KEY};

const KEY_MAX: usize = 128;

/// The server, put into every request before it is routed.
pub(crate) fn app_of(parts: &Parts) -> Result<Arc<App>, ApiError> {
    parts.extensions.get::<Arc<App>>().cloned().ok_or_else(|| ApiError::internal("the request came another way"))
}

pub(crate) fn plane_of(app: &App) -> Result<&Plane, ApiError> {
    match app.plane.get() {
        Some(Some(plane)) if plane.is_folded() => Ok(plane),
        Some(None) => Err(ApiError::unavailable("this server runs without the platform")),
        Some(Some(_)) | None => Err(ApiError::unavailable("the server is starting; see /readyz")),
    }
}

pub(crate) fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else { return Err(Refusal::Missing) };
    let text = value.to_str().map_err(|_| Refusal::Missing)?;
    let (scheme, token) = text.split_once(' ').ok_or(Refusal::Missing)?;
    let token = token.trim();
    if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() { Ok(token) } else { Err(Refusal::Missing) }
}

async fn claim(app: &App, headers: &HeaderMap) -> Result<Claim, ApiError> {
    let plane = plane_of(app)?;
    let claim = plane.auth.read(bearer(headers)?, app.log.now_ms()).await?;
    let known = |agent: AgentId| plane.commands.with_world(|world| world.agent(agent).is_some());
    match claim {
        Claim::Key(hash) => {
            let owner = plane.commands.with_world(|world| world.agent_by_key(&hash));
            Ok(Claim::Agent(owner.ok_or(Refusal::Invalid)?))
        }
        Claim::Issued { agent, name } => {
            if !known(agent) {
                plane.welcome(agent, name).await?;
            }
            Ok(Claim::Agent(agent))
        }
        Claim::Agent(agent) | Claim::Thread { agent, .. } if !known(agent) => Err(Refusal::Invalid.into()),
        claim @ (Claim::Agent(_) | Claim::Thread { .. }) => Ok(claim),
    }
}

/// An agent that is known. Tokens for one thread do not make one.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) app: Arc<App>,
    pub(crate) agent: AgentId,
}

impl Caller {
    pub(crate) async fn known(app: Arc<App>, headers: &HeaderMap) -> Result<Self, ApiError> {
        match claim(&app, headers).await? {
            Claim::Agent(agent) => Ok(Self { app, agent }),
            Claim::Thread { .. } => Err(ApiError::forbidden("this token is only good for the stream of its thread")),
            Claim::Key(_) | Claim::Issued { .. } => Err(Refusal::Invalid.into()),
        }
    }

    pub(crate) fn plane(&self) -> Result<&Plane, ApiError> {
        plane_of(&self.app)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::known(app_of(parts)?, &parts.headers).await
    }
}

/// An agent, or one who may only speak in one thread.
#[derive(Clone, Debug)]
pub(crate) struct Speaker {
    caller: Caller,
    only: Option<ThreadId>,
}

impl Speaker {
    pub(crate) async fn known(app: Arc<App>, headers: &HeaderMap) -> Result<Self, ApiError> {
        match claim(&app, headers).await? {
            Claim::Agent(agent) => Ok(Self { caller: Caller { app, agent }, only: None }),
            Claim::Thread { agent, thread } => Ok(Self { caller: Caller { app, agent }, only: Some(thread) }),
            Claim::Key(_) | Claim::Issued { .. } => Err(Refusal::Invalid.into()),
        }
    }

    /// The caller, if it may speak of this thread.
    pub(crate) fn of(self, thread: &ThreadId) -> Result<Caller, ApiError> {
        match self.only {
            Some(only) if only != *thread => Err(ApiError::wrong_thread()),
            Some(_) | None => Ok(self.caller),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Speaker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::known(app_of(parts)?, &parts.headers).await
    }
}

impl Input for Caller {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

impl Input for Speaker {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

/// The idempotency key of a command.
#[derive(Clone, Debug)]
pub(crate) struct Key(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Some(key) = headers::single(&parts.headers, &IDEMPOTENCY_KEY)? else { return Ok(Self(None)) };
        if key.is_empty() || key.len() > KEY_MAX {
            return Err(ApiError::bad_request("Idempotency-Key has 1 to 128 characters"));
        }
        Ok(Self(Some(key.to_owned())))
    }
}

impl Input for Key {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        let schema = json!({ "type": "string", "pattern": "^[!-~]([ -~]{0,126}[!-~])?$" });
        operation.header("idempotency-key", "A retry with the same key is answered with what the first attempt did.", &schema);
    }
}

/// What the client has of the answer already.
#[derive(Clone, Debug)]
pub(crate) struct Known(pub(crate) Option<HeaderValue>);

impl<S: Send + Sync> FromRequestParts<S> for Known {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(Self(parts.headers.get(header::IF_NONE_MATCH).cloned()))
    }
}

impl Input for Known {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.header("if-none-match", "The etag of an earlier answer.", &json!({ "type": "string" }));
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|path| Self(path.0)).map_err(|rejection| ApiError::bad_request(rejection.body_text()))
    }
}

impl<T: JsonSchema> Input for Path<T> {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.parameters::<T>("path", schemas);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        query.map(|query| Self(query.0)).map_err(|rejection| ApiError::bad_request(rejection.body_text()))
    }
}

impl<T: JsonSchema> Input for Query<T> {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.parameters::<T>("query", schemas);
    }
}

/// A JSON body.
#[derive(Clone, Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = read(&parts, body).await?;
        require_json(&parts.headers)?;
        parse(&bytes).map(Self)
    }
}

impl<T: JsonSchema> Input for Body<T> {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.body::<T>(true, schemas);
    }
}

/// A JSON body of which nothing is required, so that there may be none.
#[derive(Clone, Debug)]
pub(crate) struct MaybeBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for MaybeBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = read(&parts, body).await?;
        if bytes.is_empty() {
            return parse(b"{}").map(Self);
        }
        require_json(&parts.headers)?;
        parse(&bytes).map(Self)
    }
}

impl<T: JsonSchema> Input for MaybeBody<T> {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.body::<T>(false, schemas);
    }
}

async fn read(parts: &Parts, body: RawBody) -> Result<Bytes, ApiError> {
    Ok(app_of(parts)?.body(body).await?)
}

pub(crate) fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let given = single(headers, &header::CONTENT_TYPE).unwrap_or_default();
    let json = event_log::media_type(given).eq_ignore_ascii_case("application/json");
    if json { Ok(()) } else { Err(ApiError::media_type()) }
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes)
        .map(|Strict(body)| body)
        .map_err(|error| ApiError::bad_request(format!("the body does not fit: {error}")))
}
