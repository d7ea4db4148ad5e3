//! The engine on real stores, in one process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod owners;
mod reading;
mod writing;
