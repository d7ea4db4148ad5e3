use crate::content::Content;
use crate::directory::DirectoryEvent;
use crate::dispatch::DispatchEvent;
use crate::house::HouseEvent;
use crate::session::SessionEvent;
use crate::thread::ThreadEvent;

/// A fact, in its current version whatever version it was written in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Content(Content),
    Thread(ThreadEvent),
    Dispatch(DispatchEvent),
    House(HouseEvent),
    Directory(DirectoryEvent),
    Session(SessionEvent),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    Content,
    Thread,
    Dispatch,
    House,
    Directory,
    Session,
}

impl Event {
    #[must_use]
    pub fn family(&self) -> Family {
        match self {
            Self::Content(_) => Family::Content,
            Self::Thread(_) => Family::Thread,
            Self::Dispatch(_) => Family::Dispatch,
            Self::House(_) => Family::House,
            Self::Directory(_) => Family::Directory,
            Self::Session(_) => Family::Session,
        }
    }
}

impl From<Content> for Event {
    fn from(event: Content) -> Self {
        Self::Content(event)
    }
}

impl From<ThreadEvent> for Event {
    fn from(event: ThreadEvent) -> Self {
        Self::Thread(event)
    }
}

impl From<DispatchEvent> for Event {
    fn from(event: DispatchEvent) -> Self {
        Self::Dispatch(event)
    }
}

impl From<HouseEvent> for Event {
    fn from(event: HouseEvent) -> Self {
        Self::House(event)
    }
}

impl From<DirectoryEvent> for Event {
    fn from(event: DirectoryEvent) -> Self {
        Self::Directory(event)
    }
}

impl From<SessionEvent> for Event {
    fn from(event: SessionEvent) -> Self {
        Self::Session(event)
    }
}
