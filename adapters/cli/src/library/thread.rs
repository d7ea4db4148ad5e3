//! A live thread as a session.

use std::collections::HashMap;

use anyhow::Context;
use codecs::lineage::Lineage;
use codecs::seam::{Out, Parsed};
use codecs::thread::{self, Thread};
use events::session::{Message, Session, Timestamp};
use events::{AgentId, AgentKind, DirectoryEvent, Entry, Event, StreamName, ThreadEvent, ThreadId, thread as threads};

use super::Library;
use crate::output::Refused;

type Told = (Session, Vec<Message>);

impl Library {
    /// The thread with those that were delegated from it; `None` if the house has no such thread.
    pub(crate) async fn thread(&self, id: &str, alone: bool) -> anyhow::Result<Option<Lineage>> {
        let Ok(id) = ThreadId::new(id) else { return Ok(None) };
        if self.created(&id).await?.is_none() {
            return Ok(None);
        }
        let kinds = self.kinds().await?;
        let (session, messages) = self.told(&id, &kinds).await?;
        let (mut known, mut children, mut at) = (vec![id], Vec::new(), 0);
        let all = if alone { Vec::new() } else { self.threads().await? };
        while at < known.len() {
            let parent = known[at].clone();
            for child in all.iter().filter(|it| it.parent_thread_id.as_ref() == Some(&parent)) {
                if !known.contains(&child.thread_id) {
                    known.push(child.thread_id.clone());
                    children.push(self.told(&child.thread_id, &kinds).await?);
                }
            }
            at += 1;
        }
        Ok(Some(Lineage::new(session, messages, children).map_err(|error| Refused(error.to_string()))?))
    }

    pub(super) async fn threads(&self) -> anyhow::Result<Vec<threads::Created>> {
        let mut all = Vec::new();
        for name in self.log.stream_names("arbe-thread-") {
            if let Some(StreamName::Thread(id)) = StreamName::parse(&name) {
                all.extend(self.created(&id).await?);
            }
        }
        Ok(all)
    }

    /// How the thread began, if it is of this house.
    async fn created(&self, id: &ThreadId) -> anyhow::Result<Option<threads::Created>> {
        let first = self.sessions.first(&StreamName::Thread(id.clone()).to_string()).await?;
        let Some(Event::Thread(ThreadEvent::Created(created))) = first.map(|entry| entry.event()).transpose()? else {
            return Ok(None);
        };
        Ok(Some(created).filter(|created| created.house_id == self.house))
    }

    async fn told(&self, id: &ThreadId, kinds: &HashMap<AgentId, AgentKind>) -> anyhow::Result<Told> {
        let mut entries: Vec<Entry> = Vec::new();
        let stream = StreamName::Thread(id.clone()).to_string();
        self.sessions
            .entries(&stream, |entry| {
                entries.push(entry);
                Ok(())
            })
            .await?;
        let (mut session, mut messages) = (None, Vec::new());
        let mut sink = |parsed| {
            match parsed {
                Parsed::Session(it) => session = Some(it),
                Parsed::Message(_, it) => messages.push(it),
            }
            Ok(())
        };
        let mut out = Out::new(thread::ORIGIN, Timestamp::from_millis(0).context("1970 is a year")?, &mut sink);
        let first = entries.first().context("a thread that was created has an entry")?;
        if let Some(handle) = thread::begin(&mut out, Thread { id, project: self.house.as_str() }, first) {
            for (n, entry) in (0..).zip(&entries) {
                let author = entry.author_agent_id.as_ref().and_then(|author| kinds.get(author)).copied();
                thread::entry(&mut out, handle, id, n, entry, author);
            }
        }
        if let Some(fault) = out.finish()?.first() {
            return Err(Refused(fault.to_string()).into());
        }
        Ok((session.with_context(|| format!("thread {id} is no session"))?, messages))
    }

    async fn kinds(&self) -> anyhow::Result<HashMap<AgentId, AgentKind>> {
        let mut kinds = HashMap::new();
        self.sessions
            .entries(&StreamName::Agents.to_string(), |entry| {
                if let Ok(Event::Directory(DirectoryEvent::Registered(it))) = entry.event() {
                    kinds.insert(it.agent_id, it.kind);
                }
                Ok(())
            })
            .await?;
        Ok(kinds)
    }
}
