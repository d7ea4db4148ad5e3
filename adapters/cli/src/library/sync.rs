//! `arbe sync`: what is new in the clients' directories, or in an archive, goes into the log.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use codecs::registry::{self, CODECS, Codec};
use codecs::source::Bundle;
use commands::sessions::{Row, Rows};
use events::session::SessionId;
use indicatif::ProgressBar;
use serde::Serialize;
use tokio::task::JoinSet;

use super::{Library, archive, progress, stages};
use crate::args::{Stage, Sync};
use crate::config::Config;
use crate::output;

mod cache;
mod import;

use cache::Cache;
use import::Room;
pub(super) use import::{PIECE, PIECE_BYTES};

/// Bundles in work at a time: one is parsed while others wait for the log.
const AT_ONCE: usize = 6;

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Counts {
    bundles: u64,
    skipped: u64,
    pub(super) sessions: u64,
    pub(super) messages: u64,
    pub(super) parts: u64,
    new_sessions: u64,
    new_messages: u64,
    unchanged: u64,
    pub(super) refused: u64,
    faults: u64,
    /// Something could not be read, or was refused, and may be had another time.
    #[serde(skip)]
    unsettled: bool,
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

    /// What became of what was handed in.
    pub(super) fn count(&mut self, rows: &Rows) {
        self.new_sessions += u64::from(rows.session == Row::New);
        for row in &rows.messages {
            match row {
                Row::New => self.new_messages += 1,
                Row::Unchanged => self.unchanged += 1,
                Row::Other(_) => self.refused += 1,
                Row::Refused(_) => {
                    self.refused += 1;
                    self.unsettled = true;
                }
            }
        }
        self.unsettled |= matches!(rows.session, Row::Refused(_));
    }
}

/// What was refused of which session, and why.
#[derive(Debug, Default)]
pub(super) struct Complaints(BTreeMap<(SessionId, String), u64>);

impl Complaints {
    pub(super) fn add(&mut self, session: &SessionId, why: &str, messages: u64) {
        *self.0.entry((session.clone(), why.to_owned())).or_default() += messages;
    }

    pub(super) fn count(&mut self, session: &SessionId, rows: &Rows) {
        rows.refusals().iter().for_each(|(why, messages)| self.add(session, why, *messages));
    }

    pub(super) fn told(self) -> Vec<String> {
        let told = |((session, why), messages)| format!("session {session}: {messages} messages: {why}");
        self.0.into_iter().map(told).collect()
    }
}

type Summary = BTreeMap<String, Counts>;

pub(super) async fn sync(args: Sync, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let archive = args.import_from.as_deref().map(|path| Ok::<_, anyhow::Error>((path, archive::check(path)?))).transpose()?;
    let library = Arc::new(Library::open_to_write(config, args.house.as_deref()).await?);
    let (summary, complaints) = match archive {
        _ if !args.does(Stage::Import) => Default::default(),
        Some((path, sum)) => import_archive(&library, path, sum.sessions).await?,
        None => import_clients(&library, &args, config).await?,
    };
    let wanted = args.only == Some(Stage::Embed) || (config.embedding.is_some() && args.does(Stage::Embed));
    let embedded = match wanted {
        true => stages::embed(&library, config, args.force_embed).await,
        false => Ok(None),
    };
    let updated = match args.does(Stage::UpdateIndexes) {
        true => stages::update_indexes(&library, config, args.only.is_some()).await,
        false => Ok(()),
    };
    if let Some(library) = Arc::into_inner(library) {
        library.close().await;
    }
    // What is imported is there, whatever became of the datasets.
    tell(&summary, &complaints, started.elapsed(), json)?;
    if let Some(done) = embedded.context("the sessions are in the log, but not all have vectors")? {
        tell_embedded(&done, json)?;
    }
    updated.context("the sessions are in the log, but the datasets are behind").map(|()| ExitCode::SUCCESS)
}

async fn import_archive(library: &Library, path: &Path, sessions: u64) -> anyhow::Result<archive::Taken> {
    let bar = progress("importing", sessions);
    let taken = archive::take(library, path, &bar).await;
    bar.finish_and_clear();
    taken
}

async fn import_clients(library: &Arc<Library>, args: &Sync, config: &Config) -> anyhow::Result<(Summary, Vec<String>)> {
    let scope = format!("{:032x} {}", library.log.cluster().id(), library.house);
    let mut cache = Cache::load(&config.data_dir.join("sync-cache"), &scope, library.log.position());
    let mut summary = Summary::new();
    let mut complaints = Vec::new();
    let bundles = found(args, &mut complaints)?;
    let bar = progress("importing", bundles.len() as u64);
    let mut work: JoinSet<anyhow::Result<Finished>> = JoinSet::new();
    let room = Room::new()?;
    for (codec, bundle) in bundles {
        let name = cache::name(codec, &bundle);
        let mark = cache::mark(&bundle);
        if let Some(counts) = cache.unchanged(&name, &mark).filter(|_| !args.all) {
            summary.entry(codec.origin.to_owned()).or_default().add(&counts);
            bar.inc(1);
            continue;
        }
        while work.len() >= AT_ONCE {
            finished(&mut work, &mut cache, &mut summary, &mut complaints, &bar).await?;
        }
        let (library, room) = (library.clone(), room.clone());
        work.spawn(async move {
            let (counts, faults) = import::import(&library, codec, bundle, &room).await?;
            Ok((codec.origin, name, mark, counts, library.log.position(), faults))
        });
    }
    while !work.is_empty() {
        finished(&mut work, &mut cache, &mut summary, &mut complaints, &bar).await?;
    }
    bar.finish_and_clear();
    cache.save()?;
    Ok((summary, complaints))
}

fn found(args: &Sync, complaints: &mut Vec<String>) -> anyhow::Result<Vec<(&'static Codec, Bundle)>> {
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
            match codec.parse.discover(&root) {
                Ok(found) => bundles.extend(found.into_iter().map(|bundle| (codec, bundle))),
                Err(error) => complaints.push(format!("{}: {} cannot be read: {error}", codec.origin, root.display())),
            }
        }
    }
    Ok(bundles)
}

type Finished = (&'static str, String, cache::Mark, Counts, u64, Vec<String>);

async fn finished(
    work: &mut JoinSet<anyhow::Result<Finished>>,
    cache: &mut Cache,
    summary: &mut Summary,
    complaints: &mut Vec<String>,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    let Some(done) = work.join_next().await else { return Ok(()) };
    let (origin, name, mark, counts, position, faults) = done.context("an import ended early")??;
    summary.entry(origin.to_owned()).or_default().add(&counts);
    if !counts.unsettled {
        cache.remember(name, mark, &counts, position);
    }
    complaints.extend(faults);
    bar.inc(1);
    Ok(())
}

fn tell(summary: &Summary, complaints: &[String], spent: Duration, json: bool) -> anyhow::Result<()> {
    for complaint in complaints {
        output::note(output::clean(complaint));
    }
    if json {
        return output::print_json(&serde_json::json!({ "clients": summary, "seconds": spent.as_secs_f64() }));
    }
    let row = |(client, counts): (&String, &Counts)| {
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
        let mut cells = vec![output::clean(client)];
        cells.extend(numbers.iter().map(ToString::to_string));
        cells
    };
    let rows: Vec<_> = summary.iter().map(row).collect();
    let head = ["CLIENT", "SESSIONS", "MESSAGES", "PARTS", "NEW SESSIONS", "NEW MESSAGES", "UNCHANGED", "REFUSED", "FAULTS"];
    output::print(output::table(&head, &rows))?;
    output::print(format!("{:.1} s\n", spent.as_secs_f64()))
}

fn tell_embedded(done: &lance_sessions::Embedded, json: bool) -> anyhow::Result<()> {
    let lance_sessions::Embedded { done, without_words, .. } = done;
    if json {
        return output::print_json(&serde_json::json!({ "stage": "embed", "embedded": done, "without_words": without_words }));
    }
    if *done > 0 {
        output::note(format_args!("embedded {done} messages, {without_words} of them without a word that the model knows"));
    }
    Ok(())
}
