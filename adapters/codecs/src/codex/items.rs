//! Response items: what the model saw and said.

use events::session::Provenance::{Conversational, Injected};
use events::session::{AssistantBody, UserBody};

use super::injected;
use super::parse::State;
use crate::seam::{Extracted, Handle, Head, Out, Parts, Record};
use crate::value::{Path, Reader, Step, Value};

pub(super) fn item(out: &mut Out<'_>, to: Handle, record: Record, mut head: Head, at: &Path, state: &State) {
    let kind = record.str(at.to("type")).unwrap_or_default();
    match (kind, record.str(at.to("role")).unwrap_or_default()) {
        ("message", "user") => user(out, to, record, head, at),
        ("message", "developer" | "system") => developer(out, to, record, head, at),
        ("message", "assistant") => {
            head.facts.extend(state.facts());
            assistant(out, to, record, head, at, said);
        }
        ("agent_message", _) => agent(out, to, record, head, at),
        ("function_call_output" | "custom_tool_call_output" | "tool_search_output", _) => result(out, to, record, head, at),
        ("reasoning", _) => {
            head.facts.extend(state.facts());
            assistant(out, to, record, head, at, thought);
        }
        ("function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call" | "tool_search_call", _) => {
            head.facts.extend(state.facts());
            assistant(out, to, record, head, at, call);
        }
        ("image_generation_call", _) => {
            head.facts.extend(state.facts());
            assistant(out, to, record, head, at, picture);
        }
        _ => {
            out.carry(to, record, head);
        }
    }
}

/// The places of the texts of a message, which is a text itself or a list, with their kinds.
fn contents(record: &Record, at: &Path) -> Vec<(Path, &'static str)> {
    let Some(content) = record.look().at(at) else { return Vec::new() };
    if content.as_str().is_some() {
        return vec![(at.clone(), "text")];
    }
    let places = content.items().iter().enumerate().filter_map(|(index, item)| {
        let key = match item.get("type").and_then(Value::as_str)? {
            "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => "text",
            "refusal" => "refusal",
            "input_image" => "image_url",
            _ => return None,
        };
        item.get(key)?.as_str()?;
        Some((at.to(index).to(key), key))
    });
    places.collect()
}

fn user(out: &mut Out<'_>, to: Handle, mut record: Record, head: Head, at: &Path) {
    let mut parts = Parts::<UserBody>::default();
    for (place, key) in contents(&record, &at.to("content")) {
        let told = told(&record, at, &place);
        if key == "image_url" {
            let injected = told.is_some_and(|told| told != "user");
            if let Some((data, media_type)) = record.data(place) {
                parts.file(media_type, None, data, if injected { Injected } else { Conversational });
            }
        } else if let Some(text) = record.text(place) {
            for (piece, provenance) in injected::pieces(text, told.as_deref()) {
                parts.text(piece, provenance);
            }
        }
    }
    if parts.is_empty() {
        out.carry(to, record, head)
    } else {
        out.user(to, record, head, parts)
    };
}

/// What the source says of where a text came from.
fn told(record: &Record, at: &Path, place: &Path) -> Option<String> {
    let Some(Step::Index(index)) = place.0.get(at.0.len() + 1) else { return None };
    let notes = at.to("internal_chat_message_metadata_passthrough").to("content_item_metadata");
    record.str(notes.to(*index).to("provenance").to("type")).map(str::to_owned)
}

/// The client's instructions come as several texts in one message.
fn developer(out: &mut Out<'_>, to: Handle, mut record: Record, head: Head, at: &Path) {
    let places = contents(&record, &at.to("content")).into_iter().filter(|(_, key)| *key == "text");
    let mut texts = places.filter_map(|(place, _)| record.text(place)).collect::<Vec<_>>().into_iter();
    let Some(first) = texts.next() else {
        out.carry(to, record, head);
        return;
    };
    let told = out.system(to, record, head, first);
    for text in texts {
        out.system_beside(to, &told, text);
    }
}

fn agent(out: &mut Out<'_>, to: Handle, mut record: Record, head: Head, at: &Path) {
    let mut parts = Parts::<UserBody>::default();
    for (place, _) in contents(&record, &at.to("content")).into_iter().filter(|(_, key)| *key == "text") {
        for (piece, provenance) in record.text(place).map(injected::between_agents).unwrap_or_default() {
            parts.text(piece, provenance);
        }
    }
    if parts.is_empty() {
        out.carry(to, record, head)
    } else {
        out.user(to, record, head, parts)
    };
}

type Take = fn(&mut Record, &Path, &mut Parts<AssistantBody>) -> Option<()>;

fn assistant(out: &mut Out<'_>, to: Handle, mut record: Record, mut head: Head, at: &Path, take: Take) {
    let mut parts = Parts::default();
    take(&mut record, at, &mut parts);
    if parts.is_empty() {
        head.facts.clear();
        out.carry(to, record, head);
    } else {
        out.assistant(to, record, head, parts);
    }
}

fn said(record: &mut Record, at: &Path, parts: &mut Parts<AssistantBody>) -> Option<()> {
    for (place, key) in contents(record, &at.to("content")) {
        if key == "image_url" {
            let (data, media_type) = record.data(place)?;
            parts.file(media_type, None, data, Conversational);
        } else {
            parts.text(record.text(place)?, Conversational);
        }
    }
    Some(())
}

fn thought(record: &mut Record, at: &Path, parts: &mut Parts<AssistantBody>) -> Option<()> {
    for key in ["summary", "content"] {
        for (place, _) in contents(record, &at.to(key)) {
            parts.reasoning(record.text(place)?, Conversational);
        }
    }
    Some(())
}

/// A call of the client's own kinds has no name but its kind, and at times no id.
fn call(record: &mut Record, at: &Path, parts: &mut Parts<AssistantBody>) -> Option<()> {
    let id = |key: &str| record.copy(at.to(key)).filter(|id| !id.look().is_empty());
    let call_id = id("call_id").or_else(|| id("id"));
    let call_id = call_id.unwrap_or_else(|| record.digest());
    let kind = record.copy(at.to("type"))?;
    let (name, params) = match kind.look().as_str() {
        "function_call" => (record.copy(at.to("name"))?, record.encoded(at.to("arguments"))),
        "custom_tool_call" => (record.copy(at.to("name"))?, record.json(at.to("input"))),
        "tool_search_call" => (kind.clone(), record.json(at.to("arguments"))),
        _ => (kind.clone(), record.json(at.to("action"))),
    };
    parts.tool_call(call_id, name, params?, kind.look() == "web_search_call", Conversational);
    Some(())
}

fn picture(record: &mut Record, at: &Path, parts: &mut Parts<AssistantBody>) -> Option<()> {
    let (data, media_type) = record.data(at.to("result"))?;
    parts.file(media_type, None, data, Conversational);
    Some(())
}

fn result(out: &mut Out<'_>, to: Handle, mut record: Record, head: Head, at: &Path) {
    let is_failure = record.look().at(&at.to("output")).is_some_and(failed);
    let output = record.json(at.to("output")).or_else(|| record.json(at.to("tools")));
    let mut parts = Parts::default();
    let call_id: Option<Extracted<String>> = record.copy(at.to("call_id"));
    if let (Some(call_id), Some(output)) = (call_id, output) {
        parts.tool_result(call_id, None, output, is_failure, Injected);
    }
    if parts.is_empty() {
        out.carry(to, record, head)
    } else {
        out.tool(to, record, head, parts)
    };
}

/// The client says how a command ended in what it tells the model: in a line above the output, or in JSON around it.
fn failed(output: &Value) -> bool {
    const LINES: [&str; 2] = ["Exit code: ", "Process exited with code "];
    if let Some(success) = output.get("success").and_then(Value::as_bool) {
        return !success;
    }
    let Some(text) = output.as_str() else { return false };
    if text.starts_with("{\"output\":") {
        let inside = Reader::only(text).ok();
        let code = inside.as_ref().and_then(|it| it.get("metadata")).and_then(|it| it.get("exit_code"));
        return code.and_then(Value::as_i64).is_some_and(|code| code != 0);
    }
    let above = text.lines().take(8).take_while(|line| *line != "Output:");
    let mut codes = above.filter_map(|line| LINES.iter().find_map(|start| line.strip_prefix(start)));
    codes.next().is_some_and(|code| code.trim() != "0")
}
