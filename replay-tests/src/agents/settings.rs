//! How the agents are told to speak with the scripted model, and with nobody else.

use std::fs;

use anyhow::Result;
use serde_json::json;

use super::Home;

/// Nobody listens at the discard port: whatever is not for loopback is refused at once.
pub(crate) const LOOPBACK_ALONE: [(&str, &str); 3] =
    [("HTTP_PROXY", "http://127.0.0.1:9"), ("HTTPS_PROXY", "http://127.0.0.1:9"), ("NO_PROXY", "127.0.0.1,localhost")];

pub(super) fn environment(model: &str) -> Vec<(&'static str, String)> {
    let mut environment = vec![("ANTHROPIC_BASE_URL", model.to_owned())];
    let others = [
        ("ANTHROPIC_API_KEY", "none"),
        ("ANTHROPIC_MODEL", "claude-sonnet-4-5"),
        ("SCRIPTED_API_KEY", "none"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("PI_OFFLINE", "1"),
        ("PI_TELEMETRY", "0"),
    ];
    environment.extend(LOOPBACK_ALONE.into_iter().chain(others).map(|(name, value)| (name, value.to_owned())));
    environment
}

pub(super) fn write(home: &Home) -> Result<()> {
    let url = format!("{}/v1", home.model);
    let files = [
        (".codex/config.toml", codex(&url)),
        (".config/opencode/opencode.json", opencode(&url)),
        (".pi/agent/models.json", pi(&url)),
    ];
    for (name, contents) in files {
        let path = home.root().join(name);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        fs::write(path, contents)?;
    }
    Ok(())
}

fn codex(url: &str) -> String {
    format!(
        r#"model = "scripted-1"
model_provider = "scripted"
model_context_window = 128000
model_auto_compact_token_limit = 100000
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}"
env_key = "SCRIPTED_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"#
    )
}

fn opencode(url: &str) -> String {
    let limit = json!({"context": 128_000, "output": 4096});
    let modalities = json!({"input": ["text", "image"], "output": ["text"]});
    let model = json!({"name": "Scripted 1", "attachment": true, "tool_call": true, "limit": limit, "modalities": modalities});
    json!({
        "model": "scripted/scripted-1", "small_model": "scripted/scripted-1", "autoupdate": false, "share": "disabled",
        "permission": {"bash": "allow", "edit": "allow"},
        "provider": {"scripted": {"npm": "@ai-sdk/openai-compatible", "name": "Scripted",
            "options": {"baseURL": url, "apiKey": "none"}, "models": {"scripted-1": model}}},
    })
    .to_string()
}

fn pi(url: &str) -> String {
    let compat = json!({"supportsDeveloperRole": false, "supportsReasoningEffort": false, "supportsStore": false});
    let model = json!({"id": "scripted-1", "name": "Scripted 1", "reasoning": false, "input": ["text", "image"],
        "contextWindow": 128_000, "maxTokens": 4096});
    let scripted =
        json!({"baseUrl": url, "api": "openai-completions", "apiKey": "$SCRIPTED_API_KEY", "compat": compat, "models": [model]});
    json!({"providers": {"scripted": scripted}}).to_string()
}
