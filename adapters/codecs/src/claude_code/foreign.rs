//! A session of another client as one of Claude Code's: a chain of lines, one block each, in turns that the model's API takes.
//!
//! Thinking is left out: without the signature of the model that thought, no API takes it back. What other harnesses put in goes on
//! as `isMeta` lines, which the client sends and does not show.

use events::session::{BodyRef, Content, Message, PartRef, Provenance, Session, ToolCall};

use crate::artifact::{Artifact, Body, Report};
use crate::foreign::{Results, arguments, digest, is_uuid, uuid};
use crate::lineage::Lineage;
use crate::restore::{Place, RestoreError};
use crate::value::Value;

mod block;
mod lines;

use block::block;
use lines::Lines;

/// The words for a call whose result the session does not have; the API takes no call without one.
const NO_RESULT: &str = "[No result was recorded for this call.]";

pub(super) fn serialize(lineage: &Lineage, place: &Place, report: &mut Report) -> Result<Vec<Artifact>, RestoreError> {
    let id = uuid_of(lineage.session.id.as_str());
    let directory = format!("projects/{}", slug(&place.directory));
    let mut write = |session: &str, agent: Option<&str>, messages: &[Message]| {
        let mut turns = Turns::new(Lines::new(session, agent, &place.directory), messages, report);
        for message in messages {
            turns.message(message)?;
        }
        Ok(Body::Lines(turns.finish()))
    };
    let mut artifacts = vec![Artifact { path: format!("{directory}/{id}.jsonl"), body: write(&id, None, &lineage.messages)? }];
    for (child, messages) in &lineage.children {
        let own = uuid_of(child.id.as_str());
        artifacts.push(if is_fork(child) {
            Artifact { path: format!("{directory}/{own}.jsonl"), body: write(&own, None, messages)? }
        } else {
            let agent = format!("a{}", &digest(&[child.id.as_str()])[..16]);
            let body = write(&id, Some(&agent), messages)?;
            Artifact { path: format!("{directory}/{id}/subagents/agent-{agent}.jsonl"), body }
        });
    }
    Ok(artifacts)
}

/// What was cut off at a message goes on by itself; what was spawned answers to its parent.
fn is_fork(child: &Session) -> bool {
    child.parent_message_id.is_some()
}

/// The id itself where it is a UUID, which alone the client takes; one made of it otherwise.
pub(super) fn uuid_of(id: &str) -> String {
    if is_uuid(id) { id.to_ascii_lowercase() } else { uuid(&[id]) }
}

/// The name of the directory in which the client keeps a project's sessions.
fn slug(directory: &str) -> String {
    let unit = |it: u16| char::from_u32(it.into()).filter(char::is_ascii_alphanumeric).unwrap_or('-');
    directory.encode_utf16().map(unit).collect()
}

struct Turns<'a> {
    lines: Lines,
    report: &'a mut Report,
    /// Those that no call has taken yet.
    results: Results<'a>,
    /// The reply that is being written.
    reply: Vec<(&'a Message, Value, Option<&'a ToolCall>)>,
    /// Whether it holds results already, as clients have it that keep a call and its result together: what is said next answers them.
    answered: bool,
}

impl<'a> Turns<'a> {
    fn new(lines: Lines, messages: &'a [Message], report: &'a mut Report) -> Self {
        Self { lines, report, results: Results::of(messages), reply: Vec::new(), answered: false }
    }

    fn message(&mut self, message: &'a Message) -> Result<(), RestoreError> {
        match &message.content {
            Content::System(text) => self.report.drop(if text.is_empty() { "carried_record" } else { "system_message" }),
            Content::User(_) => {
                self.end_reply();
                self.user(message)?;
            }
            Content::Assistant(_) => self.assistant(message)?,
            Content::Tool(parts) => {
                self.end_reply();
                for part in parts {
                    if let BodyRef::ApprovalResponse(_) = part.view().body {
                        self.report.drop("tool_approval_response");
                    }
                }
            }
        }
        Ok(())
    }

    fn user(&mut self, message: &Message) -> Result<(), RestoreError> {
        let parts = message.parts();
        for run in parts.chunk_by(|one, two| one.provenance == two.provenance) {
            let mut blocks = Vec::new();
            for part in run {
                blocks.extend(block(message, part, self.report)?);
            }
            if let Some(first) = run.first().filter(|_| !blocks.is_empty()) {
                let content = match blocks.as_slice() {
                    [only] if only.get("text").is_some() => only.get("text").cloned().unwrap_or(Value::Null),
                    _ => Value::Array(blocks),
                };
                self.lines.user(message, content, first.provenance == Provenance::Injected);
            }
        }
        Ok(())
    }

    fn assistant(&mut self, message: &'a Message) -> Result<(), RestoreError> {
        if self.answered {
            self.end_reply();
        }
        for part in message.parts() {
            match part.body {
                BodyRef::ToolCall(call) => self.call(message, call),
                BodyRef::Reasoning(_) => self.report.drop("reasoning"),
                BodyRef::ApprovalRequest(_) => self.report.drop("tool_approval_request"),
                BodyRef::ToolResult(_) => self.answered = true,
                BodyRef::File(_) => self.report.drop("assistant_file"),
                BodyRef::Text(_) | BodyRef::ApprovalResponse(_) => self.say(message, &part)?,
            }
        }
        Ok(())
    }

    /// What the harness of another client says in the model's place is marked as this one marks it.
    fn say(&mut self, message: &'a Message, part: &PartRef<'a>) -> Result<(), RestoreError> {
        let block = block(message, part, self.report)?;
        if self.answered {
            self.end_reply();
        }
        if part.provenance == Provenance::Injected {
            self.end_reply();
            if let Some(block) = block {
                self.lines.made_up(message, block);
            }
            return Ok(());
        }
        self.reply.extend(block.map(|block| (message, block, None)));
        Ok(())
    }

    fn call(&mut self, message: &'a Message, call: &'a ToolCall) {
        let block = Value::object([
            ("type", Value::from("tool_use")),
            ("id", Value::from(self.lines.call_id(&call.call_id))),
            ("name", Value::from(block::tool_name(&call.name))),
            ("input", arguments(&call.params)),
        ]);
        self.reply.push((message, block, Some(call)));
    }

    /// Writes the reply, and right after it what its calls brought.
    fn end_reply(&mut self) {
        self.answered = false;
        let reply = std::mem::take(&mut self.reply);
        let calls = reply.iter().any(|(_, _, call)| call.is_some());
        let stop = if calls { "tool_use" } else { "end_turn" };
        let count = reply.len();
        let mut called = Vec::new();
        for (index, (message, block, call)) in reply.into_iter().enumerate() {
            let id = block.get("id").cloned().unwrap_or(Value::Null);
            let line = self.lines.assistant(message, block, (index + 1 == count).then_some(stop), index == 0);
            called.extend(call.map(|call| (message, call, id, line)));
        }
        for (message, call, id, line) in called {
            let (of, content, is_error) = match self.results.take(&call.call_id) {
                Some((of, result)) => (of, block::result(&result.result), result.is_failure),
                None => {
                    self.report.drop("tool_call_without_result");
                    (message, Value::from(NO_RESULT), true)
                }
            };
            self.lines.result(of, id, content, is_error, &line);
        }
    }

    fn finish(mut self) -> Vec<Value> {
        self.end_reply();
        for _ in 0..self.results.left() {
            self.report.drop("tool_result_without_call");
        }
        self.lines.finish()
    }
}
