//! A session with those that hang on it.

use events::session::{Message, Session, SessionId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    pub session: Session,
    /// In the order of the log.
    pub messages: Vec<Message>,
    /// `adapter-lineage-complete-restore`: they are restored with it.
    pub children: Vec<(Session, Vec<Message>)>,
    /// The sessions that it goes on from without repeating them, the nearest first.
    pub bases: Vec<(Session, Vec<Message>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("session {child} hangs on {parent}, which hangs on another: restoring goes one level deep")]
pub struct TooDeep {
    pub parent: SessionId,
    pub child: SessionId,
}

impl Lineage {
    /// `children` are all sessions known to hang on this one, or on one that does.
    pub fn new(session: Session, messages: Vec<Message>, children: Vec<(Session, Vec<Message>)>) -> Result<Self, TooDeep> {
        for (child, _) in &children {
            if let Some(parent) = child.parent_session_id.as_ref().filter(|parent| **parent != session.id) {
                return Err(TooDeep { parent: parent.clone(), child: child.id.clone() });
            }
        }
        Ok(Self { session, messages, children, bases: Vec::new() })
    }

    #[must_use]
    pub fn on(mut self, bases: Vec<(Session, Vec<Message>)>) -> Self {
        self.bases = bases;
        self
    }

    /// The session and its children.
    pub fn all(&self) -> impl Iterator<Item = (&Session, &[Message])> {
        let children = self.children.iter().map(|(session, messages)| (session, messages.as_slice()));
        std::iter::once((&self.session, self.messages.as_slice())).chain(children)
    }
}
