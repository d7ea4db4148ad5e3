//! `arbe house …`

use reqwest::Method;
use serde_json::json;

use super::Platform;
use crate::args::HouseVerb;
use crate::row::Column;

const COLUMNS: &[Column] =
    &[("HOUSE", "house_id"), ("NAME", "name"), ("DEFAULT ENVIRONMENT", "default_environment_id"), ("CREATED", "@created_at")];

pub(super) async fn run(platform: &Platform, verb: HouseVerb) -> anyhow::Result<()> {
    match verb {
        HouseVerb::List(limit) => platform.list(&["houses"], vec![], limit.limit, COLUMNS).await,
        HouseVerb::Create { name } => {
            let answer = platform.change(Method::POST, &["houses"], json!({ "name": name })).await?;
            platform.made(&answer, "house_id")
        }
        HouseVerb::Show { which: Some(house) } => platform.show(&["houses", &house], COLUMNS).await,
        HouseVerb::Show { which: None } => platform.show(&["houses", &platform.house().await?], COLUMNS).await,
        HouseVerb::Rename { name } => patch(platform, &json!({ "name": name }), "renamed").await,
        HouseVerb::DefaultEnv(set) => {
            let what = if set.none { "the house has no default environment now" } else { "default environment set" };
            patch(platform, &json!({ "default_environment_id": set.environment }), what).await
        }
    }
}

async fn patch(platform: &Platform, body: &serde_json::Value, what: &str) -> anyhow::Result<()> {
    let house = platform.house().await?;
    let path = ["houses", house.as_str()];
    let answer = platform.change(Method::PATCH, &path, body).await?;
    platform.done(&answer, what)
}
