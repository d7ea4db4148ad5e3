//! Durable appends in a closed loop: one connection and one stream for each writer.

use anyhow::{Result, ensure};
use futures::future::{join_all, try_join_all};
use tokio::time::Instant;

use super::contestant::{Contestant, Server};
use super::http1::{Connection, SMALL};
use super::options::Options;
use super::report::Values;
use super::samples::Samples;
use super::usage::Meter;
use super::wire::{self, BYTES};

#[derive(Clone, Copy)]
pub(super) struct Window {
    pub begin: Instant,
    pub end: Instant,
}

impl Window {
    pub(super) fn opening(options: &Options) -> Self {
        let begin = Instant::now() + options.warm_up();
        Self { begin, end: begin + options.measured() }
    }
}

struct Writer {
    connection: Connection,
    request: Vec<u8>,
}

#[derive(Default)]
struct Tally {
    samples: Samples,
    errors: usize,
    first_error: Option<String>,
}

pub(super) async fn race(contestant: &Contestant, options: &Options, bytes: usize, streams: usize) -> Result<Values> {
    let (server, home) = contestant.fresh(options).await?;
    let opening = (0..streams).map(|index| Writer::open(&server, index, bytes));
    let writers = try_join_all(opening).await?;
    let window = Window::opening(options);
    let tasks: Vec<_> = writers.into_iter().map(|one| tokio::spawn(one.append_during(window))).collect();
    tokio::time::sleep_until(window.begin).await;
    let meter = Meter::begin(&server, &home);
    tokio::time::sleep_until(window.end).await;
    let usage = meter.end();

    let mut total = Tally::default();
    for tally in join_all(tasks).await {
        total.absorb(tally?);
    }
    let first = total.first_error.unwrap_or_default();
    ensure!(total.errors == 0, "{} errors, the first: {first}", total.errors);
    let appends = total.samples.len() as f64;
    let latency = total.samples.sorted();
    Ok(vec![
        ("appends", appends / options.measured().as_secs_f64()),
        ("p50", latency.milliseconds(0.5)),
        ("p99", latency.milliseconds(0.99)),
        ("p999", latency.milliseconds(0.999)),
        ("server_us", usage.server_seconds * 1e6 / appends),
        ("client_us", usage.client_seconds * 1e6 / appends),
        ("other", usage.other_seconds / options.measured().as_secs_f64()),
    ])
}

impl Writer {
    async fn open(server: &Server, index: usize, bytes: usize) -> Result<Self> {
        let stream = format!("append-{index}");
        let mut connection = Connection::open(server.address, SMALL).await?;
        if let Some(create) = server.dialect.create(&stream, BYTES) {
            let head = connection.call(&create).await?;
            ensure!(head.status == 201, "creating a stream was answered with {}", head.status);
        }
        let body = wire::filler(bytes, index as u64 + 1);
        Ok(Self { connection, request: server.dialect.append(&stream, BYTES, &body) })
    }

    async fn append_during(mut self, window: Window) -> Tally {
        let mut tally = Tally::default();
        let mut started = Instant::now();
        while started < window.end {
            let answer = self.connection.call(&self.request).await;
            let finished = Instant::now();
            match answer {
                Ok(head) if head.status / 100 == 2 => {
                    if (window.begin..window.end).contains(&finished) {
                        tally.samples.record(finished - started);
                    }
                }
                Ok(head) => tally.fail(|| format!("status {}", head.status)),
                Err(error) => {
                    tally.fail(|| error.to_string());
                    break;
                }
            }
            started = finished;
        }
        tally
    }
}

impl Tally {
    fn fail(&mut self, reason: impl FnOnce() -> String) {
        self.errors += 1;
        self.first_error.get_or_insert_with(reason);
    }

    fn absorb(&mut self, other: Self) {
        self.samples.absorb(other.samples);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}
