//! Work for a bot: given to it in a thread of its own, or to go on with.

use std::path::Path;

use anyhow::bail;
use events::AgentId;
use reqwest::Method;
use serde::Serialize;
use serde_json::Value;

use crate::args::{Delegate, Say};
use crate::client::From;
use crate::output::{NotFound, Usage};
use crate::row::cell;
use crate::verbs::narration::looked_into;
use crate::verbs::tail::{BREATH, Reader};
use crate::verbs::{Platform, entry, input};

#[derive(Serialize)]
struct Spawn {
    agent_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
}

pub(super) async fn delegate(platform: &Platform, work: Delegate) -> anyhow::Result<()> {
    let Delegate { thread, task, agent, name, env, sandbox, tags, follow } = work;
    let prompt = task.map(words).transpose()?;
    let agent_id = bot(platform, &thread, agent).await?;
    let body = Spawn { agent_id, name, environment_id: env, sandbox_id: sandbox, tags, prompt };
    let answer = platform.change(Method::POST, &["threads", &thread, "delegate"], body).await?;
    platform.made(&answer, "thread_id")?;
    if follow { to_its_end(platform, &cell(&answer.read()?, "thread_id")).await } else { Ok(()) }
}

fn words(given: String) -> anyhow::Result<String> {
    let text = if given == "-" { input::read(Path::new("-"))?.trim_end_matches(['\n', '\r']).to_owned() } else { given };
    if text.trim().is_empty() { Err(Usage("there is nothing to do".into()).into()) } else { Ok(text) }
}

/// By its id, or by its name among the bots of the thread's house.
async fn bot(platform: &Platform, thread: &str, named: String) -> anyhow::Result<String> {
    if named.parse::<AgentId>().is_ok() {
        return Ok(named);
    }
    let row: Value = platform.get(&["threads", thread], vec![]).await?.read()?;
    let members = platform.items(&["houses", &cell(&row, "house_id"), "members"], vec![], None).await?;
    let members = members.iter().map(|item| serde_json::from_str(item.get())).collect::<Result<Vec<Value>, _>>()?;
    chosen(&members, &named)
}

fn chosen(members: &[Value], named: &str) -> anyhow::Result<String> {
    let bots: Vec<(String, String)> = members
        .iter()
        .filter(|member| member["kind"] == "bot")
        .map(|member| (cell(member, "name"), cell(member, "agent_id")))
        .collect();
    let called = |(name, _): &&(String, String)| name.to_lowercase() == named.to_lowercase();
    match bots.iter().filter(called).collect::<Vec<_>>().as_slice() {
        [(_, id)] => Ok(id.clone()),
        [] => {
            let names: Vec<_> = bots.iter().map(|(name, id)| if name.is_empty() { id.as_str() } else { name }).collect();
            Err(NotFound(format!("no bot of the house is called {named}; there are: {}", names.join(", "))).into())
        }
        several => {
            let ids: Vec<_> = several.iter().map(|(_, id)| id.as_str()).collect();
            Err(Usage(format!("several bots are called {named}; choose one by its id: {}", ids.join(", "))).into())
        }
    }
}

pub(super) async fn resume(platform: &Platform, thread: String, text: Option<String>) -> anyhow::Result<()> {
    match text {
        Some(text) => entry::say(platform, Say { thread, text, to: None, reply_to: None }).await,
        None => super::start(platform, &thread).await,
    }
}

/// Prints a thread from its beginning until its run has ended.
async fn to_its_end(platform: &Platform, thread: &str) -> anyhow::Result<()> {
    let (client, mut reader) = (&platform.client, Reader::new(platform, thread));
    let start = From { offset: "-1".into(), cursor: None };
    let mut slice = client.retry(async || client.slice(thread, &start, false).await).await?;
    loop {
        let (from, quiet) = (slice.next.clone(), slice.entries.is_empty());
        let entries = slice.entries.iter().map(|(_, entry)| looked_into(entry)).collect::<anyhow::Result<Vec<_>>>()?;
        reader.print(slice).await?;
        match entries.iter().find_map(outcome) {
            Some("completed") => return Ok(()),
            Some(status) => bail!("the run of {thread} has {}", if status == "failed" { "failed" } else { "been cancelled" }),
            None if quiet => tokio::time::sleep(BREATH).await,
            None => {}
        }
        slice = reader.next(&from).await?;
    }
}

fn outcome(entry: &Value) -> Option<&str> {
    let status = entry["payload"]["status"].as_str().filter(|_| entry["type"] == "signal.thread.status_changed")?;
    ["completed", "failed", "cancelled"].into_iter().find(|end| *end == status)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::code;

    #[test]
    fn a_bot_is_known_by_its_name_if_one_only_has_it() {
        let bot = |id: &str, name: &str| json!({"agent_id": id, "kind": "bot", "name": name});
        let members =
            [json!({"agent_id": "a", "kind": "human", "name": "Pia"}), bot("b", "Pia"), bot("c", "Rex"), bot("d", "rex")];
        assert_eq!(chosen(&members, "pia").unwrap(), "b");
        assert_eq!(code(&chosen(&members, "Rex").unwrap_err()), 2);
        let nobody = chosen(&members, "ada").unwrap_err();
        assert_eq!((code(&nobody), nobody.to_string().ends_with("there are: Pia, Rex, rex")), (3, true), "{nobody}");
    }
}
