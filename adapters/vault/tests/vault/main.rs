//! The vault on real stores: memory, and files that are synced.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod keeping;
mod keys;
mod leaks;
mod resolving;
mod rotation;
mod shelf;
mod sweeping;
