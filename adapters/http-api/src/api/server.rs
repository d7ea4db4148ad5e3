//! Oneself, and the server.

use axum::http::Method;
use events::{AgentId, AgentKind, HouseId, Role};
use queries::Projection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, Queried};
use super::docs::Routes;
use super::extract::{Caller, Known, Query};

pub(super) fn routes(routes: Routes) -> Routes {
    routes.add(&Method::GET, "/api/me", "get_me", "Who I am, and my houses", me).add(
        &Method::GET,
        "/api/projections",
        "list_projections",
        "How far the read models are",
        projections,
    )
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AtLeast {
    /// Waits until what is read includes this position.
    #[serde(default)]
    pub(super) min_position: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Me {
    agent_id: AgentId,
    kind: AgentKind,
    runtime: Option<String>,
    name: Option<String>,
    houses: Vec<MyHouse>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct MyHouse {
    house_id: HouseId,
    name: String,
    role: Role,
}

async fn me(caller: Caller, Query(query): Query<AtLeast>, known: Known) -> Queried<Me> {
    caller.folded(query.min_position).await?;
    let position = caller.plane()?.commands.position();
    let id = caller.agent;
    let body = caller.agent(id, |world, agent| {
        let house = |house_id: &HouseId| {
            let house = world.house(house_id)?;
            Some(MyHouse { house_id: house_id.clone(), name: house.name.clone(), role: *house.members.get(&id)? })
        };
        Me {
            agent_id: id,
            kind: agent.kind,
            runtime: agent.runtime.as_ref().map(ToString::to_string),
            name: agent.name.clone(),
            houses: world.houses_of(id).filter_map(house).collect(),
        }
    })?;
    Ok(Answer { position, body, known: known.0 })
}

#[derive(Debug, Serialize, JsonSchema)]
struct Projections {
    items: Vec<Projection>,
}

async fn projections(caller: Caller, Query(query): Query<AtLeast>, known: Known) -> Queried<Projections> {
    caller.reach(query.min_position).await?;
    let position = caller.app.log.position();
    let body = Projections { items: caller.plane()?.queries.projections(&caller.app.log).await };
    Ok(Answer { position, body, known: known.0 })
}
