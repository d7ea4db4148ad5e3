//! How long, how deep, and of which characters a given text may be.

use events::{Json, JsonObject};

use crate::rejection::Rejection;

/// Characters.
pub const NAME_MAX: usize = 200;
/// Characters.
pub const TAG_MAX: usize = 64;
pub const TAGS_MAX: usize = 64;
/// Bytes of one chat message, one piece of output or one error message.
pub const TEXT_MAX: usize = 1 << 20;
/// Bytes of a transcript entry's payload.
pub const PAYLOAD_MAX: usize = 8 << 20;
/// Bytes of an environment's config.
pub const CONFIG_MAX: usize = 64 << 10;
pub const CONFIG_DEPTH_MAX: usize = 32;
/// As deep as JSON readers commonly go.
const PAYLOAD_DEPTH_MAX: usize = 120;
const VARIABLE_MAX: usize = 128;
pub(crate) const NOT_A_VARIABLE: &str = "not a variable name of at most 128 letters, digits and `_`";

pub(crate) fn invalid(field: &'static str, why: &str) -> Rejection {
    Rejection::Invalid { field, why: why.to_owned() }
}

/// One line that people can read.
pub(crate) fn name(field: &'static str, text: &str) -> Result<(), Rejection> {
    if text.chars().count() > NAME_MAX {
        return Err(invalid(field, "longer than 200 characters"));
    }
    if text.chars().any(char::is_control) {
        return Err(invalid(field, "holds a control character"));
    }
    if text.trim().is_empty() { Err(invalid(field, "is blank")) } else { Ok(()) }
}

pub(crate) fn optional_name(field: &'static str, text: Option<&str>) -> Result<(), Rejection> {
    text.map_or(Ok(()), |text| name(field, text))
}

/// Free text of any lines. The rows cannot hold a NUL, so nothing may.
pub(crate) fn text(field: &'static str, text: &str) -> Result<(), Rejection> {
    size(field, text)?;
    if text.contains('\0') { Err(invalid(field, "holds a NUL")) } else { Ok(()) }
}

/// What a machine prints may hold anything.
pub(crate) fn size(field: &'static str, text: &str) -> Result<(), Rejection> {
    if text.len() > TEXT_MAX { Err(Rejection::TooLarge { field, max: TEXT_MAX }) } else { Ok(()) }
}

/// Sorted, each once.
pub(crate) fn tags(tags: &[String]) -> Result<Vec<String>, Rejection> {
    for tag in tags {
        name("tags", tag)?;
        if tag.chars().count() > TAG_MAX {
            return Err(Rejection::TooManyTags);
        }
    }
    let mut tags = tags.to_vec();
    tags.sort_unstable();
    tags.dedup();
    if tags.len() > TAGS_MAX { Err(Rejection::TooManyTags) } else { Ok(tags) }
}

/// A secret is injected as a variable of its name.
pub(crate) fn secret_name(text: &str) -> Result<(), Rejection> {
    if is_variable(text) { Ok(()) } else { Err(invalid("name", NOT_A_VARIABLE)) }
}

pub(crate) fn is_variable(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let rest = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    first && rest && text.len() <= VARIABLE_MAX
}

pub(crate) fn config(config: &JsonObject) -> Result<(), Rejection> {
    if config.get().len() > CONFIG_MAX {
        return Err(Rejection::TooLarge { field: "config", max: CONFIG_MAX });
    }
    if depth(config.get()) > CONFIG_DEPTH_MAX {
        return Err(invalid("config", "nested deeper than 32"));
    }
    let value = serde_json::from_str(config.get()).map_err(|error| invalid("config", &error.to_string()))?;
    if has_nul(&value) {
        return Err(invalid("config", "holds a NUL"));
    }
    if numbers(config.get()).any(|number| !is_plain(number)) {
        return Err(invalid("config", "holds a number of more than 300 digits or a power beyond 300"));
    }
    Ok(())
}

/// Every number in valid JSON, as it is written.
fn numbers(json: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    let in_number = move |c: char| {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            _ => {}
        }
        quoted || !matches!(c, '0'..='9' | '.' | '-' | '+' | 'e' | 'E')
    };
    json.split(in_number).filter(|token| token.bytes().any(|byte| byte.is_ascii_digit()))
}

/// Postgres holds numbers exactly, but not with any number of places.
fn is_plain(number: &str) -> bool {
    const MOST: usize = 300;
    let (digits, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    digits.len() <= MOST && power.parse::<i32>().is_ok_and(|power| power.unsigned_abs() <= MOST as u32)
}

pub(crate) fn payload(payload: &Json) -> Result<(), Rejection> {
    if payload.get().len() > PAYLOAD_MAX {
        return Err(Rejection::TooLarge { field: "payload", max: PAYLOAD_MAX });
    }
    if depth(payload.get()) > PAYLOAD_DEPTH_MAX { Err(invalid("payload", "nested deeper than 120")) } else { Ok(()) }
}

fn has_nul(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::String(text) => text.contains('\0'),
        serde_json::Value::Array(items) => items.iter().any(has_nul),
        serde_json::Value::Object(fields) => fields.iter().any(|(key, value)| key.contains('\0') || has_nul(value)),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => false,
    }
}

/// Of valid JSON, without recursion.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_of_texts() {
        for (json, expected) in [("1", 0), ("{}", 1), (r#"{"a":[[]]}"#, 3), (r#"{"[[":"{\"[{\\"}"#, 1)] {
            assert_eq!(depth(json), expected, "{json}");
        }
    }

    #[test]
    fn a_config_that_the_rows_could_not_hold_is_refused() {
        for json in [
            r#"{"a":"\u0000"}"#,
            r#"{"\u0000":1}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":1e999}"#,
            r#"{"a":0e-16384}"#,
            r#"{"a":[1e-20000]}"#,
        ] {
            assert!(config(&JsonObject::parse(json).unwrap()).is_err(), "{json}");
        }
        let long = format!(r#"{{"a":0.{}}}"#, "1".repeat(20_000));
        assert!(config(&JsonObject::parse(&long).unwrap()).is_err());
        for json in [r#"{"image":"debian","limits":{"cpu":2}}"#, r#"{"a":"1e-20000 \" 0e-16384","b":-1.5e+30,"e":[1E2,true]}"#] {
            assert!(config(&JsonObject::parse(json).unwrap()).is_ok(), "{json}");
        }
    }
}
