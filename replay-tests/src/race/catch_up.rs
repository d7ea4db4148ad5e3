//! Reading a long stream from its start, page after page.

use anyhow::{Context, Result, bail, ensure};
use futures::future::join_all;
use tokio::time::Instant;

use super::contestant::{Contestant, Server};
use super::http1::{Connection, LARGE, SMALL};
use super::options::Options;
use super::report::Values;
use super::usage::Meter;
use super::wire::{self, Dialect, JSON};

const STREAM: &str = "catch-up";
const MESSAGE: usize = 1024;
const BATCH: usize = 256;
const MEGABYTE: f64 = 1_000_000.0;
const FEWEST_PASSES: usize = 2;

pub(super) async fn race(contestant: &Contestant, options: &Options, content_type: &str, megabytes: usize) -> Result<Values> {
    let (server, home) = contestant.fresh(options).await?;
    let length = megabytes * 1024 * 1024;
    let started = Instant::now();
    build(&server, content_type, length / (MESSAGE * BATCH)).await?;
    let built = started.elapsed().as_secs_f64();
    pass(&server, length).await.context("the first pass")?;

    let meter = Meter::begin(&server, &home);
    let (one, bytes) = read_together(&server, options, length, 1).await?;
    let usage = meter.end();
    let (four, _) = read_together(&server, options, length, 4).await?;
    Ok(vec![
        ("build", length as f64 / MEGABYTE / built),
        ("one", one),
        ("four", four),
        ("server_ms", usage.server_seconds * 1e3 / (bytes as f64 / MEGABYTE)),
        ("client_ms", usage.client_seconds * 1e3 / (bytes as f64 / MEGABYTE)),
    ])
}

async fn build(server: &Server, content_type: &str, batches: usize) -> Result<()> {
    let mut connection = Connection::open(server.address, SMALL).await?;
    let dialect = Dialect::DurableStreams;
    let create = dialect.create(STREAM, content_type).context("no create in this dialect")?;
    connection.call(&create).await?;
    for batch in 0..batches {
        let body = match content_type {
            JSON => messages(batch),
            _ => wire::filler(MESSAGE * BATCH, batch as u64 + 1),
        };
        let head = connection.call(&dialect.append(STREAM, content_type, &body)).await?;
        ensure!(head.status / 100 == 2, "an append was answered with {}", head.status);
    }
    Ok(())
}

/// A JSON array of messages of exactly 1 KiB.
fn messages(batch: usize) -> Vec<u8> {
    let message = |index: usize| {
        let opening = format!(r#"{{"id":"{:08}","text":""#, batch * BATCH + index);
        let text = wire::filler(MESSAGE - opening.len() - 2, (batch * BATCH + index + 1) as u64);
        format!(r#"{opening}{}"}}"#, String::from_utf8_lossy(&text))
    };
    let all: Vec<String> = (0..BATCH).map(message).collect();
    format!("[{}]", all.join(",")).into_bytes()
}

/// Megabytes in a second over all readers, and the bytes they read.
async fn read_together(server: &Server, options: &Options, length: usize, readers: usize) -> Result<(f64, usize)> {
    let started = Instant::now();
    let end = started + options.measured() / 2;
    let read = async |_| {
        let mut total = 0;
        for done in 0.. {
            if done >= FEWEST_PASSES && Instant::now() >= end {
                break;
            }
            total += pass(server, length).await?;
        }
        anyhow::Ok(total)
    };
    let mut total = 0;
    for bytes in join_all((0..readers).map(read)).await {
        total += bytes?;
    }
    Ok((total as f64 / MEGABYTE / started.elapsed().as_secs_f64(), total))
}

async fn pass(server: &Server, length: usize) -> Result<usize> {
    let mut connection = Connection::open(server.address, LARGE).await?;
    let mut offset = "-1".to_owned();
    let mut total = 0;
    loop {
        connection.send(&wire::read(STREAM, &offset)).await?;
        let head = connection.head().await?;
        connection.body(&head, |bytes| total += bytes.len()).await?;
        ensure!(head.status == 200, "a read was answered with {}", head.status);
        if head.up_to_date {
            break;
        }
        let next = head.next_offset.context("a page without a next offset")?;
        if next == offset {
            bail!("the page at {offset} leads to itself");
        }
        offset = next;
    }
    ensure!(total >= length, "read {total} bytes of {length}");
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_an_array_of_messages_of_one_kibibyte() {
        let parsed: Vec<serde_json::Value> = serde_json::from_slice(&messages(3)).unwrap();
        assert_eq!(parsed.len(), BATCH);
        assert!(parsed.iter().all(|message| message.to_string().len() == MESSAGE));
        assert_eq!(messages(3).len(), BATCH * (MESSAGE + 1) + 1);
    }
}
