//! The parts of Daytona's published shapes that are used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateSandbox {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) snapshot: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) build_info: Option<BuildInfo>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) auto_stop_interval: u64,
    pub(super) auto_delete_interval: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) network_allow_list: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) domain_allow_list: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<u64>,
    /// In GB, as the disk is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) disk: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BuildInfo {
    pub(super) dockerfile_content: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sandbox {
    pub(super) id: String,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    pub(super) state: Option<String>,
    pub(super) recoverable: Option<bool>,
    pub(super) error_reason: Option<String>,
    pub(super) toolbox_proxy_url: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    pub(super) items: Vec<Sandbox>,
    pub(super) next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Directory {
    pub(super) dir: String,
}

#[derive(Debug, Serialize)]
pub(super) struct ExecuteRequest<'a> {
    pub(super) command: &'a str,
    /// In seconds.
    pub(super) timeout: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecuteResponse {
    pub(super) exit_code: Option<i32>,
    pub(super) result: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateSession<'a> {
    pub(super) session_id: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionExecute<'a> {
    pub(super) command: &'a str,
    pub(super) run_async: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionExecuted {
    pub(super) cmd_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Session {
    pub(super) commands: Vec<Command>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Command {
    pub(super) exit_code: Option<i32>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Logs {
    pub(super) stdout: String,
    pub(super) stderr: String,
}
