//! Sessions of other clients: what a source says becomes events of the session's own stream, each once, and is read back whole.
//!
//! `adapter-integrity-additive-sync`: what is there already is never changed, whatever a later parse says of it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use event_log::{Change, Create, Expect, From as ReadFrom, Log, Offset, Payload, Rejection as Refused, SubmitError, command_id};
use events::house::{Created, Renamed};
use events::session::{Message, Options, Session, SessionId};
use events::{Entry, Event, EventId, HouseEvent, HouseId, Json, SessionEvent, SessionKey, StreamName, Ulid};

use crate::error::CommandError;
use crate::source::Source;

mod blobs;
mod decide;
#[cfg(test)]
mod tests;

use decide::decide_stored;
pub use decide::{Known, OTHER, Recording, Refusal, Row, Rows, decide, weight};

/// What one commit carries, unless a single message is larger.
const CHUNK: usize = 512 << 10;
const TRIES: u32 = 16;
/// Parents that are looked at.
const DEEPEST: usize = 1_000;
const READ_BYTES: usize = 1 << 20;
const CONTENT_TYPE: &str = "application/json";

/// What became of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Whoever waits for this position sees what is new.
    pub position: u64,
    pub rows: Rows,
}

/// The stream of a session. Part of stored names; never changed.
#[must_use]
pub fn session_stream(house: &HouseId, session: &SessionId) -> StreamName {
    let key = command_id(&["session", session.as_str()]);
    StreamName::Session(house.clone(), SessionKey::new(&format!("{key:032x}")).expect("digits are a key"))
}

/// The sessions of all houses. Who may see or write one is decided before.
#[derive(Clone, Debug)]
pub struct Sessions {
    log: Log,
    source: Arc<dyn Source>,
}

impl Sessions {
    #[must_use]
    pub fn new(log: Log, source: Arc<dyn Source>) -> Self {
        Self { log, source }
    }

    /// Begins or goes on with the recording of a session.
    pub async fn recorder(&self, house: &HouseId, session: &SessionId) -> Result<Recorder<'_>, CommandError> {
        let stream = session_stream(house, session);
        let known = self.known(&stream).await?;
        Ok(Recorder { sessions: self, stream, known, moves: false, elsewhere: None })
    }

    /// Appends what is new of a session. A repeated call appends nothing.
    pub async fn record(&self, house: &HouseId, recording: Recording) -> Result<Recorded, CommandError> {
        self.recorder(house, &recording.session_id).await?.record(recording).await
    }

    async fn known(&self, stream: &StreamName) -> Result<Known, CommandError> {
        let mut known = Known::default();
        self.log.refreshed().await.map_err(|error| unavailable(&error))?;
        self.each(stream, |event| known.add(&event)).await?;
        Ok(known)
    }

    /// A session as it was recorded, with the contents of its files. `None` if there is none.
    pub async fn read(&self, house: &HouseId, id: &SessionId) -> Result<Option<(Session, Vec<Message>)>, CommandError> {
        let Some((session, mut messages)) = self.read_stream(&session_stream(house, id)).await? else { return Ok(None) };
        for message in &mut messages {
            blobs::load(&self.log, message).await?;
        }
        Ok(Some((session, messages)))
    }

    /// What is recorded from an entry on, and where the next piece begins. `None` at the end. What files hold is left to
    /// [`Sessions::load`].
    pub async fn read_from(
        &self,
        house: &HouseId,
        id: &SessionId,
        at: u64,
    ) -> Result<Option<(Vec<SessionEvent>, u64)>, CommandError> {
        let name = session_stream(house, id).to_string();
        if self.log.with_stream(&name, |stream| stream.head.tail).is_none_or(|tail| at >= tail) {
            return Ok(None);
        }
        let page = self.page(&name, at, READ_BYTES).await?;
        if page.is_empty() {
            return Err(CommandError::Unavailable(format!("{name} ends at {at} before its tail")));
        }
        let next = at + page.len() as u64;
        let mut events = Vec::with_capacity(page.len());
        for entry in page {
            events.push(session_event(&name, entry.event().map_err(|error| unavailable(&error))?)?);
        }
        Ok(Some((events, next)))
    }

    /// Puts what its files hold into a message.
    pub async fn load(&self, message: &mut Message) -> Result<(), CommandError> {
        blobs::load(&self.log, message).await
    }

    async fn read_stream(&self, stream: &StreamName) -> Result<Option<(Session, Vec<Message>)>, CommandError> {
        let (mut session, mut messages) = (None, Vec::new());
        let mut keep = |event: SessionEvent| match event {
            SessionEvent::Recorded(it) => session = session.take().or(Some(it.session)),
            SessionEvent::MessageRecorded(it) => messages.push(it.message),
        };
        self.each(stream, &mut keep).await?;
        Ok(session.map(|session| (session, messages)))
    }

    /// Whether the parents of a session lead back to it. A client's files are recorded all the same: nothing of them is lost.
    pub async fn is_circular(&self, house: &HouseId, session: &Session) -> Result<bool, CommandError> {
        let (mut next, mut seen) = (session.parent_session_id.clone(), HashSet::new());
        if next.is_none() || self.recorded(&session_stream(house, &session.id).to_string()).await?.is_some() {
            return Ok(false);
        }
        self.log.refreshed().await.map_err(|error| unavailable(&error))?;
        while let Some(parent) = next.filter(|parent| seen.len() < DEEPEST && seen.insert(parent.clone())) {
            if parent == session.id {
                return Ok(true);
            }
            let recorded = self.recorded(&session_stream(house, &parent).to_string()).await?;
            next = recorded.and_then(|session| session.parent_session_id);
        }
        Ok(false)
    }

    /// Every session of a house, in no particular order.
    pub async fn list(&self, house: &HouseId) -> Result<Vec<Session>, CommandError> {
        self.log.refreshed().await.map_err(|error| unavailable(&error))?;
        let mut sessions = Vec::new();
        for name in self.log.stream_names(&format!("arbe-session-{house}-")) {
            let Some(stream @ StreamName::Session(..)) = StreamName::parse(&name) else { continue };
            if let StreamName::Session(of, _) = &stream
                && of != house
            {
                continue;
            }
            sessions.extend(self.recorded(&name).await?);
        }
        Ok(sessions)
    }

    /// The session of a stream, which begins with it.
    async fn recorded(&self, stream: &str) -> Result<Option<Session>, CommandError> {
        let first = self.first(stream).await?.map(|entry| entry.event()).transpose().map_err(|error| unavailable(&error))?;
        Ok(match first {
            Some(Event::Session(SessionEvent::Recorded(it))) => Some(it.session),
            Some(_) | None => None,
        })
    }

    /// The houses with their names, out of their own streams: the rest of the log is not read for it.
    pub async fn houses(&self) -> Result<Vec<(HouseId, String)>, CommandError> {
        self.log.refreshed().await.map_err(|error| unavailable(&error))?;
        let mut houses = Vec::new();
        for stream in self.log.stream_names("arbe-house-") {
            let Some(StreamName::House(house)) = StreamName::parse(&stream) else { continue };
            let mut name = None;
            self.events(&stream, |event| {
                if let Event::House(HouseEvent::Created(Created { name: now, .. }) | HouseEvent::Renamed(Renamed { name: now })) =
                    event
                {
                    name = Some(now);
                }
                Ok(())
            })
            .await?;
            houses.extend(name.map(|name| (house, name)));
        }
        Ok(houses)
    }

    async fn each(&self, stream: &StreamName, mut each: impl FnMut(SessionEvent)) -> Result<(), CommandError> {
        let name = stream.to_string();
        self.events(&name, |event| session_event(&name, event).map(&mut each)).await
    }

    async fn events(&self, name: &str, mut each: impl FnMut(Event) -> Result<(), CommandError>) -> Result<(), CommandError> {
        self.entries(name, |entry| each(entry.event().map_err(|error| unavailable(&error))?)).await
    }

    /// Every entry of a platform stream; none if there is no such stream.
    pub async fn entries(&self, name: &str, mut each: impl FnMut(Entry) -> Result<(), CommandError>) -> Result<(), CommandError> {
        let Some(tail) = self.log.with_stream(name, |stream| stream.head.tail) else { return Ok(()) };
        let mut at = 0;
        while at < tail {
            let page = self.page(name, at, READ_BYTES).await?;
            if page.is_empty() {
                return Err(CommandError::Unavailable(format!("{name} ends at {at} before its tail {tail}")));
            }
            at += page.len() as u64;
            page.into_iter().try_for_each(&mut each)?;
        }
        Ok(())
    }

    /// The first entry of a platform stream.
    pub async fn first(&self, name: &str) -> Result<Option<Entry>, CommandError> {
        if self.log.with_stream(name, |stream| stream.head.tail).is_none_or(|tail| tail == 0) {
            return Ok(None);
        }
        Ok(self.page(name, 0, 1).await?.into_iter().next())
    }

    async fn page(&self, name: &str, at: u64, bytes: usize) -> Result<Vec<Entry>, CommandError> {
        let from = ReadFrom::At(Offset { generation: 0, position: at });
        let page = self.log.read(name, from, bytes).await.map_err(|error| unavailable(&error))?;
        let text = [b"[".as_slice(), &page.chunks.join(&b','), b"]"].concat();
        serde_json::from_slice(&text).map_err(|error| unavailable(&error))
    }

    /// `None`: somebody else wrote first.
    async fn append(&self, stream: &StreamName, tail: Option<u64>, events: &[Event]) -> Result<Option<u64>, CommandError> {
        let name: Arc<str> = stream.to_string().into();
        let ts = self.source.now_ms();
        let (mut expected, mut position) = (tail, self.log.position());
        let mut texts = events.iter().zip(tail.unwrap_or_default()..).map(|(event, seq)| {
            let id = EventId(Ulid(command_id(&["session event", &name, &seq.to_string()])));
            Entry::of(id, ts, None, event).to_json()
        });
        let mut next = texts.next();
        while next.is_some() {
            let (mut chunk, mut bytes) = (Vec::new(), 0);
            while let Some(text) = next.take_if(|text| chunk.is_empty() || bytes + text.len() <= CHUNK) {
                bytes += text.len();
                chunk.push(text);
                next = texts.next();
            }
            let expect = vec![Expect { stream: name.clone(), tail: expected }];
            let changes = vec![(name.clone(), change(expected.is_some(), &chunk))];
            match self.log.submit(event_log::Command { id: None, since: None, expect, changes }).await {
                Ok(receipt) => position = receipt.position,
                Err(SubmitError::Rejected(Refused::Conflict { .. })) => return Ok(None),
                Err(SubmitError::Unknown(why)) => return Err(CommandError::Unknown(why)),
                Err(error) => return Err(CommandError::Unavailable(error.to_string())),
            }
            expected = Some(expected.unwrap_or_default() + chunk.len() as u64);
        }
        Ok(Some(position))
    }
}

/// Takes a session piece by piece, without reading again what it wrote.
#[derive(Debug)]
pub struct Recorder<'a> {
    sessions: &'a Sessions,
    stream: StreamName,
    known: Known,
    moves: bool,
    /// The file that is read, if it is not the one that the session names.
    elsewhere: Option<Json>,
}

impl Recorder<'_> {
    /// Of a client, whose session may go on in another project: what was recorded first stays, and what is new belongs to it.
    #[must_use]
    pub fn moving(self) -> Self {
        Self { moves: true, ..self }
    }

    /// Leaves out what only says otherwise where the session is.
    fn settled(&mut self, mut recording: Recording) -> Recording {
        let Some(known) = self.known.session.as_ref().filter(|_| self.moves) else { return recording };
        let again = recording.session.take_if(|given| given.source_agent == known.source_agent);
        if let Some(file) =
            again.and_then(|session| file_of(&session.options)).filter(|file| file_of(&known.options).as_ref() != Some(file))
        {
            self.elsewhere = Some(file);
        }
        // Their places are counted by file, and the session names another.
        if let Some(file) = &self.elsewhere {
            recording.messages.iter_mut().for_each(|message| place(&mut message.options, file));
        }
        recording
    }

    /// Appends what is new.
    pub async fn record(&mut self, recording: Recording) -> Result<Recorded, CommandError> {
        let (log, id) = (&self.sessions.log, recording.session_id.clone());
        let mut recording = self.settled(recording);
        let mut rows = decide(&self.known, &recording);
        for (message, _) in recording.messages.iter_mut().zip(&rows.messages).filter(|(_, row)| **row == Row::New) {
            blobs::store(log, message).await?;
        }
        let mut events = recording.into_events(&rows);
        for _ in 0..TRIES {
            if events.is_empty() {
                return Ok(Recorded { position: log.position(), rows });
            }
            if let Some(position) = self.sessions.append(&self.stream, self.known.tail, &events).await? {
                self.add(&events);
                return Ok(Recorded { position, rows });
            }
            self.known = self.sessions.known(&self.stream).await?;
            let left = self.settled(Recording::of(id.clone(), events));
            let again = decide_stored(&self.known, &left);
            events = left.into_events(&again);
            rows.settle(again);
        }
        Err(CommandError::Conflict)
    }

    fn add(&mut self, events: &[Event]) {
        for event in events {
            if let Event::Session(event) = event {
                self.known.add(event);
            }
        }
    }
}

const SOURCE: &str = "source";
const FILE: &str = "file";

fn file_of(options: &Options) -> Option<Json> {
    options.get(SOURCE)?.decode::<BTreeMap<String, Json>>().ok()?.remove(FILE)
}

/// Says where a message stands that does not say so itself.
fn place(options: &mut Options, file: &Json) {
    let Some(Ok(mut source)) = options.get(SOURCE).map(Json::decode::<BTreeMap<String, Json>>) else { return };
    source.entry(FILE.to_owned()).or_insert_with(|| file.clone());
    if let Ok(source) = Json::of(&source) {
        options.insert(SOURCE.to_owned(), source);
    }
}

fn session_event(stream: &str, event: Event) -> Result<SessionEvent, CommandError> {
    match event {
        Event::Session(event) => Ok(event),
        other @ (Event::Content(_) | Event::Thread(_) | Event::Dispatch(_) | Event::House(_) | Event::Directory(_)) => {
            Err(CommandError::Unavailable(format!("{stream} holds {}", other.kind())))
        }
    }
}

fn change(exists: bool, texts: &[String]) -> Change {
    let payload = Payload::messages(texts.iter().map(String::as_str));
    let content_type: Option<Arc<str>> = Some(CONTENT_TYPE.into());
    if exists {
        let append = event_log::Append { content_type, payload: Ok(payload), producer: None, stream_seq: None, close: false };
        return Change::Append(append);
    }
    Change::Create(Create { content_type, payload: Some(Ok(payload)), ..Create::default() })
}

fn unavailable(error: &dyn std::fmt::Display) -> CommandError {
    CommandError::Unavailable(error.to_string())
}
