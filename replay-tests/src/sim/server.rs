//! Servers that open, crash and open again, and the fate that makes them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use event_log::store::Pace;
use event_log::store::slots::ObjectSlots;
use event_log::{Log, Options, Store};
use object_store::ObjectStore;
use object_store::memory::InMemory;

use super::env::Env;
use super::faults::Faulty;
use super::life::{Clock, Life};
use super::net::{Net, SERVERS, SimPeers, Up, url};

pub fn store_of(env: &Env, objects: Arc<dyn ObjectStore>) -> Store {
    let pace = Pace {
        depth: env.plan.depth,
        linger: Duration::from_millis(if env.plan.depth > 1 { 2 } else { 0 }),
        poll: Duration::from_millis(25),
        pack: env.plan.pack,
        own_thread: false,
    };
    Store { slots: Arc::new(ObjectSlots::new(objects.clone(), pace)), objects, url: "sim:".into() }
}

/// Keeps one server running until the run is over.
pub async fn serve(net: Arc<Net>, objects: Arc<InMemory>, server: usize) {
    let env = net.env.clone();
    let mut first_death = env.plan.first_death.filter(|_| server == 0);
    loop {
        let life = Life::new(env.clone(), server);
        let options = Options {
            url: url(server),
            memory: env.plan.memory,
            keep: true,
            peers: Arc::new(SimPeers { net: net.clone(), life: life.clone() }),
            world: Arc::new(Clock { env: env.clone(), skew_ms: net.skews[server].clone() }),
        };
        let faulty = Faulty { inner: objects.clone(), env: env.clone(), life: life.clone() };
        if env.plan.crashes && env.chance(100) {
            life.light(env.below(80));
        }
        if let Some(step) = first_death.take() {
            life.light(step);
        }
        let opened = tokio::select! {
            biased;
            () = life.death() => None,
            opened = Log::open(store_of(&env, Arc::new(faulty)), options) => Some(opened),
        };
        match opened {
            None => {}
            Some(Ok(log)) => {
                env.note(format_args!("server {server} opens at {}", log.position()));
                net.set(server, Some(Up { log, life: life.clone() }));
                life.death().await;
                net.set(server, None);
            }
            Some(Err(event_log::OpenLogError::Fetch(error @ event_log::FetchError::Damaged(_)))) => {
                env.problem(format!("server {server} takes the log for damaged: {error}"));
                return;
            }
            Some(Err(error)) => env.note(format_args!("server {server} does not open: {error}")),
        }
        let rest = if env.is_calm() { 1 } else { env.within(20, 2_000) };
        tokio::time::sleep(Duration::from_millis(rest)).await;
    }
}

/// Crashes, partitions and clocks that jump.
pub async fn chaos(net: Arc<Net>) {
    let env = net.env.clone();
    while !env.is_calm() {
        env.pause(env.plan.chaos_ms / 2, env.plan.chaos_ms * 2).await;
        let server = env.below(SERVERS as u64) as usize;
        match env.below(4) {
            0 | 1 if env.plan.crashes => {
                if let Some(up) = net.get(server) {
                    up.life.light(env.below(24));
                }
            }
            2 if env.plan.partitions => {
                let to = (server + 1 + env.below(SERVERS as u64 - 1) as usize) % SERVERS;
                let both = env.chance(300);
                net.block(server, to);
                if both {
                    net.block(to, server);
                }
                tokio::spawn(heal(net.clone(), server, to, env.within(100, 3_000)));
            }
            3 if env.plan.clock_jumps => {
                let skew = env.below(20_000) as i64 - 10_000;
                env.note(format_args!("clock of {server} jumps to {skew}"));
                net.skews[server].store(skew, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

async fn heal(net: Arc<Net>, a: usize, b: usize, after_ms: u64) {
    tokio::time::sleep(Duration::from_millis(after_ms)).await;
    net.heal(a, b);
    net.heal(b, a);
}
