//! Reading one stream: bounded pages, cut the same way for every reader.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::blobs;
use crate::codec::DecodeError;
use crate::core::{Cached, Core, Damage, FETCH_ATTEMPTS, FetchError, Value};
use crate::decide::locate;
use crate::log::Log;
use crate::offset::Offset;
use crate::pack;
use crate::record::{Appended, Op, Record};
use crate::state::{PackRef, State};
use crate::stream::{Head, Place, Table, media_type, token};

/// Extents looked up at a time, and of those fetched at once.
const PLAN: usize = 1_024;
const FETCH_AHEAD: usize = 16;
const REPLANS: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Start,
    Now,
    At(Offset),
}

/// A run of a stream. The same start gives the same full page for ever.
#[derive(Clone, Debug)]
pub struct Page {
    pub start: Offset,
    pub next: Offset,
    /// Bytes, or for a JSON stream runs of comma-joined messages.
    pub chunks: Vec<Bytes>,
    pub bytes: usize,
    pub content_type: Arc<str>,
    pub json: bool,
    /// Of the stream itself; differs from an offset's inside the inherited part of a fork.
    pub generation: u64,
    /// It reaches the tail as it was when the page was read.
    pub up_to_date: bool,
    /// The stream is closed and this page reaches its end.
    pub closed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("no such stream")]
    NotFound,
    #[error("the stream was deleted; forks still read through it")]
    Gone,
    #[error("the offset belongs to an earlier stream of this name")]
    StaleOffset,
    #[error("the offset is not one of this stream's")]
    ForeignOffset,
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// Where a page begins and what the stream looked like then.
struct Snapshot {
    head: Head,
    from: u64,
    start: Offset,
    next: u64,
}

/// Units `from..to` of one append or one pack block.
#[derive(Clone, Debug)]
struct Piece {
    stream: Arc<str>,
    generation: u64,
    place: Source,
    from: u64,
    to: u64,
}

/// A place with the pack it was meant for: when packs are merged, another one begins at the same slot.
#[derive(Clone, Copy, Debug)]
enum Source {
    Slot { n: u64, index: u32 },
    Block { pack: PackRef, offset: u32, len: u32 },
}

impl Log {
    /// Reads from `from` up to `limit` bytes, and at least one unit if there is one.
    pub async fn read(&self, name: &str, from: From, limit: usize) -> Result<Page, ReadError> {
        let Snapshot { head, from, start, .. } = self.snapshot(name, from)?;
        let mut page = Builder {
            limit,
            text: head.config.is_json() || media_type(&head.config.content_type).starts_with("text/"),
            chunks: Vec::new(),
            bytes: 0,
            position: from.min(head.tail),
            full: false,
        };
        let mut stuck = 0;
        while page.position < head.tail && !page.full {
            let before = page.position;
            let pieces = plan(&self.core.state.read(), name, &head, before);
            if pieces.is_empty() {
                return Err(ReadError::NotFound);
            }
            // Every piece has a byte at least, so a small page needs few of them.
            let ahead = FETCH_AHEAD.min(limit.max(1));
            let mut fetched = stream::iter(pieces).map(|piece| self.fetch_piece(piece)).buffered(ahead);
            while let Some((piece, records)) = fetched.try_next().await? {
                for record in records.iter() {
                    self.take(&mut page, &piece, record).await?;
                }
                if page.full {
                    break;
                }
            }
            // A pack may be replaced between plan and fetch; planning again finds its successor.
            stuck = if page.position == before { stuck + 1 } else { 0 };
            if stuck > REPLANS {
                let what = format!("no stored record holds position {before}");
                return Err(FetchError::from(Damage { key: name.to_owned(), what }).into());
            }
        }
        page.trim_text(head.config.is_json());
        let up_to_date = page.position >= head.tail;
        let next = token(&*self.core.state.read(), &head, page.position);
        Ok(Page {
            start,
            next,
            chunks: page.chunks,
            bytes: page.bytes,
            content_type: head.config.content_type.clone(),
            json: head.config.is_json(),
            generation: head.config.generation,
            up_to_date,
            closed: head.closed && up_to_date,
        })
    }

    fn snapshot(&self, name: &str, from: From) -> Result<Snapshot, ReadError> {
        let state = self.core.state.read();
        let stream = state.stream(name).ok_or(ReadError::NotFound)?;
        if stream.head.deleted {
            return Err(ReadError::Gone);
        }
        if stream.expired(self.now_ms()) {
            return Err(ReadError::NotFound);
        }
        let head = stream.head.clone();
        let from = match from {
            From::Start => 0,
            From::Now => head.tail,
            From::At(offset) => locate(&*state, &head, offset).ok_or(if offset.generation < head.config.generation {
                ReadError::StaleOffset
            } else {
                ReadError::ForeignOffset
            })?,
        };
        let start = token(&*state, &head, from.min(head.tail));
        Ok(Snapshot { head, from, start, next: state.chain.next })
    }

    /// The token of the tail, and whether the stream is closed there.
    pub fn head(&self, name: &str) -> Result<(Head, Offset), ReadError> {
        let Snapshot { head, start, .. } = self.snapshot(name, From::Now)?;
        Ok((head, start))
    }

    /// The same, and the position of the log at which the stream ends there.
    pub fn head_at(&self, name: &str) -> Result<(Head, Offset, u64), ReadError> {
        let Snapshot { head, start, next, .. } = self.snapshot(name, From::Now)?;
        Ok((head, start, next))
    }

    /// Whether a read could start there.
    pub fn check_offset(&self, name: &str, from: From) -> Result<(), ReadError> {
        self.snapshot(name, from).map(|_| ())
    }

    /// The append that begins exactly at `at`, and how many of its units this stream has; for forks that start inside it.
    pub async fn append_at(&self, name: &str, at: u64) -> Result<Option<(Appended, u64)>, ReadError> {
        let Snapshot { head, .. } = self.snapshot(name, From::Now)?;
        if at >= head.tail {
            return Ok(None);
        }
        let Some(piece) = plan(&self.core.state.read(), name, &head, at).into_iter().next() else { return Ok(None) };
        let (piece, records) = self.fetch_piece(piece).await?;
        let found = records.iter().find_map(|record| match &record.op {
            Op::Appended(appended) if appended.first == at => {
                Some((appended.clone(), appended.payload.units().min(piece.to - at)))
            }
            Op::Appended(_) | Op::Created(_) | Op::Closed { .. } | Op::Deleted { .. } | Op::Renewed => None,
        });
        Ok(found)
    }

    /// The bytes of an append, wherever they are.
    pub async fn payload(&self, appended: &Appended) -> Result<Bytes, ReadError> {
        Ok(blobs::load(&self.core, &appended.payload).await?)
    }

    async fn fetch_piece(&self, piece: Piece) -> Result<(Piece, Arc<Vec<Record>>), FetchError> {
        let records = match piece.place {
            Source::Slot { n, index } => {
                let slot = self.core.slot(n).await?;
                Arc::new(slot.records.get(index as usize).cloned().into_iter().collect())
            }
            Source::Block { pack, offset, len } => self.core.block(&piece, pack, offset, len).await?,
        };
        Ok((piece, records))
    }

    async fn take(&self, page: &mut Builder, piece: &Piece, record: &Record) -> Result<(), ReadError> {
        let Op::Appended(appended) = &record.op else { return Ok(()) };
        let end = (appended.first + appended.payload.units()).min(piece.to);
        let from = page.position.max(appended.first).max(piece.from);
        if page.full || from >= end || from != page.position {
            return Ok(());
        }
        let data = blobs::load(&self.core, &appended.payload).await?;
        page.take(appended, &data, from - appended.first, end - appended.first);
        Ok(())
    }
}

struct Builder {
    limit: usize,
    text: bool,
    chunks: Vec<Bytes>,
    bytes: usize,
    position: u64,
    full: bool,
}

impl Builder {
    /// Adds units `from..to` of an append as far as the limit allows; a first message is added whatever its size.
    fn take(&mut self, appended: &Appended, data: &Bytes, from: u64, to: u64) {
        // Runs of messages are joined by a comma.
        let comma = usize::from(appended.payload.cuts.is_some() && self.bytes > 0);
        let room = self.limit.saturating_sub(self.bytes + comma);
        let to_fit = match &appended.payload.cuts {
            None => to.min(from + room as u64),
            Some(cuts) => {
                let start = appended.payload.span(from, from + 1).start;
                let fitting = cuts[from as usize..to as usize].partition_point(|cut| *cut as usize - start <= room) as u64;
                if self.bytes == 0 { from + fitting.max(1) } else { from + fitting }
            }
        };
        self.full = to_fit < to;
        if to_fit > from {
            let span = appended.payload.span(from, to_fit);
            self.bytes += span.len() + comma;
            self.chunks.push(data.slice(span));
            self.position = appended.first + to_fit;
        }
    }

    /// A page of text does not end inside a character, unless that is all there is.
    fn trim_text(&mut self, json: bool) {
        if json || !self.text || !self.full {
            return;
        }
        let Some(last) = self.chunks.last_mut() else { return };
        let cut = last.iter().rev().take(4).position(|byte| byte & 0xc0 != 0x80).unwrap_or(0);
        let lead = last.len() - 1 - cut.min(last.len() - 1);
        let width = match last[lead] {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        let dropped = last.len() - lead;
        if width > cut + 1 && dropped < self.bytes {
            last.truncate(lead);
            self.bytes -= dropped;
            self.position -= dropped as u64;
        }
    }
}

impl Core {
    async fn block(&self, piece: &Piece, pack: PackRef, offset: u32, len: u32) -> Result<Arc<Vec<Record>>, FetchError> {
        let key = Cached::Block(pack.from, pack.to, offset);
        if let Some(Value::Records(records)) = self.cache.lock().get(&key) {
            return Ok(records);
        }
        let path = pack::path(pack.from, pack.to);
        let range = u64::from(offset)..u64::from(offset) + u64::from(len);
        let block = self.range(&path, range.clone()).await?.ok_or(DecodeError::Truncated);
        match block.and_then(|block| pack::decode_block(&block)) {
            Ok(records) => {
                let weight = records.iter().map(Record::weight).sum();
                let records = Arc::new(records);
                self.cache.lock().insert(key, Value::Records(records.clone()), weight);
                Ok(records)
            }
            Err(why) => {
                tracing::error!(key = %path, ?range, %why, "pack block missing or damaged, reading the slots instead");
                Ok(Arc::new(self.records_in_slots(piece, pack.from, pack.to).await?))
            }
        }
    }

    /// `None` if the object is not there, or not that long.
    async fn range(&self, path: &Path, range: Range<u64>) -> Result<Option<Bytes>, FetchError> {
        let mut pause = Duration::from_millis(20);
        for attempt in 1.. {
            match self.store.objects.get_range(path, range.clone()).await {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                Err(error) => match self.store.objects.head(path).await {
                    Ok(meta) if meta.size < range.end => return Ok(None),
                    _ if attempt < FETCH_ATTEMPTS => tracing::warn!(key = %path, %error, "pack read failed, trying again"),
                    _ => return Err(FetchError::Unavailable(error.to_string())),
                },
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        Ok(None)
    }

    /// Packs are derived: without one, the same records are in the slots it covered.
    async fn records_in_slots(&self, piece: &Piece, from: u64, to: u64) -> Result<Vec<Record>, FetchError> {
        let mut found = Vec::new();
        for n in from..to {
            if self.state.read().skips.contains(&n) {
                continue;
            }
            let slot = self.slot(n).await?;
            let ours = slot.records.iter().filter(|record| {
                record.stream == piece.stream
                    && matches!(&record.op, Op::Appended(a) if a.generation == piece.generation && a.first < piece.to && a.first + a.payload.units() > piece.from)
            });
            found.extend(ours.cloned());
        }
        Ok(found)
    }
}

/// The next extents from `position` on, through the sources of a fork.
fn plan(state: &State, name: &str, head: &Head, position: u64) -> Vec<Piece> {
    if state.head(name).is_none_or(|now| now.config.generation != head.config.generation) {
        return Vec::new();
    }
    let mut owner = (Arc::<str>::from(name), head.clone(), head.tail);
    while !owner.1.owns(position + 1) {
        let Some(fork) = owner.1.config.fork.clone() else { break };
        let Some(source) = state.head(&fork.source) else { return Vec::new() };
        owner = (fork.source, source, fork.at.min(owner.2));
    }
    let (stream, head, end) = owner;
    let Some(found) = state.stream(&stream).filter(|s| s.head.config.generation == head.config.generation) else {
        return Vec::new();
    };
    let extents = &found.extents;
    let first = extents.partition_point(|extent| extent.start <= position).saturating_sub(1);
    let mut pieces = Vec::new();
    for (index, extent) in extents.iter().enumerate().skip(first).take(PLAN) {
        let to = extents.get(index + 1).map_or(u64::MAX, |next| next.start).min(end);
        if extent.start >= end {
            break;
        }
        let place = match extent.place {
            Place::Slot { n, index } => Source::Slot { n, index },
            Place::Pack { from, offset, len } => match state.pack(from) {
                Some(pack) => Source::Block { pack, offset, len },
                None => break,
            },
        };
        let from = extent.start.max(position);
        pieces.push(Piece { stream: stream.clone(), generation: head.config.generation, place, from, to });
    }
    pieces
}
