//! The clients' sessions, both ways.

#![expect(clippy::disallowed_methods, reason = "tests are told by their surroundings what to do")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod claude_code;
mod codex;
mod lineage;
mod opencode;
mod pairs;
mod pi;
mod readme;
mod restore;
mod source;
mod support;
mod thread;
