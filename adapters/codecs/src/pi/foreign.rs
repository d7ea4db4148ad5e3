//! Sessions of other clients as pi writes its own, third version of the format.
//!
//! pi 0.78 does not load an assistant's message without `usage`; no pi loads a session whose working directory is gone, nor replays a
//! turn that ended in an error; and a call whose result does not follow at once is taken for one without. So an assistant's messages in a
//! row become one turn, and the results of its calls come right after it.

use events::session::{BodyRef, Content, Data, Message, PartRef, Provenance, Session, Timestamp, ToolCall};

use crate::artifact::{Artifact, Body, Report};
use crate::foreign::{self, Results, moment};
use crate::lineage::Lineage;
use crate::restore::{Place, RestoreError, loaded};
use crate::thread::Transcript;
use crate::value::{Path, Value};

mod blocks;

/// Who put in what no person said.
const CUSTOM: &str = "arbe.injected";

/// pi takes letters, digits and `._-`, with a letter or digit at either end.
pub(super) fn session_id(id: &str) -> String {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric();
    let ends = id.as_bytes().first().is_some_and(fits) && id.as_bytes().last().is_some_and(fits);
    if ends && id.len() <= 128 && id.bytes().all(|byte| fits(&byte) || b"._-".contains(&byte)) {
        return id.to_owned();
    }
    blake3::hash(id.as_bytes()).to_hex()[..32].to_owned()
}

fn iso(timestamp: Timestamp) -> String {
    moment(timestamp, "%Y-%m-%dT%H:%M:%S%.3fZ")
}

fn path(session: &Session, place: &Place) -> String {
    let directory = place.directory.strip_prefix(['/', '\\']).unwrap_or(&place.directory).replace(['/', '\\', ':'], "-");
    let time = iso(session.created_at).replace([':', '.'], "-");
    format!("sessions/--{directory}--/{time}_{}.jsonl", session_id(session.id.as_str()))
}

/// The entries of pi that a thread holds are its session: only where it is gone on with is new.
pub(super) fn transcript(session: &Session, transcript: Transcript, place: &Place, report: &mut Report) -> Artifact {
    let Transcript { mut header, entries, left } = transcript;
    left.into_iter().for_each(|kind| report.drop(kind));
    for (key, text) in [("id", session_id(session.id.as_str())), ("cwd", place.directory.clone())] {
        match header.at_mut(&Path::from([key])) {
            Some(value) => *value = Value::from(text),
            None => header.push(key, text.into()),
        }
    }
    let lines = std::iter::once(header).chain(entries).collect();
    Artifact { path: path(session, place), body: Body::Lines(lines) }
}

pub(super) fn file(
    lineage: &Lineage,
    session: &Session,
    messages: &[Message],
    place: &Place,
    report: &mut Report,
) -> Result<Artifact, RestoreError> {
    let mut header = Value::object([
        ("type", "session".into()),
        ("version", Value::number(3)),
        ("id", session_id(session.id.as_str()).into()),
        ("timestamp", iso(session.created_at).into()),
        ("cwd", place.directory.as_str().into()),
    ]);
    if session.id != lineage.session.id {
        header.push("parentSession", path(&lineage.session, place).into());
    }
    let mut writer = Writer { lines: vec![header], turn: None, results: Results::of(messages), report };
    for message in messages {
        writer.message(message)?;
    }
    writer.end_turn()?;
    for _ in 0..writer.results.left() {
        writer.report.drop("tool_result without its call");
    }
    Ok(Artifact { path: path(session, place), body: Body::Lines(writer.lines) })
}

/// What an assistant said in a row.
struct Turn<'a> {
    first: Timestamp,
    last: &'a Message,
    blocks: Vec<Value>,
    calls: Vec<&'a ToolCall>,
    /// Whether results were among it, as clients have it that keep a call and its result together: what is said next answers them.
    answered: bool,
}

struct Writer<'a, 'r> {
    lines: Vec<Value>,
    turn: Option<Turn<'a>>,
    results: Results<'a>,
    report: &'r mut Report,
}

impl<'a> Writer<'a, '_> {
    fn message(&mut self, message: &'a Message) -> Result<(), RestoreError> {
        match &message.content {
            Content::System(text) if text.is_empty() => self.report.drop("record"),
            Content::System(_) => self.report.drop("system"),
            Content::User(_) => {
                self.end_turn()?;
                self.user(message)?;
            }
            Content::Assistant(_) => self.assistant(message)?,
            Content::Tool(_) => {
                self.end_turn()?;
                for part in message.parts() {
                    if let BodyRef::ApprovalResponse(_) = part.body {
                        self.report.drop(part.body.kind());
                    }
                }
            }
        }
        Ok(())
    }

    /// What the harness put in goes in as pi's own extensions do it, so that it is not taken for somebody's words.
    fn user(&mut self, message: &Message) -> Result<(), RestoreError> {
        let parts = message.parts();
        for run in parts.chunk_by(|one, two| one.provenance == two.provenance) {
            let mut content = Vec::new();
            for part in run {
                content.extend(self.block(message, part)?);
            }
            if content.is_empty() {
                continue;
            }
            let content = Value::from(content);
            match run[0].provenance {
                Provenance::Conversational => self.said(message.timestamp, vec![("role", "user".into()), ("content", content)]),
                Provenance::Injected => self.put_in(message.timestamp, content),
            }
        }
        Ok(())
    }

    fn put_in(&mut self, timestamp: Timestamp, content: Value) {
        let fields = [("customType", CUSTOM.into()), ("content", content), ("display", false.into())];
        self.entry("custom_message", timestamp, fields);
    }

    fn block(&mut self, message: &Message, part: &PartRef<'_>) -> Result<Option<Value>, RestoreError> {
        Ok(match part.body {
            BodyRef::Text(it) => (!it.text.is_empty()).then(|| blocks::text(&it.text)),
            BodyRef::File(file) => match loaded(message, part, file)? {
                Data::Inline(data) if file.media_type.starts_with("image/") => Some(blocks::image(data, &file.media_type)),
                Data::Inline(_) | Data::Url(_) => {
                    self.report.drop(part.body.kind());
                    None
                }
            },
            BodyRef::Reasoning(_)
            | BodyRef::ToolCall(_)
            | BodyRef::ToolResult(_)
            | BodyRef::ApprovalRequest(_)
            | BodyRef::ApprovalResponse(_) => {
                self.report.drop(part.body.kind());
                None
            }
        })
    }

    fn assistant(&mut self, message: &'a Message) -> Result<(), RestoreError> {
        let Content::Assistant(parts) = &message.content else { return Ok(()) };
        if self.turn.as_ref().is_some_and(|turn| turn.answered) {
            self.end_turn()?;
        }
        let begun = || Turn { first: message.timestamp, last: message, blocks: Vec::new(), calls: Vec::new(), answered: false };
        let mut turn = self.turn.take().unwrap_or_else(begun);
        turn.last = message;
        for part in parts {
            if turn.answered && matches!(part.view().body, BodyRef::Text(_) | BodyRef::Reasoning(_)) {
                self.turn = Some(std::mem::replace(&mut turn, begun()));
                self.end_turn()?;
            }
            match part.view().body {
                BodyRef::Reasoning(it) if !it.text.is_empty() => turn.blocks.push(blocks::thinking(&it.text)),
                BodyRef::Reasoning(_) => self.report.drop("reasoning without text"),
                BodyRef::ToolCall(it) => {
                    turn.blocks.push(blocks::call(it));
                    turn.calls.push(it);
                }
                // Said in the model's place by the client.
                BodyRef::Text(it) if part.provenance == Provenance::Injected => {
                    self.turn = Some(std::mem::replace(&mut turn, begun()));
                    self.end_turn()?;
                    self.put_in(message.timestamp, Value::from(vec![blocks::text(&it.text)]));
                }
                BodyRef::Text(_) => turn.blocks.extend(self.block(message, &part.view())?),
                // Found through its call.
                BodyRef::ToolResult(_) => turn.answered = true,
                BodyRef::File(_) | BodyRef::ApprovalRequest(_) | BodyRef::ApprovalResponse(_) => {
                    self.report.drop(format!("{} of an assistant", part.view().body.kind()));
                }
            }
        }
        self.turn = Some(turn);
        Ok(())
    }

    fn end_turn(&mut self) -> Result<(), RestoreError> {
        let Some(turn) = self.turn.take().filter(|turn| !turn.blocks.is_empty()) else { return Ok(()) };
        let facts = Facts::of(turn.last);
        let stop = match (turn.calls.is_empty(), facts.stop.as_deref()) {
            (false, _) => "toolUse",
            (true, Some("length" | "max_tokens" | "max_output_tokens")) => "length",
            (true, _) => "stop",
        };
        let fields = vec![
            ("role", "assistant".into()),
            ("content", Value::from(turn.blocks)),
            ("api", facts.api.into()),
            ("provider", facts.provider.into()),
            ("model", facts.model.into()),
            ("usage", facts.usage),
            ("stopReason", stop.into()),
        ];
        self.said(turn.first, fields);
        for call in turn.calls {
            let Some((message, result)) = self.results.take(&call.call_id) else { continue };
            let fields = vec![
                ("role", "toolResult".into()),
                ("toolCallId", result.call_id.as_str().into()),
                ("toolName", result.name.as_deref().unwrap_or(&call.name).into()),
                ("content", Value::from(blocks::of_result(&result.result))),
                ("isError", result.is_failure.into()),
            ];
            self.said(message.timestamp, fields);
        }
        Ok(())
    }

    fn said(&mut self, timestamp: Timestamp, mut fields: Vec<(&str, Value)>) {
        fields.push(("timestamp", Value::number(timestamp.millis())));
        let message = Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
        self.entry("message", timestamp, [("message", message)]);
    }

    fn entry<const N: usize>(&mut self, kind: &str, timestamp: Timestamp, fields: [(&str, Value); N]) {
        let n = self.lines.len();
        let id = |n: usize| Value::from(format!("{n:08x}"));
        let parent = if n > 1 { id(n - 1) } else { Value::Null };
        let mut entry =
            Value::object([("type", kind.into()), ("id", id(n)), ("parentId", parent), ("timestamp", iso(timestamp).into())]);
        fields.into_iter().for_each(|(key, value)| entry.push(key, value));
        self.lines.push(entry);
    }
}

/// What is known of a turn, with what pi cannot do without.
struct Facts {
    api: &'static str,
    provider: String,
    model: String,
    usage: Value,
    stop: Option<String>,
}

impl Facts {
    fn of(message: &Message) -> Self {
        let (namespace, bag) = foreign::facts(message).unwrap_or(("unknown", Value::Null));
        let text = |key| bag.get(key).and_then(Value::as_str).map(str::to_owned);
        Self {
            api: if namespace == "anthropic" { "anthropic-messages" } else { "openai-completions" },
            provider: text("provider").unwrap_or_else(|| namespace.to_owned()),
            model: text("model").unwrap_or_else(|| "unknown".to_owned()),
            usage: blocks::usage(bag.get("usage").unwrap_or(&Value::Null)),
            stop: text("stop_reason"),
        }
    }
}
