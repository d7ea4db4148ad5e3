//! `arbe thread …`

use clap::ValueEnum;
use reqwest::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Platform, agent_id};
use crate::args::{Finish, NewThread, Outcome, ThreadFilter, ThreadVerb};
use crate::output::{note, print, print_raw};
use crate::row::{Column, cell, one, rows};

mod command;
mod task;
mod upkeep;

const COLUMNS: &[Column] = &[
    ("THREAD", "thread_id"),
    ("NAME", "name"),
    ("STATUS", "status"),
    ("PINNED", "@pinned_at"),
    ("TAGS", "tags"),
    ("AGENT", "agent_id"),
    ("UPDATED", "@updated_at"),
];

const DETAILS: &[Column] = &[
    ("thread", "thread_id"),
    ("name", "name"),
    ("house", "house_id"),
    ("status", "status"),
    ("pinned", "@pinned_at"),
    ("tags", "tags"),
    ("driven by", "agent_id"),
    ("parent thread", "parent_thread_id"),
    ("addressed to", "parent_agent_id"),
    ("environment", "environment_id"),
    ("sandbox", "sandbox_id"),
    ("sandbox status", "sandbox.status"),
    ("stream", "stream_id"),
    ("created", "@created_at"),
    ("updated", "@updated_at"),
];

#[derive(Serialize)]
struct Create {
    house_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_thread_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pinned: bool,
}

#[derive(Serialize)]
struct End {
    status: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
}

#[derive(Serialize)]
struct Failure {
    error_class: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
}

pub(super) async fn run(platform: &Platform, verb: ThreadVerb) -> anyhow::Result<()> {
    match verb {
        ThreadVerb::List(filter) => list(platform, filter).await,
        ThreadVerb::Create(new) => create(platform, new).await,
        ThreadVerb::Show(one) => show(platform, &one.thread).await,
        ThreadVerb::Rename { thread, name, none: _ } => patch(platform, &thread, json!({ "name": name }), "renamed").await,
        ThreadVerb::Pin(one) => patch(platform, &one.thread, json!({ "pinned": true }), "pinned").await,
        ThreadVerb::Unpin(one) => patch(platform, &one.thread, json!({ "pinned": false }), "unpinned").await,
        ThreadVerb::Tag(tags) => patch(platform, &tags.thread, json!({ "add_tags": tags.tags }), "tagged").await,
        ThreadVerb::Untag(tags) => patch(platform, &tags.thread, json!({ "remove_tags": tags.tags }), "untagged").await,
        ThreadVerb::Env { thread, environment } => {
            let what = if environment.none { "the thread has no environment now" } else { "environment set" };
            patch(platform, &thread, json!({ "environment_id": environment.environment }), what).await
        }
        ThreadVerb::Close(one) => patch(platform, &one.thread, json!({ "status": "closed" }), "closed").await,
        ThreadVerb::Reopen(one) => patch(platform, &one.thread, json!({ "status": "open" }), "reopened").await,
        ThreadVerb::Run(on) => command::run(platform, on).await,
        ThreadVerb::Delegate(work) => task::delegate(platform, work).await,
        ThreadVerb::Cancel(one) => {
            let answer = platform.change(Method::POST, &["threads", &one.thread, "cancel"], json!({})).await?;
            platform.done(&answer, "asked to stop")
        }
        ThreadVerb::Resume { thread, text } => task::resume(platform, thread, text).await,
        ThreadVerb::Diagnose(one) => upkeep::diagnose(platform, &one.thread).await,
        ThreadVerb::Prune => upkeep::prune(platform).await,
        ThreadVerb::Start { thread } => start(platform, &thread).await,
        ThreadVerb::Finish(end) => finish(platform, end).await,
        ThreadVerb::Token(one) => token(platform, &one.thread).await,
    }
}

async fn list(platform: &Platform, filter: ThreadFilter) -> anyhow::Result<()> {
    let mut query = vec![("house", platform.house().await?)];
    query.extend(filter.parent.map(|parent| ("parent", parent)));
    query.extend(filter.tag.map(|tag| ("tag", tag)));
    query.extend(filter.pinned.then(|| ("pinned", "true".to_owned())));
    let status = filter.status.and_then(|status| status.to_possible_value());
    query.extend(status.map(|status| ("status", status.get_name().to_owned())));
    query.extend(filter.agent.map(agent_id).transpose()?.map(|agent| ("agent", agent)));
    platform.list(&["threads"], query, filter.limit.limit, COLUMNS).await
}

async fn create(platform: &Platform, new: NewThread) -> anyhow::Result<()> {
    let body = Create {
        parent_agent_id: new.parent_agent.map(agent_id).transpose()?,
        agent_id: new.agent.map(agent_id).transpose()?,
        house_id: platform.house().await?,
        name: new.name,
        parent_thread_id: new.parent,
        environment_id: new.env,
        tags: new.tags,
        pinned: new.pin,
    };
    let answer = platform.change(Method::POST, &["threads"], body).await?;
    platform.made(&answer, "thread_id")
}

async fn show(platform: &Platform, id: &str) -> anyhow::Result<()> {
    let answer = platform.get(&["threads", id], vec![]).await?;
    if platform.json {
        return print_raw(answer.read()?);
    }
    let row: Value = answer.read()?;
    let mut text = one(DETAILS, &row);
    if let Some(children) = row["children"].as_array().filter(|children| !children.is_empty()) {
        text = text + "\n" + &rows(COLUMNS, children);
    }
    print(text)
}

async fn patch(platform: &Platform, id: &str, body: Value, what: &str) -> anyhow::Result<()> {
    let path = ["threads", id];
    let answer = platform.change(Method::PATCH, &path, body).await?;
    platform.done(&answer, what)
}

async fn start(platform: &Platform, id: &str) -> anyhow::Result<()> {
    let answer = platform.change(Method::POST, &["threads", id, "runs"], json!({})).await?;
    platform.made(&answer, "run_id")
}

async fn finish(platform: &Platform, end: Finish) -> anyhow::Result<()> {
    let Finish { thread, run, status, message, error_class, exit_code } = end;
    let failure = message.map(|message| Failure { error_class, message, exit_code });
    let path = ["threads", thread.as_str(), "runs", run.as_str(), "finish"];
    let answer = platform.change(Method::POST, &path, End { status, failure }).await?;
    platform.done(&answer, "finished")
}

async fn token(platform: &Platform, id: &str) -> anyhow::Result<()> {
    let path = ["threads", id, "token"];
    let answer = platform.change(Method::POST, &path, json!({})).await?;
    if !platform.json {
        let row: Value = answer.read()?;
        note(format_args!("good until {} at {}", cell(&row, "@expires_at"), cell(&row, "url")));
    }
    platform.made(&answer, "token")
}
