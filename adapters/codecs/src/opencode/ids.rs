//! Ids as opencode makes them: a prefix, 48 bits of time and count in hex, and 14 characters of which chance is replaced by what the
//! id stands for, so that the same session always gets the same ids.

use events::session::Session;

const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

fn tail(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().as_bytes()[..14].iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
}

/// Falls with time.
pub(super) fn session(session: &Session) -> String {
    if session.source_agent == super::ORIGIN {
        return session.id.to_string();
    }
    let moment = !(session.created_at.millis().unsigned_abs() << 12) & 0xffff_ffff_ffff;
    format!("ses_{moment:012x}{}", tail(&[&session.source_agent, session.id.as_str()]))
}

/// The time in an id starts over every 795 days, and opencode answers a question only when its id is above those of the answers before.
/// So restored ids count from zero, below all that it will make.
pub(super) struct Counter<'a> {
    session: &'a str,
    last: u64,
}

impl<'a> Counter<'a> {
    pub(super) fn new(session: &'a str) -> Self {
        Self { session, last: 0 }
    }

    pub(super) fn next(&mut self, prefix: &str, of: &str) -> String {
        self.last += 1;
        format!("{prefix}_{:012x}{}", self.last, tail(&[self.session, prefix, of, &self.last.to_string()]))
    }
}
