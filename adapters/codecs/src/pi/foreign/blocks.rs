//! The pieces of pi's messages.

use events::Json;
use events::session::ToolCall;

use crate::foreign::{Shown, arguments, shown};
use crate::value::Value;

pub(super) fn text(text: &str) -> Value {
    Value::object([("type", "text".into()), ("text", text.into())])
}

pub(super) fn thinking(text: &str) -> Value {
    Value::object([("type", "thinking".into()), ("thinking", text.into())])
}

pub(super) fn image(data: &str, media_type: &str) -> Value {
    Value::object([("type", "image".into()), ("data", data.into()), ("mimeType", media_type.into())])
}

pub(super) fn call(call: &ToolCall) -> Value {
    Value::object([
        ("type", "toolCall".into()),
        ("id", call.call_id.as_str().into()),
        ("name", call.name.as_str().into()),
        ("arguments", arguments(&call.params)),
    ])
}

pub(super) fn of_result(result: &Json) -> Vec<Value> {
    let block = |piece: Shown| match piece {
        Shown::Text(words) => text(&words),
        Shown::Image { media_type, data } => image(&data, &media_type),
    };
    shown(result).into_iter().map(block).collect()
}

/// Tokens under the names of any of the providers; what is not known is none.
pub(super) fn usage(usage: &Value) -> Value {
    let count = |names: &[&str]| names.iter().find_map(|name| usage.get(name)?.as_i64()).unwrap_or_default();
    let input = count(&["input", "input_tokens", "prompt_tokens"]);
    let output = count(&["output", "output_tokens", "completion_tokens"]);
    let read = count(&["cacheRead", "cache_read_input_tokens"]);
    let write = count(&["cacheWrite", "cache_creation_input_tokens"]);
    let zero = || Value::number(0);
    let cost = ["input", "output", "cacheRead", "cacheWrite", "total"].map(|key| (key, zero()));
    Value::object([
        ("input", Value::number(input)),
        ("output", Value::number(output)),
        ("cacheRead", Value::number(read)),
        ("cacheWrite", Value::number(write)),
        ("totalTokens", Value::number(input + output + read + write)),
        ("cost", Value::object(cost)),
    ])
}
