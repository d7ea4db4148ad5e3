//! Work on a thread: runs, delegation, and the token a runner gets.

use axum::body::Body as RawBody;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use commands::command::{CancelRun, Delegate, Failure, FinishRun, Outcome, ResumeRun, StartRun};
use commands::{CommandError, Rejection};
use events::{AgentId, EnvironmentId, RunId, SandboxId, StatusReason, StreamName, ThreadId};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::access::made;
use super::answer::{Created, Done, Nothing, Ok200};
use super::docs::{Input, Operation, Output, Routes};
use super::error::ApiError;
use super::extract::{Body, Caller, Key, MaybeBody, Path};
use super::strict::Strict;
use super::threads::{ThreadMade, ThreadPath};
use super::words::{Name, Tag};
use crate::streams::headers::instant;

pub(super) fn routes(routes: Routes) -> Routes {
    const FINISH: &str = "/api/threads/{thread_id}/runs/{run_id}/finish";
    routes
        .add(&Method::POST, "/api/threads/{thread_id}/runs", "start_run", "Start a run, the first or a later one", start)
        .add(&Method::POST, FINISH, "finish_run", "Say how a run ended", finish)
        .add(
            &Method::POST,
            "/api/threads/{thread_id}/delegate",
            "delegate",
            "Give work to a bot in a thread of its own",
            delegate,
        )
        .add(&Method::POST, "/api/threads/{thread_id}/cancel", "cancel_run", "Ask the current run to stop", cancel)
        .add(&Method::POST, "/api/threads/{thread_id}/token", "create_thread_token", "A token for this thread's stream", token)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewRun {
    #[serde(default)]
    run_id: Option<RunId>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RunMade {
    run_id: RunId,
}

/// Whether it is the first run is not the caller's to know, so both are tried; one of them is refused without a trace.
async fn start(caller: Caller, Path(path): Path<ThreadPath>, key: Key, MaybeBody(body): MaybeBody<NewRun>) -> Created<RunMade> {
    let (thread_id, run_id) = (path.thread_id, body.run_id);
    let first = caller.execute(&key, StartRun { thread_id: thread_id.clone(), run_id: run_id.clone() }).await;
    let done = match first {
        Err(CommandError::Rejected(Rejection::WrongStatus { .. }) | CommandError::IdempotencyKeyReused) => {
            caller.execute(&key, ResumeRun { thread_id, run_id }).await?
        }
        Ok(_)
        | Err(
            CommandError::Rejected(_)
            | CommandError::Conflict
            | CommandError::Unavailable(_)
            | CommandError::Unknown(_)
            | CommandError::Stopped(_),
        ) => first?,
    };
    Ok(Done { position: done.position, body: RunMade { run_id: made(done.made.run_id)? } })
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunPath {
    pub(super) thread_id: ThreadId,
    run_id: RunId,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Finish {
    status: Outcome,
    #[serde(default)]
    reason: Option<StatusReason>,
    /// Only of a run that failed.
    #[serde(default)]
    failure: Option<Strict<Failure>>,
}

async fn finish(caller: Caller, Path(path): Path<RunPath>, key: Key, Body(body): Body<Finish>) -> Ok200<Nothing> {
    end(&caller, path, &key, body).await
}

/// For both doors.
pub(super) async fn end(caller: &Caller, path: RunPath, key: &Key, body: Finish) -> Ok200<Nothing> {
    let RunPath { thread_id, run_id } = path;
    let Finish { status, reason, failure } = body;
    let finish =
        FinishRun { thread_id, run_id: Some(run_id), outcome: status, reason, failure: failure.map(|Strict(failure)| failure) };
    let done = caller.execute(key, finish).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}

/// It is asked, no more: the run has ended when its status says so.
async fn cancel(caller: Caller, Path(path): Path<ThreadPath>, key: Key, MaybeBody(body): MaybeBody<NewRun>) -> Ok200<Nothing> {
    let done = caller.execute(&key, CancelRun { thread_id: path.thread_id, run_id: body.run_id }).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Task {
    /// The bot that is to drive the child.
    agent_id: AgentId,
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    name: Option<String>,
    /// Else the thread's, else the house's default.
    #[serde(default)]
    environment_id: Option<EnvironmentId>,
    /// Reuses a machine and its tree. The child is isolated without.
    #[serde(default)]
    sandbox_id: Option<SandboxId>,
    #[serde(default)]
    #[schemars(with = "Vec<Tag>")]
    tags: Vec<String>,
    /// What is to be done. It is said in the child, and the run starts with it; without it the child is left idle.
    #[serde(default)]
    prompt: Option<String>,
}

async fn delegate(caller: Caller, Path(path): Path<ThreadPath>, key: Key, Body(task): Body<Task>) -> Created<ThreadMade> {
    let delegate = Delegate {
        thread_id: path.thread_id,
        child_thread_id: None,
        agent_id: task.agent_id,
        name: task.name,
        environment_id: task.environment_id,
        sandbox_id: task.sandbox_id,
        tags: task.tags,
        prompt: task.prompt,
        run_id: None,
    };
    let done = caller.execute(&key, delegate).await?;
    Ok(Done { position: done.position, body: ThreadMade::of(done.made.thread_id)? })
}

#[derive(Serialize, JsonSchema)]
struct ThreadToken {
    /// Good at `url` and for entries of this thread, for two hours.
    token: String,
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
    url: String,
}

pub(super) struct Issued(ThreadToken);

impl IntoResponse for Issued {
    fn into_response(self) -> Response<RawBody> {
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        let mut response = Response::new(RawBody::from(body));
        *response.status_mut() = StatusCode::CREATED;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

impl Output for Result<Issued, ApiError> {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        let schema = schemas.subschema_for::<ThreadToken>();
        let made = json!({ "description": "Done", "content": { "application/json": { "schema": schema } } });
        operation.response(StatusCode::CREATED, made);
        operation.errors(&[400, 401, 403, 404, 500, 503], schemas);
    }
}

impl Input for HeaderMap {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

async fn token(caller: Caller, Path(path): Path<ThreadPath>, headers: HeaderMap) -> Result<Issued, ApiError> {
    issue(&caller, path.thread_id, &headers)
}

/// For both doors.
pub(super) fn issue(caller: &Caller, thread: ThreadId, headers: &HeaderMap) -> Result<Issued, ApiError> {
    caller.thread(&thread, |_| ())?;
    let now = caller.app.log.now_ms();
    let signed = caller.plane()?.auth.thread_token(caller.agent, &thread, now);
    let (token, expires) = signed.ok_or_else(|| ApiError::internal("the token could not be signed"))?;
    let url = format!("{}/api/stream/{}", caller.app.base_url(headers), StreamName::Thread(thread));
    Ok(Issued(ThreadToken { token, expires_at: instant(expires), url }))
}
