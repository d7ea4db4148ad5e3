//! A thread's stream, read in slices.

use std::time::Duration;

use event_log::Offset;
use reqwest::Method;
use serde_json::value::RawValue;

use super::{ANSWER, Answer, Call, CallError, Client};

/// Longer than servers let a long-poll wait; then it is asked again.
const SILENCE: Duration = Duration::from_secs(90);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct From {
    pub(crate) offset: String,
    pub(crate) cursor: Option<String>,
}

/// Some entries, and where to go on.
#[derive(Debug)]
pub(crate) struct Slice {
    /// Each with the offset after it.
    pub(crate) entries: Vec<(String, Box<RawValue>)>,
    pub(crate) next: From,
    pub(crate) up_to_date: bool,
    pub(crate) closed: bool,
}

impl Client {
    /// What there is, or with `wait` what comes next. Tried once.
    pub(crate) async fn slice(&self, thread: &str, from: &From, wait: bool) -> Result<Slice, CallError> {
        let mut query = vec![("offset", from.offset.clone())];
        if wait {
            query.push(("live", "long-poll".into()));
            query.extend(from.cursor.clone().map(|cursor| ("cursor", cursor)));
        }
        let timeout = if wait { SILENCE } else { ANSWER };
        let path = ["threads", thread, "stream"];
        self.send(&Call { method: Method::GET, path: &path, query: &query, body: None, timeout }).await?.slice()
    }
}

impl Answer {
    fn slice(&self) -> Result<Slice, CallError> {
        let header = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok());
        let next = header("stream-next-offset").ok_or_else(|| CallError::NotOurs { url: self.url.clone() })?;
        let entries: Vec<Box<RawValue>> = if self.body.is_empty() { Vec::new() } else { self.read()? };
        Ok(Slice {
            entries: offsets(next, entries.len()).into_iter().zip(entries).collect(),
            next: From { offset: next.to_owned(), cursor: header("stream-cursor").map(str::to_owned) },
            up_to_date: header("stream-up-to-date") == Some("true"),
            closed: header("stream-closed") == Some("true"),
        })
    }
}

/// The offsets after each of the last `count` entries before `next`.
fn offsets(next: &str, count: usize) -> Vec<String> {
    let after = |back: usize| match Offset::parse(next) {
        Some(end) => before(end, back as u64).to_string(),
        None => next.to_owned(),
    };
    (0..count).rev().map(after).collect()
}

pub(crate) fn before(end: Offset, entries: u64) -> Offset {
    Offset { position: end.position.saturating_sub(entries), ..end }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_the_offset_to_go_on_from() {
        assert_eq!(
            offsets("1_5", 3),
            ["0000000000000001_0000000000000003", "0000000000000001_0000000000000004", "0000000000000001_0000000000000005"]
        );
        assert!(offsets("1_5", 0).is_empty());
    }

    #[test]
    fn no_offset_is_before_the_first() {
        assert_eq!(before(Offset { generation: 2, position: 4 }, 10), Offset { generation: 2, position: 0 });
    }
}
