//! What an entry of pi is, wherever it stands: in a session file, or inside the entry of a thread.

use events::session::{AssistantBody, Provenance, ToolBody, UserBody};

use super::injected;
use crate::seam::{Extracted, Fact, Handle, Head, Out, Parts, Record};
use crate::value::{Path, Value};

pub(crate) enum Typed {
    System(Extracted<String>),
    User(Parts<UserBody>),
    Assistant(Parts<AssistantBody>),
    Tool(Parts<ToolBody>),
    Carried,
}

pub(crate) fn tell(out: &mut Out<'_>, to: Handle, record: Record, head: Head, typed: Typed) {
    match typed {
        Typed::System(text) => out.system(to, record, head, text),
        Typed::User(parts) => out.user(to, record, head, parts),
        Typed::Assistant(parts) => out.assistant(to, record, head, parts),
        Typed::Tool(parts) => out.tool(to, record, head, parts),
        Typed::Carried => out.carry(to, record, head),
    };
}

/// `at` is where the entry stands in the record, `said` what the words of a person are there.
pub(crate) fn entry(record: &mut Record, at: &Path, said: Provenance) -> Typed {
    match record.str(at.to("type")).unwrap_or_default() {
        "message" => message(record, &at.to("message"), said),
        "compaction" | "branch_summary" => summary(record, at),
        "custom_message" => user(record, &at.to("content"), Provenance::Injected),
        _ => Typed::Carried,
    }
}

pub(crate) fn message(record: &mut Record, at: &Path, said: Provenance) -> Typed {
    match record.str(at.to("role")).unwrap_or_default() {
        "user" => user(record, &at.to("content"), said),
        "assistant" => assistant(record, &at.to("content")),
        "toolResult" => tool_result(record, at),
        "bashExecution" => shell(record, at, said),
        "custom" | "hookMessage" => user(record, &at.to("content"), Provenance::Injected),
        "branchSummary" | "compactionSummary" => summary(record, at),
        "system" => record.text(at.to("content")).map_or(Typed::Carried, Typed::System),
        _ => Typed::Carried,
    }
}

/// Told to the model as if a user had said it.
pub(crate) fn summary(record: &mut Record, at: &Path) -> Typed {
    user(record, &at.to("summary"), Provenance::Injected)
}

pub(crate) fn tool_result(record: &mut Record, at: &Path) -> Typed {
    let content = at.to("content");
    let only = match record.look().at(&content).map(Value::items) {
        Some([block]) if kind(block) == "text" => content.to(0).to("text"),
        Some(_) | None => content.clone(),
    };
    let only = if record.str(only.clone()).is_some() { only } else { content };
    let Some(call_id) = record.copy(at.to("toolCallId")) else { return Typed::Carried };
    let (name, failed) = (record.copy(at.to("toolName")), record.look().at(&at.to("isError")).and_then(Value::as_bool));
    let Some(result) = record.json(only) else { return Typed::Carried };
    let mut parts = Parts::default();
    parts.tool_result(call_id, name, result, failed.unwrap_or_default(), Provenance::Injected);
    Typed::Tool(parts)
}

/// The command was typed by a person; what it printed is the harness's.
fn shell(record: &mut Record, at: &Path, said: Provenance) -> Typed {
    let mut parts = Parts::default();
    let Some(command) = record.text(at.to("command")) else { return Typed::Carried };
    parts.text(command, said);
    if let Some(output) = record.text(at.to("output")) {
        parts.text(output, Provenance::Injected);
    }
    Typed::User(parts)
}

/// A text, or blocks of text and images. Blocks of other kinds stay where they are.
fn user(record: &mut Record, at: &Path, said: Provenance) -> Typed {
    let mut parts = Parts::default();
    let count = match record.look().at(at) {
        Some(Value::String(_)) => {
            text(record, at.clone(), said, &mut parts);
            0
        }
        Some(Value::Array(blocks)) => blocks.len(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Broken(_) | Value::Object(_)) | None => {
            return Typed::Carried;
        }
    };
    for index in 0..count {
        let at = at.to(index);
        match record.str(at.to("type")).unwrap_or_default() {
            "text" => text(record, at.to("text"), said, &mut parts),
            "image" => image(record, &at, said, &mut parts),
            _ => {}
        }
    }
    Typed::User(parts)
}

fn text(record: &mut Record, at: Path, said: Provenance, parts: &mut Parts<UserBody>) {
    let Some(text) = record.text(at) else { return };
    for (piece, provenance) in injected::split(text, said) {
        parts.text(piece, provenance);
    }
}

fn image<B: events::session::Body + From<events::session::File>>(
    record: &mut Record,
    at: &Path,
    provenance: Provenance,
    parts: &mut Parts<B>,
) {
    let media_type = record.copy(at.to("mimeType"));
    if let Some((data, named)) = record.data(at.to("data")) {
        parts.file(media_type.or(named), None, data, provenance);
    }
}

fn assistant(record: &mut Record, at: &Path) -> Typed {
    let said = Provenance::Conversational;
    let mut parts = Parts::default();
    if let Some(text) = record.text(at.clone()) {
        parts.text(text, said);
        return Typed::Assistant(parts);
    }
    let Some(Value::Array(blocks)) = record.look().at(at) else { return Typed::Carried };
    for index in 0..blocks.len() {
        let at = at.to(index);
        match record.str(at.to("type")).unwrap_or_default() {
            "text" => _ = record.text(at.to("text")).map(|text| parts.text(text, said)),
            "thinking" => _ = record.text(at.to("thinking")).map(|text| parts.reasoning(text, said)),
            "image" => image(record, &at, said, &mut parts),
            "toolCall" => {
                let (id, name) = (record.copy(at.to("id")), record.copy(at.to("name")));
                if let (Some(id), Some(name)) = (id, name)
                    && let Some(arguments) = record.json(at.to("arguments"))
                {
                    parts.tool_call(id, name, arguments, false, said);
                }
            }
            _ => {}
        }
    }
    Typed::Assistant(parts)
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Of an assistant's turn, under the name of whose interface it was made with.
pub(crate) fn facts(record: &Record, at: &Path) -> Vec<Fact> {
    let message = at.to("message");
    let at = if record.look().at(&message).is_some() { &message } else { at };
    if record.str(at.to("role")) != Some("assistant") {
        return Vec::new();
    }
    let provider = match record.str(at.to("api")).unwrap_or_default() {
        api if api.starts_with("anthropic") => "anthropic",
        api if api.starts_with("openai") || api.starts_with("azure-openai") => "openai",
        api if api.starts_with("google") => "google",
        api if api.starts_with("bedrock") => "bedrock",
        api if api.starts_with("mistral") => "mistral",
        _ => "pi",
    };
    let names = [
        ("provider", "provider"),
        ("model", "model"),
        ("usage", "usage"),
        ("stopReason", "stop_reason"),
        ("errorMessage", "error"),
    ];
    let fact = |(key, name)| record.copy_json(at.to(key)).map(|value| (provider, name, value));
    names.into_iter().filter_map(fact).collect()
}
