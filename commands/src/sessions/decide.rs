//! What of a recording is new. Pure.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use events::session::{
    BodyRef, Content, Data, Incoherent, Message, MessageId, MessageRecorded, PartId, Recorded, Session, SessionId,
};
use events::{Event, SessionEvent};

use super::blobs::SCHEME;

/// What becomes of a message that is told again with more parts, or fewer.
pub const OTHER: &str = "recorded without some of these parts, and stays as it is";

/// Bytes of one message with its parts, less what its files hold.
const MESSAGE_MAX: usize = 64 << 20;

/// What a source says of one session: all of it, or what has been added.
#[derive(Clone, Debug)]
pub struct Recording {
    pub session_id: SessionId,
    /// May be left out of a session that is there already.
    pub session: Option<Session>,
    pub messages: Vec<Message>,
}

/// What the log has of a session.
#[derive(Debug, Default)]
pub struct Known {
    pub session: Option<Session>,
    /// With what their parts are called.
    messages: HashMap<MessageId, Box<[u64]>>,
    /// `None`: no such stream.
    pub tail: Option<u64>,
}

impl Known {
    pub(super) fn add(&mut self, event: &SessionEvent) {
        *self.tail.get_or_insert(0) += 1;
        match event {
            SessionEvent::Recorded(it) => self.session = self.session.take().or_else(|| Some(it.session.clone())),
            SessionEvent::MessageRecorded(it) => {
                self.messages.insert(it.message.id.clone(), parts(&it.message));
            }
        }
    }
}

/// What becomes of each row that was handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    pub session: Row,
    pub messages: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    New,
    Unchanged,
    /// It was recorded without these parts, and stays so.
    Other(Vec<PartId>),
    Refused(Refusal),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0} was recorded otherwise and does not change")]
    Immutable(&'static str),
    #[error(transparent)]
    Incoherent(#[from] Incoherent),
    #[error("the session is not recorded and was not given")]
    NoSession,
    #[error("{SCHEME} is not for others to name; give what the file holds as `data`")]
    Blob,
    #[error("a message holds at most {MESSAGE_MAX} bytes, not {0}")]
    TooLarge(usize),
}

impl Rows {
    /// Why messages were not taken as they are, and how many.
    #[must_use]
    pub fn refusals(&self) -> BTreeMap<String, u64> {
        let told = |row: &Row| match row {
            Row::New | Row::Unchanged => None,
            Row::Other(_) => Some(OTHER.to_owned()),
            Row::Refused(refusal) => Some(refusal.to_string()),
        };
        let mut refusals = BTreeMap::new();
        for why in self.messages.iter().filter_map(told) {
            *refusals.entry(why).or_default() += 1;
        }
        if self.messages.is_empty() {
            refusals.extend(told(&self.session).map(|why| (why, 0)));
        }
        refusals
    }

    /// What was new may have been written by somebody else since; the rest stays as it was told.
    pub(super) fn settle(&mut self, again: Self) {
        if self.session == Row::New {
            self.session = again.session;
        }
        let new = self.messages.iter_mut().filter(|row| **row == Row::New);
        new.zip(again.messages).for_each(|(row, again)| *row = again);
    }
}

#[must_use]
pub fn decide(known: &Known, recording: &Recording) -> Rows {
    rows(known, recording, names_blob)
}

/// Of what is left, after the contents of its files were put into the log.
pub(super) fn decide_stored(known: &Known, recording: &Recording) -> Rows {
    rows(known, recording, |_| false)
}

fn rows(known: &Known, recording: &Recording, names_blob: fn(&Message) -> bool) -> Rows {
    let session = session_row(known, recording);
    let mut given: HashMap<MessageId, Box<[u64]>> = HashMap::new();
    let mut message_row = |message: &Message| {
        if let Row::Refused(refusal) = &session {
            return Row::Refused(refusal.clone());
        }
        if let Some(recorded) = known.messages.get(&message.id).or_else(|| given.get(&message.id)) {
            let parts = message.parts();
            let new = parts.iter().filter(|part| !recorded.contains(&name(part.id)));
            let new: Vec<PartId> = new.map(|part| part.id.clone()).collect();
            return if new.is_empty() { Row::Unchanged } else { Row::Other(new) };
        }
        match size(message) {
            size if size > MESSAGE_MAX => Row::Refused(Refusal::TooLarge(size)),
            _ if names_blob(message) => Row::Refused(Refusal::Blob),
            _ => {
                given.insert(message.id.clone(), parts(message));
                Row::New
            }
        }
    };
    let messages = recording.messages.iter().map(&mut message_row).collect();
    Rows { session, messages }
}

impl Recording {
    /// What is new of it, as events.
    pub(super) fn into_events(self, rows: &Rows) -> Vec<Event> {
        let session = self.session.filter(|_| rows.session == Row::New);
        let session = session.map(|session| SessionEvent::Recorded(Recorded { session }));
        let new = self.messages.into_iter().zip(&rows.messages).filter(|(_, row)| **row == Row::New);
        let messages = new.map(|(message, _)| SessionEvent::MessageRecorded(MessageRecorded { message }));
        session.into_iter().chain(messages).map(Event::from).collect()
    }

    /// What was to be written, as a recording again.
    pub(super) fn of(session_id: SessionId, events: Vec<Event>) -> Self {
        let mut recording = Self { session_id, session: None, messages: Vec::new() };
        for event in events {
            match event {
                Event::Session(SessionEvent::Recorded(it)) => recording.session = Some(it.session),
                Event::Session(SessionEvent::MessageRecorded(it)) => recording.messages.push(it.message),
                Event::Content(_) | Event::Thread(_) | Event::Dispatch(_) | Event::House(_) | Event::Directory(_) => {}
            }
        }
        recording
    }
}

fn session_row(known: &Known, recording: &Recording) -> Row {
    let refused = |refusal: Refusal| Row::Refused(refusal);
    match (&known.session, &recording.session) {
        (None, None) => refused(Refusal::NoSession),
        (Some(_), None) => Row::Unchanged,
        (None, Some(given)) => given.check().map_or_else(|error| refused(error.into()), |()| Row::New),
        (Some(known), Some(given)) if known.source_agent != given.source_agent => refused(Refusal::Immutable("source_agent")),
        (Some(known), Some(given)) if known.project != given.project => refused(Refusal::Immutable("project")),
        (Some(_), Some(_)) => Row::Unchanged,
    }
}

/// What its parts are called, in short.
fn parts(message: &Message) -> Box<[u64]> {
    message.parts().iter().map(|part| name(part.id)).collect()
}

fn name(part: &PartId) -> u64 {
    let mut hasher = DefaultHasher::new();
    part.hash(&mut hasher);
    hasher.finish()
}

/// Whether it claims to hold what another one was given: only the log says where a file's contents are.
fn names_blob(message: &Message) -> bool {
    let named = |data: &Data| matches!(data, Data::Url(url) if url.starts_with(SCHEME));
    message.parts().iter().any(|part| matches!(part.body, BodyRef::File(file) if named(&file.data)))
}

/// Close enough: the texts and values that make a message large.
fn size(message: &Message) -> usize {
    let options = |options: &events::session::Options| options.values().map(|json| json.get().len()).sum::<usize>();
    let system = if let Content::System(text) = &message.content { text.len() } else { 0 };
    let parts = message.parts().into_iter().map(|part| {
        let body = match part.body {
            BodyRef::Text(it) => it.text.len(),
            BodyRef::Reasoning(it) => it.text.len(),
            BodyRef::ToolCall(it) => it.params.get().len(),
            BodyRef::ToolResult(it) => it.result.get().len(),
            BodyRef::File(_) | BodyRef::ApprovalRequest(_) | BodyRef::ApprovalResponse(_) => 0,
        };
        body + options(part.options)
    });
    options(&message.options) + system + parts.sum::<usize>()
}

/// About the bytes that a message holds in memory, with its files.
#[must_use]
pub fn weight(message: &Message) -> usize {
    let files = message.parts().into_iter().map(|part| match part.body {
        BodyRef::File(file) => match &file.data {
            Data::Inline(data) | Data::Url(data) => data.len(),
        },
        BodyRef::Text(_)
        | BodyRef::Reasoning(_)
        | BodyRef::ToolCall(_)
        | BodyRef::ToolResult(_)
        | BodyRef::ApprovalRequest(_)
        | BodyRef::ApprovalResponse(_) => 0,
    });
    size(message) + files.sum::<usize>()
}
