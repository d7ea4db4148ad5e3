//! `adapter-bounded-values`

use crate::value::Value;

/// The most a text column holds of one value.
pub const VALUE_MAX: usize = 8 << 20;

pub(super) fn sentinel(bytes: usize) -> String {
    format!("pond:truncated:{bytes}")
}

/// Bytes of the longest text that was cut; zero if none was.
pub(super) type Cut = usize;

pub(super) fn bound_text(text: &mut String) -> Cut {
    let bytes = text.len();
    if bytes <= VALUE_MAX {
        return 0;
    }
    *text = sentinel(bytes);
    bytes
}

/// Cuts every text in the value that is too long, wherever it stands.
pub(super) fn bound(value: &mut Value) -> Cut {
    match value {
        Value::String(text) => bound_text(text),
        Value::Broken(raw) | Value::Number(raw) if raw.len() > VALUE_MAX => {
            let bytes = raw.len();
            *value = Value::String(sentinel(bytes));
            bytes
        }
        Value::Array(items) => items.iter_mut().map(bound).max().unwrap_or_default(),
        Value::Object(fields) => {
            let both = |(key, value): &mut (String, Value)| bound_text(key).max(bound(value));
            fields.iter_mut().map(both).max().unwrap_or_default()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Broken(_) => 0,
    }
}
