//! What a message and its parts say.

use events::session::{AssistantBody, Body, File, Provenance, UserBody};

use super::log::{At, PartAt, created, down};
use super::provenance::{is_compaction, is_marked, of, split};
use crate::seam::{Extracted, Fact, Handle, Head, Out, Parts, Record};
use crate::value::{Path, Value};

/// Facts of turns are filed under the provider where it is one of these.
const PROVIDERS: [&str; 12] = [
    "anthropic",
    "openai",
    "google",
    "openrouter",
    "github-copilot",
    "amazon-bedrock",
    "azure",
    "xai",
    "groq",
    "mistral",
    "deepseek",
    "opencode",
];

pub(super) fn message(out: &mut Out<'_>, to: Handle, mut record: Record, at: &At, parts: Vec<PartAt>) {
    let head = head(&mut record, at);
    let body = record.look().at(&at.body);
    let injected = is_compaction(body) || parts.iter().any(|part| kind(&record, part) == Some("compaction"));
    match record.str(at.body.to("role")) {
        Some("user") => {
            let parts = typed(&mut record, parts, |parts, record, at| user_part(parts, record, at, injected));
            out.user(to, record, head, parts);
        }
        Some("assistant") => {
            let failed = failures(&record, at);
            let parts = typed(&mut record, parts, |parts, record, at| assistant_part(parts, record, at, injected, &failed));
            out.assistant(to, record, head, parts);
        }
        Some(_) | None => {
            out.carry(to, record, head);
            for part in parts {
                if let PartAt::Own(record, _) = part {
                    out.carry(to, record, Head::default());
                }
            }
        }
    }
}

fn kind<'a>(message: &'a Record, part: &'a PartAt) -> Option<&'a str> {
    match part {
        PartAt::Inside(at) => message.str(at.body.to("type")),
        PartAt::Own(record, at) => record.str(at.body.to("type")),
    }
}

fn typed<B: Body>(message: &mut Record, from: Vec<PartAt>, mut type_of: impl FnMut(&mut Parts<B>, &mut Record, &At)) -> Parts<B> {
    let mut parts = Parts::default();
    for part in from {
        match part {
            PartAt::Inside(at) => type_of(&mut parts, message, &at),
            PartAt::Own(mut record, at) => {
                record.id(at.id.clone());
                let before = parts.len();
                type_of(&mut parts, &mut record, &at);
                parts.own_last(parts.len() - before, record);
            }
        }
    }
    parts
}

fn user_part(parts: &mut Parts<UserBody>, record: &mut Record, at: &At, injected: bool) {
    let body = &at.body;
    let injected = injected || is_marked(record.look().at(body));
    let id = record.copy(at.id.clone());
    match record.str(body.to("type")) {
        Some("text") => {
            let Some(text) = record.text(body.to("text")) else { return };
            let pieces = if injected { vec![(text, Provenance::Injected)] } else { split(text) };
            for (piece, provenance) in pieces {
                parts.text(piece, provenance);
                name(parts, id.as_ref());
            }
        }
        // Its words are said again at the head of the child.
        Some("subtask") => {
            let Some(prompt) = record.text(body.to("prompt")) else { return };
            parts.text(prompt, Provenance::Injected);
            name(parts, id.as_ref());
        }
        Some("file") => file(parts, record, body, id.as_ref(), of(injected)),
        Some(_) | None => {}
    }
}

fn assistant_part(parts: &mut Parts<AssistantBody>, record: &mut Record, at: &At, injected: bool, failed: &[String]) {
    let body = &at.body;
    let provenance = of(injected || is_marked(record.look().at(body)));
    let id = record.copy(at.id.clone());
    match record.str(body.to("type")) {
        Some("text") => {
            let Some(text) = record.text(body.to("text")) else { return };
            parts.text(text, provenance);
            name(parts, id.as_ref());
        }
        Some("reasoning") => {
            let Some(text) = record.text(body.to("text")) else { return };
            parts.reasoning(text, provenance);
            name(parts, id.as_ref());
        }
        Some("file") => file(parts, record, body, id.as_ref(), provenance),
        Some("tool") => tool(parts, record, body, id.as_ref(), provenance),
        Some("tool-invocation") => invocation(parts, record, &body.to("toolInvocation"), provenance, failed),
        Some(_) | None => {}
    }
}

fn name<B: Body>(parts: &mut Parts<B>, id: Option<&Extracted<String>>) {
    if let Some(id) = id {
        parts.named(id);
    }
}

fn file<B: Body + From<File>>(
    parts: &mut Parts<B>,
    record: &mut Record,
    body: &Path,
    id: Option<&Extracted<String>>,
    provenance: Provenance,
) {
    let Some((data, told)) = record.data(body.to("url")) else { return };
    let media_type = record.copy(body.to("mime")).or_else(|| record.copy(body.to("mediaType"))).or(told);
    parts.file(media_type, record.copy(body.to("filename")), data, provenance);
    name(parts, id);
}

/// A call, its result once there is one, and the files that came with it.
fn tool(
    parts: &mut Parts<AssistantBody>,
    record: &mut Record,
    body: &Path,
    id: Option<&Extracted<String>>,
    provenance: Provenance,
) {
    let state = body.to("state");
    let (Some(call_id), Some(tool)) = (record.copy(body.to("callID")), record.copy(body.to("tool"))) else { return };
    let Some(input) = record.json(state.to("input")) else { return };
    let by_provider = record.look().at(&down(body, &["metadata", "providerExecuted"])).and_then(Value::as_bool);
    parts.tool_call(call_id.clone(), tool.clone(), input, by_provider.unwrap_or_default(), provenance);
    name(parts, id);
    let (key, is_failure) = match record.str(state.to("status")) {
        Some("completed") => ("output", false),
        Some("error") => ("error", true),
        Some(_) | None => return,
    };
    if let Some(result) = record.json(state.to(key)) {
        parts.tool_result(call_id, Some(tool), result, is_failure, Provenance::Injected);
        name(parts, id);
    }
    let attachments = state.to("attachments");
    for index in 0..record.look().at(&attachments).map_or(0, |it| it.items().len()) {
        let attached = attachments.to(index);
        let own = record.copy(attached.to("id"));
        file(parts, record, &attached, own.as_ref().or(id), Provenance::Injected);
    }
}

/// Calls and results as 0.1 has them.
fn invocation(parts: &mut Parts<AssistantBody>, record: &mut Record, body: &Path, provenance: Provenance, failed: &[String]) {
    let (Some(call_id), Some(tool)) = (record.copy(body.to("toolCallId")), record.copy(body.to("toolName"))) else { return };
    let Some(args) = record.json(body.to("args")) else { return };
    parts.tool_call(call_id.clone(), tool.clone(), args, false, provenance);
    if let Some(result) = record.json(body.to("result")) {
        let is_failure = failed.contains(call_id.look());
        parts.tool_result(call_id, Some(tool), result, is_failure, Provenance::Injected);
    }
}

/// The calls that 0.1 says failed.
fn failures(record: &Record, at: &At) -> Vec<String> {
    let tools = record.look().at(&down(&at.body, &["metadata", "tool"]));
    let failed = |it: &&(String, Value)| it.1.get("error").and_then(Value::as_bool).unwrap_or_default();
    tools.map(Value::fields).unwrap_or_default().iter().filter(failed).map(|it| it.0.clone()).collect()
}

fn head(record: &mut Record, at: &At) -> Head {
    Head { id: record.id(at.id.clone()), timestamp: created(record, &at.body), facts: facts(record, &at.body) }
}

fn facts(record: &Record, body: &Path) -> Vec<Fact> {
    if record.str(body.to("role")) != Some("assistant") {
        return Vec::new();
    }
    let old = down(body, &["metadata", "assistant"]);
    let either = |key: &str| record.copy_json(body.to(key)).or_else(|| record.copy_json(old.to(key)));
    let provider = record.str(body.to("providerID")).or_else(|| record.str(old.to("providerID")));
    let provider = provider.and_then(|it| PROVIDERS.into_iter().find(|known| *known == it)).unwrap_or("opencode");
    let error = record.copy_json(body.to("error")).or_else(|| record.copy_json(down(body, &["metadata", "error"])));
    let facts = [
        ("provider", either("providerID")),
        ("model", either("modelID")),
        ("usage", either("tokens")),
        ("cost", either("cost")),
        ("stop_reason", either("finish")),
        ("error", error),
    ];
    facts.into_iter().filter_map(|(key, fact)| Some((provider, key, fact?))).collect()
}
