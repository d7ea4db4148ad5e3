//! What parsing hands out: sessions, and their messages in the order of the source.

use std::collections::HashMap;

use events::Json;
use events::session::{AssistantBody, Content, Message, MessageId, Session, SessionId, Timestamp, ToolBody, UserBody};

use super::bound::Cut;
use super::extracted::Extracted;
use super::parts::Parts;
use super::place::{Fields, options};
use super::record::Record;
use crate::fault::{Fault, Location, What};

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

/// Something for `options.<namespace>.<key>`, such as (`anthropic`, `model`).
pub type Fact = (&'static str, &'static str, Extracted<Json>);

/// Where a session stands. Its id, project and beginning come out of the source.
#[derive(Debug)]
pub struct SessionDraft {
    pub id: Extracted<String>,
    pub parent: Option<Extracted<String>>,
    pub cut: Option<Extracted<String>>,
    pub project: Option<Extracted<String>>,
    pub created_at: Option<Extracted<Timestamp>>,
    pub facts: Vec<Fact>,
}

/// What is known of a message beside its content.
#[derive(Debug, Default)]
pub struct Head {
    /// As [`Record::id`] gives it. Without one it is the record's digest.
    pub id: Option<Extracted<String>>,
    /// Without one it is that of the message before, or of the session.
    pub timestamp: Option<Extracted<Timestamp>>,
    pub facts: Vec<Fact>,
}

/// A message that was handed out.
#[derive(Clone, Debug)]
pub struct Told {
    id: MessageId,
    n: u64,
    repeated: bool,
}

impl Told {
    /// The source has another message of the same id before this one; it got a number of its own.
    #[must_use]
    pub fn repeated(&self) -> bool {
        self.repeated
    }
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
        let mut source = Fields::default();
        source.put("file", &*location.file);
        let session = Session {
            id: id.clone(),
            parent_session_id: parent,
            parent_message_id: cut,
            source_agent: self.adapter.to_owned(),
            created_at,
            project,
            options: options(draft.facts, source),
        };
        session.check().map_err(|error| unfit(&error))?;
        self.hand(Parsed::Session(session));
        self.sessions.push(Open { id, anchor: created_at, main: location.file.clone(), used: HashMap::new() });
        Ok(Handle(self.sessions.len() - 1))
    }

    pub fn user(&mut self, to: Handle, record: Record, head: Head, mut parts: Parts<UserBody>) -> Told {
        let aside = self.settle(&mut parts);
        self.message(to, record, head, Content::User(parts.into_inner()), aside)
    }

    pub fn assistant(&mut self, to: Handle, record: Record, head: Head, mut parts: Parts<AssistantBody>) -> Told {
        let aside = self.settle(&mut parts);
        self.message(to, record, head, Content::Assistant(parts.into_inner()), aside)
    }

    pub fn tool(&mut self, to: Handle, record: Record, head: Head, mut parts: Parts<ToolBody>) -> Told {
        let aside = self.settle(&mut parts);
        self.message(to, record, head, Content::Tool(parts.into_inner()), aside)
    }

    /// Instructions that the source records as such.
    pub fn system(&mut self, to: Handle, record: Record, head: Head, text: Extracted<String>) -> Told {
        let mut source = Fields::default();
        source.hole(text.from);
        self.message(to, record, head, Content::System(text.value), source)
    }

    /// A record that is no message, carried whole.
    pub fn carry(&mut self, to: Handle, record: Record, head: Head) -> Told {
        self.message(to, record, head, Content::System(String::new()), Fields::default())
    }

    /// A record that its client writes over: every state that it is seen in is carried, and restoring takes the last, or the message
    /// that it became.
    pub fn state(&mut self, to: Handle, mut record: Record, head: Head) -> Told {
        let digest = record.digest().value;
        let id = blake3::hash(format!("{}\n{digest}", record.file).as_bytes()).to_hex()[..24].to_owned();
        let head = Head { id: Some(Extracted { value: id, from: None }), ..head };
        let mut source = Fields::default();
        source.put("state", &true);
        self.message(to, record, head, Content::System(String::new()), source)
    }

    /// What a user said in the record of another message, as when a source puts a text beside the results of tools.
    pub fn user_beside(&mut self, to: Handle, of: &Told, mut parts: Parts<UserBody>) {
        let aside = self.settle(&mut parts);
        self.beside(to, of, Content::User(parts.into_inner()), aside);
    }

    /// The results of tools that a source puts into the record of another message, as beside their calls.
    pub fn tool_beside(&mut self, to: Handle, of: &Told, mut parts: Parts<ToolBody>) {
        let aside = self.settle(&mut parts);
        self.beside(to, of, Content::Tool(parts.into_inner()), aside);
    }

    /// More instructions in the record of another message, each a text of its own.
    pub fn system_beside(&mut self, to: Handle, of: &Told, text: Extracted<String>) {
        let mut source = Fields::default();
        source.hole(text.from);
        self.beside(to, of, Content::System(text.value), source);
    }

    fn beside(&mut self, to: Handle, of: &Told, content: Content, more: Fields) {
        let open = &mut self.sessions[to.0];
        let (timestamp, id) = (open.anchor, open.unique(format!("{}+", of.id)));
        let mut source = Fields::default();
        source.put("of", of.id.as_str());
        source.put("n", &of.n);
        source.extend(more);
        let session = open.id.clone();
        self.hand(Parsed::Message(session, Message { id, timestamp, options: options(Vec::new(), source), content }));
    }

    fn message(&mut self, to: Handle, mut record: Record, head: Head, content: Content, more: Fields) -> Told {
        let open = &mut self.sessions[to.0];
        if let Some(timestamp) = &head.timestamp {
            open.anchor = timestamp.value;
        }
        let timestamp = open.anchor;
        let named = head.id.map(|it| it.value).filter(|it| MessageId::new(it).is_ok());
        let id = open.unique(named.clone().unwrap_or_else(|| record.digest().value));
        let repeated = named.is_some_and(|named| named != id.as_str());
        let told = Told { id: id.clone(), n: record.n, repeated };
        let mut source = Fields::default();
        if record.file != open.main {
            source.put("file", &*record.file);
        }
        source.put("n", &record.n);
        source.extend(more);
        let (session, at) = (open.id.clone(), record.location());
        let (remainder, cut) = record.remainder();
        source.push("record", remainder);
        self.cut(at, cut);
        self.hand(Parsed::Message(session, Message { id, timestamp, options: options(head.facts, source), content }));
        told
    }

    /// Records that belong to a message and became no part of it.
    fn settle<B>(&mut self, parts: &mut Parts<B>) -> Fields {
        let mut records = Vec::new();
        for record in std::mem::take(&mut parts.aside) {
            let at = record.location();
            let (fields, cut) = record.place();
            records.push(fields);
            self.cut(at, cut);
        }
        std::mem::take(&mut parts.cuts).into_iter().for_each(|(at, cut)| self.cut(at, cut));
        let mut source = Fields::default();
        if !records.is_empty() {
            source.put("beside", &records);
        }
        source
    }

    fn cut(&mut self, at: Location, cut: Cut) {
        if cut > 0 {
            self.fault(at, What::Cut { bytes: cut });
        }
    }

    fn hand(&mut self, parsed: Parsed) {
        if self.stopped.is_none() {
            self.stopped = (self.sink)(parsed).err();
        }
    }
}

impl Open {
    /// `adapter-integrity-dedup`: the same again gets a number, unless that is an id of the source, too.
    fn unique(&mut self, base: String) -> MessageId {
        let mut id = base.clone();
        while self.used.contains_key(id.as_str()) {
            let times = self.used.entry(base.as_str().into()).or_default();
            *times += 1;
            id = format!("{base}~{times}");
        }
        self.used.insert(id.as_str().into(), 1);
        MessageId::new(&id).unwrap_or_else(|_| MessageId::new(&blake3::hash(id.as_bytes()).to_hex()).expect("digits are an id"))
    }
}

impl std::fmt::Debug for Out<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Out").field("adapter", &self.adapter).field("faults", &self.faults.len()).finish_non_exhaustive()
    }
}
