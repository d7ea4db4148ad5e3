//! What stands in a thread, read from the log.

use event_log::{From, Offset};
use events::{Chat, Entry, StreamName, ThreadId};
use serde_json::Value;

use crate::desk::words_of;
use crate::dispatcher::{Inner, Later};

const PAGE: usize = 1 << 20;
/// A thread that is longer is read from where its last entries are.
const LAST: u64 = 4_000;

impl Inner {
    /// The entries from `from` to before `to`, with their places.
    pub(crate) async fn read(&self, thread: &ThreadId, from: u64, to: u64) -> Result<Vec<(u64, Entry)>, Later> {
        let (log, name) = (&self.outside.log, StreamName::Thread(thread.clone()).to_string());
        let (head, tail) = log.head(&name).map_err(Later::of)?;
        let (mut at, to, mut read) = (from, to.min(tail.position), Vec::new());
        while at < to {
            let start = From::At(Offset { generation: head.config.generation, position: at });
            let page = log.read(&name, start, PAGE).await.map_err(Later::of)?;
            let text = [b"[".as_slice(), &page.chunks.join(&b','), b"]"].concat();
            let entries: Vec<Entry> = serde_json::from_slice(&text).map_err(Later::of)?;
            if entries.is_empty() {
                break;
            }
            let next = at + entries.len() as u64;
            read.extend((at..to).zip(entries));
            at = next;
        }
        Ok(read)
    }

    /// What came before this place, as far back as anybody looks, and all that came since.
    pub(crate) async fn entries_about(&self, thread: &ThreadId, seq: u64) -> Result<Vec<(u64, Entry)>, Later> {
        self.read(thread, seq.saturating_sub(LAST), u64::MAX).await
    }

    /// The last entries before `end`, and where they begin.
    pub(crate) async fn read_back(&self, thread: &ThreadId, end: u64, count: u64) -> Result<(u64, Vec<(u64, Entry)>), Later> {
        let (_, tail) = self.outside.log.head(&StreamName::Thread(thread.clone()).to_string()).map_err(Later::of)?;
        let end = end.min(tail.position);
        let start = end.saturating_sub(count);
        Ok((start, self.read(thread, start, end).await?))
    }

    pub(crate) async fn last_entries(&self, thread: &ThreadId) -> Result<Vec<(u64, Entry)>, Later> {
        self.read_back(thread, u64::MAX, LAST).await.map(|(_, entries)| entries)
    }
}

pub(crate) fn chat(entry: &Entry) -> Option<Chat> {
    if entry.kind == "chat" { entry.payload.decode().ok() } else { None }
}

/// The message in a transcript entry: as it is, or inside an entry of pi's session.
pub(crate) fn message(entry: &Entry) -> Option<Value> {
    let payload: Value = entry.payload.decode().ok()?;
    let inner = payload.get("message").filter(|message| message.get("role").is_some()).cloned();
    inner.or_else(|| payload.get("role").is_some().then_some(payload))
}

/// What the last message of an assistant with words in it says.
pub(crate) fn last_words(entries: &[(u64, Entry)]) -> Option<String> {
    let said = |entry: &Entry| {
        let message = message(entry).filter(|message| message["role"] == "assistant")?;
        Some(words_of(&message["content"])).filter(|text| !text.trim().is_empty())
    };
    entries.iter().rev().filter(|(_, entry)| entry.kind == "pi.assistant").find_map(|(_, entry)| said(entry))
}
