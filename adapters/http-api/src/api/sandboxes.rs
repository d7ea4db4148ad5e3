//! The records of machines.

use axum::http::Method;
use commands::command::{DestroySandbox, MarkSandboxDead, MarkSandboxLive, RequestSandbox, ResumeSandbox};
use events::{EnvironmentId, HouseId, SandboxId, ThreadId};
use queries::{Page, Sandbox};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::{found, limit, made};
use super::answer::{Answer, Created, Done, Nothing, Ok200, Queried};
use super::docs::Routes;
use super::environments::InHouse;
use super::extract::{Body, Caller, Key, Known, MaybeBody, Path, Query};
use super::server::AtLeast;
use super::words::Name;

pub(super) fn routes(routes: Routes) -> Routes {
    const ALL: &str = "/api/sandboxes";
    const ONE: &str = "/api/sandboxes/{sandbox_id}";
    routes
        .add(&Method::GET, ALL, "list_sandboxes", "The sandboxes of a house", list)
        .add(&Method::POST, ALL, "request_sandbox", "Ask for a machine", request)
        .add(&Method::GET, ONE, "get_sandbox", "One sandbox", get)
        .add(&Method::POST, "/api/sandboxes/{sandbox_id}/live", "mark_sandbox_live", "The machine is up", live)
        .add(&Method::POST, "/api/sandboxes/{sandbox_id}/dead", "mark_sandbox_dead", "A machine of one's own is gone", dead)
        .add(
            &Method::POST,
            "/api/sandboxes/{sandbox_id}/destroyed",
            "destroy_sandbox",
            "Have the machine taken away for good, with all that runs on it",
            destroyed,
        )
        .add(
            &Method::POST,
            "/api/sandboxes/{sandbox_id}/resume",
            "resume_sandbox",
            "Move every thread of a dead machine to a new one; while it is being destroyed only to another provider, else \
             `wrong_sandbox_status`",
            resume,
        )
}

#[derive(Debug, Deserialize, JsonSchema)]
struct SandboxPath {
    sandbox_id: SandboxId,
}

async fn list(caller: Caller, Query(query): Query<InHouse>, known: Known) -> Queried<Page<Sandbox>> {
    caller.reach(query.min_position).await?;
    let house = caller.scope(query.house)?;
    let limit = limit(query.limit)?;
    Ok(Answer::of(caller.plane()?.queries.sandboxes(&house, query.cursor.as_deref(), limit).await?, known.0))
}

async fn get(caller: Caller, Path(path): Path<SandboxPath>, Query(query): Query<AtLeast>, known: Known) -> Queried<Sandbox> {
    caller.reach(query.min_position).await?;
    let house = caller.sandbox(&path.sandbox_id)?;
    let sandbox = caller.plane()?.queries.sandbox(&house, &path.sandbox_id).await?;
    Ok(Answer::of(found(sandbox)?, known.0))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewSandbox {
    house_id: HouseId,
    #[schemars(with = "Name")]
    provider: String,
    /// Else the thread's, else the house's default.
    #[serde(default)]
    environment_id: Option<EnvironmentId>,
    /// Points this thread at it, which must have none that lives.
    #[serde(default)]
    thread_id: Option<ThreadId>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SandboxMade {
    sandbox_id: SandboxId,
}

async fn request(caller: Caller, key: Key, Body(body): Body<NewSandbox>) -> Created<SandboxMade> {
    let NewSandbox { house_id, provider, environment_id, thread_id } = body;
    let done = caller.execute(&key, RequestSandbox { house_id, sandbox_id: None, thread_id, environment_id, provider }).await?;
    Ok(Done { position: done.position, body: SandboxMade { sandbox_id: made(done.made.sandbox_id)? } })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Live {
    /// What the provider calls the machine.
    #[schemars(with = "Name")]
    provider_ref: String,
}

async fn live(caller: Caller, Path(path): Path<SandboxPath>, key: Key, Body(body): Body<Live>) -> Ok200<Nothing> {
    let SandboxPath { sandbox_id } = path;
    caller.told_sandbox(&sandbox_id)?;
    let done = caller.execute(&key, MarkSandboxLive { sandbox_id, provider_ref: body.provider_ref }).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Dead {
    #[serde(default)]
    reason: Option<String>,
}

async fn dead(caller: Caller, Path(path): Path<SandboxPath>, key: Key, MaybeBody(body): MaybeBody<Dead>) -> Ok200<Nothing> {
    let SandboxPath { sandbox_id } = path;
    let done = caller.execute(&key, MarkSandboxDead { sandbox_id, reason: body.reason }).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Empty {}

async fn destroyed(caller: Caller, Path(path): Path<SandboxPath>, key: Key, _: MaybeBody<Empty>) -> Ok200<Nothing> {
    let done = caller.execute(&key, DestroySandbox { sandbox_id: path.sandbox_id }).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Resume {
    /// Else the dead one's.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    provider: Option<String>,
}

async fn resume(
    caller: Caller,
    Path(path): Path<SandboxPath>,
    key: Key,
    MaybeBody(body): MaybeBody<Resume>,
) -> Created<SandboxMade> {
    let SandboxPath { sandbox_id } = path;
    let resume = ResumeSandbox { sandbox_id, new_sandbox_id: None, provider: body.provider };
    let done = caller.execute(&key, resume).await?;
    Ok(Done { position: done.position, body: SandboxMade { sandbox_id: made(done.made.sandbox_id)? } })
}
