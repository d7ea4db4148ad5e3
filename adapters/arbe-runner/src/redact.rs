//! Values of secrets, left out of what leaves the runner. One that a program encodes, or takes apart otherwise than by lines, is not
//! recognized.

use bytes::Bytes;

pub(crate) const INSTEAD: &str = "[…]";

/// What programs read and nobody writes freely: a short secret that happens to be in it must not make it unreadable.
const STRUCTURE: [&str; 31] = [
    "api",
    "customType",
    "error_class",
    "firstKeptEntryId",
    "for",
    "fromId",
    "id",
    "mimeType",
    "model",
    "modelId",
    "name",
    "parentId",
    "part",
    "provider",
    "reason",
    "request_id",
    "role",
    "run_id",
    "sandbox_id",
    "session_ref",
    "status",
    "stopReason",
    "targetId",
    "textSignature",
    "thinkingSignature",
    "thoughtSignature",
    "timestamp",
    "toolCallId",
    "toolName",
    "ts",
    "type",
];
/// Below these a tool chooses the names, so that none of them is structure.
const FREE: [&str; 4] = ["arguments", "data", "details", "input"];

/// `secrets` with the longest first.
#[must_use]
pub fn text(secrets: &[String], text: &str) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), INSTEAD))
}

/// Strings that hold a secret are written anew; every other byte stays as it is, so that names and numbers do.
pub(crate) fn json(secrets: &[String], body: Bytes) -> Bytes {
    let Ok(whole) = std::str::from_utf8(&body) else { return body };
    match (secrets.is_empty(), walk(secrets, whole)) {
        (true, _) => body,
        (false, Some(clean)) => clean.into(),
        // It is no JSON.
        (false, None) => text(secrets, whole).into(),
    }
}

/// An object or an array that is open.
struct Level {
    object: bool,
    free: bool,
    /// Whether the next string is a name.
    names: bool,
    name: String,
}

impl Level {
    fn below(outer: Option<&Self>, object: bool) -> Self {
        let free = outer.is_some_and(|outer| outer.free || FREE.contains(&outer.name.as_str()));
        Self { object, free, names: object, name: String::new() }
    }

    fn is_structure(&self) -> bool {
        !self.free && STRUCTURE.contains(&self.name.as_str())
    }
}

/// With a stack of its own: whoever wrote it may have nested it deeply.
fn walk(secrets: &[String], whole: &str) -> Option<String> {
    let bytes = whole.as_bytes();
    let mut levels: Vec<Level> = Vec::new();
    let (mut clean, mut from, mut at) = (String::new(), 0, 0);
    while let Some(byte) = bytes.get(at) {
        let end = if *byte == b'"' { end_of_string(bytes, at)? } else { at + 1 };
        match (byte, levels.last_mut()) {
            (b'{' | b'[', outer) => {
                let level = Level::below(outer.as_deref(), *byte == b'{');
                levels.push(level);
            }
            (b'}' | b']', _) => drop(levels.pop()?),
            (b',', Some(level)) => level.names = level.object,
            (b':', Some(level)) => level.names = false,
            (b'"', Some(level)) if level.names => level.name = serde_json::from_str(&whole[at..end]).unwrap_or_default(),
            (b'"', level) if !level.as_deref().is_some_and(Level::is_structure) => {
                if let Some(string) = without(secrets, &whole[at..end]) {
                    clean.push_str(&whole[from..at]);
                    clean.push_str(&string);
                    from = end;
                }
            }
            (_, _) => {}
        }
        at = end;
    }
    clean.push_str(&whole[from..]);
    levels.is_empty().then_some(clean)
}

/// The place after its closing quote.
fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// As it stands in a string of JSON.
pub(crate) fn quoted(text: &str) -> Option<String> {
    Some(serde_json::to_string(text).ok()?.strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

/// `None` if there is no secret in it.
fn without(secrets: &[String], string: &str) -> Option<String> {
    let written = |text: &str| serde_json::to_string(text).ok();
    match serde_json::from_str::<String>(string) {
        Ok(said) => secrets.iter().any(|secret| said.contains(secret.as_str())).then(|| written(&text(secrets, &said)))?,
        // Half of a character, which programs in JavaScript write too.
        Err(_) => {
            let secrets: Vec<String> = secrets.iter().filter_map(|secret| quoted(secret)).collect();
            Some(text(&secrets, string))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn secrets(values: &[&str]) -> Vec<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    fn left(values: &[&str], body: &str) -> String {
        String::from_utf8(json(&secrets(values), Bytes::copy_from_slice(body.as_bytes())).to_vec()).unwrap()
    }

    #[test]
    fn a_value_is_left_out_as_it_stands_in_json() {
        let said = json!({ "text": "is pass\"word\n1, not pass" }).to_string();
        assert_eq!(left(&["pass\"word\n1", "pass"], &said), json!({ "text": "is […], not […]" }).to_string());
        assert_eq!(left(&["pass"], r#"{"text":"\u0070ass \ud800"}"#), r#"{"text":"\u0070ass \ud800"}"#, "no text at all");
        assert_eq!(left(&["pass"], r#"{"text":"\u0070ass"}"#), r#"{"text":"[…]"}"#);
        assert_eq!(left(&["pa\"ss"], r#"{"text":"\ud800 pa\"ss"}"#), r#"{"text":"\ud800 […]"}"#);
    }

    #[test]
    fn a_number_that_is_a_secret_somewhere_stays_a_number() {
        let line = r#"{"type":"pi.assistant","payload":{"id":"a5432b","timestamp":154321,"n":1.50,"usage":{"5432":5432},"text":"port 5432"}}"#;
        let clean = left(&["5432"], line);
        assert_eq!(clean, line.replace("port 5432", "port […]"));
        serde_json::from_str::<Value>(&clean).unwrap();
    }

    #[test]
    fn roles_types_and_ids_stay_though_a_secret_is_called_like_them() {
        let line = r#"{"type":"message","id":"user","parentId":"user1","message":{"role":"user","content":[{"type":"text","text":"a user"}]}}"#;
        assert_eq!(left(&["user"], line), line.replace("a user", "a […]"));
        let call =
            r#"{"content":[{"type":"toolCall","name":"user","arguments":{"type":"user","id":["user"],"user":{"role":"user"}}}]}"#;
        let clean =
            r#"{"content":[{"type":"toolCall","name":"user","arguments":{"type":"[…]","id":["[…]"],"user":{"role":"[…]"}}}]}"#;
        assert_eq!(left(&["user"], call), clean, "what a tool is given is content whatever it is called");
    }

    #[test]
    fn what_holds_no_secret_stays_byte_for_byte_and_what_is_no_json_is_clean_too() {
        let odd = " [ {\"b\" : 1e2, \"a\":\"\\/ \\u00e9\",\"a\":[]} ,\t-0.0 ] ";
        assert_eq!(left(&["hunter22"], odd), odd);
        assert_eq!(left(&["hunter22"], "{\"a\":\"hunter22"), "{\"a\":\"[…]");
        let deep = "[".repeat(200_000) + "\"hunter22\"" + &"]".repeat(200_000);
        assert!(left(&["hunter22"], &deep).contains("\"[…]\""));
    }
}
