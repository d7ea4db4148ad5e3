//! Agents and their keys. They are not of one house, so they are read from the fold.

use axum::http::Method;
use commands::command::{IssueKey, RegisterAgent, RenameAgent, RevokeKey};
use events::{AgentId, AgentKind, KeyId, Runtime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::{made, present};
use super::answer::{Answer, Created, Done, Nothing, Ok200, Queried};
use super::docs::Routes;
use super::error::ApiError;
use super::extract::{Body, Caller, Key, Known, MaybeBody, Path, Query};
use super::server::AtLeast;
use super::words::Name;
use crate::auth;

pub(super) fn routes(routes: Routes) -> Routes {
    const AGENT: &str = "/api/agents/{agent_id}";
    const KEYS: &str = "/api/agents/{agent_id}/keys";
    routes
        .add(&Method::POST, "/api/agents", "register_agent", "Register a human or a bot", register)
        .add(&Method::GET, AGENT, "get_agent", "Oneself, or somebody one shares a house with", get)
        .add(&Method::PATCH, AGENT, "rename_agent", "Rename it", rename)
        .add(&Method::GET, KEYS, "list_keys", "Its API keys, without the keys themselves", keys)
        .add(&Method::POST, KEYS, "issue_key", "A new API key, shown this once", issue)
        .add(&Method::DELETE, "/api/agents/{agent_id}/keys/{key_id}", "revoke_key", "Make a key worthless", revoke)
}

#[derive(Debug, Deserialize, JsonSchema)]
struct AgentPath {
    agent_id: AgentId,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct KeyPath {
    agent_id: AgentId,
    key_id: KeyId,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Agent {
    agent_id: AgentId,
    kind: AgentKind,
    runtime: Option<Runtime>,
    name: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewAgent {
    kind: AgentKind,
    /// What runs it: a bot has one, a human has none.
    #[serde(default)]
    runtime: Option<Runtime>,
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    name: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AgentMade {
    agent_id: AgentId,
}

async fn register(caller: Caller, key: Key, Body(body): Body<NewAgent>) -> Created<AgentMade> {
    let NewAgent { kind, runtime, name } = body;
    let done = caller.execute(&key, RegisterAgent { agent_id: None, kind, runtime, name }).await?;
    Ok(Done { position: done.position, body: AgentMade { agent_id: made(done.made.agent_id)? } })
}

async fn get(caller: Caller, Path(path): Path<AgentPath>, Query(query): Query<AtLeast>, known: Known) -> Queried<Agent> {
    caller.folded(query.min_position).await?;
    let position = caller.plane()?.commands.position();
    let agent_id = path.agent_id;
    let body =
        caller.agent(agent_id, |_, it| Agent { agent_id, kind: it.kind, runtime: it.runtime.clone(), name: it.name.clone() })?;
    Ok(Answer { position, body, known: known.0 })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AgentPatch {
    /// Null takes it away.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<Name>")]
    name: Option<Option<String>>,
}

async fn rename(caller: Caller, Path(path): Path<AgentPath>, key: Key, Body(patch): Body<AgentPatch>) -> Ok200<Nothing> {
    let agent_id = path.agent_id;
    caller.agent(agent_id, |_, _| ())?;
    let rename = patch.name.map(|name| RenameAgent { agent_id, name }.into());
    let done = caller.execute_all(&key, rename.into_iter().collect()).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}

#[derive(Debug, Serialize, JsonSchema)]
struct KeyItem {
    key_id: KeyId,
    label: Option<String>,
    revoked: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Keys {
    items: Vec<KeyItem>,
}

async fn keys(caller: Caller, Path(path): Path<AgentPath>, Query(query): Query<AtLeast>, known: Known) -> Queried<Keys> {
    caller.folded(query.min_position).await?;
    let position = caller.plane()?.commands.position();
    let items = caller.agent(path.agent_id, |world, agent| {
        let item = |(key_id, key): (&KeyId, &commands::Key)| KeyItem {
            key_id: key_id.clone(),
            label: key.label.clone(),
            revoked: key.revoked,
        };
        let mine = world.manages_keys(caller.agent, path.agent_id);
        mine.then(|| agent.keys.iter().map(item).collect::<Vec<_>>())
    })?;
    let items = items.ok_or_else(|| ApiError::from(commands::Rejection::Forbidden))?;
    Ok(Answer { position, body: Keys { items }, known: known.0 })
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewKey {
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    label: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct KeyMade {
    key_id: KeyId,
    /// It is kept nowhere; only its hash is.
    key: String,
}

async fn issue(caller: Caller, Path(path): Path<AgentPath>, key: Key, MaybeBody(body): MaybeBody<NewKey>) -> Created<KeyMade> {
    let agent_id = path.agent_id;
    caller.agent(agent_id, |_, _| ())?;
    let (asker, subject) = (caller.agent.to_string(), agent_id.to_string());
    let request = key.0.as_deref().map(|key| [asker.as_str(), subject.as_str(), key]);
    let secret = caller.plane()?.auth.new_key(request.as_ref().map(<[&str; 3]>::as_slice));
    let hash = auth::hash_of(&secret).ok_or_else(|| ApiError::internal("no hash"))?;
    let done = caller.execute(&key, IssueKey { agent_id, key_id: None, hash, label: body.label }).await?;
    Ok(Done { position: done.position, body: KeyMade { key_id: made(done.made.key_id)?, key: secret } })
}

async fn revoke(caller: Caller, Path(path): Path<KeyPath>, key: Key) -> Ok200<Nothing> {
    let KeyPath { agent_id, key_id } = path;
    caller.agent(agent_id, |_, _| ())?;
    let done = caller.execute(&key, RevokeKey { agent_id, key_id }).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}
