//! The platform as a client meets it: a log in memory, commands, a private Postgres, the projector and the server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "platform/cluster.rs"]
mod cluster;
#[path = "platform/doors.rs"]
mod doors;
#[path = "platform/home.rs"]
mod home;
#[path = "platform/input.rs"]
mod input;
#[path = "platform/issuer.rs"]
mod issuer;
#[path = "platform/live.rs"]
mod live;
#[path = "platform/operations.rs"]
mod operations;
#[path = "platform/outsiders.rs"]
mod outsiders;
#[path = "platform/rules.rs"]
mod rules;
#[path = "platform/town.rs"]
mod town;
#[path = "platform/walk.rs"]
mod walk;
