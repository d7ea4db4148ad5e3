//! The vendors' prompts and the descriptions of their tools are theirs: short texts of ours stand for them.

use codecs::value::Value;

const OURS: &str = "Words of the harness.";
/// Longer than anything that is said in a scene.
const LONG: usize = 240;
/// Longer than anything but prose that stands in a tag, or that the client puts in.
const PROSE: usize = 60;
/// What stands under these is the vendor's, however short.
const THEIRS: [&str; 8] = [
    "system",
    "systemPrompt",
    "systemMessage",
    "base_instructions",
    "developer_instructions",
    "sections",
    "rendered",
    "addedLines",
];
/// Beginnings by which it is known who speaks.
const KNOWN: [&str; 2] =
    ["This session is being continued from a previous conversation", "Another language model started to solve this problem"];

pub(super) fn replace(value: &mut Value) {
    match value {
        Value::String(text) if !is_data(text) && (text.len() > LONG || (text.len() > 2 * PROSE && tag(text).is_some())) => {
            *text = short(text);
        }
        Value::Array(items) => items.iter_mut().for_each(replace),
        Value::Object(fields) => {
            let developer = fields.iter().any(|(key, value)| key == "role" && value.as_str() == Some("developer"));
            for (key, value) in fields {
                match key.as_str() {
                    "tools" | "toolsAdded" | "dynamic_tools" => tools(value),
                    "attachment" => all(value, PROSE),
                    key if THEIRS.contains(&key) || (developer && key == "content") => all(value, OURS.len()),
                    _ => replace(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Broken(_) => {}
    }
}

fn is_data(text: &str) -> bool {
    text.starts_with("data:") || text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte))
}

/// A text in a tag stays in it.
fn short(text: &str) -> String {
    if let Some(known) = KNOWN.iter().find(|known| text.starts_with(*known)) {
        return format!("{known}. {OURS}");
    }
    tag(text).map_or_else(|| OURS.to_owned(), |tag| format!("<{tag}>\n{OURS}\n</{tag}>"))
}

/// The one that all of a text stands in.
fn tag(text: &str) -> Option<&str> {
    let tag = text.trim_start().strip_prefix('<')?.split(['>', ' ', '\n']).next()?;
    text.trim_end().ends_with(&format!("</{tag}>")).then_some(tag)
}

/// Every text that is longer and no name.
fn all(value: &mut Value, longer: usize) {
    match value {
        Value::String(text) if text.len() > longer && text.contains(' ') => *text = short(text),
        Value::Array(items) => items.iter_mut().for_each(|it| all(it, longer)),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, value)| all(value, longer)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Broken(_) => {}
    }
}

/// Tools keep their names.
fn tools(value: &mut Value) {
    let Value::Array(items) = value else { return };
    for tool in items {
        if let Some(name) = tool.get("name").cloned() {
            *tool = Value::object([("name", name), ("description", "A tool.".into())]);
        }
    }
}

#[cfg(test)]
mod tests {
    use codecs::value::Reader;

    use super::*;

    #[test]
    fn what_is_the_vendors_is_replaced_and_what_was_said_is_not() {
        let long = "x y".repeat(200);
        let text = format!(
            r#"{{"systemPrompt":["You are an agent of ours, and brief."],"tools":[{{"name":"Bash","input_schema":{{}}}}],
                "note":"<system-reminder>{long}</system-reminder>","role":"developer","content":[{{"type":"input_text","text":"{long}"}}],
                "said":"hello there"}}"#
        );
        let mut value = Reader::only(&text).unwrap();
        replace(&mut value);
        let expected = r#"{"systemPrompt":["Words of the harness."],"tools":[{"name":"Bash","description":"A tool."}],
            "note":"<system-reminder>\nWords of the harness.\n</system-reminder>","role":"developer",
            "content":[{"type":"input_text","text":"Words of the harness."}],"said":"hello there"}"#;
        assert_eq!(value, Reader::only(expected).unwrap());
    }
}
