//! The local provider, with real bubblewrap, real files and real sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod commands;
mod containers;
mod egress;
mod files;
mod limits;
mod making;
mod scene;
mod secrets;
mod survival;
mod trees;
