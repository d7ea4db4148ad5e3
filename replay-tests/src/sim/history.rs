//! What clients asked and what they were told.

use std::sync::Arc;

use event_log::{Command, Receipt, Rejection};
use parking_lot::Mutex;

#[derive(Clone, Debug)]
pub struct Told {
    /// Stands in every message of the command, and in no other.
    pub marker: String,
    pub command: Command,
    /// Streams the command appends to.
    pub appends: Vec<Arc<str>>,
    pub asked_at: u64,
    pub told_at: u64,
    pub retried: bool,
    pub answer: Answer,
}

#[derive(Clone, Debug)]
pub enum Answer {
    Done(Receipt),
    Rejected(Rejection),
    NotWritten,
    Unknown,
}

/// A page that a client read while others wrote.
#[derive(Clone, Debug)]
pub struct Seen {
    pub stream: Arc<str>,
    pub generation: u64,
    pub from: u64,
    pub to: u64,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Default)]
pub struct History {
    pub told: Mutex<Vec<Told>>,
    pub seen: Mutex<Vec<Seen>>,
    /// Ordinals of the records that a follower was shown: number before the commit, and in it.
    pub followed: Mutex<Vec<(u64, u64)>>,
}
