//! `arbe tail`: a thread, read on through restarts and lost connections.

use std::time::Duration;

use event_log::Offset;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::Platform;
use super::narration::{Names, looked_into, narrate};
use crate::args::Tail;
use crate::client::{Backoff, CallError, From, Slice, before};
use crate::output::{note, print, print_json};

/// Between two answers that bring nothing.
pub(super) const BREATH: Duration = Duration::from_millis(200);

#[derive(Serialize)]
struct Line<'a> {
    next_offset: &'a str,
    entry: &'a RawValue,
}

pub(super) async fn run(platform: &Platform, args: Tail) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut reader = Reader::new(platform, &args.thread);
    let ended = tokio::select! {
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
        ended = reader.read(&args) => ended,
    };
    if let Some(From { offset, .. }) = &reader.from
        && (!args.no_follow || ended.is_err())
    {
        note(format_args!("go on with: arbe tail {} --from {offset}", args.thread));
    }
    ended
}

pub(super) struct Reader<'a> {
    platform: &'a Platform,
    thread: String,
    /// After what was printed last.
    from: Option<From>,
    names: Names,
}

impl<'a> Reader<'a> {
    pub(super) fn new(platform: &'a Platform, thread: &str) -> Self {
        Self { platform, thread: thread.to_owned(), from: None, names: Names::default() }
    }

    async fn read(&mut self, args: &Tail) -> anyhow::Result<()> {
        let client = &self.platform.client;
        let mut from = From { offset: self.start(args).await?, cursor: None };
        let mut slice = client.retry(async || client.slice(&self.thread, &from, false).await).await?;
        loop {
            let (quiet, closed, up_to_date) = (slice.entries.is_empty(), slice.closed, slice.up_to_date);
            from = slice.next.clone();
            self.print(slice).await?;
            if up_to_date && closed {
                note("the thread's stream is closed");
            }
            if up_to_date && (closed || args.no_follow) {
                return Ok(());
            }
            let asked = Instant::now();
            slice = if args.no_follow {
                client.retry(async || client.slice(&self.thread, &from, false).await).await?
            } else {
                self.next(&from).await?
            };
            if quiet && slice.entries.is_empty() && asked.elapsed() < BREATH {
                tokio::time::sleep(BREATH).await;
            }
        }
    }

    async fn start(&self, args: &Tail) -> Result<String, CallError> {
        if let Some(from) = &args.from {
            return Ok(from.clone());
        }
        if args.from_start {
            return Ok("-1".into());
        }
        let client = &self.platform.client;
        let now = From { offset: "now".into(), cursor: None };
        let end = client.retry(async || client.slice(&self.thread, &now, false).await).await?.next.offset;
        Ok(Offset::parse(&end).map_or(end, |end| before(end, args.lines).to_string()))
    }

    /// Waits as long as it takes.
    pub(super) async fn next(&self, from: &From) -> Result<Slice, CallError> {
        let mut backoff = Backoff::default();
        let mut waiting = false;
        loop {
            match self.platform.client.slice(&self.thread, from, true).await {
                Ok(slice) => {
                    if waiting {
                        note("connected again");
                    }
                    return Ok(slice);
                }
                Err(error) if error.is_silence() => {}
                Err(error) if error.is_passing() => {
                    if !std::mem::replace(&mut waiting, true) {
                        note(format_args!("{}; waiting, to go on from {}", error.short(), from.offset));
                    }
                    tokio::time::sleep(backoff.next(&error)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) async fn print(&mut self, slice: Slice) -> anyhow::Result<()> {
        for (next_offset, entry) in slice.entries {
            if self.platform.json {
                let line = entry.get().replace(['\n', '\r'], " ");
                print_json(&Line { next_offset: &next_offset, entry: serde_json::from_str(&line)? })?;
            } else {
                let entry = looked_into(&entry)?;
                let author = self.names.of(&self.platform.client, &entry).await;
                print(narrate(&entry, &author))?;
            }
            self.from = Some(From { offset: next_offset, cursor: None });
        }
        self.from = Some(slice.next);
        Ok(())
    }
}
