//! Which model is asked, and when a bot answers: `Recipe::model`, or the server's own.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    pub api: Api,
    /// Up to and without `/chat/completions` or `/messages`.
    #[schemars(regex(pattern = "^https?://"))]
    pub base_url: String,
    pub model: String,
    /// The name of the house's secret that holds the key.
    #[serde(default)]
    pub api_key_secret: Option<String>,
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    #[serde(default)]
    pub system: Option<String>,
    #[serde(default)]
    pub trigger: Trigger,
    /// What differs for single bots, by name or id.
    #[serde(default)]
    pub bots: BTreeMap<String, BotRule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    Openai,
    Anthropic,
}

/// When a bot answers in a chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// Somebody names it, or the thread is addressed to it.
    #[default]
    Mention,
    /// Whatever a person says, and bots that name it.
    Always,
    Never,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BotRule {
    pub trigger: Option<Trigger>,
    pub model: Option<String>,
    pub system: Option<String>,
}

impl ModelConfig {
    pub fn parse(config: &Map<String, Value>) -> Result<Self, serde_json::Error> {
        serde_json::from_value(Value::Object(config.clone()))
    }
}
