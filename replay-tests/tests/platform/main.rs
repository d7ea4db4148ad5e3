//! The promises of the platform: rows are what the log says, whatever dies on the way; nothing acknowledged is lost or doubled; houses
//! are strangers to each other.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../commands/tests/rules/draw.rs"]
#[expect(dead_code, reason = "shared with the rules of commands")]
mod draw;
#[path = "../../../commands/tests/rules/invariants.rs"]
mod invariants;
#[path = "../../../projections/postgres-rows/tests/rows/postgres.rs"]
mod postgres;
#[path = "../../../projections/postgres-rows/tests/rows/running.rs"]
#[expect(dead_code, reason = "shared with the tests of the rows")]
mod running;
#[path = "../../../commands/tests/rules/scene.rs"]
#[expect(dead_code, reason = "shared with the rules of commands")]
mod scene;

mod dump;
mod golden;
mod houses;
mod pair;
mod play;
mod processes;
mod replays;
mod steps;
mod wire;
mod writers;
