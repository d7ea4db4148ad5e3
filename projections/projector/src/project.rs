//! From the records of one commit to the events of the platform, and from those to changes.

use std::fmt;
use std::time::Duration;

use event_log::{Appended, Body, Commit, Log, Op};
use events::{Entry, Event, StreamName};

/// One event where it stands in the log.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub stream: StreamName,
    /// Its place in the stream.
    pub seq: u64,
    /// What a receipt of its commit says: everything below this slot number includes it.
    pub position: u64,
    /// The number of its record in the log.
    pub ordinal: u64,
    /// From the entry, in unix milliseconds.
    pub ts: u64,
    pub entry: Entry,
    pub event: Event,
}

pub trait Projector: Send + Sync + 'static {
    /// Part of persisted checkpoints. Never renamed.
    const NAME: &'static str;
    /// Part of the physical name of a copy. A bump rebuilds beside the live copy, then swaps.
    const VERSION: u32;
    type Change: Send + 'static;

    /// While following, a batch waits this long for more before it is handed to the sink: for sinks to which a commit is dear.
    const LINGER: Duration = Duration::ZERO;

    /// While others write, a batch is followed by a rest of this many times as long as it took: for read models that may be late.
    const REST: u32 = 0;

    /// Streams it has nothing to do with are passed over unread.
    fn reads(_stream: &StreamName) -> bool {
        true
    }

    /// Pure: the same event gives the same changes, whenever and however often it is asked.
    fn project(&self, recorded: &Recorded) -> Result<Vec<Self::Change>, Unprojectable>;
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unprojectable(pub String);

/// The event that a projection cannot get past.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Stop {
    pub stream: String,
    pub seq: u64,
    pub kind: String,
    pub position: u64,
    pub why: String,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, seq, kind, position, why } = self;
        write!(f, "cannot apply {kind} at {stream}/{seq} (position {position}): {why}")
    }
}

/// Why the records of a commit could not be projected.
#[derive(Debug)]
pub(crate) enum Failure {
    Stop(Stop),
    Read(event_log::ReadError),
}

/// Calls `each` with every platform event of a commit, in order; it returns how an event cannot be applied.
pub(crate) async fn for_each_event<P: Projector>(
    log: &Log,
    commit: &Commit,
    mut each: impl FnMut(&Recorded) -> Result<(), String>,
) -> Result<u64, Failure> {
    let mut seen = 0;
    for (record, ordinal) in commit.records().iter().zip(commit.before()..) {
        let Op::Appended(appended) = &record.op else { continue };
        let Some(stream) = StreamName::parse(&record.stream).filter(P::reads) else { continue };
        let place = Place { stream, seq: appended.first, position: commit.cursor.next, ordinal };
        seen += events_of_append(log, appended, place, &mut each).await?;
    }
    Ok(seen)
}

struct Place {
    stream: StreamName,
    seq: u64,
    position: u64,
    ordinal: u64,
}

impl Place {
    fn stop(&self, seq: u64, kind: &str, why: String) -> Failure {
        Failure::Stop(Stop { stream: self.stream.to_string(), seq, kind: kind.to_owned(), position: self.position, why })
    }
}

async fn events_of_append(
    log: &Log,
    appended: &Appended,
    place: Place,
    each: &mut impl FnMut(&Recorded) -> Result<(), String>,
) -> Result<u64, Failure> {
    if appended.payload.cuts.is_none() {
        return Err(place.stop(place.seq, "bytes", "the stream is not one of JSON messages".into()));
    }
    let data = match &appended.payload.body {
        Body::Inline(data) => data.clone(),
        Body::Blob { .. } => log.payload(appended).await.map_err(Failure::Read)?,
    };
    let units = appended.payload.units();
    for unit in 0..units {
        let seq = place.seq + unit;
        let text = &data[appended.payload.span(unit, unit + 1)];
        let entry = Entry::from_slice(text).map_err(|error| place.stop(seq, "an entry", chain(&error)))?;
        let event = entry.event().map_err(|error| place.stop(seq, &entry.kind, chain(&error)))?;
        let Place { position, ordinal, .. } = place;
        let recorded = Recorded { stream: place.stream.clone(), seq, position, ordinal, ts: entry.ts, entry, event };
        each(&recorded).map_err(|why| place.stop(seq, &recorded.entry.kind, why))?;
    }
    Ok(units)
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
