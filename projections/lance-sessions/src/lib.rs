//! Sessions as Lance datasets: what clients recorded and what is said in threads, as rows of `sessions`, `messages` and `parts`, one
//! set of tables for each house.
//!
//! The datasets are a projection. A damaged one is not repaired but replayed, and restoring reads the log, not the rows. Lance does not
//! sync files; a checkpoint is written only when what it stands for is on the disk. Every row carries the position of the log it came
//! with, so a table knows itself what it has, and a batch that was half applied is finished and not doubled.
//!
//! Lance is reached through `substrate` alone: `lance-chokepoints`.

mod about;
mod copies;
mod coverage;
mod embed;
mod error;
mod filter;
mod json;
mod maintain;
mod nearest;
mod projection;
mod read;
mod rows;
mod schema;
mod sink;
mod substrate;
mod sums;
mod turns;
mod vectors;

pub use copies::{CopyInfo, Datasets, Hold};
pub use coverage::Coverage;
pub use embed::{Again, EmbedError, Embedded, Step};
pub use error::DatasetError;
pub use filter::{Filter, Project};
pub use maintain::{Health, Upkeep};
pub use nearest::{Near, Tuning};
pub use projection::{Change, SessionsProjector};
pub use read::{Around, Message, Part};
pub use schema::{DIMENSIONS, Table};
pub use sink::SessionsSink;
pub use vectors::{F16, VectorSource};

/// Of the tables; part of the name of a copy.
pub const VERSION: u32 = 1;
