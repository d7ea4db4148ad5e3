//! Another client's session as a rollout of the enveloped generation, which newer clients resume as well as their own.

use std::collections::BTreeMap;

use events::Json;
use events::session::{BodyRef, Content, Data, File, Message, PartRef, Provenance, Session, Timestamp, ToolCall, ToolResult};

use super::rollout;
use crate::artifact::{Artifact, Body, Report};
use crate::foreign::{Shown, data_url, digest, model, shown};
use crate::lineage::Lineage;
use crate::restore::{Place, RestoreError, loaded};
use crate::value::{Reader, Value};

/// The client whose lines these are.
const VERSION: &str = "0.77.0";

pub(super) fn artifacts(lineage: &Lineage, place: &Place, report: &mut Report) -> Result<Vec<Artifact>, RestoreError> {
    let parent = rollout::thread_id(&lineage.session);
    let mut artifacts = Vec::new();
    for (index, (session, messages)) in lineage.all().enumerate() {
        let parent = (index > 0).then_some(parent.as_str());
        let mut writer = Writer { lines: Vec::new(), calls: calls(messages), report };
        writer.header(session, parent, place);
        if let Some(model) = messages.iter().find_map(model) {
            writer.turn(session.created_at, place, &model);
        }
        for message in messages {
            writer.message(message)?;
        }
        let body = Body::Lines(writer.lines);
        artifacts.push(Artifact { path: rollout::path(session), body });
    }
    Ok(artifacts)
}

/// The calls of a session by id: how the client is to know them, and in which form their results come.
fn calls(messages: &[Message]) -> BTreeMap<&str, Call> {
    let mut calls = BTreeMap::new();
    for part in messages.iter().flat_map(Message::parts) {
        if let BodyRef::ToolCall(call) = part.body {
            let free = call.params.get().starts_with('"');
            calls.insert(call.call_id.as_str(), Call { id: fitting(&call.call_id, "call_"), free, state: State::Announced });
        }
    }
    calls
}

struct Call {
    id: String,
    /// The tool takes a text and no object.
    free: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Announced,
    Made,
    Answered,
}

/// A name that the model's API takes: letters, digits, `_` and `-`, at most 64.
fn fitting(name: &str, prefix: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.len() <= 64 && name.bytes().all(fits) {
        return name.to_owned();
    }
    format!("{prefix}{}", &digest(&[name])[..24])
}

struct Writer<'a> {
    lines: Vec<Value>,
    calls: BTreeMap<&'a str, Call>,
    report: &'a mut Report,
}

impl<'a> Writer<'a> {
    fn line(&mut self, moment: Timestamp, kind: &str, payload: Value) {
        let moment = Value::from(moment.to_string());
        self.lines.push(Value::object([("timestamp", moment), ("type", kind.into()), ("payload", payload)]));
    }

    fn item(&mut self, moment: Timestamp, kind: &str, fields: impl IntoIterator<Item = (&'static str, Value)>) {
        self.line(moment, "response_item", typed(kind, fields));
    }

    fn event(&mut self, moment: Timestamp, kind: &str, fields: impl IntoIterator<Item = (&'static str, Value)>) {
        self.line(moment, "event_msg", typed(kind, fields));
    }

    fn header(&mut self, session: &Session, parent: Option<&str>, place: &Place) {
        let mut fields = vec![
            ("id", rollout::thread_id(session).into()),
            ("timestamp", session.created_at.to_string().into()),
            ("cwd", place.directory.as_str().into()),
            ("originator", "arbe".into()),
            ("cli_version", VERSION.into()),
        ];
        match parent {
            Some(parent) if session.parent_message_id.is_some() => {
                fields.extend([("source", "cli".into()), ("forked_from_id", parent.into())]);
            }
            Some(parent) => {
                let spawn = [("parent_thread_id", parent.into()), ("depth", Value::number(1))];
                let source = Value::object([("subagent", Value::object([("thread_spawn", Value::object(spawn))]))]);
                fields.extend([("source", source), ("parent_thread_id", parent.into())]);
            }
            None => fields.push(("source", "cli".into())),
        }
        self.line(session.created_at, "session_meta", object(fields));
    }

    fn turn(&mut self, moment: Timestamp, place: &Place, model: &str) {
        let payload = Value::object([
            ("cwd", place.directory.as_str().into()),
            ("approval_policy", "on-request".into()),
            ("sandbox_policy", Value::object([("type", "read-only".into())])),
            ("model", model.into()),
            ("summary", "auto".into()),
        ]);
        self.line(moment, "turn_context", payload);
    }

    fn message(&mut self, message: &'a Message) -> Result<(), RestoreError> {
        match &message.content {
            Content::System(text) if text.is_empty() => self.report.drop("record of the client's own"),
            Content::System(text) => {
                let content = Value::from(vec![typed("input_text", [("text", text.as_str().into())])]);
                self.item(message.timestamp, "message", [("role", "developer".into()), ("content", content)]);
            }
            Content::User(_) => self.user(message)?,
            Content::Assistant(_) | Content::Tool(_) => {
                for part in message.parts() {
                    self.part(message, &part)?;
                }
            }
        }
        Ok(())
    }

    /// What the user wrote is shown again; what a client put there is marked as its own.
    fn user(&mut self, message: &'a Message) -> Result<(), RestoreError> {
        let (mut content, mut notes, mut said, mut shown) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for part in message.parts() {
            let authored = part.provenance == Provenance::Conversational;
            match part.body {
                BodyRef::Text(it) => {
                    content.push(typed("input_text", [("text", it.text.as_str().into())]));
                    said.extend(authored.then_some(it.text.as_str()));
                }
                BodyRef::File(file) => {
                    let Some(url) = self.image(message, &part, file)? else { continue };
                    content.push(typed("input_image", [("image_url", url.clone())]));
                    shown.extend(authored.then_some(url));
                }
                BodyRef::Reasoning(_)
                | BodyRef::ToolCall(_)
                | BodyRef::ToolResult(_)
                | BodyRef::ApprovalRequest(_)
                | BodyRef::ApprovalResponse(_) => continue,
            }
            notes.push(note(if authored { "user" } else { "harness" }));
        }
        if content.is_empty() {
            return Ok(());
        }
        self.noted(message.timestamp, content, notes);
        if !said.is_empty() || !shown.is_empty() {
            let empty = || Value::from(Vec::new());
            let fields = [("images", shown.into()), ("local_images", empty()), ("text_elements", empty())];
            let fields = std::iter::once(("message", said.join("\n").into())).chain(fields);
            self.event(message.timestamp, "user_message", fields);
        }
        Ok(())
    }

    fn noted(&mut self, moment: Timestamp, content: Vec<Value>, notes: Vec<Value>) {
        let notes = Value::object([("content_item_metadata", notes.into())]);
        self.item(moment, "message", [("role", "user".into()), ("content", content.into()), (NOTES, notes)]);
    }

    fn part(&mut self, message: &Message, part: &PartRef<'a>) -> Result<(), RestoreError> {
        let moment = message.timestamp;
        match part.body {
            BodyRef::Text(it) if it.text.is_empty() => {}
            // Said in the model's place by the client.
            BodyRef::Text(it) if part.provenance == Provenance::Injected => {
                self.noted(moment, vec![typed("input_text", [("text", it.text.as_str().into())])], vec![note("harness")]);
            }
            BodyRef::Text(it) => {
                let content = Value::from(vec![typed("output_text", [("text", it.text.as_str().into())])]);
                self.item(moment, "message", [("role", "assistant".into()), ("content", content)]);
                self.event(moment, "agent_message", [("message", it.text.as_str().into())]);
            }
            BodyRef::Reasoning(it) if it.text.is_empty() => self.report.drop("reasoning without text"),
            BodyRef::Reasoning(it) => {
                let summary = Value::from(vec![typed("summary_text", [("text", it.text.as_str().into())])]);
                self.event(moment, "agent_reasoning", [("text", it.text.as_str().into())]);
                self.item(
                    moment,
                    "reasoning",
                    [("summary", summary), ("content", Value::Null), ("encrypted_content", Value::Null)],
                );
            }
            BodyRef::File(file) => self.report.drop(format!("{} file of the model", file.media_type)),
            BodyRef::ToolCall(call) => self.call(moment, call),
            BodyRef::ToolResult(result) => self.result(moment, result),
            BodyRef::ApprovalRequest(_) | BodyRef::ApprovalResponse(_) => self.report.drop(part.body.kind()),
        }
        Ok(())
    }

    fn call(&mut self, moment: Timestamp, call: &ToolCall) {
        let Some(known) = self.calls.get_mut(call.call_id.as_str()).filter(|known| known.state == State::Announced) else {
            return self.report.drop("tool call with the id of another");
        };
        known.state = State::Made;
        let (id, free) = (Value::from(known.id.as_str()), known.free);
        let name = Value::from(fitting(&call.name, "tool_"));
        if free {
            let input = Reader::only(call.params.get()).unwrap_or(Value::Null);
            let fields = [("status", "completed".into()), ("call_id", id), ("name", name), ("input", input)];
            self.item(moment, "custom_tool_call", fields);
        } else {
            self.item(moment, "function_call", [("name", name), ("arguments", call.params.get().into()), ("call_id", id)]);
        }
    }

    /// A result needs its call before it, and a call has one result: the API refuses anything else.
    fn result(&mut self, moment: Timestamp, result: &ToolResult) {
        let Some(known) = self.calls.get_mut(result.call_id.as_str()).filter(|known| known.state == State::Made) else {
            return self.report.drop("tool result without a call");
        };
        known.state = State::Answered;
        let kind = if known.free { "custom_tool_call_output" } else { "function_call_output" };
        let fields = [("call_id", known.id.as_str().into()), ("output", output(&result.result))];
        if result.is_failure {
            self.report.drop("failure flag of a tool result");
        }
        self.item(moment, kind, fields);
    }

    /// The model is shown pictures, and no other files.
    fn image(&mut self, message: &Message, part: &PartRef<'_>, file: &File) -> Result<Option<Value>, RestoreError> {
        match loaded(message, part, file)? {
            Data::Url(_) | Data::Inline(_) if !file.media_type.starts_with("image/") => {
                self.report.drop(format!("{} file", file.media_type));
                Ok(None)
            }
            Data::Url(url) => Ok(Some(url.as_str().into())),
            Data::Inline(data) => Ok(Some(data_url(&file.media_type, data).into())),
        }
    }
}

const NOTES: &str = "internal_chat_message_metadata_passthrough";

/// One text as it is, otherwise texts and pictures.
fn output(result: &Json) -> Value {
    let pieces = shown(result);
    if let [Shown::Text(text)] = pieces.as_slice() {
        return text.as_str().into();
    }
    let item = |piece| match piece {
        Shown::Text(text) => typed("input_text", [("text", text.into())]),
        Shown::Image { media_type, data } => typed("input_image", [("image_url", data_url(&media_type, &data).into())]),
    };
    Value::Array(pieces.into_iter().map(item).collect())
}

fn note(author: &str) -> Value {
    Value::object([("provenance", Value::object([("type", author.into())]))])
}

fn typed(kind: &str, fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    object(std::iter::once(("type", kind.into())).chain(fields))
}

fn object(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}
