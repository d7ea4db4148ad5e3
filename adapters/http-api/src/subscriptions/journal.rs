//! The hidden stream of events, and the state folded from it.

use std::sync::Arc;

use event_log::{Append, Change, Command, Create, Expect, From, Log, Offset, Payload, ReadError};
use parking_lot::RwLock;

use super::event::{DecodeError, Recorded};
use super::state::State;

pub(super) const STREAM: &str = "__ds/subscriptions";
const PAGE: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Journal {
    log: Log,
    folded: RwLock<Folded>,
    /// One reader at a time, so that no event is applied twice.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Folded {
    state: State,
    /// Events applied; `None` while there is no stream.
    seen: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum JournalError {
    #[error("the subscriptions cannot be read: {0}")]
    Read(#[from] ReadError),
    #[error("event {at} of the subscriptions cannot be understood: {source}")]
    Decode { at: u64, source: DecodeError },
}

impl Journal {
    pub(super) fn new(log: Log) -> Self {
        Self { log, folded: RwLock::default(), reading: tokio::sync::Mutex::default() }
    }

    pub(super) fn with<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.folded.read().state)
    }

    /// Also tells where the journal stands, for [`command`].
    pub(super) fn with_position<T>(&self, look: impl FnOnce(&State, Option<u64>) -> T) -> T {
        let folded = self.folded.read();
        look(&folded.state, folded.seen)
    }

    /// Applies what this server's log has and the state has not.
    pub(super) async fn catch_up(&self) -> Result<(), JournalError> {
        let _reading = self.reading.lock().await;
        loop {
            let seen = self.folded.read().seen;
            let tail = match self.log.head(STREAM) {
                Ok((head, _)) => head.tail,
                Err(ReadError::NotFound) if seen.is_none() => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            if seen == Some(tail) {
                return Ok(());
            }
            let at = seen.unwrap_or(0);
            let page = self.log.read(STREAM, From::At(Offset { generation: 0, position: at }), PAGE).await?;
            let mut run = Vec::new();
            for chunk in &page.chunks {
                run.extend(Recorded::decode_run(chunk).map_err(|source| JournalError::Decode { at, source })?);
            }
            let mut folded = self.folded.write();
            run.iter().for_each(|recorded| folded.state.apply(recorded));
            folded.seen = Some(page.next.position);
        }
    }
}

/// Appends events to the journal where it stood at `position`, and nowhere else.
pub(super) fn command(position: Option<u64>, recorded: &[Recorded]) -> Command {
    let texts: Vec<String> = recorded.iter().map(Recorded::encode).collect();
    let payload = Ok(Payload::messages(texts.iter().map(String::as_str)));
    let stream: Arc<str> = STREAM.into();
    let content_type = Some("application/json".into());
    let change = match position {
        None => Change::Create(Create { content_type, payload: Some(payload), ..Create::default() }),
        Some(_) => Change::Append(Append { content_type: None, payload, producer: None, stream_seq: None, close: false }),
    };
    Command { expect: vec![Expect { stream: stream.clone(), tail: position }], ..Command::one(stream, change) }
}
