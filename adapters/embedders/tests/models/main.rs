//! Models that the tests make themselves, and real ones where `scripts/models` has put them.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test fails by panicking and tells what it skips")]

mod bert;
mod cached;
mod fixed;
mod hub;
mod real;
mod tiny;
mod vectors;
