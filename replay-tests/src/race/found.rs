//! How soon an entry is found by its words, while a thousand others come every second.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::platform::{Client, Target};
use super::samples::Samples;
use crate::sessions::words::Words;

/// Entries a second, of all writers together.
pub(super) const RATE: u64 = 1_000;
const WRITERS: u64 = 20;
/// Of what they say, about.
const WORDS: u64 = 30;
/// Between two questions for the same word.
const AGAIN: Duration = Duration::from_millis(10);
/// Between two words.
const REST: Duration = Duration::from_millis(150);
const PATIENCE: Duration = Duration::from_secs(30);

/// From the answer to an append to the first search that finds it; and how many entries came each second meanwhile.
pub(super) async fn measure(target: &Target, house: &str, threads: &[String], period: Duration) -> Result<(Samples, f64)> {
    let begin = Instant::now();
    let end = begin + period;
    let mut writers = Vec::new();
    for (number, thread) in (0..WRITERS).zip(threads.iter().cycle()) {
        let client = Client::open(target, thread.clone()).await?;
        writers.push(tokio::spawn(write(client, number, end)));
    }
    let samples = seek(Client::open(target, threads[0].clone()).await?, house, end).await?;
    let mut written = 0;
    for writer in writers {
        written += writer.await??;
    }
    Ok((samples, written as f64 / begin.elapsed().as_secs_f64()))
}

async fn write(mut client: Client, seed: u64, end: Instant) -> Result<u64> {
    let mut pace = interval(Duration::from_secs(1) * WRITERS as u32 / RATE as u32);
    // Whoever was held up makes up for it.
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut written = 0;
    while Instant::now() < end {
        pace.tick().await;
        let text = Words::new(seed << 32 | written).text(WORDS);
        let path = format!("/api/threads/{}/entries", client.thread);
        client.call("POST", &path, &json!({ "text": text })).await?;
        written += 1;
    }
    Ok(written)
}

async fn seek(mut client: Client, house: &str, end: Instant) -> Result<Samples> {
    let mut samples = Samples::default();
    let path = format!("/api/threads/{}/entries", client.thread);
    for number in 0.. {
        if Instant::now() >= end {
            break;
        }
        let word = format!("needle{number}of{}", std::process::id());
        client.call("POST", &path, &json!({ "text": format!("here is {word}") })).await?;
        let since = Instant::now();
        let question = format!("/api/search?house={house}&q={word}");
        loop {
            let (_, found) = client.call("GET", &question, &Value::Null).await?;
            if found["entries"].as_array().is_some_and(|entries| !entries.is_empty()) {
                break;
            }
            ensure!(since.elapsed() < PATIENCE, "{question} finds nothing: {found}");
            sleep(AGAIN).await;
        }
        samples.record(since.elapsed());
        sleep(REST).await;
    }
    Ok(samples)
}
