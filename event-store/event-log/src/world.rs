//! The two things that differ on every run, in one place, so that a simulation can pin them.

use std::fmt;
use std::time::SystemTime;

pub trait World: Send + Sync + fmt::Debug {
    /// Unix milliseconds.
    fn now_ms(&self) -> u64;
    fn random(&self) -> u64;
}

#[derive(Clone, Copy, Debug, Default)]
pub struct RealWorld;

#[expect(clippy::disallowed_methods, reason = "the home of the clock and of chance")]
impl World for RealWorld {
    fn now_ms(&self) -> u64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }

    fn random(&self) -> u64 {
        getrandom::u64().expect("the operating system has entropy")
    }
}
