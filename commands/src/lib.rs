//! Everything that may append to a platform stream.
//!
//! [`World`] is the control plane folded in memory, [`decide`] is pure and says what a [`Command`] makes true or why it may not, and
//! [`Commands`] is the thin shell that keeps the fold up with the log and commits decisions atomically.

mod actor;
mod attempt;
mod bounds;
pub mod command;
mod decide;
mod decision;
mod error;
mod fold;
mod follow;
mod handler;
mod ids;
mod locks;
pub mod ports;
mod rejection;
pub mod secrets;
pub mod sessions;
mod source;
mod world;

pub use actor::Actor;
pub use bounds::{CONFIG_DEPTH_MAX, CONFIG_MAX, NAME_MAX, PAYLOAD_MAX, TAG_MAX, TAGS_MAX, TEXT_MAX};
pub use command::{Command, Made};
pub use decide::decide;
pub use decision::{Append, Decision};
pub use error::{CommandError, Stopped};
pub use handler::{Commands, Done, Recorded};
pub use rejection::{CODES, Rejection};
pub use sessions::Sessions;
pub use source::{RealSource, Source};
pub use world::{Agent, Effect, Environment, House, InProgress, Key, Sandbox, SandboxStatus, Secret, Thread, Unapplied, World};
