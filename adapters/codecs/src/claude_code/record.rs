//! One record: a turn, a piece of one, or something that is carried whole.

use events::session::{AssistantBody, Body, File, Provenance, Text, ToolBody, UserBody};

use super::injected;
use crate::fault::What;
use crate::seam::{Extracted, Handle, Head, Out, Parts, Record, Told};
use crate::value::{Path, Value};

/// Facts of a turn, and where a record has them.
const FACTS: &[(&str, &[&str])] = &[
    ("model", &["message", "model"]),
    ("usage", &["message", "usage"]),
    ("stop_reason", &["message", "stop_reason"]),
    ("message_id", &["message", "id"]),
    ("effort", &["effort"]),
];

pub(super) fn record(out: &mut Out<'_>, to: Handle, record: Record) {
    let (location, id) = (record.location(), field(&record, "uuid").map(str::to_owned));
    let told = match field(&record, "type") {
        Some("user") => user(out, to, record),
        Some("assistant") => assistant(out, to, record),
        Some("attachment") => attachment(out, to, record),
        Some("system") if field(&record, "subtype") == Some("local_command") => command(out, to, record),
        Some(_) | None => carry(out, to, record),
    };
    if told.repeated() {
        out.fault(location, What::Unfit(format!("the id {} stands more than once", id.unwrap_or_default())));
    }
}

fn field<'r>(record: &'r Record, key: &str) -> Option<&'r str> {
    record.look().get(key).and_then(Value::as_str)
}

fn head(record: &mut Record) -> Head {
    Head { id: record.id(["uuid"]), timestamp: record.time(["timestamp"]), facts: Vec::new() }
}

fn carry(out: &mut Out<'_>, to: Handle, mut record: Record) -> Told {
    let head = head(&mut record);
    out.carry(to, record, head)
}

fn path(keys: &[&str]) -> Path {
    Path(keys.iter().map(|key| (*key).into()).collect())
}

fn kind<'r>(record: &'r Record, at: &Path) -> &'r str {
    record.look().at(at).and_then(|it| it.get("type")).and_then(Value::as_str).unwrap_or_default()
}

enum Shape {
    Text,
    Blocks(usize),
    Other,
}

fn shape(record: &Record, at: &Path) -> Shape {
    match record.look().at(at) {
        Some(Value::String(_)) => Shape::Text,
        Some(Value::Array(items)) => Shape::Blocks(items.len()),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Broken(_) | Value::Object(_)) | None => Shape::Other,
    }
}

fn assistant(out: &mut Out<'_>, to: Handle, mut record: Record) -> Told {
    let at = Path::from(["message", "content"]);
    let mut head = head(&mut record);
    for (key, keys) in FACTS {
        let from = path(keys);
        if record.look().at(&from).is_some_and(|it| *it != Value::Null) {
            head.facts.extend(record.copy_json(from).map(|fact| ("anthropic", *key, fact)));
        }
    }
    let made_up = record.str(["message", "model"]) == Some("<synthetic>")
        || record.look().get("isApiErrorMessage").and_then(Value::as_bool) == Some(true);
    let speech = if made_up { Provenance::Injected } else { Provenance::Conversational };
    let mut parts = Parts::default();
    match shape(&record, &at) {
        Shape::Text => {
            if let Some(text) = record.text(at) {
                parts.text(text, speech);
            }
        }
        Shape::Blocks(count) => (0..count).for_each(|index| spoken(&mut parts, &mut record, &at.to(index), speech)),
        Shape::Other => return out.carry(to, record, head),
    }
    out.assistant(to, record, head, parts)
}

fn spoken(parts: &mut Parts<AssistantBody>, record: &mut Record, at: &Path, speech: Provenance) {
    match kind(record, at).to_owned().as_str() {
        "thinking" => {
            if let Some(text) = record.text(at.to("thinking")) {
                parts.reasoning(text, speech);
            }
        }
        called @ ("tool_use" | "server_tool_use" | "mcp_tool_use") => {
            let (id, name) = (record.copy(at.to("id")), record.copy(at.to("name")));
            if let (Some(id), Some(name), true) = (id, name, record.look().at(&at.to("input")).is_some())
                && let Some(params) = record.json(at.to("input"))
            {
                parts.tool_call(id, name, params, called != "tool_use", speech);
            }
        }
        result if result.ends_with("_tool_result") => result_of(parts, record, at),
        _ => said(parts, record, at, |_| vec![(usize::MAX, speech)]),
    }
}

/// A text, an image or a document; anything else stays in the record.
fn said<B>(parts: &mut Parts<B>, record: &mut Record, at: &Path, pieces: impl Fn(&str) -> Vec<(usize, Provenance)>)
where
    B: Body + From<Text> + From<File>,
{
    let source = at.to("source");
    match kind(record, at) {
        "text" => {
            if let Some(text) = record.text(at.to("text")) {
                split(parts, text, pieces);
            }
        }
        "image" | "document" => {
            let provenance = pieces("").first().map_or(Provenance::Conversational, |it| it.1);
            let (media_type, title) = (record.copy(source.to("media_type")), record.copy(at.to("title")));
            let data = match kind(record, &source) {
                "text" => record.text_data(source.to("data")),
                "url" => record.data(source.to("url")).map(|it| it.0),
                _ => record.data(source.to("data")).map(|it| it.0),
            };
            if let Some(data) = data {
                parts.file(media_type, title, data, provenance);
            }
        }
        _ => {}
    }
}

fn split<B: Body + From<Text>>(parts: &mut Parts<B>, text: Extracted<String>, pieces: impl Fn(&str) -> Vec<(usize, Provenance)>) {
    let ends = pieces(text.look());
    let cuts: Vec<_> = ends.iter().map(|it| it.0).take(ends.len() - 1).collect();
    for (piece, (_, provenance)) in text.split(&cuts).into_iter().zip(ends) {
        parts.text(piece, provenance);
    }
}

fn result_of<B>(parts: &mut Parts<B>, record: &mut Record, at: &Path)
where
    B: Body + From<events::session::ToolResult>,
{
    let Some(id) = record.copy(at.to("tool_use_id")) else { return };
    let is_failure = record.look().at(&at.to("is_error")).and_then(Value::as_bool) == Some(true);
    // A result without content is told by its block as a whole.
    let result = record.json(at.to("content")).or_else(|| record.copy_json(at.clone()));
    if let Some(result) = result {
        parts.tool_result(id, None, result, is_failure, Provenance::Injected);
    }
}

/// Judges by the record where it says who speaks, and by the text where it does not.
fn judge(record: &Record) -> impl Fn(&str) -> Vec<(usize, Provenance)> + use<> {
    let is_injected = injected::is_record(record.look());
    move |text| if is_injected { vec![(text.len(), Provenance::Injected)] } else { injected::pieces(text) }
}

fn user(out: &mut Out<'_>, to: Handle, mut record: Record) -> Told {
    let at = Path::from(["message", "content"]);
    let (head, pieces) = (head(&mut record), judge(&record));
    let mut results = Parts::<ToolBody>::default();
    let mut words = Parts::<UserBody>::default();
    match shape(&record, &at) {
        Shape::Text => {
            if let Some(text) = record.text(at) {
                split(&mut words, text, pieces);
            }
        }
        Shape::Blocks(count) => {
            for block in (0..count).map(|index| at.to(index)) {
                if kind(&record, &block) == "tool_result" {
                    result_of(&mut results, &mut record, &block);
                } else {
                    said(&mut words, &mut record, &block, &pieces);
                }
            }
        }
        Shape::Other => return out.carry(to, record, head),
    }
    if results.is_empty() {
        return out.user(to, record, head, words);
    }
    let told = out.tool(to, record, head, results);
    if !words.is_empty() {
        out.user_beside(to, &told, words);
    }
    told
}

/// The echo of a command that the client ran itself.
fn command(out: &mut Out<'_>, to: Handle, mut record: Record) -> Told {
    let (head, pieces) = (head(&mut record), judge(&record));
    let Some(text) = record.text(["content"]) else { return out.carry(to, record, head) };
    let mut parts = Parts::default();
    split(&mut parts, text, pieces);
    out.user(to, record, head, parts)
}

fn attachment(out: &mut Out<'_>, to: Handle, mut record: Record) -> Told {
    let head = head(&mut record);
    let mut parts = Parts::<UserBody>::default();
    let at = Path::from(["attachment"]);
    match kind(&record, &at).to_owned().as_str() {
        "queued_command" => queued(&mut parts, &mut record, &at.to("prompt")),
        "file" | "directory" | "selected_lines_in_ide" => pointed_at(&mut parts, &mut record, &at),
        _ if record.look().get("rendered").is_some() => {
            let count = record.look().get("rendered").map_or(0, |it| it.items().len());
            let of = |index: usize| Path::from(["rendered"]).to(index).to("content");
            if count == 1
                && field(&record, "renderedRole") == Some("system")
                && let Some(text) = record.text(of(0))
            {
                return out.system(to, record, head, text);
            }
            (0..count).for_each(|index| injected(&mut parts, &mut record, of(index)));
        }
        _ => match shape(&record, &at.to("content")) {
            Shape::Text => injected(&mut parts, &mut record, at.to("content")),
            Shape::Blocks(count) => {
                (0..count).for_each(|index| injected(&mut parts, &mut record, at.to("content").to(index)));
            }
            Shape::Other => {}
        },
    }
    if parts.is_empty() { out.carry(to, record, head) } else { out.user(to, record, head, parts) }
}

fn injected(parts: &mut Parts<UserBody>, record: &mut Record, at: Path) {
    if let Some(text) = record.text(at) {
        parts.text(text, Provenance::Injected);
    }
}

/// What was entered while the model was at work.
fn queued(parts: &mut Parts<UserBody>, record: &mut Record, at: &Path) {
    let told = record.look().get("attachment").is_some_and(injected::is_record);
    let pieces = |text: &str| if told { vec![(text.len(), Provenance::Injected)] } else { injected::pieces(text) };
    match shape(record, at) {
        Shape::Text => {
            if let Some(text) = record.text(at.clone()) {
                split(parts, text, pieces);
            }
        }
        Shape::Blocks(count) => (0..count).for_each(|index| said(parts, record, &at.to(index), pieces)),
        Shape::Other => {}
    }
}

/// A file, a directory or lines that the user named.
fn pointed_at(parts: &mut Parts<UserBody>, record: &mut Record, at: &Path) {
    let name = ["displayPath", "filename", "path"].iter().find_map(|key| record.copy(at.to(*key)));
    let file = at.to("content").to("file");
    let media_type = record.copy(file.to("type"));
    let data = record.text_data(at.to("content")).or_else(|| record.text_data(file.to("content")));
    let data = data.or_else(|| record.data(file.to("base64")).map(|it| it.0));
    if let Some(data) = data {
        parts.file(media_type, name, data, Provenance::Conversational);
    }
}
