//! The engine without HTTP: commits, catch-up, opening, and replay of everything. `cargo bench -p event-log`.

#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use event_log::{Append, Change, Command, Create, Cursor, From, Log, Options, Payload, StoreUrl};

const WRITERS: [usize; 4] = [1, 20, 100, 1_000];
const RUN: Duration = Duration::from_secs(3);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let directory = tempfile::tempdir().expect("a temporary directory");
        println!("{:<34} {:>12} {:>9} {:>9} {:>12}", "commit to local files", "appends/s", "p50 ms", "p99 ms", "appends/sync");
        for size in [256, 1_024] {
            for writers in WRITERS {
                commit(&directory.path().join(format!("{size}-{writers}")), writers, size).await;
            }
        }
        history(&directory.path().join("history")).await;
    });
}

async fn open(path: &std::path::Path) -> Log {
    let store = StoreUrl::File(path.to_owned()).open(&[], true).expect("a store");
    Log::open(store, Options::default()).await.expect("a log")
}

fn append(body: &Bytes) -> Change {
    let payload = Ok(Payload::bytes(body.clone()));
    Change::Append(Append { content_type: None, payload, producer: None, stream_seq: None, close: false })
}

async fn commit(path: &std::path::Path, writers: usize, size: usize) {
    let log = open(path).await;
    for writer in 0..writers {
        log.submit(Command::one(format!("s{writer}"), Change::Create(Create::default()))).await.expect("created");
    }
    let slots = log.position();
    let body = Bytes::from(vec![b'x'; size]);
    let until = Instant::now() + RUN;
    let tasks = (0..writers).map(|writer| {
        let (log, body, name): (_, _, Arc<str>) = (log.clone(), body.clone(), format!("s{writer}").into());
        tokio::spawn(async move {
            let mut taken = Vec::new();
            while Instant::now() < until {
                let start = Instant::now();
                log.submit(Command::one(name.clone(), append(&body))).await.expect("appended");
                taken.push(start.elapsed());
            }
            taken
        })
    });
    let mut taken: Vec<Duration> = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        taken.extend(task.await.expect("a writer"));
    }
    taken.sort_unstable();
    let at = |share: f64| taken[((taken.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let (rate, group) = (taken.len() as f64 / RUN.as_secs_f64(), taken.len() as f64 / (log.position() - slots) as f64);
    println!("{:<34} {rate:>12.0} {:>9.2} {:>9.2} {group:>12.1}", format!("{size} B, {writers} writers"), at(0.5), at(0.99));
    log.close().await;
}

/// A million events over a hundred thousand streams: open, read one stream, replay all.
async fn history(path: &std::path::Path) {
    let log = open(path).await;
    let body = Bytes::from(vec![b'x'; 256]);
    for round in 0..10 {
        for chunk in 0..100 {
            let submits = (0..1_000).map(|n| {
                let name = format!("stream-{:06}", chunk * 1_000 + n);
                let change = match round {
                    0 => Change::Create(Create { payload: Some(Ok(Payload::bytes(body.clone()))), ..Create::default() }),
                    _ => append(&body),
                };
                log.submit(Command::one(name, change))
            });
            futures::future::try_join_all(submits).await.expect("appended");
        }
    }
    let big = Bytes::from(vec![b'y'; 64 << 10]);
    log.submit(Command::one("big", Change::Create(Create::default()))).await.expect("created");
    for _ in 0..1_024 {
        log.submit(Command::one("big", append(&big))).await.expect("appended");
    }
    log.close().await;

    let start = Instant::now();
    let log = open(path).await;
    println!("\nopen with {} streams, 1,000,000 events: {:.2} s", log.stream_count(), start.elapsed().as_secs_f64());

    let start = Instant::now();
    let (mut from, mut bytes) = (From::Start, 0);
    loop {
        let page = log.read("big", from, 4 << 20).await.expect("a page");
        bytes += page.bytes;
        from = From::At(page.next);
        if page.up_to_date {
            break;
        }
    }
    println!("catch-up of 64 MiB, cold: {:.0} MB/s", bytes as f64 / 1e6 / start.elapsed().as_secs_f64());

    let start = Instant::now();
    let mut follower = log.follow(Cursor::default()).await.expect("the beginning");
    let (mut records, mut commits) = (0, 0);
    while let Some(commit) = follower.try_next().await.expect("a commit") {
        records += commit.records().len();
        commits += 1;
    }
    println!("replay: {records} records in {commits} commits, {:.0} records/s", records as f64 / start.elapsed().as_secs_f64());
}
