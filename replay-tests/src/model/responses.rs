//! <https://platform.openai.com/docs/api-reference/responses-streaming>

use serde_json::{Value, json};

use super::Said;
use super::conversation::{Conversation, Role, field, items, turn, words};

pub(super) fn read(request: &Value) -> Conversation {
    let mut turns = Vec::new();
    for item in items(request, "input") {
        match field(item, "type") {
            "message" | "" => {
                let role = if field(item, "role") == "assistant" { Role::Assistant } else { Role::User };
                turns.push(turn(role, words(&item["content"])));
            }
            "function_call" => turns.push(turn(Role::Call, field(item, "arguments"))),
            "custom_tool_call" => turns.push(turn(Role::Call, field(item, "input"))),
            "function_call_output" | "custom_tool_call_output" => turns.push(turn(Role::Result, words(&item["output"]))),
            _ => {}
        }
    }
    let tools = items(request, "tools").iter().map(|tool| field(tool, "name").to_owned()).collect();
    Conversation { turns, tools }
}

pub(super) fn write(said: &Said<'_>) -> Vec<Value> {
    let reply = said.reply;
    let mut output = Vec::new();
    if let Some(thought) = &reply.thought {
        output.push(json!({"type": "reasoning", "id": said.id("rs"), "summary": [{"type": "summary_text", "text": thought}],
            "encrypted_content": null}));
    }
    output.push(json!({"type": "message", "id": said.id("msg"), "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": reply.text, "annotations": []}]}));
    if let Some((name, arguments)) = &reply.call {
        output.push(call(said, name, arguments));
    }
    let input = if reply.fills { 120_000 } else { 11 };
    let usage = json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": input + 7});
    let begun = json!({"id": said.id("resp"), "object": "response", "status": "in_progress", "model": said.model, "output": []});
    let mut events = vec![json!({"type": "response.created", "response": begun})];
    for (index, item) in output.iter().enumerate() {
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": item}));
        if field(item, "type") == "message" {
            events.push(json!({"type": "response.output_text.delta", "item_id": item["id"], "output_index": index,
                "content_index": 0, "delta": reply.text}));
        }
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    let (status, why) =
        if reply.cut { ("incomplete", json!({"reason": "max_output_tokens"})) } else { ("completed", Value::Null) };
    let done = json!({"id": said.id("resp"), "object": "response", "status": status, "incomplete_details": why,
        "model": said.model, "output": output, "usage": usage});
    events.push(json!({"type": format!("response.{status}"), "response": done}));
    events
}

fn call(said: &Said<'_>, name: &str, arguments: &Value) -> Value {
    let (space, name) = name.split_once('/').map_or((None, name), |(space, name)| (Some(space), name));
    let mut call = json!({"call_id": said.id("call"), "name": name, "status": "completed"});
    let (kind, key, text) = if let Value::String(text) = arguments {
        ("custom_tool_call", "input", text.clone())
    } else {
        ("function_call", "arguments", arguments.to_string())
    };
    call["type"] = kind.into();
    call[key] = text.into();
    if let Some(space) = space {
        call["namespace"] = space.into();
    }
    call
}
