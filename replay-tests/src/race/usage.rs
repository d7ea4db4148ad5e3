//! What a run cost, read from /proc.

use std::fs;
use std::time::Duration;

use super::contestant::{Home, Server};

/// The kernel reports processor time in these units on every Linux we run on.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Clone, Copy)]
struct Ticks {
    server: u64,
    store: u64,
    client: u64,
    machine: u64,
}

/// Processor time from `begin` to `end`.
pub(super) struct Meter {
    server: u32,
    store: Option<u32>,
    begun: Ticks,
}

pub(super) struct Usage {
    pub server_seconds: f64,
    pub client_seconds: f64,
    /// Anything else on the machine: noise, or work the server left to the kernel.
    pub other_seconds: f64,
}

impl Meter {
    pub(super) fn begin(server: &Server, home: &Home) -> Self {
        let (server, store) = (server.process.id(), home.store_id());
        Self { server, store, begun: ticks(server, store) }
    }

    pub(super) fn end(&self) -> Usage {
        let now = ticks(self.server, self.store);
        let seconds = |of: fn(Ticks) -> u64| of(now).saturating_sub(of(self.begun)) as f64 / TICKS_PER_SECOND;
        let (server, store) = (seconds(|one| one.server), seconds(|one| one.store));
        let (client, machine) = (seconds(|one| one.client), seconds(|one| one.machine));
        Usage { server_seconds: server, client_seconds: client, other_seconds: (machine - server - store - client).max(0.0) }
    }
}

pub(super) fn resident_megabytes(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kilobytes| kilobytes / 1024.0)
}

/// How many cores the whole machine kept busy over a period.
pub(super) async fn busy_cores(period: Duration) -> f64 {
    let before = machine_ticks();
    tokio::time::sleep(period).await;
    let ticks = machine_ticks().saturating_sub(before);
    ticks as f64 / TICKS_PER_SECOND / period.as_secs_f64()
}

fn ticks(server: u32, store: Option<u32>) -> Ticks {
    Ticks {
        server: process_ticks(&server.to_string()),
        store: store.map_or(0, |id| process_ticks(&id.to_string())),
        client: process_ticks("self"),
        machine: machine_ticks(),
    }
}

fn process_ticks(process: &str) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let fields = after_name.split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

fn machine_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let values: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    let busy = |index: usize| !matches!(index, 3 | 4 | 8 | 9);
    values.iter().enumerate().filter(|(index, _)| busy(*index)).map(|(_, value)| value).sum()
}
