//! Keeps the desk up with the log, from its first slot on.

use std::time::Duration;

use event_log::{Body, Commit, Cursor, FollowError, Follower, Log, Op, ReadError};
use events::{Entry, StreamName};

use crate::dispatcher::Inner;

const RETRY: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
enum Halt {
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Never ends. The commands stop loudly at what cannot be read; a driver has nothing to do there and tries on.
pub(crate) async fn follow(inner: &Inner) {
    let mut cursor = Cursor::default();
    loop {
        let halt = match inner.outside.log.follow(cursor).await {
            Ok(follower) => run(inner, follower, &mut cursor).await,
            Err(error) => error.into(),
        };
        tracing::warn!(error = %halt, "the desk waits for the log");
        tokio::time::sleep(RETRY).await;
    }
}

async fn run(inner: &Inner, mut follower: Follower, cursor: &mut Cursor) -> Halt {
    loop {
        if let Err(halt) = step(inner, &mut follower, cursor).await {
            return halt;
        }
    }
}

async fn step(inner: &Inner, follower: &mut Follower, cursor: &mut Cursor) -> Result<(), Halt> {
    let head = inner.outside.log.position();
    let commit = match follower.try_next().await? {
        Some(commit) => commit,
        None => {
            inner.desk.lock().position = head.max(cursor.next);
            inner.reached_end();
            tokio::select! {
                biased;
                commit = follower.next() => commit?,
                () = inner.poke.notified() => return Ok(()),
            }
        }
    };
    let entries = read(&inner.outside.log, &commit).await?;
    let horizon = inner.horizon();
    let mut desk = inner.desk.lock();
    for (stream, seq, entry) in &entries {
        desk.apply(stream, *seq, entry, horizon);
        inner.tally.hear(entry);
    }
    desk.position = commit.cursor.next;
    drop(desk);
    *cursor = commit.cursor;
    inner.changed.notify_one();
    Ok(())
}

/// What does not decode is left out: the desk is about work, and there is none in it.
async fn read(log: &Log, commit: &Commit) -> Result<Vec<(StreamName, u64, Entry)>, Halt> {
    let mut entries = Vec::new();
    for record in commit.records() {
        let stream = match StreamName::parse(&record.stream) {
            Some(stream @ (StreamName::Thread(_) | StreamName::Agents)) => stream,
            Some(StreamName::House(_) | StreamName::Session(..)) | None => continue,
        };
        let Op::Appended(appended) = &record.op else { continue };
        let data = match &appended.payload.body {
            Body::Inline(data) => data.clone(),
            Body::Blob { .. } => log.payload(appended).await?,
        };
        for unit in 0..appended.payload.units() {
            if let Ok(entry) = Entry::from_slice(&data[appended.payload.span(unit, unit + 1)]) {
                entries.push((stream.clone(), appended.first + unit, entry));
            }
        }
    }
    Ok(entries)
}
