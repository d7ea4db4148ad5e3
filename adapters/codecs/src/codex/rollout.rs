//! Where a rollout stands, and by which id the client knows it.

use events::session::Session;

use crate::foreign::{is_uuid, moment, uuid};

/// Its own where it is one that the client takes, otherwise one that is always the same for the session.
pub(super) fn thread_id(session: &Session) -> String {
    let id = session.id.as_str();
    if session.source_agent == super::ORIGIN || is_uuid(id) {
        return id.to_owned();
    }
    uuid(&[&session.source_agent, id])
}

pub(super) fn path(session: &Session) -> String {
    format!("sessions/{}-{}.jsonl", moment(session.created_at, "%Y/%m/%d/rollout-%Y-%m-%dT%H-%M-%S"), thread_id(session))
}
