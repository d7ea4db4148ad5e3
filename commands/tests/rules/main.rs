//! The rules of the control plane: given what happened, when this is asked, then that happens or is refused.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agents;
mod draw;
mod entries;
mod flows;
mod handler;
mod houses;
mod invariants;
mod random;
mod recipes;
mod refusals;
mod runs;
mod sandboxes;
mod scene;
mod threads;
