//! `arbe sandbox …`

use reqwest::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::Platform;
use crate::args::SandboxVerb;
use crate::row::Column;

const COLUMNS: &[Column] = &[
    ("SANDBOX", "sandbox_id"),
    ("STATUS", "status"),
    ("PROVIDER", "provider"),
    ("REF", "provider_ref"),
    ("ENVIRONMENT", "environment_id"),
    ("CREATED", "@created_at"),
    ("DESTROYED", "@destroyed_at"),
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
        SandboxVerb::List(limit) => {
            let house = platform.house().await?;
            platform.list(&["sandboxes"], vec![("house", house)], limit.limit, COLUMNS).await
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
        SandboxVerb::Destroy(one) => report(platform, &one.sandbox, "destroyed", json!({})).await,
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
