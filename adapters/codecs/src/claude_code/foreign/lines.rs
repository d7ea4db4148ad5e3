//! The chain of lines.

use std::collections::BTreeSet;

use events::session::{Message, Timestamp};

use crate::foreign::{digest, is_uuid, model, uuid as made_uuid};
use crate::value::Value;

/// The client whose lines these are like.
const VERSION: &str = "2.1.325";
/// The longest id that the API takes for a call.
const CALL_ID_MAX: usize = 64;

pub(super) struct Lines {
    session: String,
    agent: Option<String>,
    directory: String,
    lines: Vec<Value>,
    last: Option<String>,
    /// Time does not run back along the chain.
    clock: Option<Timestamp>,
    used: BTreeSet<String>,
    calls: BTreeSet<String>,
    reply: String,
}

impl Lines {
    pub(super) fn new(session: &str, agent: Option<&str>, directory: &str) -> Self {
        Self {
            session: session.to_owned(),
            agent: agent.map(str::to_owned),
            directory: directory.to_owned(),
            lines: Vec::new(),
            last: None,
            clock: None,
            used: BTreeSet::new(),
            calls: BTreeSet::new(),
            reply: String::new(),
        }
    }

    pub(super) fn finish(self) -> Vec<Value> {
        self.lines
    }

    pub(super) fn user(&mut self, of: &Message, content: Value, is_meta: bool) {
        let message = Value::object([("role", Value::from("user")), ("content", content)]);
        let meta = is_meta.then(|| ("isMeta", Value::from(true)));
        self.push(of, "user", message, meta);
    }

    pub(super) fn result(&mut self, of: &Message, id: Value, content: Value, is_error: bool, call: &str) {
        let mut block = vec![
            ("tool_use_id".to_owned(), id),
            ("type".to_owned(), Value::from("tool_result")),
            ("content".to_owned(), content),
        ];
        if is_error {
            block.push(("is_error".to_owned(), Value::from(true)));
        }
        let message = Value::object([("role", Value::from("user")), ("content", Value::Array(vec![Value::Object(block)]))]);
        self.push(of, "user", message, Some(("sourceToolAssistantUUID", Value::from(call))));
    }

    /// A line of a reply; all of one reply have the same id. Gives the line's.
    pub(super) fn assistant(&mut self, of: &Message, block: Value, stop: Option<&str>, first: bool) -> String {
        if first {
            let id = digest(&[&self.session, of.id.as_str(), &self.lines.len().to_string()]);
            self.reply = format!("msg_{}", &id[..24]);
        }
        let model = model(of).unwrap_or_else(|| "unknown".to_owned());
        let message = reply(&self.reply, &model, block, stop);
        self.push(of, "assistant", message, None)
    }

    pub(super) fn made_up(&mut self, of: &Message, block: Value) {
        let id = made_uuid(&[&self.session, of.id.as_str(), &self.lines.len().to_string()]);
        self.push(of, "assistant", reply(&id, "<synthetic>", block, Some("stop_sequence")), None);
    }

    /// An id that the API takes, and that no other call has.
    pub(super) fn call_id(&mut self, id: &str) -> String {
        let plain: String = id.chars().map(|it| if it.is_ascii_alphanumeric() || it == '_' { it } else { '-' }).collect();
        let fits = !plain.is_empty() && plain.len() <= CALL_ID_MAX && !self.calls.contains(&plain);
        let own = if fits { plain } else { format!("toolu_{}", &digest(&[id, &self.calls.len().to_string()])[..24]) };
        self.calls.insert(own.clone());
        own
    }

    fn push(&mut self, of: &Message, kind: &str, message: Value, extra: Option<(&str, Value)>) -> String {
        let id = of.id.as_str().to_ascii_lowercase();
        let fresh = is_uuid(&id) && !self.used.contains(&id);
        let uuid = if fresh { id } else { made_uuid(&[&self.session, of.id.as_str(), &self.lines.len().to_string()]) };
        self.used.insert(uuid.clone());
        let clock = self.clock.map_or(of.timestamp, |clock| clock.max(of.timestamp));
        self.clock = Some(clock);
        let mut fields = vec![
            ("parentUuid", self.last.take().map_or(Value::Null, Value::from)),
            ("isSidechain", Value::from(self.agent.is_some())),
        ];
        fields.extend(self.agent.as_deref().map(|agent| ("agentId", Value::from(agent))));
        fields.extend([("type", Value::from(kind)), ("message", message)]);
        fields.extend(extra);
        fields.extend([
            ("uuid", Value::from(uuid.as_str())),
            ("timestamp", Value::from(clock.to_string())),
            ("userType", Value::from("external")),
            ("cwd", Value::from(self.directory.as_str())),
            ("sessionId", Value::from(self.session.as_str())),
            ("version", Value::from(VERSION)),
            ("gitBranch", Value::from("")),
        ]);
        self.lines.push(Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()));
        self.last = Some(uuid.clone());
        uuid
    }
}

fn reply(id: &str, model: &str, block: Value, stop: Option<&str>) -> Value {
    let none = Value::number(0);
    let usage = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
    Value::object([
        ("id", Value::from(id)),
        ("type", Value::from("message")),
        ("role", Value::from("assistant")),
        ("model", Value::from(model)),
        ("content", Value::Array(vec![block])),
        ("stop_reason", stop.map_or(Value::Null, Value::from)),
        ("stop_sequence", Value::Null),
        ("usage", Value::Object(usage.map(|key| (key.to_owned(), none.clone())).into())),
    ])
}
