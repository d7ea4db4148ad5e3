//! Houses and their members.

use axum::http::Method;
use commands::command::{AddMember, CreateHouse, RemoveMember, RenameHouse, SetDefaultEnvironment, SetRole};
use events::{AgentId, EnvironmentId, HouseId, Role};
use queries::{At, House, Member, Page};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::{found, limit, made, present};
use super::answer::{Answer, Created, Done, Nothing, Ok200, Queried};
use super::docs::Routes;
use super::error::ApiError;
use super::extract::{Body, Caller, Key, Known, Path, Query};
use super::server::AtLeast;
use super::words::Name;

pub(super) fn routes(routes: Routes) -> Routes {
    const MEMBERS: &str = "/api/houses/{house_id}/members";
    const MEMBER: &str = "/api/houses/{house_id}/members/{agent_id}";
    routes
        .add(&Method::GET, "/api/houses", "list_houses", "My houses", list)
        .add(&Method::POST, "/api/houses", "create_house", "Make a house and own it", create)
        .add(&Method::GET, "/api/houses/{house_id}", "get_house", "One of my houses", get)
        .add(&Method::PATCH, "/api/houses/{house_id}", "update_house", "Rename it, or set its default environment", update)
        .add(&Method::GET, MEMBERS, "list_members", "Who is in the house", members)
        .add(&Method::POST, MEMBERS, "add_member", "Let an agent in", add_member)
        .add(&Method::PATCH, MEMBER, "set_member_role", "Make a member an owner, or an owner a member", set_role)
        .add(&Method::DELETE, MEMBER, "remove_member", "Send an agent away, or leave", remove_member)
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct HousePath {
    pub(super) house_id: HouseId,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct MemberPath {
    house_id: HouseId,
    agent_id: AgentId,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Paging {
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u16>,
    /// Waits until what is read includes this position.
    #[serde(default)]
    min_position: Option<u64>,
}

/// The ids are the order, and the last of them the cursor.
async fn list(caller: Caller, Query(paging): Query<Paging>, known: Known) -> Queried<Page<House>> {
    caller.reach(paging.min_position).await?;
    let limit = limit(paging.limit)?;
    let bad = |_| ApiError::bad_request("the cursor is not one this server gave out for this list");
    let after = paging.cursor.as_deref().map(HouseId::new).transpose().map_err(bad)?;
    let plane = caller.plane()?;
    let mut ids: Vec<HouseId> = plane.commands.with_world(|world| {
        let later = |id: &&HouseId| after.as_ref().is_none_or(|after| *id > after);
        world.houses_of(caller.agent).filter(later).take(limit.get() + 1).cloned().collect()
    });
    let more = ids.len() > limit.get();
    ids.truncate(limit.get());
    let next = if more { ids.last().map(ToString::to_string) } else { None };
    let At { position, value: items } = plane.queries.houses(&ids).await?;
    Ok(Answer { position, body: Page { items, next }, known: known.0 })
}

async fn get(caller: Caller, Path(path): Path<HousePath>, Query(query): Query<AtLeast>, known: Known) -> Queried<House> {
    caller.reach(query.min_position).await?;
    caller.house(&path.house_id, |_| ())?;
    let house = caller.plane()?.queries.house(&path.house_id).await?;
    Ok(Answer::of(found(house)?, known.0))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewHouse {
    #[schemars(with = "Name")]
    name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct HouseMade {
    house_id: HouseId,
}

async fn create(caller: Caller, key: Key, Body(body): Body<NewHouse>) -> Created<HouseMade> {
    let done = caller.execute(&key, CreateHouse { house_id: None, name: body.name, owner: None }).await?;
    Ok(Done { position: done.position, body: HouseMade { house_id: made(done.made.house_id)? } })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HousePatch {
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    name: Option<String>,
    /// Null takes it away.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<EnvironmentId>")]
    default_environment_id: Option<Option<EnvironmentId>>,
}

async fn update(caller: Caller, Path(path): Path<HousePath>, key: Key, Body(patch): Body<HousePatch>) -> Ok200<Nothing> {
    let house_id = path.house_id;
    let rename = patch.name.map(|name| RenameHouse { house_id: house_id.clone(), name }.into());
    let default = patch
        .default_environment_id
        .map(|environment_id| SetDefaultEnvironment { house_id: house_id.clone(), environment_id }.into());
    caller.house(&house_id, |_| ())?;
    let done = caller.execute_all(&key, rename.into_iter().chain(default).collect()).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}

async fn members(
    caller: Caller,
    Path(path): Path<HousePath>,
    Query(paging): Query<Paging>,
    known: Known,
) -> Queried<Page<Member>> {
    caller.reach(paging.min_position).await?;
    caller.house(&path.house_id, |_| ())?;
    let limit = limit(paging.limit)?;
    let members = caller.plane()?.queries.members(&path.house_id, paging.cursor.as_deref(), limit).await?;
    Ok(Answer::of(members, known.0))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewMember {
    agent_id: AgentId,
    role: Role,
}

#[derive(Debug, Serialize, JsonSchema)]
struct MemberMade {
    agent_id: AgentId,
}

async fn add_member(caller: Caller, Path(path): Path<HousePath>, key: Key, Body(body): Body<NewMember>) -> Created<MemberMade> {
    let NewMember { agent_id, role } = body;
    let done = caller.execute(&key, AddMember { house_id: path.house_id, agent_id, role }).await?;
    Ok(Done { position: done.position, body: MemberMade { agent_id } })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MemberPatch {
    role: Role,
}

async fn set_role(caller: Caller, Path(path): Path<MemberPath>, key: Key, Body(body): Body<MemberPatch>) -> Ok200<Nothing> {
    let MemberPath { house_id, agent_id } = path;
    let done = caller.execute(&key, SetRole { house_id, agent_id, role: body.role }).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}

async fn remove_member(caller: Caller, Path(path): Path<MemberPath>, key: Key) -> Ok200<Nothing> {
    let MemberPath { house_id, agent_id } = path;
    let done = caller.execute(&key, RemoveMember { house_id, agent_id }).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}
