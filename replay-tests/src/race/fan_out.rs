//! One stream, many SSE readers, and appends on a schedule that does not wait for the server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::{join_all, try_join_all};
use tokio::time::Instant;

use super::contestant::{Contestant, Server};
use super::http1::{Connection, SMALL};
use super::options::Options;
use super::report::Values;
use super::samples::Samples;
use super::usage::Meter;
use super::wire::{self, TEXT};

const STREAM: &str = "fan-out";
const PAYLOAD: usize = 256;
/// Appends take turns on these connections, so a slow commit does not delay the next append.
const WRITERS: usize = 32;
const GRACE: Duration = Duration::from_secs(20);
/// Servers end an SSE response after a minute, so a run stays below that.
const LONGEST: Duration = Duration::from_secs(40);

/// Every append carries the time it was due at, found again behind this byte by its readers.
const MARK: u8 = b'@';
const DIGITS: usize = 12;

struct Schedule {
    begin: Instant,
    interval: Duration,
    appends: usize,
}

impl Schedule {
    fn due(&self, index: usize) -> Instant {
        self.begin + self.interval.saturating_mul(u32::try_from(index).unwrap_or(u32::MAX))
    }

    fn end(&self) -> Instant {
        self.due(self.appends)
    }
}

pub(super) async fn race(contestant: &Contestant, options: &Options, readers: usize, rate: u32) -> Result<Values> {
    let (server, home) = contestant.fresh(options).await?;
    let mut first = Connection::open(server.address, SMALL).await?;
    let create = server.dialect.create(STREAM, TEXT).context("no SSE in this dialect")?;
    first.call(&create).await?;
    let followers = try_join_all((0..readers).map(|_| follow(&server))).await?;
    let writers = try_join_all((0..WRITERS).map(|_| Connection::open(server.address, SMALL))).await?;

    let lasting = options.measured().min(LONGEST);
    let schedule = Arc::new(Schedule {
        begin: Instant::now() + Duration::from_millis(200),
        interval: Duration::from_secs(1) / rate,
        appends: lasting.as_secs() as usize * rate as usize,
    });
    let meter = Meter::begin(&server, &home);
    let reading: Vec<_> = followers.into_iter().map(|one| tokio::spawn(receive(one, Arc::clone(&schedule)))).collect();
    let writing: Vec<_> = writers
        .into_iter()
        .enumerate()
        .map(|(turn, one)| tokio::spawn(write(one, turn, server.dialect, Arc::clone(&schedule))))
        .collect();
    for written in join_all(writing).await {
        written??;
    }
    let mut samples = Samples::default();
    let mut finished = schedule.end();
    for received in join_all(reading).await {
        let (received, last) = received??;
        samples.absorb(received);
        finished = finished.max(last);
    }
    let usage = meter.end();
    let (delivered, expected) = (samples.len(), schedule.appends * readers);
    let rate = delivered as f64 / (finished - schedule.begin).as_secs_f64();
    ensure!(delivered == expected, "{delivered} of {expected} events were delivered, {rate:.0}/s, when the race gave up");
    let latency = samples.sorted();
    Ok(vec![
        ("events", rate),
        ("p50", latency.milliseconds(0.5)),
        ("p99", latency.milliseconds(0.99)),
        ("p999", latency.milliseconds(0.999)),
        ("server_us", usage.server_seconds * 1e6 / delivered as f64),
        ("client_us", usage.client_seconds * 1e6 / delivered as f64),
    ])
}

async fn follow(server: &Server) -> Result<Connection> {
    let mut connection = Connection::open(server.address, SMALL).await?;
    connection.send(&wire::follow(STREAM)).await?;
    let head = connection.head().await?;
    ensure!(head.status == 200, "a reader was answered with {}", head.status);
    Ok(connection)
}

async fn write(mut connection: Connection, turn: usize, dialect: wire::Dialect, schedule: Arc<Schedule>) -> Result<()> {
    let filler = wire::filler(PAYLOAD - DIGITS - 1, turn as u64 + 1);
    let filler = String::from_utf8_lossy(&filler);
    for index in (turn..schedule.appends).step_by(WRITERS) {
        let due = schedule.due(index);
        tokio::time::sleep_until(due).await;
        let since = (due - schedule.begin).as_micros();
        let body = format!("{}{since:0DIGITS$}{filler}", char::from(MARK));
        let head = connection.call(&dialect.append(STREAM, TEXT, body.as_bytes())).await?;
        ensure!(head.status / 100 == 2, "an append was answered with {}", head.status);
    }
    Ok(())
}

async fn receive(mut connection: Connection, schedule: Arc<Schedule>) -> Result<(Samples, Instant)> {
    let mut samples = Samples::default();
    let deadline = schedule.end() + GRACE;
    let mut last = schedule.begin;
    while samples.len() < schedule.appends {
        match tokio::time::timeout_at(deadline, connection.fill()).await {
            Ok(filled) => filled.context("a reader lost its connection")?,
            Err(_) => break,
        }
        last = Instant::now();
        let (due, used) = marks(connection.unread());
        for since in due {
            samples.record(last.saturating_duration_since(schedule.begin + since));
        }
        connection.consume(used);
    }
    Ok((samples, last))
}

/// The due times in these bytes, and how many bytes need not be looked at again.
fn marks(bytes: &[u8]) -> (Vec<Duration>, usize) {
    let mut due = Vec::new();
    let mut position = 0;
    while let Some(found) = bytes[position..].iter().position(|byte| *byte == MARK) {
        let start = position + found + 1;
        let Some(digits) = bytes.get(start..start + DIGITS) else {
            return (due, start - 1);
        };
        let micros = digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit.wrapping_sub(b'0')));
        due.push(Duration::from_micros(micros));
        position = start + DIGITS;
    }
    (due, bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_cut_by_the_end_of_the_buffer_is_kept_for_the_next_read() {
        let bytes = b"data:@000000000042filler\n\ndata:@0000001";
        let (due, used) = marks(bytes);
        assert_eq!(due, [Duration::from_micros(42)]);
        assert_eq!(&bytes[used..], b"@0000001");
    }
}
