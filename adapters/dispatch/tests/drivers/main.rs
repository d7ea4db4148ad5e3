//! The drivers on a real log in memory, with machines that really run processes and a model that really streams.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod commands_inline;
mod elsewhere;
mod kills;
mod leftovers;
mod load;
mod model;
mod permissions;
mod place;
mod remains;
mod replies;
mod runs;
mod sandboxes;
mod unheard;
mod upkeep;
mod yard;
