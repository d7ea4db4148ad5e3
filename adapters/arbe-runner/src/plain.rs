//! What the runner says in words of its own, or repeats of others: texts that every reader can hold.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

/// A server holds no NUL, and refuses a text that has one.
pub(crate) fn json(said: &impl Serialize) -> Bytes {
    let mut value = serde_json::to_value(said).unwrap_or_default();
    mend(&mut value);
    value.to_string().into()
}

fn mend(value: &mut Value) {
    match value {
        Value::String(text) if text.contains('\0') => *text = text.replace('\0', "\u{fffd}"),
        Value::Array(items) => items.iter_mut().for_each(mend),
        Value::Object(fields) => fields.values_mut().for_each(mend),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_nul_is_shown_as_what_it_is_not() {
        let said = json!({ "message": "a\0b", "list": [{ "detail": "\0" }, "\\u0000", 1] });
        let expected = json!({ "message": "a\u{fffd}b", "list": [{ "detail": "\u{fffd}" }, "\\u0000", 1] });
        assert_eq!(super::json(&said), expected.to_string());
    }
}
