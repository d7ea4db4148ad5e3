use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Plan;

pub(super) fn file(home: &Path, plan: &Plan) -> PathBuf {
    let directory = format!("--{}--", plan.project.trim_start_matches('/').replace('/', "-"));
    let name = format!("{}_{}.jsonl", plan.time(0).replace([':', '.'], "-"), plan.id);
    home.join(".pi/agent/sessions").join(directory).join(name)
}

/// The header, then what was asked, said, called and given back.
pub(super) fn records(plan: &mut Plan) -> Vec<Value> {
    let (length, mut parent, mut call) = (plan.length, Value::Null, String::new());
    let record = |at: u64| {
        if at == 0 {
            return json!({ "type": "session", "version": 3, "id": plan.id, "timestamp": plan.time(0), "cwd": plan.project });
        }
        let message = match at % 4 {
            1 => json!({ "role": "user", "content": [{ "type": "text", "text": plan.asked() }], "timestamp": plan.millis(at) }),
            2 => reply(plan, at, |plan| json!({ "type": "text", "text": plan.said() })),
            3 => {
                call = format!("toolu_{}", plan.words.hex(24));
                reply(plan, at, |plan| json!({ "type": "toolCall", "id": call, "name": "bash", "arguments": plan.command() }))
            }
            _ => json!({ "role": "toolResult", "toolCallId": call, "toolName": "bash", "isError": false,
                "content": [{ "type": "text", "text": plan.ran() }], "timestamp": plan.millis(at) }),
        };
        // Unique in the file: the place is part of it.
        let id = format!("{at:04x}{}", plan.words.hex(4));
        let record = json!({ "type": "message", "id": id, "parentId": parent, "timestamp": plan.time(at), "message": message });
        parent = Value::from(id);
        record
    };
    (0..length).map(record).collect()
}

fn reply(plan: &mut Plan, at: u64, content: impl FnOnce(&mut Plan) -> Value) -> Value {
    let usage = json!({ "input": plan.words.below(9_000), "output": plan.words.below(900), "cacheRead": 0, "cacheWrite": 0,
        "cost": { "total": 0.21713199999999994 } });
    json!({ "role": "assistant", "content": [content(plan)], "api": "anthropic-messages", "provider": "anthropic",
        "model": "claude-opus-4-5", "usage": usage, "stopReason": "toolUse", "timestamp": plan.millis(at) })
}
