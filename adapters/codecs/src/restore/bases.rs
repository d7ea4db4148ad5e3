//! Sessions that go on from others without repeating them.

use events::session::{Message, MessageId, Session, SessionId};

use super::RestoreError;
use crate::lineage::Lineage;
use crate::registry;

/// What the session goes on from, as the client that made it tells.
#[must_use]
pub fn base(session: &Session, messages: &[Message]) -> Option<SessionId> {
    registry::find(&session.source_agent)?.serialize.base(messages)
}

/// How many of the lineage's bases it takes, each of which is the one that the session before it names.
pub(super) fn check(lineage: &Lineage) -> Result<usize, RestoreError> {
    let (mut session, mut messages) = (&lineage.session, lineage.messages.as_slice());
    for known in 0.. {
        let Some(base) = base(session, messages) else { return Ok(known) };
        match lineage.bases.get(known).filter(|(it, _)| it.id == base) {
            Some((next, before)) => (session, messages) = (next, before),
            None => return Err(RestoreError::NoBase { session: session.id.clone(), base }),
        }
    }
    Ok(lineage.bases.len())
}

/// The lineage with every message in its place: what the session and its children go on from stands before their own.
#[must_use]
pub fn unfolded(lineage: &Lineage) -> Lineage {
    let mut whole = lineage.clone();
    let mut cut = lineage.session.parent_message_id.as_ref();
    let mut at = base(&lineage.session, &lineage.messages);
    for (session, messages) in &lineage.bases {
        if at.as_ref() != Some(&session.id) {
            break;
        }
        whole.messages.splice(0..0, shared(messages, cut).iter().cloned());
        (cut, at) = (session.parent_message_id.as_ref(), base(session, messages));
    }
    for (child, messages) in &mut whole.children {
        if base(child, messages).as_ref() == Some(&lineage.session.id) {
            messages.splice(0..0, shared(&whole.messages, child.parent_message_id.as_ref()).iter().cloned());
        }
    }
    whole
}

/// The messages up to the one where they part, which is shared.
fn shared<'a>(messages: &'a [Message], cut: Option<&MessageId>) -> &'a [Message] {
    let last = cut.and_then(|cut| messages.iter().position(|message| message.id == *cut));
    last.map_or(messages, |last| &messages[..=last])
}
