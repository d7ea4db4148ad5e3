//! What each event says about the index.

use std::time::Duration;

use events::session::{Message, Session};
use events::{Entry, Event, SessionEvent, StreamName, ThreadEvent, ThreadStatus};
use projector::{Projector, Recorded, Unprojectable};

/// An event that becomes documents. Whose they are is found out when they are written.
#[derive(Debug)]
pub struct Change {
    pub(crate) stream: StreamName,
    pub(crate) seq: u64,
    pub(crate) position: u64,
    pub(crate) said: Said,
}

#[derive(Debug)]
pub(crate) enum Said {
    Session(Box<Session>),
    Message(Box<Message>),
    /// Of a thread, and how the thread stands from there on.
    Entry(Box<Entry>, Stands),
}

/// What an entry changes of what threads are filtered by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stands {
    pub tags: Option<Vec<String>>,
    pub status: Option<ThreadStatus>,
}

/// Entries of threads, and messages of sessions and threads, by their words.
#[derive(Clone, Copy, Debug, Default)]
pub struct EntriesProjector;

impl Projector for EntriesProjector {
    const NAME: &'static str = "entries";
    const VERSION: u32 = crate::VERSION;
    /// A commit is some files and a sync of each.
    const LINGER: Duration = Duration::from_millis(50);
    const REST: u32 = 1;
    type Change = Change;

    fn reads(stream: &StreamName) -> bool {
        matches!(stream, StreamName::Session(..) | StreamName::Thread(_))
    }

    fn project(&self, recorded: &Recorded) -> Result<Vec<Change>, Unprojectable> {
        let said = match (&recorded.stream, &recorded.event) {
            (StreamName::Session(..), Event::Session(SessionEvent::Recorded(it))) => Said::Session(Box::new(it.session.clone())),
            (StreamName::Session(..), Event::Session(SessionEvent::MessageRecorded(it))) => {
                Said::Message(Box::new(it.message.clone()))
            }
            (StreamName::Thread(_), Event::Thread(event)) => Said::Entry(Box::new(recorded.entry.clone()), stands(event)),
            (StreamName::Thread(_), Event::Content(_) | Event::Dispatch(_)) => {
                Said::Entry(Box::new(recorded.entry.clone()), Stands::default())
            }
            (
                StreamName::Session(..) | StreamName::Thread(_) | StreamName::House(_) | StreamName::Agents,
                Event::Content(_)
                | Event::Thread(_)
                | Event::Dispatch(_)
                | Event::House(_)
                | Event::Directory(_)
                | Event::Session(_),
            ) => return Err(Unprojectable("it stands in a stream of another kind".into())),
        };
        let Recorded { stream, seq, position, .. } = recorded;
        Ok(vec![Change { stream: stream.clone(), seq: *seq, position: *position, said }])
    }
}

fn stands(event: &ThreadEvent) -> Stands {
    match event {
        ThreadEvent::Created(it) => {
            let status = if it.agent_id.is_some() { ThreadStatus::Idle } else { ThreadStatus::Open };
            Stands { tags: Some(it.tags.clone()), status: Some(status) }
        }
        ThreadEvent::Tagged(it) => Stands { tags: Some(it.tags.clone()), status: None },
        ThreadEvent::StatusChanged(it) => Stands { tags: None, status: Some(it.status) },
        ThreadEvent::Renamed(_)
        | ThreadEvent::Pinned(_)
        | ThreadEvent::Unpinned(_)
        | ThreadEvent::EnvironmentSet(_)
        | ThreadEvent::AgentSpawn(_)
        | ThreadEvent::ChildFinished(_)
        | ThreadEvent::SandboxSet(_)
        | ThreadEvent::SandboxResumed(_)
        | ThreadEvent::PiFailed(_)
        | ThreadEvent::PiSessionOrphaned(_) => Stands::default(),
    }
}
