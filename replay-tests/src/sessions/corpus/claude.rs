use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Plan;

pub(super) fn file(home: &Path, plan: &Plan) -> PathBuf {
    home.join(".claude/projects").join(plan.project.replace('/', "-")).join(format!("{}.jsonl", plan.id))
}

pub(super) fn records(plan: &mut Plan) -> Vec<Value> {
    let (mut parent, mut call) = (Value::Null, String::new());
    let length = plan.length;
    let record = |at: u64| {
        let uuid = plan.words.uuid();
        let (kind, message) = match at % 4 {
            0 => ("user", json!({ "role": "user", "content": plan.asked() })),
            1 => ("assistant", reply(plan, |plan| json!({ "type": "text", "text": plan.said() }))),
            2 => {
                call = format!("toolu_{}", plan.words.hex(24));
                let called = |plan: &mut Plan| json!({ "type": "tool_use", "id": call, "name": "Bash", "input": plan.command() });
                ("assistant", reply(plan, called))
            }
            _ => {
                let result = json!({ "tool_use_id": call, "type": "tool_result", "content": plan.ran(), "is_error": false });
                ("user", json!({ "role": "user", "content": [result] }))
            }
        };
        let record = json!({ "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": plan.project,
            "sessionId": plan.id, "version": "2.1.219", "gitBranch": "main", "type": kind, "message": message,
            "uuid": uuid, "timestamp": plan.time(at) });
        parent = Value::from(uuid);
        record
    };
    (0..length).map(record).collect()
}

fn reply(plan: &mut Plan, content: impl FnOnce(&mut Plan) -> Value) -> Value {
    let usage = json!({ "input_tokens": plan.words.below(9_000), "output_tokens": plan.words.below(900),
        "cache_read_input_tokens": plan.words.below(90_000), "service_tier": "standard" });
    json!({ "id": format!("msg_{}", plan.words.hex(24)), "type": "message", "role": "assistant", "model": "claude-opus-4-5",
        "content": [content(plan)], "stop_reason": "tool_use", "stop_sequence": null, "usage": usage })
}
