//! `adapter-bounded-values`

use crate::value::Value;

/// The most a text column holds of one value.
pub const VALUE_MAX: usize = 8 << 20;

pub(super) fn sentinel(bytes: usize) -> String {
    format!("pond:truncated:{bytes}")
}

/// Cuts every text in the value that is too long, wherever it stands.
pub(super) fn bound(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > VALUE_MAX => *text = sentinel(text.len()),
        Value::Broken(raw) if raw.len() > VALUE_MAX => *value = Value::String(sentinel(raw.len())),
        Value::Number(text) if text.len() > VALUE_MAX => *value = Value::String(sentinel(text.len())),
        Value::Array(items) => items.iter_mut().for_each(bound),
        Value::Object(fields) => {
            for (key, value) in fields {
                if key.len() > VALUE_MAX {
                    *key = sentinel(key.len());
                }
                bound(value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Broken(_) => {}
    }
}
