//! Drawn commands on a real log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use commands::{CommandError, Commands, Source};
use event_log::{Append, Change, Create, Log, Options, Payload, StoreUrl};
use events::{Entry, StreamName};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Runtime;

use crate::draw::{Draw, draws};
use crate::postgres::ground;
use crate::scene::{Scene, opening, scene};

/// A clock and numbers that only go up, different for every seed.
#[derive(Debug)]
pub struct Counting {
    pub seed: u64,
    pub drawn: AtomicU64,
}

impl Counting {
    pub fn from(seed: u64) -> Arc<Self> {
        Arc::new(Self { seed, drawn: AtomicU64::new(0) })
    }
}

impl Source for Counting {
    fn now_ms(&self) -> u64 {
        1_790_000_000_000 + self.drawn.load(Ordering::Relaxed)
    }

    fn random(&self) -> u128 {
        let n = self.drawn.fetch_add(1, Ordering::Relaxed);
        event_log::command_id(&[&self.seed.to_string(), &n.to_string()])
    }
}

pub async fn memory() -> Log {
    Log::open(StoreUrl::Memory.open(&[], true).unwrap(), Options::default()).await.unwrap()
}

/// A handler whose log holds the scene.
pub async fn opened(log: &Log) -> Commands {
    let commands = Commands::start(log.clone(), Counting::from(1));
    for (actor, command) in opening() {
        commands.execute(actor, command, None).await.unwrap();
    }
    commands
}

/// Asks for everything drawn; what is refused is refused.
pub async fn play(commands: &Commands, draws: &[Draw]) {
    for draw in draws {
        match commands.execute(draw.actor(), draw.command(), None).await {
            Ok(_) | Err(CommandError::Rejected(_)) => {}
            Err(error) => panic!("{draw:?}: {error}"),
        }
    }
}

/// The same draws on every run.
pub fn drawn(count: usize) -> Vec<Draw> {
    draws(count..count + 1).new_tree(&mut TestRunner::deterministic()).unwrap().current()
}

/// Runs a property on drawn cases, with one Postgres for all of them.
pub fn on_drawn<S: Strategy>(cases: u32, strategy: S, holds: impl AsyncFn(S::Value)) {
    let runtime = Runtime::new().unwrap();
    let Some(_postgres) = runtime.block_on(ground()) else { return };
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 60, ..Config::default() };
    let run = TestRunner::new(config).run(&strategy, |case| {
        runtime.block_on(holds(case));
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

/// The scene after the draws, without a log.
pub fn acted(draws: &[Draw]) -> Scene {
    let mut scene = scene();
    for draw in draws {
        let _ = scene.ask(draw.actor(), &draw.command());
    }
    scene
}

/// Writes entries as they are, one commit each, and returns the position of the last.
pub async fn write(log: &Log, entries: &[(StreamName, u64, Entry)]) -> u64 {
    let mut position = 0;
    for (stream, seq, entry) in entries {
        let payload = Ok(Payload::messages([entry.to_json().as_str()]));
        let content_type = Some("application/json".into());
        let change = if *seq == 0 {
            Change::Create(Create { content_type, payload: Some(payload), ..Create::default() })
        } else {
            Change::Append(Append { content_type, payload, producer: None, stream_seq: None, close: false })
        };
        position = log.submit(event_log::Command::one(stream.to_string(), change)).await.unwrap().position;
    }
    position
}
