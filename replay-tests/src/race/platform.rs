//! One server of the platform on files and its own Postgres: what a command costs beside a bare append, and how soon a query sees it.

use std::io::{Write, stdout};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::{join_all, try_join_all};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::found;
use super::http1::{Connection, SMALL};
use super::machine;
use super::process::address_of;
use super::samples::{Samples, Sorted};
use super::wire::{self, JSON};
use crate::servers::ArbeServer;

/// Measure command and query latency of the platform over HTTP on this machine; fails past the promised limits.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "latency", version)]
pub struct Options {
    /// Threads written to in parallel, each over a connection of its own.
    #[arg(long, default_value_t = 100)]
    pub threads: usize,
    /// Measured seconds of every case in every round.
    #[arg(long, default_value_t = 4)]
    pub seconds: u64,
    /// The cases take turns this often.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
}

const WARM_UP: Duration = Duration::from_millis(500);
/// Bytes of what is said.
const TEXT: usize = 200;
/// A command may take this many times as long as a bare append, at p50.
const COMMAND_LIMIT: f64 = 2.0;
/// Within so many milliseconds a query shows what was written before it, at p99.
const QUERY_LIMIT: f64 = 50.0;
/// Within so many milliseconds every entry is found by its words.
const FOUND_LIMIT: f64 = 1_000.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Append,
    Say,
    Rename,
}

impl Act {
    const ALL: [Self; 3] = [Self::Append, Self::Say, Self::Rename];

    fn name(self) -> &'static str {
        match self {
            Self::Append => "bare append: POST /v1/stream/…",
            Self::Say => "POST /api/threads/{id}/entries",
            Self::Rename => "PATCH /api/threads/{id}",
        }
    }
}

/// Those who write and then query, and those who only write.
#[derive(Clone, Copy)]
struct Crowd {
    readers: usize,
    writers: usize,
}

#[derive(Clone)]
pub(super) struct Target {
    address: SocketAddr,
    token: String,
}

pub(super) async fn measure(options: &Options) -> Result<()> {
    machine::raise_open_file_limit();
    let server = tokio::task::spawn_blocking(|| ArbeServer::platform(&[])).await??;
    let target = Target { address: address_of(server.url())?, token: server.data("owner-token")? };
    let (house, threads) = target.furnish(options.threads).await?;
    let period = Duration::from_secs(options.seconds);
    let mut acts = [Samples::default(), Samples::default(), Samples::default()];
    let crowds = [
        Crowd { readers: 1, writers: 0 },
        Crowd { readers: options.threads, writers: 0 },
        Crowd { readers: 10, writers: options.threads / 2 },
    ];
    let mut seen = [Samples::default(), Samples::default(), Samples::default()];
    for _ in 0..options.rounds {
        for (act, samples) in Act::ALL.into_iter().zip(&mut acts) {
            machine::settle().await;
            samples.absorb(target.all(&threads, act, period).await?);
        }
        for (crowd, samples) in crowds.into_iter().zip(&mut seen) {
            machine::settle().await;
            samples.absorb(target.look(&threads, crowd, period).await?);
        }
    }
    machine::settle().await;
    let (found, rate) = found::measure(&target, &house, &threads, period * options.rounds as u32).await?;
    let took = period.as_secs_f64() * options.rounds as f64;
    let mut out = stdout();
    writeln!(
        out,
        "{} threads in parallel, log in files, local Postgres, {} × {} s",
        threads.len(),
        options.rounds,
        options.seconds
    )?;
    writeln!(out, "{:<44} {:>8} {:>8} {:>9} {:>6}", "", "p50 ms", "p99 ms", "per s", "p50 ×")?;
    let mut bare = None;
    let mut slow = Vec::new();
    for (act, samples) in Act::ALL.into_iter().zip(acts) {
        let rate = samples.len() as f64 / took;
        let sorted = samples.sorted();
        let bare = *bare.get_or_insert(sorted.milliseconds(0.5));
        let ratio = sorted.milliseconds(0.5) / bare;
        row(&mut out, act.name(), &sorted, rate, Some(ratio))?;
        if ratio > COMMAND_LIMIT {
            slow.push(format!("{} takes {ratio:.2} times as long as a bare append, more than {COMMAND_LIMIT}", act.name()));
        }
    }
    writeln!(out, "GET /api/threads/{{id}}?min_position=… after a PATCH")?;
    for (Crowd { readers, writers }, samples) in crowds.into_iter().zip(seen) {
        let rate = samples.len() as f64 / took;
        let name = if writers == 0 { format!("  {readers} at a time") } else { format!("  {readers}, and {writers} who write") };
        let sorted = samples.sorted();
        row(&mut out, &name, &sorted, rate, None)?;
        let p99 = sorted.milliseconds(0.99);
        if p99 > QUERY_LIMIT {
            slow.push(format!("a query takes {p99:.2} ms at p99 with {}, more than {QUERY_LIMIT}", name.trim()));
        }
    }
    let (asked, found) = (found.len(), found.sorted());
    let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|part| found.milliseconds(part));
    writeln!(out, "GET /api/search after an entry, while {rate:.0} others come every second")?;
    writeln!(out, "{:<44} {p50:>8.2} {p99:>8.2}           at worst {worst:.2} ms", format!("  {asked} looked for and found"))?;
    if rate < 0.95 * found::RATE as f64 {
        slow.push(format!("only {rate:.0} entries came every second, and not {}", found::RATE));
    }
    if worst.is_nan() || worst > FOUND_LIMIT {
        slow.push(format!("an entry is found after {worst:.0} ms, more than {FOUND_LIMIT}"));
    }
    ensure!(slow.is_empty(), "{}", slow.join("\n"));
    Ok(())
}

fn row(out: &mut impl Write, name: &str, sorted: &Sorted, rate: f64, ratio: Option<f64>) -> Result<()> {
    let ratio = ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
    let (p50, p99) = (sorted.milliseconds(0.5), sorted.milliseconds(0.99));
    writeln!(out, "{name:<44} {p50:>8.2} {p99:>8.2} {rate:>9.0} {ratio:>6}")?;
    Ok(())
}

impl Target {
    /// A house, and threads in it.
    async fn furnish(&self, threads: usize) -> Result<(String, Vec<String>)> {
        let mut client = Client::open(self, String::new()).await?;
        let (_, house) = client.call("POST", "/api/houses", &json!({ "name": "race" })).await?;
        let mut ids = Vec::with_capacity(threads);
        for _ in 0..threads {
            let (_, made) = client.call("POST", "/api/threads", &json!({ "house_id": house["house_id"] })).await?;
            let id = made["thread_id"].as_str().context("a thread")?.to_owned();
            client.exchange("PUT", &format!("/v1/stream/{id}"), "").await?;
            ids.push(id);
        }
        let house = house["house_id"].as_str().context("a house")?.to_owned();
        Ok((house, ids))
    }

    async fn clients(&self, threads: &[String]) -> Result<Vec<Client>> {
        try_join_all(threads.iter().map(|thread| Client::open(self, thread.clone()))).await
    }

    /// Everybody does the same, one thing after the other.
    async fn all(&self, threads: &[String], act: Act, period: Duration) -> Result<Samples> {
        let begin = Instant::now() + WARM_UP;
        let clients = self.clients(threads).await?.into_iter();
        collect(clients.map(|client| tokio::spawn(client.act(act, begin, begin + period)))).await
    }

    async fn look(&self, threads: &[String], crowd: Crowd, period: Duration) -> Result<Samples> {
        let begin = Instant::now() + WARM_UP;
        let end = begin + period;
        let clients = self.clients(&threads[..(crowd.readers + crowd.writers).min(threads.len())]).await?.into_iter();
        let mut readers = Vec::new();
        let mut writers = Vec::new();
        for (index, client) in clients.enumerate() {
            if index < crowd.readers {
                readers.push(tokio::spawn(client.look(begin, end)));
            } else {
                writers.push(tokio::spawn(client.act(Act::Say, begin, end)));
            }
        }
        let samples = collect(readers.into_iter()).await?;
        collect(writers.into_iter()).await?;
        Ok(samples)
    }
}

async fn collect(tasks: impl Iterator<Item = tokio::task::JoinHandle<Result<Samples>>>) -> Result<Samples> {
    let mut all = Samples::default();
    for samples in join_all(tasks).await {
        all.absorb(samples??);
    }
    Ok(all)
}

pub(super) struct Client {
    connection: Connection,
    token: String,
    pub(super) thread: String,
    count: u64,
}

impl Client {
    pub(super) async fn open(target: &Target, thread: String) -> Result<Self> {
        let connection = Connection::open(target.address, SMALL).await?;
        Ok(Self { connection, token: format!("Bearer {}", target.token), thread, count: 0 })
    }

    /// How long it took, and the body of the answer.
    async fn exchange(&mut self, method: &str, path: &str, body: &str) -> Result<(Duration, Vec<u8>)> {
        let headers = [("Content-Type", JSON), ("Authorization", self.token.as_str())];
        let request = wire::request(method, path, &headers, body.as_bytes());
        let sent = Instant::now();
        self.connection.send(&request).await?;
        let head = self.connection.head().await?;
        let mut answer = Vec::new();
        self.connection.body(&head, |bytes| answer.extend_from_slice(bytes)).await?;
        let took = sent.elapsed();
        ensure!(head.status / 100 == 2, "{method} {path}: {} {}", head.status, String::from_utf8_lossy(&answer));
        Ok((took, answer))
    }

    pub(super) async fn call(&mut self, method: &str, path: &str, body: &Value) -> Result<(Duration, Value)> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (took, answer) = self.exchange(method, path, &body).await?;
        Ok((took, serde_json::from_slice(&answer)?))
    }

    async fn rename(&mut self) -> Result<(Duration, String, Value)> {
        self.count += 1;
        let name = format!("{} for the {}th time", self.thread, self.count);
        let (took, done) = self.call("PATCH", &format!("/api/threads/{}", self.thread), &json!({ "name": name })).await?;
        Ok((took, name, done["position"].clone()))
    }

    async fn act(mut self, act: Act, begin: Instant, end: Instant) -> Result<Samples> {
        let mut samples = Samples::default();
        let text = String::from_utf8(wire::filler(TEXT, self.thread.len() as u64)).context("letters")?;
        let body = json!({ "text": text }).to_string();
        while Instant::now() < end {
            let took = match act {
                Act::Append => self.exchange("POST", &format!("/v1/stream/{}", self.thread), &body).await?.0,
                Act::Say => self.exchange("POST", &format!("/api/threads/{}/entries", self.thread), &body).await?.0,
                Act::Rename => self.rename().await?.0,
            };
            if (begin..end).contains(&Instant::now()) {
                samples.record(took);
            }
        }
        Ok(samples)
    }

    /// Writes, then asks for what it wrote; only the asking counts.
    async fn look(mut self, begin: Instant, end: Instant) -> Result<Samples> {
        let mut samples = Samples::default();
        while Instant::now() < end {
            let (_, name, position) = self.rename().await?;
            let path = format!("/api/threads/{}?min_position={position}", self.thread);
            let (took, row) = self.call("GET", &path, &Value::Null).await?;
            ensure!(row["name"] == json!(name), "{path} does not show {name:?}: {row}");
            if (begin..end).contains(&Instant::now()) {
                samples.record(took);
            }
        }
        Ok(samples)
    }
}
