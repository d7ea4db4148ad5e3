//! The platform as a client meets it: a log in memory, commands, a private Postgres, the projector and the server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "platform/cluster.rs"]
mod cluster;
#[path = "platform/deferred.rs"]
mod deferred;
#[path = "platform/doors.rs"]
mod doors;
#[path = "platform/flows.rs"]
mod flows;
#[path = "platform/home.rs"]
mod home;
#[path = "platform/houses.rs"]
mod houses;
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
#[path = "platform/requirements.rs"]
mod requirements;
#[path = "platform/rules.rs"]
mod rules;
#[path = "platform/secrets.rs"]
mod secrets;
#[path = "platform/status.rs"]
mod status;
#[path = "platform/streams.rs"]
mod streams;
#[path = "platform/town.rs"]
mod town;
#[path = "platform/walk.rs"]
mod walk;
#[path = "platform/work.rs"]
mod work;
