//! What stands in a thread, read from the log.

use std::collections::VecDeque;
use std::ops::Range;

use event_log::{From, Offset};
use events::{Chat, Entry, StreamName, ThreadId};
use serde_json::Value;

use crate::desk::words_of;
use crate::dispatcher::{Inner, Later};

const PAGE: usize = 1 << 20;
/// A thread that is longer is read from where its last entries are.
pub(crate) const LAST: u64 = 4_000;
/// Entries that are read at once on the way back, at first and at most.
const STEPS: (u64, u64) = (16, 1_024);

impl Inner {
    /// The next entries from `from` on and before `to`, with their places. There may be more.
    pub(crate) async fn page(&self, thread: &ThreadId, from: u64, to: u64) -> Result<Vec<(u64, Entry)>, Later> {
        let (log, name) = (&self.outside.log, StreamName::Thread(thread.clone()).to_string());
        let (head, tail) = log.head(&name).map_err(Later::of)?;
        let to = to.min(tail.position);
        if from >= to {
            return Ok(Vec::new());
        }
        let start = From::At(Offset { generation: head.config.generation, position: from });
        let page = log.read(&name, start, PAGE).await.map_err(Later::of)?;
        // Each holds an entry at least.
        let chunks = &page.chunks[..page.chunks.len().min(usize::try_from(to - from).unwrap_or(usize::MAX))];
        let text = [b"[".as_slice(), &chunks.join(&b','), b"]"].concat();
        let entries: Vec<Entry> = serde_json::from_slice(&text).map_err(Later::of)?;
        Ok((from..to).zip(entries).collect())
    }

    /// All entries from `from` on and before `to`, of which no more than a page is there at once.
    pub(crate) async fn each(
        &self,
        thread: &ThreadId,
        from: u64,
        to: u64,
        mut see: impl FnMut(u64, Entry) + Send,
    ) -> Result<(), Later> {
        let mut at = from;
        loop {
            let page = self.page(thread, at, to).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            at = last + 1;
            page.into_iter().for_each(|(seq, entry)| see(seq, entry));
        }
    }

    /// The newest of those that are wanted, in order: until they are enough, or there is no room for more, or so many entries were looked
    /// at. And whether there was no room for some.
    pub(crate) async fn back(
        &self,
        thread: &ThreadId,
        about: Range<u64>,
        most: u64,
        wanted: impl Fn(&Entry) -> bool + Send + Sync,
        enough: impl Fn(&[(u64, Entry)]) -> bool + Send + Sync,
    ) -> Result<(Vec<(u64, Entry)>, bool), Later> {
        let (_, tail) = self.outside.log.head(&StreamName::Thread(thread.clone()).to_string()).map_err(Later::of)?;
        let mut end = about.end.min(tail.position);
        let (first, mut step, mut kept) = (about.start.max(end.saturating_sub(most)), STEPS.0, Kept::default());
        while end > first {
            let start = end.saturating_sub(step).max(first);
            let mut older = kept.older();
            let keep = |seq, entry| {
                if wanted(&entry) {
                    older.push(seq, entry);
                }
            };
            self.each(thread, start, end, keep).await?;
            kept = older.before(kept);
            if kept.is_full || enough(kept.entries.make_contiguous()) {
                break;
            }
            (end, step) = (start, (step * 2).min(STEPS.1));
        }
        Ok((kept.entries.into(), kept.is_full))
    }
}

/// Entries of a thread, the newest that there is room for. One is kept, however long it is.
#[derive(Debug, Default)]
struct Kept {
    entries: VecDeque<(u64, Entry)>,
    bytes: usize,
    /// Taken by newer ones.
    taken: usize,
    is_full: bool,
}

impl Kept {
    const ROOM: usize = 8 << 20;

    fn older(&self) -> Self {
        Self { taken: self.bytes, ..Self::default() }
    }

    fn push(&mut self, seq: u64, entry: Entry) {
        self.bytes += entry.payload.get().len();
        self.entries.push_back((seq, entry));
        let spare = usize::from(self.taken == 0);
        while self.taken + self.bytes > Self::ROOM && self.entries.len() > spare {
            self.is_full = true;
            self.bytes -= self.entries.pop_front().map_or(0, |(_, entry)| entry.payload.get().len());
        }
    }

    fn before(mut self, newer: Self) -> Self {
        self.entries.extend(newer.entries);
        Self { bytes: self.bytes + newer.bytes, taken: 0, is_full: self.is_full || newer.is_full, entries: self.entries }
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

#[cfg(test)]
mod tests {
    use events::{EventId, Json, Ulid};

    use super::*;

    fn entry(bytes: usize) -> Entry {
        let payload = Json::of(&"x".repeat(bytes - 2)).unwrap();
        Entry { id: EventId(Ulid(1)), ts: 1, kind: "pi.assistant".to_owned(), v: 1, author_agent_id: None, payload }
    }

    fn places(kept: &Kept) -> Vec<u64> {
        kept.entries.iter().map(|(seq, _)| *seq).collect()
    }

    #[test]
    fn the_newest_entries_are_kept_up_to_a_bound_and_one_of_them_whatever_its_length() {
        let mut newest = Kept::default();
        (10..16).for_each(|seq| newest.push(seq, entry(1 << 20)));
        assert!(!newest.is_full && newest.bytes == 6 << 20);
        let mut older = newest.older();
        (4..10).for_each(|seq| older.push(seq, entry(1 << 20)));
        let kept = older.before(newest);
        assert_eq!((places(&kept), kept.bytes, kept.is_full), ((8..16).collect(), Kept::ROOM, true));
        let mut long = Kept::default();
        (0..3).for_each(|seq| long.push(seq, entry(Kept::ROOM + 1)));
        assert_eq!((places(&long), long.is_full), (vec![2], true));
        let mut older = long.older();
        older.push(1, entry(2));
        assert_eq!(places(&older.before(long)), [2]);
    }
}
