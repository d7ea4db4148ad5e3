//! `arbe log …`: the operator's view of the log, straight from its store.

use std::process::ExitCode;

use anyhow::{Context, bail};
use event_log::{From, Log, Offset, Options, Page, ReadError, check};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::args::LogVerb;
use crate::config::Config;
use crate::exit;
use crate::output::{NotFound, list, print, print_json, table};

const PAGE: usize = 4 << 20;

pub(crate) async fn run(verb: LogVerb, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    match verb {
        LogVerb::Streams { prefix } => streams(&open(config).await?, &prefix, json)?,
        LogVerb::Cat { stream, from, follow } => cat(&open(config).await?, &stream, from.as_deref(), follow, json).await?,
        LogVerb::Stat => stat(&open(config).await?, config, json)?,
        LogVerb::Check => return check(config, json).await,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn open(config: &Config) -> anyhow::Result<Log> {
    let store = config
        .store
        .open(&config.store_options, false)
        .map_err(|error| NotFound(format!("no log at {}: {error}", config.store)))?;
    let options = Options { memory: config.memory, ..Options::default() };
    Log::open_existing(store, options).await.with_context(|| config.store.to_string())
}

#[derive(Serialize)]
struct Row {
    stream: String,
    content_type: String,
    tail: String,
    units: u64,
    bytes: u64,
    closed: bool,
    ttl_seconds: Option<u64>,
    expires_at_ms: Option<u64>,
    forked_from: Option<String>,
    created_at_ms: u64,
}

fn streams(log: &Log, prefix: &str, json: bool) -> anyhow::Result<()> {
    let rows = log.stream_names(prefix).into_iter().filter_map(|name| {
        let (head, tail) = log.head(&name).ok()?;
        Some(Row {
            stream: name.to_string(),
            content_type: head.config.content_type.to_string(),
            tail: tail.to_string(),
            units: head.tail,
            bytes: head.bytes,
            closed: head.closed,
            ttl_seconds: head.config.ttl_seconds,
            expires_at_ms: head.config.expires_at,
            forked_from: head.config.fork.as_ref().map(|fork| fork.source.to_string()),
            created_at_ms: head.config.created_at,
        })
    });
    let rows: Vec<Row> = rows.collect();
    if json {
        return rows.iter().try_for_each(print_json);
    }
    let cells = |row: &Row| {
        let state = if row.closed { "closed" } else { "open" };
        vec![row.stream.clone(), row.content_type.clone(), row.tail.clone(), row.bytes.to_string(), state.to_owned()]
    };
    print(table(&["STREAM", "CONTENT TYPE", "TAIL", "BYTES", "STATE"], &rows.iter().map(cells).collect::<Vec<_>>()))
}

async fn cat(log: &Log, stream: &str, from: Option<&str>, follow: bool, json: bool) -> anyhow::Result<()> {
    let mut from = match from {
        None | Some("-1") => From::Start,
        Some("now") => From::Now,
        Some(token) => From::At(Offset::parse(token).with_context(|| format!("{token:?} is not an offset"))?),
    };
    let mut tail = log.tail(stream);
    loop {
        let page = match log.read(stream, from, PAGE).await {
            Ok(page) => page,
            Err(ReadError::NotFound | ReadError::Gone) => bail!(NotFound(format!("there is no stream {stream:?}"))),
            Err(error) => return Err(error.into()),
        };
        write_page(&page, json)?;
        from = From::At(page.next);
        if !page.up_to_date {
            continue;
        }
        if page.closed || !follow {
            return Ok(());
        }
        tail.changed().await;
    }
}

#[derive(Serialize)]
struct Message<'a> {
    offset: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

fn write_page(page: &Page, json: bool) -> anyhow::Result<()> {
    if !page.json {
        for chunk in page.chunks.iter().filter(|_| !json) {
            print(chunk)?;
        }
        let (text, hex) = match page.chunks.iter().map(|chunk| std::str::from_utf8(chunk)).collect::<Result<String, _>>() {
            Ok(text) => (Some(text), None),
            Err(_) => (None, Some(page.chunks.iter().flatten().map(|byte| format!("{byte:02x}")).collect())),
        };
        if json && page.bytes > 0 {
            print_json(&Message { offset: page.start.to_string(), message: None, text, hex })?;
        }
        return Ok(());
    }
    let mut position = page.start.position;
    for chunk in &page.chunks {
        let array = [b"[", chunk.as_ref(), b"]"].concat();
        let messages: Vec<&RawValue> = serde_json::from_slice(&array)?;
        for message in messages {
            let offset = Offset { generation: page.start.generation, position }.to_string();
            // A line break in JSON is never inside a string, so a space says the same.
            let line = message.get().replace(['\n', '\r'], " ");
            if json {
                print_json(&Message { offset, message: Some(serde_json::from_str(&line)?), text: None, hex: None })?;
            } else {
                print(line + "\n")?;
            }
            position += 1;
        }
    }
    Ok(())
}

fn stat(log: &Log, config: &Config, json: bool) -> anyhow::Result<()> {
    let summary = log.summary();
    if json {
        return print_json(&summary);
    }
    let owner = if summary.owner_url.is_empty() { "nobody".to_owned() } else { summary.owner_url };
    print(list(&[
        ("log", config.store.to_string()),
        ("cluster", log.cluster().cluster_id.clone()),
        ("slots", summary.slots.to_string()),
        ("records", summary.records.to_string()),
        ("streams", summary.streams.to_string()),
        ("closed streams", summary.closed_streams.to_string()),
        ("kept for forks", summary.deleted_streams_kept_for_forks.to_string()),
        ("payload bytes", summary.payload_bytes.to_string()),
        ("last owner", format!("{owner} (epoch {})", summary.epoch)),
        ("packs", format!("{} covering {} slots, {} bytes", summary.packs, summary.packed_slots, summary.pack_bytes)),
    ]))
}

async fn check(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let store = config
        .store
        .open(&config.store_options, false)
        .map_err(|error| NotFound(format!("no log at {}: {error}", config.store)))?;
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{msg:<12} {wide_bar} {pos}/{len} {per_sec} {eta}")?);
    let mut progress = |at: check::Progress| {
        bar.set_message(at.phase);
        bar.set_length(at.of);
        bar.set_position(at.done);
    };
    let report = check::check(store, &mut progress).await.with_context(|| config.store.to_string())?;
    bar.finish_and_clear();
    if json {
        print_json(&report)?;
    } else {
        for finding in &report.damages {
            print(format!("DAMAGED  {}  {}\n", finding.key, finding.what))?;
        }
        for note in &report.notes {
            print(format!("note     {}  {}\n", note.key, note.what))?;
        }
        print(format!(
            "{} slots ({} void), {} records, {} streams, {} packs, {} checkpoints, {} blobs, {} bytes read: {}\n",
            report.slots,
            report.void_slots,
            report.records,
            report.streams,
            report.packs,
            report.checkpoints,
            report.blobs,
            report.bytes,
            if report.damages.is_empty() { "sound".to_owned() } else { format!("{} damaged", report.damages.len()) },
        ))?;
    }
    Ok(if report.damages.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::DAMAGE) })
}
