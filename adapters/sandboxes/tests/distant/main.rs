//! Providers of distant machines against stand-ins that check every request against the published shapes and really run what they are
//! told, and the vendors' own SDKs against the same stand-ins.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it skips")]

mod daytona;
mod sprite;
mod standin;
