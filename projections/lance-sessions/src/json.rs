//! JSONB does not hold every JSON value: large and long numbers, a negative zero, halves of surrogate pairs, keys that come twice. What
//! would not come back as it was is stored as `{"$raw": "…"}` with its text, and so is an object that looks like that.

use std::borrow::Cow;
use std::collections::HashSet;

use codecs::value::{Reader, Value};

const RAW: &str = "$raw";
/// JSONB is read and written by recursion.
const DEEPEST: usize = 64;

pub(crate) fn pack(text: &str) -> Cow<'_, str> {
    match Reader::only(text) {
        Ok(value) if holds(&value, 0) => Cow::Borrowed(text),
        Ok(_) | Err(_) => Cow::Owned(serde_json::json!({ RAW: text }).to_string()),
    }
}

/// The JSON that was packed, value for value.
pub(crate) fn unpack(stored: &str) -> Cow<'_, str> {
    if !stored.starts_with("{\"$raw\":") {
        return Cow::Borrowed(stored);
    }
    match Reader::only(stored) {
        Ok(Value::Object(fields)) => match fields.as_slice() {
            [(key, Value::String(text))] if key == RAW => Cow::Owned(text.clone()),
            _ => Cow::Borrowed(stored),
        },
        Ok(_) | Err(_) => Cow::Borrowed(stored),
    }
}

fn holds(value: &Value, depth: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Broken(_) => false,
        Value::Number(text) => number(text),
        Value::Array(items) => depth < DEEPEST && items.iter().all(|item| holds(item, depth + 1)),
        Value::Object(fields) => {
            let unique = match fields.as_slice() {
                [] => true,
                [(key, _)] => key != RAW,
                _ => {
                    let mut keys = HashSet::with_capacity(fields.len());
                    fields.iter().all(|(key, _)| keys.insert(key.as_str()))
                }
            };
            unique && depth < DEEPEST && fields.iter().all(|(_, field)| holds(field, depth + 1))
        }
    }
}

fn number(text: &str) -> bool {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse::<u64>().is_ok();
    }
    if let Some(digits) = text.strip_prefix('-')
        && digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        return digits != "0" && text.parse::<i64>().is_ok();
    }
    let Ok(float) = text.parse::<f64>() else { return false };
    float.is_finite() && !(float == 0.0 && text.starts_with('-')) && decimal(text) == decimal(&format!("{float:e}"))
}

/// Sign, digits without zeros around them, and the power of ten of the last.
fn decimal(text: &str) -> Option<(bool, String, i64)> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (digits, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = format!("{whole}{fraction}");
    let trimmed = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - trimmed.len()).ok()?;
    let power: i64 = power.parse().ok()?;
    let power = power.checked_add(zeros)?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let trimmed = trimmed.trim_start_matches('0');
    if trimmed.is_empty() { Some((false, String::new(), 0)) } else { Some((negative, trimmed.to_owned(), power)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_jsonb_holds_stays_as_it_is() {
        for text in
            ["null", "[1,2.5,-3]", "0.30000000000000004", "1e2", "18446744073709551615", r#"{"a":{"b":"\ud83d\ude00"}}"#, "0.0"]
        {
            assert_eq!(pack(text), text);
            assert_eq!(unpack(&pack(text)), text);
        }
    }

    #[test]
    fn what_jsonb_would_change_is_stored_as_its_text() {
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        let texts = [
            "18446744073709551616",
            "-9223372036854775809",
            "0.12345678901234567890123",
            "1e400",
            "-0",
            "-0.0",
            r#""\ud800""#,
            r#"{"a":1,"a":2}"#,
            r#"{"$raw":"x"}"#,
            r#"{"a":{"$raw":"x"}}"#,
            deep.as_str(),
        ];
        for text in texts {
            assert_ne!(pack(text), text, "{text}");
            assert_eq!(unpack(&pack(text)), text);
        }
    }
}
