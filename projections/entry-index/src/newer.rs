//! What was said in a session after one of its messages. Only messages are counted: of a thread also nothing else that stands there.

use std::collections::BTreeMap;

use events::HouseId;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, SegmentReader, TERMINATED, Term};

use crate::copies::EntryIndex;
use crate::documents::number;
use crate::error::IndexError;
use crate::view::{Sessions, View};

/// A message of a session, or of one that it spawned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Last {
    /// The session that hangs on no other.
    pub root: String,
    /// Where the message stands in the log.
    pub stream: String,
    pub seq: u64,
    /// Microseconds.
    pub time: i64,
}

impl EntryIndex {
    /// How many messages of each session, and of those that it spawned, come after one. Reads files: not for a thread that others wait on.
    pub fn newer(&self, house: &HouseId, lasts: &[Last]) -> Result<Vec<u64>, IndexError> {
        let counted = self.look(|view| {
            let sessions = view.sessions(house);
            let streams = streams(&sessions, lasts);
            lasts.iter().zip(&streams).map(|(last, streams)| count(view, house, last, streams)).collect()
        });
        Ok(counted?.unwrap_or_else(|| vec![0; lasts.len()]))
    }
}

/// The streams of each session in which something may be said later.
fn streams(sessions: &Sessions, lasts: &[Last]) -> Vec<Vec<u64>> {
    let roots = lasts.iter().map(|last| sessions.place(sessions.streams(&last.root)?));
    let mut wanted: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, root) in roots.enumerate() {
        wanted.entry(root.unwrap_or(u32::MAX)).or_default().push(at);
    }
    let mut streams = vec![Vec::new(); lasts.len()];
    for session in &sessions.all {
        let (Some(note), Some(these)) = (&session.note, wanted.get(&session.root)) else { continue };
        for at in these.iter().filter(|at| session.last > lasts[**at].time || note.stream == lasts[**at].stream) {
            streams[*at].push(number(&note.stream));
        }
    }
    streams
}

fn count(view: &View, house: &HouseId, last: &Last, streams: &[u64]) -> Result<u64, IndexError> {
    let own = number(&last.stream);
    let mut newer = 0;
    for (_, segment, table) in view.segments() {
        let Some(messages) = table.messages(house) else { continue };
        let (times, seqs) = (segment.fast_fields().i64("time")?, segment.fast_fields().u64("seq")?);
        for stream in streams {
            // Where both stand in one stream its order counts: not every client's clock goes forward.
            let later = |doc: &u32| match *stream == own {
                true => seqs.first(*doc).is_some_and(|seq| seq > last.seq),
                false => times.first(*doc).is_some_and(|time| time > last.time),
            };
            let docs = of_stream(view, segment, *stream)?;
            newer += docs.into_iter().filter(|doc| messages.contains(*doc)).filter(later).count() as u64;
        }
    }
    Ok(newer)
}

fn of_stream(view: &View, segment: &SegmentReader, stream: u64) -> Result<Vec<u32>, IndexError> {
    let field = view.fields.stream;
    let term = Term::from_field_u64(field, stream);
    let postings = segment.inverted_index(field)?.read_postings(&term, IndexRecordOption::Basic)?;
    let mut docs = Vec::new();
    if let Some(mut postings) = postings {
        while postings.doc() != TERMINATED {
            docs.push(postings.doc());
            postings.advance();
        }
    }
    Ok(docs)
}
