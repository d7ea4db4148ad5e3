//! `arbe sandbox …`

use reqwest::Method;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Platform;
use crate::args::{SandboxList, SandboxVerb};
use crate::client::Page;
use crate::output::{print, print_json};
use crate::row::{Column, rows};

const COLUMNS: &[Column] = &[
    ("SANDBOX", "sandbox_id"),
    ("STATUS", "status"),
    ("PROVIDER", "provider"),
    ("REF", "provider_ref"),
    ("THREADS", "threads"),
    ("ENVIRONMENT", "environment_id"),
    ("CREATED", "@created_at"),
    ("DESTROYED", "@destroyed_at"),
];

const RECONCILED: &[Column] = &[
    ("SANDBOX", "sandbox_id"),
    ("STATUS", "status"),
    ("VERDICT", "verdict"),
    ("PROVIDER", "provider"),
    ("REF", "provider_ref"),
    ("THREADS", "threads"),
    ("CREATED", "@created_at"),
    ("WHY", "why"),
];

#[derive(Serialize)]
struct Request {
    house_id: String,
    provider: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<String>,
}

pub(super) async fn run(platform: &Platform, verb: SandboxVerb) -> anyhow::Result<()> {
    match verb {
        SandboxVerb::List(SandboxList { limit, runtime, reconcile }) => {
            let house = platform.house().await?;
            if reconcile {
                return reconciled(platform, house, limit.limit, runtime.as_deref()).await;
            }
            platform.tell_rows(&of_runtime(platform, house, limit.limit, runtime.as_deref()).await?, COLUMNS)
        }
        SandboxVerb::Show(one) => platform.show(&["sandboxes", &one.sandbox], COLUMNS).await,
        SandboxVerb::Request(new) => {
            let house_id = platform.house().await?;
            let body = Request { house_id, provider: new.provider, environment_id: new.env, thread_id: new.thread };
            let answer = platform.change(Method::POST, &["sandboxes"], body).await?;
            platform.made(&answer, "sandbox_id")
        }
        SandboxVerb::Live { sandbox, provider_ref } => {
            report(platform, &sandbox.sandbox, "live", json!({ "provider_ref": provider_ref })).await
        }
        SandboxVerb::Dead { sandbox, reason } => {
            let body = reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
            report(platform, &sandbox.sandbox, "dead", body).await
        }
        SandboxVerb::Destroy(one) => destroy(platform, &one.sandbox).await,
        SandboxVerb::Resume { sandbox, provider } => {
            let body = provider.map_or_else(|| json!({}), |provider| json!({ "provider": provider }));
            let path = ["sandboxes", sandbox.sandbox.as_str(), "resume"];
            let answer = platform.change(Method::POST, &path, body).await?;
            platform.made(&answer, "sandbox_id")
        }
    }
}

async fn report(platform: &Platform, id: &str, what: &str, body: Value) -> anyhow::Result<()> {
    let answer = platform.change(Method::POST, &["sandboxes", id, what], body).await?;
    platform.done(&answer, what)
}

/// A machine that a server made is gone some moments later, when its provider has said so.
async fn destroy(platform: &Platform, id: &str) -> anyhow::Result<()> {
    let answer = platform.change(Method::POST, &["sandboxes", id, "destroyed"], json!({})).await?;
    if platform.json {
        return platform.done(&answer, "destroyed");
    }
    let now = platform.get(&["sandboxes", id], vec![]).await.and_then(|now| Ok(now.read::<Value>()?));
    let gone = now.is_ok_and(|now| now["destroyed_at"].is_string());
    let later = format!("it is being taken away, and the runs on it end; `arbe sandbox show {id}` tells when it is gone");
    platform.done(&answer, if gone { "destroyed" } else { &later })
}

fn values(items: &[Box<RawValue>]) -> Result<Vec<Value>, serde_json::Error> {
    items.iter().map(|item| serde_json::from_str(item.get())).collect()
}

fn is_of(sandbox: &Value, runtime: Option<&str>) -> bool {
    runtime.is_none_or(|runtime| sandbox["provider"] == runtime)
}

/// As many as are asked for, if there are, whatever stands between them.
async fn of_runtime(
    platform: &Platform,
    house: String,
    limit: Option<usize>,
    runtime: Option<&str>,
) -> anyhow::Result<Vec<Box<RawValue>>> {
    let asked = if runtime.is_some() { None } else { limit };
    let mut listed = platform.items(&["sandboxes"], vec![("house", house)], asked).await?;
    let fits: Vec<bool> = values(&listed)?.iter().map(|sandbox| is_of(sandbox, runtime)).collect();
    let mut fits = fits.into_iter();
    listed.retain(|_| fits.next().unwrap_or_default());
    listed.truncate(limit.unwrap_or(usize::MAX));
    Ok(listed)
}

/// The sandboxes as they stand afterwards, each with what its provider said; then what no sandbox stands for.
async fn reconciled(platform: &Platform, house: String, limit: Option<usize>, runtime: Option<&str>) -> anyhow::Result<()> {
    let answer = platform.change(Method::POST, &["sandboxes", "reconcile"], json!({ "house_id": house })).await?;
    let mut seen = values(&answer.read::<Page>()?.items)?;
    seen.retain(|it| is_of(it, runtime));
    let mut listed = values(&of_runtime(platform, house, limit, runtime).await?)?;
    for sandbox in &mut listed {
        let about = |it: &Value| it["sandbox_id"] == sandbox["sandbox_id"] && it["verdict"] != "stray";
        let found = seen.iter().position(about).map(|at| seen.remove(at));
        for field in ["verdict", "why"] {
            sandbox[field] = found.as_ref().map_or(Value::Null, |found| found[field].clone());
        }
        if let Some(found) = found {
            sandbox["threads"] = found["threads"].clone();
        }
    }
    listed.extend(seen.into_iter().filter(|it| it["verdict"] == "stray" || it["sandbox_id"].is_null()));
    if platform.json { listed.iter().try_for_each(print_json) } else { print(rows(RECONCILED, &listed)) }
}
