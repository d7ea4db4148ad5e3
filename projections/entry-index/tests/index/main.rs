//! The index on a real log in memory and in a real directory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod copies;
mod damage;
mod filters;
mod hints;
mod houses;
mod site;
mod words;
