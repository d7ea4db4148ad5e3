//! `arbe agent …`

use std::collections::BTreeMap;

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Platform;
use crate::args::{AgentVerb, KeyVerb, Kind};
use crate::output::{note, print, print_json};
use crate::row::{Column, cell, rows};

const COLUMNS: &[Column] =
    &[("AGENT", "agent_id"), ("NAME", "name"), ("KIND", "kind"), ("RUNTIME", "runtime"), ("HOUSES", "houses")];

const KEYS: &[Column] = &[("KEY", "key_id"), ("LABEL", "label"), ("REVOKED", "revoked")];

#[derive(Serialize)]
struct Register {
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
}

/// Of what a member row tells, what does not belong to one house.
#[derive(Serialize, Deserialize)]
struct Agent {
    agent_id: String,
    kind: String,
    runtime: Option<String>,
    name: Option<String>,
    #[serde(skip_deserializing)]
    houses: Vec<String>,
}

pub(super) async fn run(platform: &Platform, verb: AgentVerb) -> anyhow::Result<()> {
    match verb {
        AgentVerb::Register { name, kind, runtime, id } => {
            let body = Register { kind, runtime, name, agent_id: id };
            let answer = platform.change(Method::POST, &["agents"], body).await?;
            platform.made(&answer, "agent_id")
        }
        AgentVerb::List => list(platform).await,
        AgentVerb::Show { agent } => platform.show(&["agents", &platform.agent(agent).await?], COLUMNS).await,
        AgentVerb::Rename { agent, name, none: _ } => {
            let agent = platform.agent(agent).await?;
            let path = ["agents", agent.as_str()];
            let answer = platform.change(Method::PATCH, &path, json!({ "name": name })).await?;
            platform.done(&answer, "renamed")
        }
        AgentVerb::Key { verb } => key(platform, verb).await,
    }
}

async fn key(platform: &Platform, verb: KeyVerb) -> anyhow::Result<()> {
    match verb {
        KeyVerb::Issue { agent, label } => {
            let agent = platform.agent(agent).await?;
            let body = label.map_or_else(|| json!({}), |label| json!({ "label": label }));
            let path = ["agents", agent.as_str(), "keys"];
            let answer = platform.change(Method::POST, &path, body).await?;
            if !platform.json {
                note(format_args!("key {}; it is shown this once", cell(&answer.read()?, "key_id")));
            }
            platform.made(&answer, "key")
        }
        KeyVerb::List { agent } => {
            let agent = platform.agent(agent).await?;
            platform.list_whole(&["agents", &agent, "keys"], KEYS).await
        }
        KeyVerb::Revoke { agent, key } => {
            let agent = platform.agent(agent).await?;
            let path = ["agents", agent.as_str(), "keys", key.as_str()];
            let answer = platform.change(Method::DELETE, &path, ()).await?;
            platform.done(&answer, "revoked")
        }
    }
}

/// The members of the chosen house, or of all houses of the caller, each agent once.
async fn list(platform: &Platform) -> anyhow::Result<()> {
    let houses = match &platform.house {
        Some(house) => vec![house.clone()],
        None => {
            let me: Value = platform.get(&["me"], vec![]).await?.read()?;
            me["houses"].as_array().into_iter().flatten().map(|house| cell(house, "house_id")).collect()
        }
    };
    let mut agents: BTreeMap<String, Agent> = BTreeMap::new();
    for house in houses {
        for member in platform.items(&["houses", &house, "members"], vec![], None).await? {
            let member: Agent = serde_json::from_str(member.get())?;
            agents.entry(member.agent_id.clone()).or_insert(member).houses.push(house.clone());
        }
    }
    if platform.json {
        return agents.values().try_for_each(print_json);
    }
    let agents = agents.values().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>()?;
    print(rows(COLUMNS, &agents))
}
