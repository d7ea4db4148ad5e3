//! The runner against the real pi, with a scripted model and a stand-in for the server. They need `ARBE_NODE` (a Node of 22.19 or newer)
//! and `ARBE_PI` (pi's `dist/cli.js`), and are passed over without.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone;
mod feigned;
mod model;
mod outcomes;
mod permissions;
mod relay;
mod resume;
mod stops;
mod stream;
mod support;
