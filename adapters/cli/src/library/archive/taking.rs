//! An archive into the log.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use commands::sessions::{Recorder, Recording, weight};
use events::session::{Session, SessionId};
use events::{StreamName, ThreadId};
use indicatif::ProgressBar;

use super::{Line, Lines, Sum};
use crate::library::Library;
use crate::library::sync::{Complaints, Counts, PIECE, PIECE_BYTES};

/// The brand of threads.
const OWN: &str = "arbe";

/// Reads the whole of it, so that nothing is taken from one that is not whole.
pub(in crate::library) fn check(path: &Path) -> anyhow::Result<Sum> {
    let read = || -> anyhow::Result<Sum> {
        let mut lines = Lines::open(path)?;
        while let Some(line) = lines.next()? {
            let Line::Session(session) = &line else { continue };
            session.check().with_context(|| format!("line {}", lines.number))?;
            if session.source_agent == OWN {
                bail!("line {}: session {} claims to be a thread; those are written by nobody else", lines.number, session.id);
            }
        }
        Ok(lines.sum)
    };
    read().with_context(|| path.display().to_string())
}

/// By client, and what was refused.
pub(in crate::library) type Taken = (BTreeMap<String, Counts>, Vec<String>);

pub(in crate::library) async fn take(library: &Library, path: &Path, bar: &ProgressBar) -> anyhow::Result<Taken> {
    let taking = async {
        let mut lines = Lines::open(path)?;
        let (mut taken, mut open, mut recorder) = (Default::default(), None, None);
        while let Some(line) = lines.next()? {
            match line {
                Line::Session(session) => {
                    bar.inc(1);
                    record(library, open.replace(Piece::of(session)), &mut recorder, &mut taken).await?;
                }
                Line::Message(message) => {
                    let piece = open.as_mut().context("a message of no session")?;
                    piece.bytes += weight(&message);
                    piece.recording.messages.push(message);
                    if piece.bytes >= PIECE_BYTES || piece.recording.messages.len() >= PIECE {
                        let rest = piece.rest();
                        record(library, open.replace(rest), &mut recorder, &mut taken).await?;
                    }
                }
                Line::Archive(_) | Line::End(_) => {}
            }
        }
        record(library, open, &mut recorder, &mut taken).await?;
        let (counts, complaints) = taken;
        anyhow::Ok((counts, complaints.told()))
    };
    taking.await.with_context(|| path.display().to_string())
}

struct Piece {
    session: Session,
    first: bool,
    recording: Recording,
    bytes: usize,
}

impl Piece {
    fn of(session: Session) -> Self {
        let recording = Recording { session_id: session.id.clone(), session: Some(session.clone()), messages: Vec::new() };
        Self { session, first: true, recording, bytes: 0 }
    }

    /// What follows of the same session.
    fn rest(&self) -> Self {
        Self { first: false, ..Self::of(self.session.clone()) }
    }
}

async fn record<'a>(
    library: &'a Library,
    piece: Option<Piece>,
    recorder: &mut Option<(SessionId, Recorder<'a>)>,
    (counts, complaints): &mut (BTreeMap<String, Counts>, Complaints),
) -> anyhow::Result<()> {
    let Some(Piece { session, first, recording, .. }) = piece else { return Ok(()) };
    let counts = counts.entry(session.source_agent.clone()).or_default();
    if session.source_agent == OWN || is_thread(library, &session) {
        counts.refused += recording.messages.len() as u64;
        complaints.add(&session.id, "it is a thread, or has the id of one here", recording.messages.len() as u64);
        return Ok(());
    }
    let messages = &recording.messages;
    counts.sessions += u64::from(first);
    counts.messages += messages.len() as u64;
    counts.parts += messages.iter().map(|message| message.parts().len() as u64).sum::<u64>();
    let recorder = match recorder {
        Some((of, recorder)) if *of == session.id => recorder,
        other => &mut other.insert((session.id.clone(), library.sessions.recorder(&library.house, &session.id).await?)).1,
    };
    let rows = recorder.record(recording).await?.rows;
    counts.count(&rows);
    complaints.count(&session.id, &rows);
    Ok(())
}

fn is_thread(library: &Library, session: &Session) -> bool {
    let thread = ThreadId::new(session.id.as_str());
    thread.is_ok_and(|id| library.log.with_stream(&StreamName::Thread(id).to_string(), |_| ()).is_some())
}
