//! `arbe env …`

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Platform, input};
use crate::args::{EnvVerb, Recipe};
use crate::output::{print, print_raw};
use crate::row::{Column, cell, one};

const COLUMNS: &[Column] =
    &[("ENVIRONMENT", "environment_id"), ("NAME", "name"), ("HOUSE", "house_id"), ("CREATED", "@created_at")];

#[derive(Serialize)]
struct Create<'a> {
    house_id: &'a str,
    name: &'a str,
    config: &'a RawValue,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secret_bindings: Vec<Binding>,
}

#[derive(Serialize)]
struct Binding {
    name: String,
    required: bool,
}

#[derive(Serialize, Deserialize)]
struct Put {
    name: String,
    config: Box<RawValue>,
}

pub(super) async fn run(platform: &Platform, verb: EnvVerb) -> anyhow::Result<()> {
    match verb {
        EnvVerb::List(limit) => {
            let house = platform.house().await?;
            platform.list(&["environments"], vec![("house", house)], limit.limit, COLUMNS).await
        }
        EnvVerb::Create { name, recipe, secret, optional_secret } => {
            let config = given(recipe)?.unwrap_or_else(empty);
            let secret_bindings = bindings(secret, optional_secret);
            let house = platform.house().await?;
            let body = Create { house_id: &house, name: &name, config: &config, secret_bindings };
            let answer = platform.change(Method::POST, &["environments"], body).await?;
            platform.made(&answer, "environment_id")
        }
        EnvVerb::Show { environment } => show(platform, &environment).await,
        EnvVerb::Update { environment, name, recipe } => update(platform, &environment, name, recipe).await,
        EnvVerb::Delete { environment } => {
            let answer = platform.change(Method::DELETE, &["environments", &environment], ()).await?;
            platform.done(&answer, "deleted")
        }
        EnvVerb::Bind { environment, secret, optional } => {
            let path = ["environments", environment.as_str(), "secrets", secret.as_str()];
            let body = json!({ "required": !optional });
            let answer = platform.change(Method::PUT, &path, body).await?;
            super::secret::tell_if_reserved(&secret);
            platform.done(&answer, "bound")
        }
        EnvVerb::Unbind { environment, secret } => {
            let path = ["environments", environment.as_str(), "secrets", secret.as_str()];
            let answer = platform.change(Method::DELETE, &path, ()).await?;
            platform.done(&answer, "unbound")
        }
    }
}

fn given(recipe: Recipe) -> anyhow::Result<Option<Box<RawValue>>> {
    input::json(recipe.recipe, recipe.recipe_file.as_deref())
}

fn bindings(required: Vec<String>, optional: Vec<String>) -> Vec<Binding> {
    let required = required.into_iter().map(|name| Binding { name, required: true });
    required.chain(optional.into_iter().map(|name| Binding { name, required: false })).collect()
}

fn empty() -> Box<RawValue> {
    RawValue::from_string("{}".into()).expect("an empty object is JSON")
}

async fn update(platform: &Platform, id: &str, name: Option<String>, recipe: Recipe) -> anyhow::Result<()> {
    let path = ["environments", id];
    let body = match (name, given(recipe)?) {
        (Some(name), Some(config)) => Put { name, config },
        (name, config) => {
            let now: Put = platform.get(&path, vec![]).await?.read()?;
            Put { name: name.unwrap_or(now.name), config: config.unwrap_or(now.config) }
        }
    };
    let answer = platform.change(Method::PUT, &path, body).await?;
    platform.done(&answer, "updated")
}

async fn show(platform: &Platform, id: &str) -> anyhow::Result<()> {
    let answer = platform.get(&["environments", id], vec![]).await?;
    if platform.json {
        return print_raw(answer.read()?);
    }
    let row: Value = answer.read()?;
    let mut text = one(COLUMNS, &row);
    for binding in row["secret_bindings"].as_array().into_iter().flatten() {
        let how = if binding["required"] == json!(true) { "required" } else { "optional" };
        let age = cell(binding, "~rotated_at");
        let there = if binding["exists"] == json!(false) {
            ", not there".to_owned()
        } else if age.is_empty() {
            String::new()
        } else {
            format!(", rotated {age}")
        };
        text += &format!("SECRET       {} ({how}{there})\n", cell(binding, "name"));
    }
    text += &format!("\n{:#}\n", row["config"]);
    print(text)
}
