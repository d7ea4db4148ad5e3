//! `arbe entry …` and `arbe say`.

use std::path::Path;

use reqwest::Method;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::narration::{Names, looked_into, narrate};
use super::{PAGE, Platform, agent_id, input};
use crate::args::{EntryVerb, NewEntry, Say};
use crate::client::Page;
use crate::output::{Usage, print, print_raw};
use crate::row::cell;

#[derive(Serialize)]
struct Post {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    v: Option<u32>,
    payload: Box<RawValue>,
}

#[derive(Serialize)]
struct Chat {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<String>,
}

pub(super) async fn run(platform: &Platform, verb: EntryVerb) -> anyhow::Result<()> {
    match verb {
        EntryVerb::List { thread, after, limit } => list(platform, &thread, after, limit.limit.unwrap_or(usize::MAX)).await,
        EntryVerb::Append(new) => append(platform, new).await,
    }
}

pub(super) async fn say(platform: &Platform, say: Say) -> anyhow::Result<()> {
    let text = if say.text == "-" { input::read(Path::new("-"))?.trim_end_matches(['\n', '\r']).to_owned() } else { say.text };
    if text.is_empty() {
        return Err(Usage("there is nothing to say".into()).into());
    }
    let chat = Chat { text, to: say.to.map(agent_id).transpose()?, reply_to: say.reply_to };
    let body = if chat.to.is_none() && chat.reply_to.is_none() {
        serde_json::to_value(chat)?
    } else {
        json!({ "type": "chat", "payload": chat })
    };
    post(platform, &say.thread, &body).await
}

async fn append(platform: &Platform, new: NewEntry) -> anyhow::Result<()> {
    if let Some(batch) = input::json(None, new.batch.as_deref())? {
        return post(platform, &new.thread, &batch).await;
    }
    let payload = input::json(new.payload, new.payload_file.as_deref())?;
    let (Some(kind), Some(payload)) = (new.kind, payload) else {
        return Err(Usage("an entry has a --type and a --payload".into()).into());
    };
    post(platform, &new.thread, &Post { kind, v: new.v, payload }).await
}

/// Prints the ids of the entries.
async fn post(platform: &Platform, thread: &str, body: &impl Serialize) -> anyhow::Result<()> {
    let body = serde_json::to_vec(body)?;
    let answer = platform.client.command(Method::POST, &["threads", thread, "entries"], Some(body)).await?;
    if platform.json {
        return print_raw(answer.read()?);
    }
    let receipt: Value = answer.read()?;
    receipt["entries"].as_array().into_iter().flatten().try_for_each(|entry| print(cell(entry, "id") + "\n"))
}

/// Printed page by page: a thread may be long.
async fn list(platform: &Platform, thread: &str, after: Option<u64>, limit: usize) -> anyhow::Result<()> {
    let mut names = Names::default();
    let (mut after, mut left) = (after, limit);
    while left > 0 {
        let mut query = vec![("limit", PAGE.min(left).to_string())];
        query.extend(after.map(|after| ("after", after.to_string())));
        let page: Page = platform.get(&["threads", thread, "entries"], query).await?.read()?;
        left -= page.items.len().min(left);
        for item in &page.items {
            let entry = looked_into(item)?;
            after = entry["seq"].as_u64().or(after);
            if platform.json {
                print_raw(item)?;
            } else {
                let author = names.of(&platform.client, &entry).await;
                print(format!("{:>6}  {}", cell(&entry, "seq"), narrate(&entry, &author)))?;
            }
        }
        if page.next.is_none() || page.items.is_empty() {
            break;
        }
    }
    Ok(())
}
