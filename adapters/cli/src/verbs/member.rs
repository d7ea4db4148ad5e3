//! `arbe member …`

use reqwest::Method;
use serde_json::json;

use super::{Platform, agent_id};
use crate::args::MemberVerb;
use crate::row::Column;

const COLUMNS: &[Column] =
    &[("AGENT", "agent_id"), ("NAME", "name"), ("KIND", "kind"), ("ROLE", "role"), ("JOINED", "@joined_at")];

pub(super) async fn run(platform: &Platform, verb: MemberVerb) -> anyhow::Result<()> {
    let house = platform.house().await?;
    let members = ["houses", house.as_str(), "members"];
    match verb {
        MemberVerb::List(limit) => platform.list(&members, vec![], limit.limit, COLUMNS).await,
        MemberVerb::Add { agent, role } => {
            let body = json!({ "agent_id": agent_id(agent)?, "role": role });
            let answer = platform.change(Method::POST, &members, body).await?;
            platform.done(&answer, "added")
        }
        MemberVerb::Role { agent, role } => {
            let agent = platform.agent(agent).await?;
            let path = ["houses", house.as_str(), "members", agent.as_str()];
            let answer = platform.change(Method::PATCH, &path, json!({ "role": role })).await?;
            platform.done(&answer, "role set")
        }
        MemberVerb::Remove { agent } => {
            let agent = platform.agent(agent).await?;
            let path = ["houses", house.as_str(), "members", agent.as_str()];
            let answer = platform.change(Method::DELETE, &path, ()).await?;
            platform.done(&answer, "removed")
        }
    }
}
