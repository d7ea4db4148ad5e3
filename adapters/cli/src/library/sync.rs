//! `arbe sync`: what is new in the clients' directories goes into the log.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use codecs::registry::{self, CODECS, Codec};
use codecs::seam::{Out, Parsed};
use codecs::source::Bundle;
use commands::sessions::{Recorder, Recording, Row};
use events::session::{Message, Session, SessionId};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Library, stages};
use crate::args::{Stage, Sync};
use crate::config::Config;
use crate::output;

mod cache;

use cache::Cache;

/// Messages, and roughly bytes, that are handed on together.
const PIECE: usize = 512;
const AHEAD: usize = 4;
/// Bundles in work at a time: one is parsed while others wait for the log.
const AT_ONCE: usize = 6;

#[derive(Clone, Debug, Default, Serialize)]
struct Counts {
    bundles: u64,
    skipped: u64,
    sessions: u64,
    messages: u64,
    parts: u64,
    new_sessions: u64,
    new_messages: u64,
    unchanged: u64,
    refused: u64,
    faults: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        let fields = [
            (&mut self.bundles, other.bundles),
            (&mut self.skipped, other.skipped),
            (&mut self.sessions, other.sessions),
            (&mut self.messages, other.messages),
            (&mut self.parts, other.parts),
            (&mut self.new_sessions, other.new_sessions),
            (&mut self.new_messages, other.new_messages),
            (&mut self.unchanged, other.unchanged),
            (&mut self.refused, other.refused),
            (&mut self.faults, other.faults),
        ];
        fields.into_iter().for_each(|(field, more)| *field += more);
    }
}

pub(super) async fn sync(args: Sync, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let library = Arc::new(Library::open_to_write(config, args.house.as_deref()).await?);
    let scope = format!("{:032x} {}", library.log.cluster().id(), library.house);
    let mut cache = Cache::load(&config.data_dir.join("sync-cache.json"), &scope);
    let mut summary: BTreeMap<&str, Counts> = BTreeMap::new();
    let bundles = if args.does(Stage::Import) { found(&args)? } else { Vec::new() };
    let bar = bar(bundles.len() as u64);
    let mut work: JoinSet<anyhow::Result<Finished>> = JoinSet::new();
    let mut complaints = Vec::new();
    for (codec, bundle) in bundles {
        let (name, mark) = (cache::name(codec, &bundle), cache::mark(&bundle)?);
        if let Some(counts) = cache.unchanged(&name, &mark).filter(|_| !args.all) {
            summary.entry(codec.origin).or_default().add(&counts);
            bar.inc(1);
            continue;
        }
        while work.len() >= AT_ONCE {
            finished(&mut work, &mut cache, &mut summary, &mut complaints, &bar).await?;
        }
        let library = library.clone();
        work.spawn(async move {
            let (counts, faults) = import(&library, codec, bundle).await?;
            Ok((codec.origin, name, mark, counts, faults))
        });
    }
    while !work.is_empty() {
        finished(&mut work, &mut cache, &mut summary, &mut complaints, &bar).await?;
    }
    bar.finish_and_clear();
    cache.save()?;
    if args.only == Some(Stage::Embed) {
        stages::embed();
    }
    if args.does(Stage::UpdateIndexes) {
        stages::update_indexes(&library, config).await?;
    }
    if let Some(library) = Arc::into_inner(library) {
        library.close().await;
    }
    tell(&summary, &complaints, started.elapsed(), json)?;
    Ok(ExitCode::SUCCESS)
}

fn found(args: &Sync) -> anyhow::Result<Vec<(&'static Codec, Bundle)>> {
    let clients: Vec<&'static Codec> = if args.client.is_empty() {
        CODECS.iter().collect()
    } else {
        args.client.iter().map(|client| super::codec(client)).collect::<Result<_, _>>()?
    };
    let home = args.home.clone().or_else(std::env::home_dir);
    let mut bundles = Vec::new();
    for codec in clients {
        let roots = match (&args.from, &home) {
            (Some(from), _) => vec![from.clone()],
            (None, Some(home)) => registry::roots(codec, home),
            (None, None) => Vec::new(),
        };
        for root in roots {
            let found = codec.parse.discover(&root).with_context(|| format!("{}: {}", codec.origin, root.display()))?;
            bundles.extend(found.into_iter().map(|bundle| (codec, bundle)));
        }
    }
    Ok(bundles)
}

type Finished = (&'static str, String, cache::Mark, Counts, Vec<String>);

async fn finished(
    work: &mut JoinSet<anyhow::Result<Finished>>,
    cache: &mut Cache,
    summary: &mut BTreeMap<&str, Counts>,
    complaints: &mut Vec<String>,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    let Some(done) = work.join_next().await else { return Ok(()) };
    let (origin, name, mark, counts, faults) = done.context("an import ended early")??;
    summary.entry(origin).or_default().add(&counts);
    cache.remember(name, mark, &counts);
    complaints.extend(faults);
    bar.inc(1);
    Ok(())
}

/// A piece of what a bundle holds, of one session.
struct Piece {
    id: SessionId,
    session: Option<Session>,
    messages: Vec<Message>,
}

async fn import(library: &Library, codec: &'static Codec, bundle: Bundle) -> anyhow::Result<(Counts, Vec<String>)> {
    let (send, mut pieces) = mpsc::channel(AHEAD);
    let parsing = tokio::task::spawn_blocking(move || parse(codec, &bundle, &send));
    let mut counts = Counts { bundles: 1, ..Counts::default() };
    let mut recorders: BTreeMap<SessionId, Recorder<'_>> = BTreeMap::new();
    while let Some(Piece { id, session, messages }) = pieces.recv().await {
        if !recorders.contains_key(&id) {
            recorders.insert(id.clone(), library.sessions.recorder(&library.house, &id).await?);
        }
        let recorder = recorders.get_mut(&id).context("it was just put there")?;
        counts.sessions += u64::from(session.is_some());
        counts.messages += messages.len() as u64;
        counts.parts += messages.iter().map(|message| message.parts().len() as u64).sum::<u64>();
        let rows = recorder.record(Recording { session_id: id, session, messages }).await?.rows;
        counts.new_sessions += u64::from(rows.session == Row::New);
        for row in &rows.messages {
            match row {
                Row::New => counts.new_messages += 1,
                Row::Unchanged => counts.unchanged += 1,
                Row::Refused(_) => counts.refused += 1,
            }
        }
    }
    let faults = parsing.await.context("parsing ended early")??;
    counts.faults += faults.len() as u64;
    Ok((counts, faults.iter().map(ToString::to_string).collect()))
}

fn parse(codec: &Codec, bundle: &Bundle, send: &mpsc::Sender<Piece>) -> anyhow::Result<Vec<codecs::fault::Fault>> {
    let mut open: Option<Piece> = None;
    let hand = |piece: Piece| send.blocking_send(piece).map_err(|_| std::io::Error::other("nobody takes what is parsed"));
    let mut sink = |parsed: Parsed| {
        let (id, session, message) = match parsed {
            Parsed::Session(session) => (session.id.clone(), Some(session), None),
            Parsed::Message(id, message) => (id, None, Some(message)),
        };
        let same = open.as_ref().is_some_and(|piece| piece.id == id && session.is_none() && piece.messages.len() < PIECE);
        if !same && let Some(piece) = open.take() {
            hand(piece)?;
        }
        let piece = open.get_or_insert_with(|| Piece { id, session: None, messages: Vec::new() });
        piece.session = piece.session.take().or(session);
        piece.messages.extend(message);
        Ok(())
    };
    let mut out = Out::new(codec.origin, codecs::check::modified(bundle)?, &mut sink);
    codec.parse.parse(bundle, &mut out);
    let faults = out.finish()?;
    open.take().map_or(Ok(()), hand)?;
    Ok(faults)
}

fn bar(bundles: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("importing {wide_bar} {pos}/{len} sessions, {eta} left");
    let bar = ProgressBar::new(bundles).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn tell(summary: &BTreeMap<&str, Counts>, complaints: &[String], spent: Duration, json: bool) -> anyhow::Result<()> {
    for complaint in complaints {
        output::note(output::clean(complaint));
    }
    if json {
        return output::print_json(&serde_json::json!({ "clients": summary, "seconds": spent.as_secs_f64() }));
    }
    let row = |(client, counts): (&&str, &Counts)| {
        let numbers = [
            counts.sessions,
            counts.messages,
            counts.parts,
            counts.new_sessions,
            counts.new_messages,
            counts.unchanged,
            counts.refused,
            counts.faults,
        ];
        let mut cells = vec![(*client).to_owned()];
        cells.extend(numbers.iter().map(ToString::to_string));
        cells
    };
    let rows: Vec<_> = summary.iter().map(row).collect();
    let head = ["CLIENT", "SESSIONS", "MESSAGES", "PARTS", "NEW SESSIONS", "NEW MESSAGES", "UNCHANGED", "REFUSED", "FAULTS"];
    output::print(output::table(&head, &rows))?;
    output::print(format!("{:.1} s\n", spent.as_secs_f64()))
}
