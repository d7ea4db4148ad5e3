//! SSE frames, encoded once for all readers that stand at the same place.

use std::collections::VecDeque;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use event_log::{From, Offset, Page, ReadError};
use parking_lot::Mutex;

use super::live::Encoding;
use super::read::body;
use crate::app::App;

/// What follows a place in a stream, ready to be written.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// `None` at the tail.
    pub(crate) data: Option<Bytes>,
    pub(crate) next: Offset,
    pub(crate) up_to_date: bool,
    pub(crate) closed: bool,
}

/// The latest batches. Readers at a tail all ask for the same one within a moment.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    recent: Mutex<Recent>,
}

#[derive(Debug, Default)]
struct Recent {
    batches: VecDeque<(Key, Batch)>,
    bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    stream: Arc<str>,
    from: Offset,
    /// A batch is stale once the tail or the closed flag has moved on.
    tail: Offset,
    closed: bool,
}

const KEEP: usize = 64;
const KEEP_BYTES: usize = 8 << 20;

impl Frames {
    pub(crate) async fn next(&self, app: &App, name: &Arc<str>, from: From, encoding: Encoding) -> Result<Batch, ReadError> {
        let (head, tail) = app.log.head(name)?;
        let key = match from {
            From::At(offset) => Some(Key { stream: name.clone(), from: offset, tail, closed: head.closed }),
            From::Start | From::Now => None,
        };
        if let Some(batch) = key.as_ref().and_then(|key| self.recent.lock().find(key)) {
            return Ok(batch);
        }
        let page = app.log.read(name, from, app.options.page_limit).await?;
        let data = (page.bytes > 0).then(|| encode(&page, encoding));
        let batch = Batch { data, next: page.next, up_to_date: page.up_to_date, closed: page.closed };
        if let Some(key) = key
            && page.next == tail
        {
            self.recent.lock().keep(key, batch.clone());
        }
        Ok(batch)
    }
}

impl Recent {
    fn find(&self, key: &Key) -> Option<Batch> {
        self.batches.iter().rev().find(|(known, _)| known == key).map(|(_, batch)| batch.clone())
    }

    fn keep(&mut self, key: Key, batch: Batch) {
        let size = |batch: &Batch| batch.data.as_ref().map_or(0, Bytes::len);
        self.bytes += size(&batch);
        self.batches.push_back((key, batch));
        while self.batches.len() > KEEP || self.bytes > KEEP_BYTES {
            let Some((_, old)) = self.batches.pop_front() else { break };
            self.bytes -= size(&old);
        }
    }
}

/// One data event; a line break in the payload starts another `data:` line of the same event.
fn encode(page: &Page, encoding: Encoding) -> Bytes {
    let body = body(page);
    let mut out = Vec::with_capacity(body.len() + 64);
    out.extend_from_slice(b"event: data\n");
    match encoding {
        Encoding::Base64 => {
            out.extend_from_slice(b"data:");
            out.extend_from_slice(STANDARD.encode(&body).as_bytes());
            out.push(b'\n');
        }
        Encoding::Text => {
            for line in lines(&body) {
                out.extend_from_slice(b"data:");
                out.extend_from_slice(line);
                out.push(b'\n');
            }
        }
    }
    out.push(b'\n');
    out.into()
}

/// Splits at `\r\n`, `\r` and `\n`, as a reader of events does.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        lines.push(&rest[..at]);
        let skip = if rest[at..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = &rest[at + skip..];
    }
    lines.push(rest);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_break_splits() {
        assert_eq!(lines(b"a\r\nb\rc\nd"), [b"a", b"b", b"c", b"d"]);
        assert_eq!(lines(b"a\n\n"), [&b"a"[..], b"", b""]);
        assert_eq!(lines(b""), [b""]);
    }
}
