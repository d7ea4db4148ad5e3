//! HTTP: the Durable Streams protocol at `/v1/stream/{path}`, subscriptions under `/v1/stream/__ds/`, the platform under `/api` with its
//! description at `/openapi.json`, sessions at `/v1/get` and `/v1/ingest`, health and metrics.
//!
//! This crate turns requests into commands and reads of the log and back. It decides nothing about streams itself, and it is the
//! only place that knows HTTP.

mod api;
mod app;
pub mod auth;
mod errors;
mod health;
mod mcp;
mod metrics;
mod peers;
mod pond;
mod random;
mod serve;
mod streams;
pub mod subscriptions;

pub use api::{Platform, Search, Secrets};
pub use app::{App, Options};
pub use mcp::{Door, Visitor};
pub use peers::HttpPeers;
pub use serve::{Server, serve};
