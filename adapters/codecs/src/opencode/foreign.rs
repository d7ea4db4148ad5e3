//! Sessions of other clients as `opencode import` takes them: a file for the session and one for each child.

use events::Json;
use events::session::{BodyRef, Content, Data, File, Message, PartRef, Provenance, Session, ToolCall};

use super::ids::{self, Counter};
use crate::artifact::{Artifact, Body, Report};
use crate::foreign::{Results, Shown, arguments, data_url, facts, shown};
use crate::lineage::Lineage;
use crate::restore::{Place, RestoreError, loaded, source};
use crate::value::Value;

/// What the form is that of.
const VERSION: &str = "1.18.33";
const TITLE: usize = 60;

pub(super) fn foreign(lineage: &Lineage, place: &Place, report: &mut Report) -> Result<Vec<Artifact>, RestoreError> {
    let parent = ids::session(&lineage.session);
    lineage
        .all()
        .map(|(session, messages)| {
            let id = ids::session(session);
            let is_child = session.id != lineage.session.id;
            let mut writer = Writer {
                counter: Counter::new(&id),
                id: &id,
                directory: &place.directory,
                results: Results::of(messages),
                asked: None,
                model: messages.iter().find_map(model).unwrap_or_else(|| unknown(session)),
                report,
            };
            let told = messages.iter().map(|message| writer.message(message)).collect::<Result<Vec<_>, _>>()?;
            let left = writer.results.left();
            (0..left).for_each(|_| report.drop("tool result without its call"));
            let info = info(session, messages, &id, is_child.then_some(&*parent), place);
            let whole =
                Value::object([("info", info), ("messages", Value::from(told.into_iter().flatten().collect::<Vec<_>>()))]);
            Ok(Artifact { path: format!("{id}.json"), body: Body::Json(whole) })
        })
        .collect()
}

fn info(session: &Session, messages: &[Message], id: &str, parent: Option<&str>, place: &Place) -> Value {
    let created = session.created_at.millis();
    let updated = messages.iter().map(|it| it.timestamp.millis()).max().unwrap_or(created).max(created);
    let mut fields = Value::object([
        ("id", Value::from(id)),
        ("slug", Value::from(format!("{}-{}", session.source_agent, &id[id.len() - 6..]))),
        ("projectID", Value::from("global")),
        ("directory", Value::from(place.directory.as_str())),
        ("title", Value::from(title(session, messages))),
        ("version", Value::from(VERSION)),
        ("time", Value::object([("created", Value::number(created)), ("updated", Value::number(updated))])),
    ]);
    if let (Value::Object(fields), Some(parent)) = (&mut fields, parent) {
        fields.push(("parentID".to_owned(), Value::from(parent)));
    }
    fields
}

/// Its own, or the first line that a person wrote.
fn title(session: &Session, messages: &[Message]) -> String {
    let own = source(&session.options).and_then(|it| it.get("title").and_then(Value::as_str).map(str::to_owned));
    let said = || {
        let users = messages.iter().filter(|it| matches!(it.content, Content::User(_)));
        users.flat_map(Message::parts).filter(|part| part.provenance == Provenance::Conversational).find_map(|part| {
            let BodyRef::Text(it) = part.body else { return None };
            let line = it.text.trim().lines().next().filter(|line| !line.is_empty())?;
            Some(line.chars().take(TITLE).collect())
        })
    };
    own.or_else(said).unwrap_or_else(|| format!("{} session", session.source_agent))
}

/// The provider and the model of a turn.
fn model(message: &Message) -> Option<(String, String)> {
    let (namespace, facts) = facts(message)?;
    let text = |key: &str| facts.get(key).and_then(Value::as_str).map(str::to_owned);
    Some((text("provider").unwrap_or_else(|| namespace.to_owned()), text("model")?))
}

fn unknown(session: &Session) -> (String, String) {
    (session.source_agent.clone(), "unknown".to_owned())
}

struct Writer<'a, 'r> {
    counter: Counter<'a>,
    id: &'a str,
    directory: &'a str,
    results: Results<'a>,
    /// The last question.
    asked: Option<String>,
    model: (String, String),
    report: &'r mut Report,
}

impl Writer<'_, '_> {
    fn message(&mut self, message: &Message) -> Result<Option<Value>, RestoreError> {
        if let Some(model) = model(message) {
            self.model = model;
        }
        match &message.content {
            Content::System(text) => {
                self.report.drop(if text.is_empty() { "record that is no message" } else { "system message" });
                Ok(None)
            }
            Content::Tool(_) => {
                self.approvals(message);
                Ok(None)
            }
            Content::User(_) => {
                let id = self.counter.next("msg", message.id.as_str());
                let parts = self.parts(message, &id)?;
                self.asked = Some(id.clone()).filter(|_| !parts.is_empty()).or(self.asked.take());
                Ok((!parts.is_empty()).then(|| self.question(message, &id, parts)))
            }
            Content::Assistant(_) => {
                let id = self.counter.next("msg", message.id.as_str());
                // opencode reads the parts of a message in the order of their ids.
                let start = self.part_of(&id, "start", Value::object([("type", Value::from("step-start"))]));
                let parts = self.parts(message, &id)?;
                let parts = (!parts.is_empty()).then(|| [start].into_iter().chain(parts).collect());
                Ok(parts.map(|parts| self.answer(message, &id, parts)))
            }
        }
    }

    fn parts(&mut self, message: &Message, id: &str) -> Result<Vec<Value>, RestoreError> {
        let mut parts = Vec::new();
        for part in message.parts() {
            if let Some(fields) = self.part(message, &part, id)? {
                parts.push(self.part_of(id, part.id.as_str(), fields));
            }
        }
        Ok(parts)
    }

    fn question(&self, message: &Message, id: &str, parts: Vec<Value>) -> Value {
        let (provider, model) = &self.model;
        let info = Value::object([
            ("id", Value::from(id)),
            ("sessionID", Value::from(self.id)),
            ("role", Value::from("user")),
            ("time", Value::object([("created", Value::number(message.timestamp.millis()))])),
            ("agent", Value::from("build")),
            ("model", Value::object([("providerID", Value::from(provider.as_str())), ("modelID", Value::from(model.as_str()))])),
        ]);
        Value::object([("info", info), ("parts", Value::from(parts))])
    }

    fn answer(&mut self, message: &Message, id: &str, mut parts: Vec<Value>) -> Value {
        let calls = parts.iter().any(|part| part.get("type").and_then(Value::as_str) == Some("tool"));
        let finish = if calls { "tool-calls" } else { "stop" };
        let end = [("type", Value::from("step-finish")), ("reason", Value::from(finish)), ("cost", zero()), ("tokens", tokens())];
        parts.push(self.part_of(id, "finish", Value::object(end)));
        let time = Value::number(message.timestamp.millis());
        let (provider, model) = &self.model;
        let info = Value::object([
            ("id", Value::from(id)),
            ("sessionID", Value::from(self.id)),
            ("role", Value::from("assistant")),
            ("time", Value::object([("created", time.clone()), ("completed", time)])),
            ("parentID", Value::from(self.asked.as_deref().unwrap_or(id))),
            ("modelID", Value::from(model.as_str())),
            ("providerID", Value::from(provider.as_str())),
            ("mode", Value::from("build")),
            ("agent", Value::from("build")),
            ("path", Value::object([("cwd", Value::from(self.directory)), ("root", Value::from(self.directory))])),
            ("cost", zero()),
            ("tokens", tokens()),
            ("finish", Value::from(finish)),
        ]);
        Value::object([("info", info), ("parts", Value::from(parts))])
    }

    fn part_of(&mut self, message: &str, of: &str, body: Value) -> Value {
        let id = self.counter.next("prt", of);
        let mut fields = vec![
            ("id".to_owned(), Value::from(id)),
            ("sessionID".to_owned(), Value::from(self.id)),
            ("messageID".to_owned(), Value::from(message)),
        ];
        fields.extend(body.fields().iter().cloned());
        Value::Object(fields)
    }

    fn part(&mut self, message: &Message, part: &PartRef<'_>, of: &str) -> Result<Option<Value>, RestoreError> {
        let span = || {
            Value::object([
                ("start", Value::number(message.timestamp.millis())),
                ("end", Value::number(message.timestamp.millis())),
            ])
        };
        Ok(match part.body {
            BodyRef::Text(it) => {
                let mut fields =
                    vec![("type".to_owned(), Value::from("text")), ("text".to_owned(), Value::from(it.text.as_str()))];
                if part.provenance == Provenance::Injected {
                    fields.push(("synthetic".to_owned(), Value::from(true)));
                }
                Some(Value::Object(fields))
            }
            BodyRef::Reasoning(it) if it.text.is_empty() => {
                self.report.drop("reasoning without text");
                None
            }
            BodyRef::Reasoning(it) => {
                let text = Value::from(it.text.as_str());
                Some(Value::object([("type", Value::from("reasoning")), ("text", text), ("time", span())]))
            }
            BodyRef::File(it) => Some(file(message, part, it)?),
            BodyRef::ToolCall(it) => Some(self.call(message, it, of)),
            // With its call.
            BodyRef::ToolResult(_) => None,
            BodyRef::ApprovalRequest(_) | BodyRef::ApprovalResponse(_) => {
                self.report.drop("approval");
                None
            }
        })
    }

    fn approvals(&mut self, message: &Message) {
        for part in message.parts() {
            if matches!(part.body, BodyRef::ApprovalResponse(_)) {
                self.report.drop("approval");
            }
        }
    }

    fn call(&mut self, message: &Message, call: &ToolCall, of: &str) -> Value {
        let input = arguments(&call.params);
        let at = Value::number(message.timestamp.millis());
        let time = Value::object([("start", at.clone()), ("end", at)]);
        let state = match self.results.take(&call.call_id).map(|(_, it)| (it.is_failure, text_and_files(&it.result))) {
            // As opencode leaves a call that was cut off.
            None => Value::object([
                ("status", Value::from("error")),
                ("input", input),
                ("error", Value::from("Tool execution aborted")),
                ("time", time),
            ]),
            Some((true, (text, _))) => {
                Value::object([("status", Value::from("error")), ("input", input), ("error", Value::from(text)), ("time", time)])
            }
            Some((false, (text, files))) => {
                let mut state = Value::object([
                    ("status", Value::from("completed")),
                    ("input", input),
                    ("output", Value::from(text)),
                    ("title", Value::from(call.name.as_str())),
                    ("metadata", Value::Object(Vec::new())),
                    ("time", time),
                ]);
                let attached: Vec<_> = files
                    .into_iter()
                    .map(|(mime, url)| {
                        let body = [("type", Value::from("file")), ("mime", Value::from(mime)), ("url", Value::from(url))];
                        self.part_of(of, &call.call_id, Value::object(body))
                    })
                    .collect();
                if let (Value::Object(fields), false) = (&mut state, attached.is_empty()) {
                    fields.push(("attachments".to_owned(), Value::from(attached)));
                }
                state
            }
        };
        let (call_id, tool) = (Value::from(call.call_id.as_str()), Value::from(call.name.as_str()));
        Value::object([("type", Value::from("tool")), ("callID", call_id), ("tool", tool), ("state", state)])
    }
}

fn file(message: &Message, part: &PartRef<'_>, file: &File) -> Result<Value, RestoreError> {
    let url = match loaded(message, part, file)? {
        Data::Inline(data) => data_url(&file.media_type, data),
        Data::Url(url) => url.clone(),
    };
    let mut fields = vec![("type".to_owned(), Value::from("file")), ("mime".to_owned(), Value::from(file.media_type.as_str()))];
    fields.extend(file.file_name.as_ref().map(|name| ("filename".to_owned(), Value::from(name.as_str()))));
    fields.push(("url".to_owned(), Value::from(url)));
    Ok(Value::Object(fields))
}

/// The text of a result, and its images as media type and URL.
fn text_and_files(result: &Json) -> (String, Vec<(String, String)>) {
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for piece in shown(result) {
        match piece {
            Shown::Text(text) => texts.push(text),
            Shown::Image { media_type, data } => files.push((media_type.clone(), data_url(&media_type, &data))),
        }
    }
    (texts.join("\n"), files)
}

fn zero() -> Value {
    Value::number(0)
}

fn tokens() -> Value {
    let cache = Value::object([("read", zero()), ("write", zero())]);
    Value::object([("input", zero()), ("output", zero()), ("reasoning", zero()), ("cache", cache)])
}
