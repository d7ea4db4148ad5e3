//! One bundle into the log. Memory is bounded by bytes in flight, whatever the number and size of sessions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use codecs::fault::{Fault, What};
use codecs::registry::Codec;
use codecs::seam::Parsed;
use codecs::source::{Bundle, LINE_MAX};
use commands::sessions::{Recorder, Recording, weight};
use events::session::{Message, Session, SessionId};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::{Complaints, Counts, Library};

/// Messages, and about the bytes of them, that are handed on together.
pub(in crate::library) const PIECE: usize = 512;
pub(in crate::library) const PIECE_BYTES: usize = 1 << 20;
const AHEAD: usize = 4;
const PARSERS: usize = 4;
/// Bytes of messages that are parsed and not yet written, over all bundles. A larger message is alone.
const IN_FLIGHT: usize = 32 << 20;
/// Bytes of the files in work, as far as one line of them can be that long. A larger file is alone.
const OPEN: usize = LINE_MAX as usize;
/// What a packed file holds for each of its bytes, at a guess.
const UNPACKED: u64 = 16;

/// What all imports of a run share.
#[derive(Clone, Debug)]
pub(super) struct Room {
    open: Arc<Semaphore>,
    in_flight: Arc<Semaphore>,
    parsers: std::sync::mpsc::Sender<Job>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Room {
    /// As many parsers as processors. Each thread keeps what it once used of memory, so these do nothing else.
    pub(super) fn new() -> std::io::Result<Self> {
        let (parsers, jobs) = std::sync::mpsc::channel::<Job>();
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(PARSERS) {
            let jobs = jobs.clone();
            let next = move || jobs.lock().ok().and_then(|jobs| jobs.recv().ok());
            std::thread::Builder::new().name("parser".into()).spawn(move || {
                while let Some(job) = next() {
                    job()
                }
            })?;
        }
        Ok(Self { open: Arc::new(Semaphore::new(OPEN)), in_flight: Arc::new(Semaphore::new(IN_FLIGHT)), parsers })
    }

    /// What a job that panics would have returned is an error.
    fn parse<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
        let (done, parsed) = oneshot::channel();
        let job = move || drop(done.send(job()));
        drop(self.parsers.send(Box::new(job)));
        parsed
    }
}

async fn take(room: &Arc<Semaphore>, bytes: usize, of: usize) -> anyhow::Result<OwnedSemaphorePermit> {
    Ok(room.clone().acquire_many_owned(u32::try_from(bytes.clamp(1, of))?).await?)
}

/// How much of a bundle may have to be held at once.
fn longest(bundle: &Bundle) -> usize {
    let bytes = |file: &std::path::PathBuf| {
        let bytes = std::fs::metadata(bundle.root.join(file)).map_or(0, |it| it.len());
        let packed = Path::new(file).extension().is_some_and(|it| it == "zst");
        if packed { bytes.saturating_mul(UNPACKED) } else { bytes }
    };
    usize::try_from(bundle.files.iter().map(bytes).max().unwrap_or_default()).unwrap_or(OPEN)
}

/// A piece of what a bundle holds, of one session.
#[derive(Debug)]
struct Piece {
    id: SessionId,
    session: Option<Session>,
    messages: Vec<Message>,
    bytes: usize,
}

type Pieces = mpsc::Sender<(Piece, OwnedSemaphorePermit)>;

pub(super) async fn import(
    library: &Library,
    codec: &'static Codec,
    bundle: Bundle,
    room: &Room,
) -> anyhow::Result<(Counts, Vec<String>)> {
    let _open = take(&room.open, longest(&bundle), OPEN).await?;
    let (send, mut pieces) = mpsc::channel(AHEAD);
    let (in_flight, runtime) = (room.in_flight.clone(), Handle::current());
    let parsing = room.parse(move || parse(codec, &bundle, &send, &in_flight, &runtime));
    let mut counts = Counts { bundles: 1, ..Counts::default() };
    let mut complaints = Complaints::default();
    let mut recorders: BTreeMap<SessionId, Recorder<'_>> = BTreeMap::new();
    while let Some((Piece { id, session, messages, .. }, _held)) = pieces.recv().await {
        if !recorders.contains_key(&id) {
            recorders.insert(id.clone(), library.sessions.recorder(&library.house, &id).await?.moving());
        }
        let recorder = recorders.get_mut(&id).context("it was just put there")?;
        counts.sessions += u64::from(session.is_some());
        counts.messages += messages.len() as u64;
        counts.parts += messages.iter().map(|message| message.parts().len() as u64).sum::<u64>();
        let rows = recorder.record(Recording { session_id: id.clone(), session, messages }).await?.rows;
        counts.count(&rows);
        complaints.count(&id, &rows);
    }
    let faults = parsing.await.context("parsing ended early")??;
    counts.faults += faults.len() as u64;
    counts.unsettled |= faults.iter().any(|fault| matches!(fault.what, What::Unreadable(_)));
    Ok((counts, faults.iter().map(ToString::to_string).chain(complaints.told()).collect()))
}

fn parse(
    codec: &Codec,
    bundle: &Bundle,
    send: &Pieces,
    in_flight: &Arc<Semaphore>,
    runtime: &Handle,
) -> anyhow::Result<Vec<Fault>> {
    let mut open: Option<Piece> = None;
    let hand = |piece: Piece| {
        let held = runtime.block_on(take(in_flight, piece.bytes, IN_FLIGHT)).map_err(std::io::Error::other)?;
        send.blocking_send((piece, held)).map_err(|_| std::io::Error::other("nobody takes what is parsed"))
    };
    let mut sink = |parsed: Parsed| {
        let (id, session, message) = match parsed {
            Parsed::Session(session) => (session.id.clone(), Some(session), None),
            Parsed::Message(id, message) => (id, None, Some(message)),
        };
        let fits = |piece: &Piece| piece.messages.len() < PIECE && piece.bytes < PIECE_BYTES;
        let same = open.as_ref().is_some_and(|piece| piece.id == id && session.is_none() && fits(piece));
        if !same && let Some(piece) = open.take() {
            hand(piece)?;
        }
        let piece = open.get_or_insert_with(|| Piece { id, session: None, messages: Vec::new(), bytes: 0 });
        piece.session = piece.session.take().or(session);
        piece.bytes += message.as_ref().map_or(0, weight);
        piece.messages.extend(message);
        Ok(())
    };
    let faults = codecs::check::read(codec, bundle, &mut sink)?;
    open.take().map_or(Ok(()), hand)?;
    Ok(faults)
}
