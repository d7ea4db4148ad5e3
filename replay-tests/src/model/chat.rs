//! <https://platform.openai.com/docs/api-reference/chat-streaming>

use serde_json::{Value, json};

use super::Said;
use super::conversation::{Conversation, Role, field, items, turn, words};

/// At once, of what is spelled.
const LETTERS: usize = 3;

pub(super) fn read(request: &Value) -> Conversation {
    let mut turns = Vec::new();
    for message in items(request, "messages") {
        let text = words(&message["content"]);
        match field(message, "role") {
            "user" => turns.push(turn(Role::User, text)),
            "assistant" => {
                if !text.is_empty() {
                    turns.push(turn(Role::Assistant, text));
                }
                let calls = items(message, "tool_calls").iter();
                turns.extend(calls.map(|call| turn(Role::Call, field(&call["function"], "arguments"))));
            }
            "tool" => turns.push(turn(Role::Result, text)),
            _ => {}
        }
    }
    let tools = items(request, "tools").iter().map(|tool| field(&tool["function"], "name").to_owned()).collect();
    Conversation { turns, tools }
}

pub(super) fn write(said: &Said<'_>) -> Vec<Value> {
    let reply = said.reply;
    let chunk = |delta: Value, finish: Option<&str>| {
        json!({"id": said.id("chatcmpl"), "object": "chat.completion.chunk", "created": 1_700_000_000, "model": said.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    events.extend(reply.thought.iter().map(|thought| chunk(json!({"reasoning_content": thought}), None)));
    let letters: Vec<char> = reply.text.chars().collect();
    let size = if reply.spells { LETTERS } else { letters.len().max(1) };
    events.extend(letters.chunks(size).map(|piece| chunk(json!({"content": piece.iter().collect::<String>()}), None)));
    if let Some((name, arguments)) = &reply.call {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        let call = json!({"index": 0, "id": said.id("call"), "type": "function", "function": function});
        events.push(chunk(json!({"tool_calls": [call]}), None));
    }
    let input = if reply.fills { 127_000 } else { 11 };
    let stop = match (&reply.call, reply.cut) {
        (_, true) => "length",
        (Some(_), false) => "tool_calls",
        (None, false) => "stop",
    };
    let mut last = chunk(json!({}), Some(stop));
    last["usage"] = json!({"prompt_tokens": input, "completion_tokens": 7, "total_tokens": input + 7});
    events.extend([last, Value::from("[DONE]")]);
    events
}
