//! What an event does not say itself and its stream does: whose session it belongs to. The first event of a stream never changes, and
//! neither does what an agent is; so this is as good as a part of the event, whenever it is looked up.

use std::collections::HashMap;
use std::sync::Arc;

use codecs::seam::{Out, Parsed};
use codecs::thread::{self, ORIGIN, Thread};
use event_log::{From as ReadFrom, Log, Offset};
use events::session::{Message, Session, SessionId, Timestamp};
use events::{AgentId, AgentKind, DirectoryEvent, Entry, Event, HouseId, SessionEvent, StreamName, ThreadEvent, ThreadId};
use parking_lot::Mutex;

/// Heads that are remembered; they are read again when forgotten.
const REMEMBERED: usize = 50_000;
const PAGE: usize = 1 << 20;

/// What the rows of a stream have in common.
#[derive(Clone, Debug)]
pub struct Head {
    pub house: HouseId,
    pub session_id: SessionId,
    pub source_agent: Arc<str>,
    pub project: Arc<str>,
    /// The first entry of a thread.
    first: Option<Arc<Entry>>,
}

/// Reads what it needs from the log, and remembers some of it. Many may read at the same time.
#[derive(Debug)]
pub struct Source {
    log: Log,
    /// Held to look something up or to add it, and never while something is read.
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    heads: HashMap<StreamName, Head>,
    agents: HashMap<AgentId, AgentKind>,
    agents_read: u64,
}

/// Why an event has no rows.
#[derive(Debug)]
pub enum Unfit {
    /// It never will have any.
    Event(String),
    /// It cannot be read now.
    Log(String),
}

impl Source {
    #[must_use]
    pub fn new(log: Log) -> Self {
        Self { log, known: Mutex::default() }
    }

    /// The head of a stream whose first event has just been seen.
    pub fn remember(&self, stream: &StreamName, head: Head) {
        let mut known = self.known.lock();
        if known.heads.len() >= REMEMBERED {
            known.heads.clear();
        }
        known.heads.insert(stream.clone(), head);
    }

    /// The head of a stream whose first event is not at hand.
    pub async fn head(&self, stream: &StreamName) -> Result<Head, Unfit> {
        let known = self.known.lock().heads.get(stream).cloned();
        if let Some(head) = known {
            return Ok(head);
        }
        let first = self.page(&stream.to_string(), 0, 1).await?.into_iter().next();
        let first = first.ok_or_else(|| Unfit::Event(format!("{stream} has no first event")))?;
        let head = head_of(stream, &first)?;
        self.remember(stream, head.clone());
        Ok(head)
    }

    /// The message that stands at a place of a session or thread. `None`: there is none there, or it is no message.
    pub async fn message(&self, stream: &StreamName, seq: u64) -> Result<Option<Message>, Unfit> {
        let Some(entry) = self.entry(stream, seq).await? else { return Ok(None) };
        match (stream, entry.event().map_err(|error| Unfit::Event(error.to_string()))?) {
            (StreamName::Session(..), Event::Session(SessionEvent::MessageRecorded(it))) => Ok(Some(it.message)),
            (StreamName::Thread(thread), _) => {
                let head = self.head(stream).await?;
                let author = self.author(&entry).await?;
                thread_message(thread, &head, seq, &entry, author).map(Some)
            }
            (StreamName::Session(..) | StreamName::House(_) | StreamName::Agents, _) => Ok(None),
        }
    }

    /// What stands at a place of a stream.
    pub async fn entry(&self, stream: &StreamName, seq: u64) -> Result<Option<Entry>, Unfit> {
        Ok(self.page(&stream.to_string(), seq, 1).await?.into_iter().next())
    }

    /// What the author of an entry is.
    pub async fn author(&self, entry: &Entry) -> Result<Option<AgentKind>, Unfit> {
        let Some(author) = entry.author_agent_id else { return Ok(None) };
        let known = || self.known.lock().agents.get(&author).copied();
        if let Some(kind) = known() {
            return Ok(Some(kind));
        }
        self.read_agents().await?;
        Ok(known())
    }

    /// Two who read the same add the same.
    async fn read_agents(&self) -> Result<(), Unfit> {
        let name = StreamName::Agents.to_string();
        let tail = self.log.with_stream(&name, |stream| stream.head.tail).unwrap_or_default();
        let mut read = self.known.lock().agents_read;
        while read < tail {
            let page = self.page(&name, read, PAGE).await?;
            if page.is_empty() {
                return Err(Unfit::Log(format!("{name} ends before its tail {tail}")));
            }
            read += page.len() as u64;
            let mut known = self.known.lock();
            for entry in &page {
                if let Ok(Event::Directory(DirectoryEvent::Registered(it))) = entry.event() {
                    known.agents.insert(it.agent_id, it.kind);
                }
            }
            known.agents_read = known.agents_read.max(read);
        }
        Ok(())
    }

    async fn page(&self, name: &str, at: u64, bytes: usize) -> Result<Vec<Entry>, Unfit> {
        let unavailable = |error: &dyn std::fmt::Display| Unfit::Log(format!("{name}: {error}"));
        let from = ReadFrom::At(Offset { generation: 0, position: at });
        let page = self.log.read(name, from, bytes).await.map_err(|error| unavailable(&error))?;
        let text = [b"[".as_slice(), &page.chunks.join(&b','), b"]"].concat();
        serde_json::from_slice(&text).map_err(|error| unavailable(&error))
    }
}

fn head_of(stream: &StreamName, first: &Entry) -> Result<Head, Unfit> {
    let event = first.event().map_err(|error| Unfit::Event(error.to_string()))?;
    match (stream, event) {
        (StreamName::Session(house, _), Event::Session(SessionEvent::Recorded(it))) => Ok(session_head(house, &it.session)),
        (StreamName::Thread(thread), Event::Thread(ThreadEvent::Created(_))) => Ok(thread_head(thread, first)?.1),
        (StreamName::Session(..) | StreamName::Thread(_) | StreamName::House(_) | StreamName::Agents, _) => {
            Err(Unfit::Event(format!("{stream} begins with {}", first.kind)))
        }
    }
}

#[must_use]
pub fn session_head(house: &HouseId, session: &Session) -> Head {
    Head {
        house: house.clone(),
        session_id: session.id.clone(),
        source_agent: session.source_agent.as_str().into(),
        project: session.project.as_str().into(),
        first: None,
    }
}

/// A thread begins with the event that made it, which names its house.
pub fn thread_head(thread: &ThreadId, first: &Entry) -> Result<(Session, Head), Unfit> {
    let created = match first.event() {
        Ok(Event::Thread(ThreadEvent::Created(created))) => created,
        Ok(_) | Err(_) => return Err(Unfit::Event(format!("a thread begins with {}", first.kind))),
    };
    let (session, _) = translate(thread, &created.house_id, first, None)?;
    let head = Head { first: Some(Arc::new(first.clone())), ..session_head(&created.house_id, &session) };
    Ok((session, head))
}

/// What an entry of a thread says as a message.
pub fn thread_message(
    thread: &ThreadId,
    head: &Head,
    seq: u64,
    entry: &Entry,
    author: Option<AgentKind>,
) -> Result<Message, Unfit> {
    let first = head.first.as_ref().ok_or_else(|| Unfit::Event("the thread has no first entry".into()))?;
    let (_, messages) = translate(thread, &head.house, first, Some((seq, entry, author)))?;
    messages.into_iter().next().ok_or_else(|| Unfit::Event("the entry is no message".into()))
}

fn translate(
    thread: &ThreadId,
    house: &HouseId,
    first: &Entry,
    entry: Option<(u64, &Entry, Option<AgentKind>)>,
) -> Result<(Session, Vec<Message>), Unfit> {
    let (mut sessions, mut messages) = (Vec::new(), Vec::new());
    let mut take = |parsed: Parsed| {
        match parsed {
            Parsed::Session(session) => sessions.push(session),
            Parsed::Message(_, message) => messages.push(message),
        }
        Ok(())
    };
    let moment = i64::try_from(first.ts).ok().and_then(|ts| Timestamp::from_millis(ts).ok());
    let moment = moment.ok_or_else(|| Unfit::Event("its time is none".into()))?;
    let mut out = Out::new(ORIGIN, moment, &mut take);
    let handle = thread::begin(&mut out, Thread { id: thread, project: house.as_str() }, first);
    if let (Some(handle), Some((seq, entry, author))) = (handle, entry) {
        thread::entry(&mut out, handle, thread, seq, entry, author);
    }
    let faults = out.finish().map_err(|error| Unfit::Event(error.to_string()))?;
    if let Some(fault) = faults.first() {
        return Err(Unfit::Event(fault.to_string()));
    }
    let session = sessions.into_iter().next().ok_or_else(|| Unfit::Event("the thread is no session".into()))?;
    Ok((session, messages))
}
