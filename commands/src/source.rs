//! The two things that differ on every run. Nothing else in this crate reads a clock or draws a number.

use std::fmt;
use std::time::SystemTime;

pub trait Source: Send + Sync + fmt::Debug {
    /// Unix milliseconds.
    fn now_ms(&self) -> u64;
    fn random(&self) -> u128;
}

#[derive(Clone, Copy, Debug, Default)]
pub struct RealSource;

#[expect(clippy::disallowed_methods, reason = "the home of the clock and of chance")]
impl Source for RealSource {
    fn now_ms(&self) -> u64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }

    fn random(&self) -> u128 {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system has entropy");
        u128::from_le_bytes(bytes)
    }
}
