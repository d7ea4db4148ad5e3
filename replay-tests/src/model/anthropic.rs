//! <https://docs.anthropic.com/en/api/messages-streaming>

use serde_json::{Value, json};

use super::Said;
use super::conversation::{Conversation, Role, field, items, turn, words};

pub(super) fn read(request: &Value) -> Conversation {
    let mut turns = Vec::new();
    for message in items(request, "messages") {
        let role = if field(message, "role") == "assistant" { Role::Assistant } else { Role::User };
        if let Some(text) = message["content"].as_str() {
            turns.push(turn(role, text));
        }
        for block in items(message, "content") {
            match field(block, "type") {
                "text" => turns.push(turn(role, field(block, "text"))),
                "tool_use" => turns.push(turn(Role::Call, block["input"].to_string())),
                "tool_result" => turns.push(turn(Role::Result, words(&block["content"]))),
                _ => {}
            }
        }
    }
    let tools = items(request, "tools").iter().map(|tool| field(tool, "name").to_owned()).collect();
    Conversation { turns, tools }
}

pub(super) fn write(said: &Said<'_>) -> Vec<Value> {
    let reply = said.reply;
    let input = if reply.fills { 190_000 } else { 11 };
    let usage =
        json!({"input_tokens": input, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0});
    let message = json!({"id": said.id("msg"), "type": "message", "role": "assistant", "model": said.model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage});
    let mut blocks = Vec::new();
    if let Some(thought) = &reply.thought {
        let deltas = vec![
            json!({"type": "thinking_delta", "thinking": thought}),
            json!({"type": "signature_delta", "signature": "c2lnbmVk"}),
        ];
        blocks.push((json!({"type": "thinking", "thinking": "", "signature": ""}), deltas));
    }
    blocks.push((json!({"type": "text", "text": ""}), vec![json!({"type": "text_delta", "text": reply.text})]));
    if let Some((name, arguments)) = &reply.call {
        let begun = json!({"type": "tool_use", "id": said.id("toolu"), "name": name, "input": {}});
        blocks.push((begun, vec![json!({"type": "input_json_delta", "partial_json": arguments.to_string()})]));
    }
    let mut events = vec![json!({"type": "message_start", "message": message})];
    for (index, (begun, deltas)) in blocks.into_iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
        events.extend(deltas.into_iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let stop = match (&reply.call, reply.cut) {
        (_, true) => "max_tokens",
        (Some(_), false) => "tool_use",
        (None, false) => "end_turn",
    };
    let delta = json!({"stop_reason": stop, "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}));
    events.push(json!({"type": "message_stop"}));
    events
}
