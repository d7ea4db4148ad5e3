//! Many idle streams: their memory, and how soon a stopped server answers for them again.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use tokio::time::Instant;

use super::contestant::{Contestant, Home, Server};
use super::http1::{Connection, SMALL};
use super::options::Options;
use super::report::Values;
use super::usage::resident_megabytes;
use super::wire::{self, BYTES, Dialect};

const CREATORS: usize = 64;
const SAMPLED: usize = 100;
/// For what a server still does after it answered.
const CALM: Duration = Duration::from_secs(1);

pub(super) async fn race(contestant: &Contestant, options: &Options, streams: usize) -> Result<Values> {
    let (server, home) = contestant.fresh(options).await?;
    let started = Instant::now();
    create(&server, streams).await?;
    let created = streams as f64 / started.elapsed().as_secs_f64();
    let before = resident(&server).await;

    server.process.kill()?;
    let (server, after_kill) = restart(contestant, &home, streams).await.context("after SIGKILL")?;
    let rss_after_kill = resident(&server).await;

    let stopping = server.process.terminate().await?;
    let (server, after_stop) = restart(contestant, &home, streams).await.context("after SIGTERM")?;
    let rss_after_stop = resident(&server).await;
    Ok(vec![
        ("creates", created),
        ("rss", before),
        ("after_kill", after_kill.as_secs_f64() * 1e3),
        ("rss_after_kill", rss_after_kill),
        ("stopping", stopping.as_secs_f64() * 1e3),
        ("after_stop", after_stop.as_secs_f64() * 1e3),
        ("rss_after_stop", rss_after_stop),
    ])
}

async fn create(server: &Server, streams: usize) -> Result<()> {
    let creator = async |first| {
        let mut connection = Connection::open(server.address, SMALL).await?;
        for index in (first..streams).step_by(CREATORS) {
            let create = Dialect::DurableStreams.create(&name(index), BYTES);
            let create = create.context("no create in this dialect")?;
            let head = connection.call(&create).await.with_context(|| format!("creating stream {index}"))?;
            ensure!(head.status == 201, "creating stream {index} was answered with {}", head.status);
        }
        anyhow::Ok(())
    };
    try_join_all((0..CREATORS).map(creator)).await?;
    Ok(())
}

/// Time from starting the process to its first answer for a stream it must still know.
async fn restart(contestant: &Contestant, home: &Home, streams: usize) -> Result<(Server, Duration)> {
    let probe = wire::read(&name(streams - 1), "-1");
    let (server, elapsed) = contestant.start(home, Some(&probe)).await?;
    let mut connection = Connection::open(server.address, SMALL).await?;
    for index in (0..streams).step_by((streams / SAMPLED).max(1)) {
        let head = connection.call(&wire::read(&name(index), "-1")).await?;
        ensure!(head.status == 200, "stream {index} was answered with {}", head.status);
    }
    Ok((server, elapsed))
}

async fn resident(server: &Server) -> f64 {
    tokio::time::sleep(CALM).await;
    resident_megabytes(server.process.id())
}

fn name(index: usize) -> String {
    format!("idle-{index:07}")
}
