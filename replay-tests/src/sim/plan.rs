//! What a seed stands for.

use super::rng::Rng;

#[derive(Clone, Debug)]
pub struct Plan {
    /// Slots in flight at once.
    pub depth: usize,
    pub clients: u64,
    /// Commands per client.
    pub commands: u64,
    pub streams: u64,
    /// Slots that make a pack.
    pub pack: u64,
    /// Bytes of cache per server.
    pub memory: usize,
    pub latency_ms: u64,
    pub rates: Rates,
    /// Mean time between two blows of fate, and what they may be.
    pub chaos_ms: u64,
    pub crashes: bool,
    pub partitions: bool,
    pub clock_jumps: bool,
    /// The first server dies at this await point of its first life.
    pub first_death: Option<u64>,
}

/// Per mille of store requests.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Applied, but the answer is lost.
    pub lost_reply: u64,
    pub never_applied: u64,
    /// Answered with a timeout, and applied seconds later.
    pub late: u64,
    /// Refused as existing with nothing stored.
    pub phantom: u64,
    pub failed_get: u64,
    /// Of requests between servers.
    pub lost_message: u64,
}

impl Plan {
    pub fn draw(rng: &mut Rng) -> Self {
        let severity = rng.below(4);
        let mut rate = |most: u64| if severity == 0 { 0 } else { rng.below(most * severity + 1) };
        let rates = Rates {
            lost_reply: rate(40),
            never_applied: rate(40),
            late: rate(30),
            phantom: rate(30),
            failed_get: rate(30),
            lost_message: rate(40),
        };
        Self {
            depth: if rng.chance(500) { 4 } else { 1 },
            clients: rng.within(12, 24),
            commands: rng.within(8, 20),
            streams: rng.within(12, 20),
            pack: rng.within(2, 6),
            memory: if rng.chance(500) { 2_000 } else { 1 << 20 },
            latency_ms: rng.within(1, 30),
            rates,
            chaos_ms: rng.within(150, 900),
            crashes: rng.chance(700),
            partitions: rng.chance(700),
            clock_jumps: rng.chance(500),
            first_death: None,
        }
    }

    /// A few commands on a store without faults, and one death at a chosen place.
    pub fn death_at(step: u64, depth: usize) -> Self {
        Self {
            depth,
            clients: 3,
            commands: 6,
            streams: 4,
            pack: 2,
            memory: 2_000,
            latency_ms: 5,
            rates: Rates { lost_reply: 0, never_applied: 0, late: 0, phantom: 0, failed_get: 0, lost_message: 0 },
            chaos_ms: 1_000,
            crashes: false,
            partitions: false,
            clock_jumps: false,
            first_death: Some(step),
        }
    }
}
