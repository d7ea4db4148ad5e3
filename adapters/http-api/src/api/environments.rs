//! Environments and the names of the secrets they inject.

use std::collections::BTreeMap;

use axum::http::Method;
use commands::command::{
    BindSecret, CreateEnvironment, CreateEnvironmentWithSecrets, DeleteEnvironment, UnbindSecret, UpdateEnvironment,
};
use commands::ports::Recipe;
use commands::{Command, Rejection};
use events::{EnvironmentId, HouseId, JsonObject};
use queries::{Environment, Page};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::{found, limit, made};
use super::answer::{Answer, Created, Done, Nothing, Ok200, Queried};
use super::docs::Routes;
use super::extract::{Body, Caller, Key, Known, Path, Query};
use super::server::AtLeast;
use super::words::Name;

pub(super) fn routes(routes: Routes) -> Routes {
    const ALL: &str = "/api/environments";
    const ONE: &str = "/api/environments/{environment_id}";
    const SECRET: &str = "/api/environments/{environment_id}/secrets/{name}";
    routes
        .add(&Method::GET, ALL, "list_environments", "The environments of a house", list)
        .add(&Method::POST, ALL, "create_environment", "Make one", create)
        .add(&Method::GET, ONE, "get_environment", "One environment", get)
        .add(&Method::PUT, ONE, "update_environment", "Replace its name and its recipe", update)
        .add(&Method::DELETE, ONE, "delete_environment", "Delete it, if nothing refers to it", delete)
        .add(&Method::PUT, SECRET, "bind_secret", "Inject the secret of this name", bind)
        .add(&Method::DELETE, SECRET, "unbind_secret", "Do not inject it any more", unbind)
}

#[derive(Debug, Deserialize, JsonSchema)]
struct EnvironmentPath {
    environment_id: EnvironmentId,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct SecretPath {
    environment_id: EnvironmentId,
    #[schemars(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]{0,127}$"))]
    name: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InHouse {
    /// May be left out by who is in one house only.
    #[serde(default)]
    pub(super) house: Option<HouseId>,
    #[serde(default)]
    pub(super) cursor: Option<String>,
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    pub(super) limit: Option<u16>,
    /// Waits until what is read includes this position.
    #[serde(default)]
    pub(super) min_position: Option<u64>,
}

async fn list(caller: Caller, Query(query): Query<InHouse>, known: Known) -> Queried<Page<Environment>> {
    caller.reach(query.min_position).await?;
    let house = caller.scope(query.house)?;
    let limit = limit(query.limit)?;
    Ok(Answer::of(caller.plane()?.queries.environments(&house, query.cursor.as_deref(), limit).await?, known.0))
}

async fn get(
    caller: Caller,
    Path(path): Path<EnvironmentPath>,
    Query(query): Query<AtLeast>,
    known: Known,
) -> Queried<Environment> {
    caller.reach(query.min_position).await?;
    let house = caller.environment(&path.environment_id)?;
    let environment = caller.plane()?.queries.environment(&house, &path.environment_id).await?;
    Ok(Answer::of(found(environment)?, known.0))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewEnvironment {
    house_id: HouseId,
    #[schemars(with = "Name")]
    name: String,
    #[schemars(with = "Recipe")]
    config: JsonObject,
    /// What it injects from the start, each name once. The secrets need not exist yet.
    #[serde(default)]
    #[schemars(length(max = 256))]
    secret_bindings: Vec<NewBinding>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewBinding {
    #[schemars(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]{0,127}$"))]
    name: String,
    /// A dispatch fails while there is no secret of this name.
    #[serde(default = "yes")]
    required: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Serialize, JsonSchema)]
struct EnvironmentMade {
    environment_id: EnvironmentId,
}

async fn create(caller: Caller, key: Key, Body(body): Body<NewEnvironment>) -> Created<EnvironmentMade> {
    let done = caller.execute(&key, asked(body)?).await?;
    Ok(Done { position: done.position, body: EnvironmentMade { environment_id: made(done.made.environment_id)? } })
}

fn asked(body: NewEnvironment) -> Result<Command, Rejection> {
    let NewEnvironment { house_id, name, config, secret_bindings: given } = body;
    let environment = CreateEnvironment { house_id, environment_id: None, name, config };
    if given.is_empty() {
        return Ok(environment.into());
    }
    let mut secret_bindings = BTreeMap::new();
    for NewBinding { name, required } in given {
        if secret_bindings.insert(name, required).is_some() {
            return Err(Rejection::Invalid { field: "secret_bindings", why: "name a secret twice".to_owned() });
        }
    }
    Ok(CreateEnvironmentWithSecrets { environment, secret_bindings }.into())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WholeEnvironment {
    #[schemars(with = "Name")]
    name: String,
    #[schemars(with = "Recipe")]
    config: JsonObject,
}

async fn update(
    caller: Caller,
    Path(path): Path<EnvironmentPath>,
    key: Key,
    Body(body): Body<WholeEnvironment>,
) -> Ok200<Nothing> {
    let environment_id = path.environment_id;
    let update = UpdateEnvironment { environment_id, name: Some(body.name), config: Some(body.config) };
    let done = caller.execute(&key, update).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}

async fn delete(caller: Caller, Path(path): Path<EnvironmentPath>, key: Key) -> Ok200<Nothing> {
    let done = caller.execute(&key, DeleteEnvironment { environment_id: path.environment_id }).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Binding {
    /// A dispatch fails while there is no secret of this name.
    required: bool,
}

async fn bind(caller: Caller, Path(path): Path<SecretPath>, key: Key, Body(body): Body<Binding>) -> Ok200<Nothing> {
    let SecretPath { environment_id, name } = path;
    let done = caller.execute(&key, BindSecret { environment_id, name, required: body.required }).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}

async fn unbind(caller: Caller, Path(path): Path<SecretPath>, key: Key) -> Ok200<Nothing> {
    let SecretPath { environment_id, name } = path;
    let done = caller.execute(&key, UnbindSecret { environment_id, name }).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}
