//! The parts of the published shapes of sprites that are used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize)]
pub(super) struct CreateSprite {
    pub(super) name: String,
    pub(super) labels: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) environment: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) config: Option<Config>,
    /// `default` or `dev`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runtime: Option<String>,
    pub(super) wait_for_capacity: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Config {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ram_mb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpus: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) storage_gb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) region: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Sprite {
    pub(super) name: String,
    pub(super) status: Option<String>,
    /// Null where there are none.
    pub(super) labels: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Page {
    pub(super) sprites: Vec<Sprite>,
    #[serde(default)]
    pub(super) has_more: bool,
    pub(super) next_continuation_token: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct NetworkPolicy {
    pub(super) rules: Vec<Rule>,
}

#[derive(Debug, Serialize)]
pub(super) struct Rule {
    pub(super) domain: String,
    pub(super) action: &'static str,
}
