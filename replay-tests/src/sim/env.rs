//! What every part of one simulated run shares: chance, time, the trace, and the figures.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::plan::Plan;
use super::rng::Rng;

#[derive(Debug)]
pub struct Env {
    pub plan: Plan,
    rng: Mutex<Rng>,
    began: Instant,
    trace: Mutex<Trace>,
    /// No more faults: the run is over and everybody catches up.
    calm: AtomicBool,
    pub faults: AtomicU64,
    pub crashes: AtomicU64,
    problems: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl Write for Trace {
    /// FNV-1a.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

impl Env {
    pub fn new(plan: Plan, rng: Rng, trace: bool) -> Arc<Self> {
        Arc::new(Self {
            plan,
            rng: Mutex::new(rng),
            began: Instant::now(),
            trace: Mutex::new(Trace { hash: 0xcbf2_9ce4_8422_2325, lines: trace.then(Vec::new) }),
            calm: AtomicBool::new(false),
            faults: AtomicU64::new(0),
            crashes: AtomicU64::new(0),
            problems: Mutex::default(),
        })
    }

    pub fn draw<T>(&self, look: impl FnOnce(&mut Rng) -> T) -> T {
        look(&mut self.rng.lock())
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.draw(|rng| rng.below(bound))
    }

    pub fn within(&self, from: u64, to: u64) -> u64 {
        self.draw(|rng| rng.within(from, to))
    }

    pub fn chance(&self, per_mille: u64) -> bool {
        self.draw(|rng| rng.chance(per_mille))
    }

    /// A fault that the plan allows happens now.
    pub fn strikes(&self, per_mille: u64) -> bool {
        let struck = !self.is_calm() && self.chance(per_mille);
        if struck {
            self.faults.fetch_add(1, Ordering::Relaxed);
        }
        struck
    }

    pub fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    pub fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    pub fn elapsed_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    pub async fn pause(&self, from_ms: u64, to_ms: u64) {
        if !self.is_calm() && to_ms > 0 {
            tokio::time::sleep(Duration::from_millis(self.within(from_ms, to_ms))).await;
        }
    }

    pub fn note(&self, what: fmt::Arguments<'_>) {
        let mut trace = self.trace.lock();
        let at = self.began.elapsed().as_micros();
        let _ = writeln!(trace, "{at} {what}");
        if let Some(lines) = &mut trace.lines {
            lines.push(format!("{:>9.3} {what}", at as f64 / 1_000.0));
        }
    }

    pub fn problem(&self, what: String) {
        self.note(format_args!("PROBLEM {what}"));
        self.problems.lock().push(what);
    }

    pub fn finish(&self) -> (u64, Vec<String>, Vec<String>) {
        let mut trace = self.trace.lock();
        (trace.hash, trace.lines.take().unwrap_or_default(), std::mem::take(&mut self.problems.lock()))
    }
}
