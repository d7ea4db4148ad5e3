use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Plan;

pub(super) fn file(home: &Path, plan: &Plan) -> PathBuf {
    let time = plan.time(0);
    let (day, second) = (time[..10].replace('-', "/"), time[..19].replace(':', "-"));
    home.join(".codex/sessions").join(day).join(format!("rollout-{second}-{}.jsonl", plan.id))
}

/// The header and a turn's context, then what was asked, said, called and given back.
pub(super) fn records(plan: &mut Plan) -> Vec<Value> {
    let (length, mut call) = (plan.length, String::new());
    let record = |at: u64| {
        let (kind, payload) = match (at, at % 4) {
            (0, _) => ("session_meta", header(plan)),
            (1, _) => {
                ("turn_context", json!({ "cwd": plan.project, "model": "gpt-5", "approval_policy": "never", "summary": "auto" }))
            }
            (_, 2) => ("response_item", message("user", "input_text", &plan.asked())),
            (_, 3) => ("response_item", message("assistant", "output_text", &plan.said())),
            (_, 0) => {
                call = format!("call_{}", plan.words.hex(24));
                let arguments = plan.command().to_string();
                ("response_item", json!({ "type": "function_call", "name": "shell", "arguments": arguments, "call_id": call }))
            }
            _ => ("response_item", json!({ "type": "function_call_output", "call_id": call, "output": plan.ran() })),
        };
        json!({ "timestamp": plan.time(at), "type": kind, "payload": payload })
    };
    (0..length).map(record).collect()
}

fn header(plan: &Plan) -> Value {
    json!({ "id": plan.id, "timestamp": plan.time(0), "cwd": plan.project, "originator": "codex_cli_rs", "cli_version": "0.77.0",
        "source": "cli", "model_provider": "openai", "base_instructions": { "text": "You are a coding agent." } })
}

fn message(role: &str, kind: &str, text: &str) -> Value {
    json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] })
}
