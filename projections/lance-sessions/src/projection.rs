//! What each event says about the datasets.

use std::time::Duration;

use events::session::{Message, Session};
use events::{Entry, Event, SessionEvent, StreamName};
use projector::{Projector, Recorded, Unprojectable};

use crate::rows::Origin;

/// An event that becomes rows. Whose they are is found out when they are written.
#[derive(Debug)]
pub struct Change {
    pub(crate) stream: StreamName,
    pub(crate) seq: u64,
    pub(crate) origin: Origin,
    pub(crate) said: Said,
}

#[derive(Debug)]
pub(crate) enum Said {
    Session(Box<Session>),
    Message(Box<Message>),
    /// Of a thread.
    Entry(Box<Entry>),
}

/// Sessions and threads as datasets.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionsProjector;

impl Projector for SessionsProjector {
    const NAME: &'static str = "sessions";
    const VERSION: u32 = crate::VERSION;
    /// A commit is a new version of up to three tables of each house.
    const LINGER: Duration = Duration::from_millis(500);
    const REST: u32 = 15;
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
            (StreamName::Thread(_), Event::Content(_) | Event::Thread(_) | Event::Dispatch(_)) => {
                Said::Entry(Box::new(recorded.entry.clone()))
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
        let origin = Origin { ts: recorded.ts, position: recorded.position };
        Ok(vec![Change { stream: recorded.stream.clone(), seq: recorded.seq, origin, said }])
    }
}
