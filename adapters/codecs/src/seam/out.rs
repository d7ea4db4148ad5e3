//! What parsing hands out: sessions, and their messages in the order of the source.

use std::collections::HashMap;

use events::session::{AssistantBody, Content, Message, MessageId, Options, Session, SessionId, Timestamp, ToolBody, UserBody};

use super::extracted::Extracted;
use super::parts::{Parts, place};
use super::record::{Record, json};
use crate::fault::{Fault, Location, What};
use crate::value::Value;
use events::Json;

/// `adapter-integrity-event-ordering`: a session comes before its messages; a message is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    Session(Session),
    Message(SessionId, Message),
}

/// Who takes what is parsed. An error ends the parsing.
pub type Sink<'a> = dyn FnMut(Parsed) -> Result<(), std::io::Error> + 'a;

/// A session that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(usize);

/// Where a session stands. Its id, project and beginning come out of the source.
#[derive(Debug)]
pub struct SessionDraft {
    pub id: Extracted<String>,
    pub parent: Option<Extracted<String>>,
    pub cut: Option<Extracted<String>>,
    pub project: Option<Extracted<String>>,
    pub created_at: Option<Extracted<Timestamp>>,
    /// Facts for `options.<namespace>.<key>`.
    pub facts: Vec<(&'static str, &'static str, Extracted<Json>)>,
}

/// What is known of a message beside its content.
#[derive(Debug, Default)]
pub struct Head {
    /// Without one it is made of the record.
    pub id: Option<Extracted<String>>,
    /// Without one it is that of the message before, or of the session.
    pub timestamp: Option<Extracted<Timestamp>>,
    /// Facts for `options.<namespace>.<key>`, such as (`anthropic`, `model`).
    pub facts: Vec<(&'static str, &'static str, Extracted<Json>)>,
}

/// A message that was handed out.
#[derive(Clone, Debug)]
pub struct Told {
    id: MessageId,
    n: u64,
}

struct Open {
    id: SessionId,
    anchor: Timestamp,
    main: std::sync::Arc<str>,
    used: HashMap<Box<str>, u32>,
}

pub struct Out<'a> {
    adapter: &'static str,
    /// Of the source, for what carries no moment of its own.
    modified: Timestamp,
    sink: &'a mut Sink<'a>,
    sessions: Vec<Open>,
    pub faults: Vec<Fault>,
    stopped: Option<std::io::Error>,
}

impl<'a> Out<'a> {
    pub fn new(adapter: &'static str, modified: Timestamp, sink: &'a mut Sink<'a>) -> Self {
        Self { adapter, modified, sink, sessions: Vec::new(), faults: Vec::new(), stopped: None }
    }

    /// The error of the sink, after which nothing more is handed out.
    pub fn finish(self) -> Result<Vec<Fault>, std::io::Error> {
        self.stopped.map_or(Ok(self.faults), Err)
    }

    pub fn fault(&mut self, location: Location, what: What) {
        self.faults.push(Fault { adapter: self.adapter, location, what });
    }

    /// Begins a session whose records stand in the file `location` names, unless told otherwise record by record.
    pub fn session(&mut self, draft: SessionDraft, location: Location) -> Option<Handle> {
        match self.begin(draft, &location) {
            Ok(handle) => Some(handle),
            Err(what) => {
                self.fault(location, what);
                None
            }
        }
    }

    fn begin(&mut self, draft: SessionDraft, location: &Location) -> Result<Handle, What> {
        let unfit = |error: &dyn std::fmt::Display| What::Unfit(error.to_string());
        let id = SessionId::new(&draft.id.value).map_err(|error| unfit(&error))?;
        let parent = draft.parent.map(|it| SessionId::new(&it.value)).transpose().map_err(|error| unfit(&error))?;
        let cut = draft.cut.map(|it| MessageId::new(&it.value)).transpose().map_err(|error| unfit(&error))?;
        let project = draft.project.map(|it| it.value).filter(|it| !it.is_empty()).ok_or(What::Missing("the project"))?;
        let created_at = draft.created_at.map_or(self.modified, |it| it.value);
        let mut options = bag(draft.facts);
        let file = Value::object([("file", Value::from(&*location.file))]);
        merge(&mut options, "source", file);
        let session = Session {
            id: id.clone(),
            parent_session_id: parent,
            parent_message_id: cut,
            source_agent: self.adapter.to_owned(),
            created_at,
            project,
            options,
        };
        session.check().map_err(|error| unfit(&error))?;
        self.hand(Parsed::Session(session));
        self.sessions.push(Open { id, anchor: created_at, main: location.file.clone(), used: HashMap::new() });
        Ok(Handle(self.sessions.len() - 1))
    }

    pub fn user(&mut self, to: Handle, record: Record, head: Head, parts: Parts<UserBody>) -> Told {
        self.message(to, record, head, Content::User(parts.into_inner()), None)
    }

    pub fn assistant(&mut self, to: Handle, record: Record, head: Head, parts: Parts<AssistantBody>) -> Told {
        self.message(to, record, head, Content::Assistant(parts.into_inner()), None)
    }

    pub fn tool(&mut self, to: Handle, record: Record, head: Head, parts: Parts<ToolBody>) -> Told {
        self.message(to, record, head, Content::Tool(parts.into_inner()), None)
    }

    /// Instructions that the source records as such.
    pub fn system(&mut self, to: Handle, record: Record, head: Head, text: Extracted<String>) -> Told {
        let hole = text.from.map(place);
        self.message(to, record, head, Content::System(text.value), hole)
    }

    /// A record that is no message, carried whole.
    pub fn carry(&mut self, to: Handle, record: Record, head: Head) -> Told {
        self.message(to, record, head, Content::System(String::new()), None)
    }

    /// What a user said in the record of another message, as when a source puts a text beside the results of tools.
    pub fn user_beside(&mut self, to: Handle, of: &Told, facts: Head, parts: Parts<UserBody>) {
        self.beside(to, of, facts, Content::User(parts.into_inner()));
    }

    /// The results of tools that a source puts into the record of another message, as beside their calls.
    pub fn tool_beside(&mut self, to: Handle, of: &Told, facts: Head, parts: Parts<ToolBody>) {
        self.beside(to, of, facts, Content::Tool(parts.into_inner()));
    }

    fn beside(&mut self, to: Handle, of: &Told, head: Head, content: Content) {
        let open = &mut self.sessions[to.0];
        let timestamp = head.timestamp.map_or(open.anchor, |it| it.value);
        let id = open.unique(format!("{}+", of.id));
        let mut options = bag(head.facts);
        let place = Value::object([("of", Value::from(of.id.as_str())), ("n", Value::number(of.n))]);
        merge(&mut options, "source", place);
        let session = open.id.clone();
        self.hand(Parsed::Message(session, Message { id, timestamp, options, content }));
    }

    fn message(&mut self, to: Handle, record: Record, head: Head, content: Content, hole: Option<Value>) -> Told {
        let open = &mut self.sessions[to.0];
        if let Some(timestamp) = &head.timestamp {
            open.anchor = timestamp.value;
        }
        let timestamp = open.anchor;
        let mut options = bag(head.facts);
        let mut fields = Vec::new();
        if record.file != open.main {
            fields.push(("file".to_owned(), Value::from(&*record.file)));
        }
        fields.push(("n".to_owned(), Value::number(record.n)));
        if let Some(hole) = hole {
            fields.extend(hole.fields().iter().cloned());
        }
        let source_id = head.id.map(|it| it.value).filter(|it| MessageId::new(it).is_ok());
        let n = record.n;
        let remainder = record.remainder();
        let id = open.id_for(source_id, &remainder, &content);
        fields.push(("record".to_owned(), remainder));
        merge(&mut options, "source", Value::Object(fields));
        let (session, told) = (open.id.clone(), Told { id: id.clone(), n });
        self.hand(Parsed::Message(session, Message { id, timestamp, options, content }));
        told
    }

    fn hand(&mut self, parsed: Parsed) {
        if self.stopped.is_none() {
            self.stopped = (self.sink)(parsed).err();
        }
    }
}

impl Open {
    /// `lance-deterministic-pk`: the source's id, or one made of the content; the same again gets a number.
    fn id_for(&mut self, source: Option<String>, remainder: &Value, content: &Content) -> MessageId {
        let base = source.unwrap_or_else(|| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(remainder.to_string().as_bytes());
            hasher.update(format!("{content:?}").as_bytes());
            hasher.finalize().to_hex()[..24].to_owned()
        });
        self.unique(base)
    }

    fn unique(&mut self, base: String) -> MessageId {
        let times = self.used.entry(base.as_str().into()).or_default();
        *times += 1;
        let id = if *times == 1 { base } else { format!("{base}~{times}") };
        MessageId::new(&id).unwrap_or_else(|_| MessageId::new(&blake3::hash(id.as_bytes()).to_hex()).expect("digits are an id"))
    }
}

fn bag(facts: Vec<(&'static str, &'static str, Extracted<Json>)>) -> Options {
    let mut options = Options::new();
    for (namespace, key, fact) in facts {
        if let Ok(value) = crate::value::Reader::only(fact.value.get()) {
            merge(&mut options, namespace, Value::object([(key, value)]));
        }
    }
    options
}

fn merge(options: &mut Options, namespace: &str, add: Value) {
    let had = options.remove(namespace).and_then(|had| crate::value::Reader::only(had.get()).ok());
    let mut fields: Vec<_> = had.iter().flat_map(|had| had.fields().iter().cloned()).collect();
    fields.extend(add.fields().iter().cloned());
    options.insert(namespace.to_owned(), json(&Value::Object(fields)));
}

impl std::fmt::Debug for Out<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Out").field("adapter", &self.adapter).field("faults", &self.faults.len()).finish_non_exhaustive()
    }
}
