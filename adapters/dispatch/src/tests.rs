//! The desk and the rules, given what happened.

mod desk;
mod forecast;
mod load;
mod permissions;
mod scene;
mod triggers;
