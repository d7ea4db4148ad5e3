//! The streams of threads in the durable-stream protocol, behind the rule of membership.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body as RawBody;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use events::{Entry, StreamName, ThreadId, ThreadStatus};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde_json::json;

use super::answer::{Created, Nothing, Ok200};
use super::docs::{Input, Operation, Output, Routes};
use super::entries::{self, Appended, NewEntries};
use super::error::ApiError;
use super::extract::{Body, Caller, Key, Path, Speaker, app_of, bearer, plane_of};
use super::runs::{self, Finish, Issued, RunPath};
use super::threads::ThreadPath;
use crate::app::App;
use crate::errors::Error as StreamError;
use crate::streams;

/// A reader whose right cannot be told any more does not wait on.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn routes(routes: Routes) -> Routes {
    const MEMBERS: &str = "/api/threads/{thread_id}/stream";
    const SCOPED: &str = "/api/stream/arbe-thread-{thread_id}";
    routes
        .add(&Method::GET, MEMBERS, "read_thread_stream", "Catch up with a thread, or tail it", member)
        .add(&Method::HEAD, MEMBERS, "head_thread_stream", "Where a thread's stream ends", member_head)
        .add(&Method::GET, SCOPED, "read_stream", "The same, also with a token for the thread", scoped)
        .add(&Method::HEAD, SCOPED, "head_stream", "The same, also with a token for the thread", scoped_head)
        .add(&Method::POST, SCOPED, "append_stream", "Say something, also with a token for the thread", append)
        .add(
            &Method::POST,
            "/api/stream/arbe-thread-{thread_id}/runs/{run_id}/finish",
            "finish_stream_run",
            "Say how a run ended, also with a token for the thread",
            finish,
        )
        .add(
            &Method::POST,
            "/api/stream/arbe-thread-{thread_id}/token",
            "renew_thread_token",
            "A fresh token for the thread, for as long as its run goes on",
            renew,
        )
}

/// The request as the protocol reads it.
struct Wire(Request);

impl<S: Send + Sync> FromRequest<S> for Wire {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        Ok(Self(request))
    }
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used; the protocol reads the query itself")]
struct Read {
    /// Where to begin: an offset that was given out, `-1` for the beginning, or `now`.
    offset: Option<String>,
    /// Waits for what comes, by one answer or by many.
    live: Option<Live>,
    /// What the last answer said.
    cursor: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Live {
    LongPoll,
    Sse,
}

impl Input for Wire {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.parameters::<Read>("query", schemas);
    }
}

/// The same for HEAD, which has no query.
struct Head(Wire);

impl<S: Send + Sync> FromRequest<S> for Head {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        Ok(Self(Wire(request)))
    }
}

impl Input for Head {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

struct Flow(Response<RawBody>);

impl IntoResponse for Flow {
    fn into_response(self) -> Response<RawBody> {
        self.0
    }
}

impl Output for Result<Flow, ApiError> {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        let text = json!({ "schema": { "type": "string" } });
        let headers = json!({
            "stream-next-offset": text,
            "stream-up-to-date": text,
            "stream-cursor": text,
            "stream-closed": text,
        });
        let entries = json!({ "type": "array", "items": schemas.subschema_for::<Entry>() });
        let events = json!({
            "type": "object",
            "description": "One event: entries as a JSON array, or a JSON object that says where they end.",
            "required": ["event", "data"],
            "additionalProperties": false,
            "properties": { "event": { "type": "string", "enum": ["data", "control"] }, "data": { "type": "string" } }
        });
        let content = json!({ "application/json": { "schema": entries }, "text/event-stream": { "schema": events } });
        operation.response(StatusCode::OK, json!({ "description": "Entries", "headers": headers, "content": content }));
        operation.response(StatusCode::NO_CONTENT, json!({ "description": "Nothing came while waiting", "headers": headers }));
        operation.response(StatusCode::NOT_MODIFIED, json!({ "description": "It is what the client has." }));
        operation.errors(&[400, 401, 403, 404, 500, 503], schemas);
    }
}

/// One who reads a thread, with the credential it came with: that may expire or be revoked, its agent may lose its membership.
#[derive(Debug)]
struct Reader {
    app: Arc<App>,
    headers: HeaderMap,
    thread: ThreadId,
    scoped: bool,
}

impl Reader {
    async fn check(&self) -> Result<(), ApiError> {
        let caller = if self.scoped {
            Speaker::known(self.app.clone(), &self.headers).await?.of(&self.thread)?
        } else {
            Caller::known(self.app.clone(), &self.headers).await?
        };
        caller.thread(&self.thread, |_| ()).map(|_| ())
    }
}

#[async_trait]
impl streams::Permit for Reader {
    /// What took the right away may stand in the log right before what was read, so that must be folded first.
    async fn holds(&self) -> bool {
        let Some(plane) = self.app.plane() else { return false };
        tokio::time::timeout(PATIENCE, plane.commands.caught_up()).await.is_ok() && self.check().await.is_ok()
    }
}

async fn member(caller: Caller, Path(path): Path<ThreadPath>, wire: Wire) -> Result<Flow, ApiError> {
    flow(&caller, path.thread_id, false, wire).await
}

async fn scoped(speaker: Speaker, Path(path): Path<ThreadPath>, wire: Wire) -> Result<Flow, ApiError> {
    let caller = speaker.of(&path.thread_id)?;
    flow(&caller, path.thread_id, true, wire).await
}

async fn member_head(caller: Caller, path: Path<ThreadPath>, Head(wire): Head) -> Result<Flow, ApiError> {
    member(caller, path, wire).await
}

async fn scoped_head(speaker: Speaker, path: Path<ThreadPath>, Head(wire): Head) -> Result<Flow, ApiError> {
    scoped(speaker, path, wire).await
}

async fn flow(caller: &Caller, thread: ThreadId, scoped: bool, Wire(request): Wire) -> Result<Flow, ApiError> {
    caller.thread(&thread, |_| ())?;
    let name = StreamName::Thread(thread.clone()).to_string().into();
    let credential = request.headers().get(header::AUTHORIZATION).cloned();
    let headers = credential.into_iter().map(|credential| (header::AUTHORIZATION, credential)).collect();
    let reader = Arc::new(Reader { app: caller.app.clone(), headers, thread, scoped });
    let mut response = match streams::tail(caller.app.clone(), name, request, reader.clone()).await {
        Err(error @ StreamError::NoLonger) => return Err(reader.check().await.err().unwrap_or_else(|| error.into())),
        answer => answer?,
    };
    let headers = response.headers_mut();
    // No cache on the way may give one member's answer to somebody else.
    let kept =
        headers.get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok()).map(|text| text.replace("public", "private"));
    if let Some(kept) = kept.and_then(|text| HeaderValue::from_str(&text).ok()) {
        headers.insert(header::CACHE_CONTROL, kept);
    }
    headers.insert(header::VARY, HeaderValue::from_static("authorization"));
    Ok(Flow(response))
}

async fn append(speaker: Speaker, Path(path): Path<ThreadPath>, key: Key, Body(body): Body<NewEntries>) -> Created<Appended> {
    let caller = speaker.of(&path.thread_id)?;
    entries::say(&caller, &path.thread_id, &key, body).await
}

/// Whoever runs the work ends it here, through the one door that its machine can reach.
async fn finish(speaker: Speaker, Path(path): Path<RunPath>, key: Key, Body(body): Body<Finish>) -> Ok200<Nothing> {
    let caller = speaker.of(&path.thread_id)?;
    runs::end(&caller, path, &key, body).await
}

/// A speaker, whose token may have expired a while ago.
struct Late {
    app: Arc<App>,
    headers: HeaderMap,
}

impl<S: Send + Sync> FromRequestParts<S> for Late {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(Self { app: app_of(parts)?, headers: parts.headers.clone() })
    }
}

impl Input for Late {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

impl Late {
    async fn of(self, thread: &ThreadId) -> Result<Caller, ApiError> {
        let Self { app, headers } = self;
        match plane_of(&app)?.auth.lately_expired(bearer(&headers)?, app.log.now_ms()) {
            Some((agent, only)) if only == *thread => Ok(Caller { app, agent }),
            Some(_) => Err(ApiError::wrong_thread()),
            None => Speaker::known(app, &headers).await?.of(thread),
        }
    }
}

/// A run may outlive its token, and what renews it. Only the driver's is renewed, and only while it drives: one that leaked dies with the
/// run.
async fn renew(late: Late, Path(path): Path<ThreadPath>, headers: HeaderMap) -> Result<Issued, ApiError> {
    let caller = late.of(&path.thread_id).await?;
    let drives = |thread: &commands::Thread| thread.agent_id == Some(caller.agent) && thread.status == ThreadStatus::Running;
    let (_, drives) = caller.thread(&path.thread_id, drives)?;
    if !drives {
        return Err(ApiError::forbidden("a token is renewed for the driver of a running thread"));
    }
    runs::issue(&caller, path.thread_id, &headers)
}
