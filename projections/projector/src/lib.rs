//! Feeding read models from the log: a pure [`Projector`] says what each event changes, a [`Sink`] applies it together with its
//! checkpoint, a [`Runner`] keeps one copy current, and copies are rebuilt beside the live one and verified against the log.
//!
//! This crate knows no database. Copies that are directories are arranged by [`Folders`].

mod batch;
mod copies;
pub mod folders;
mod monitor;
mod project;
mod rebuild;
mod replay;
mod runner;
mod sink;
mod verify;

pub use copies::{Copies, Dropped, Live, Sums};
pub use folders::{CopyInfo, Feeder, Folder, FolderCommit, FolderError, FolderHold, FolderState, Folders};
pub use monitor::{Monitor, RunState, Status, Watermark};
pub use project::{Projector, Recorded, Stop, Unprojectable};
pub use rebuild::{Rebuilt, advance, rebuild};
pub use replay::{Progress, ReplayError, Until};
pub use runner::{Pace, Runner, backlog, is_current};
pub use sink::{Checkpoint, Sink, SinkError, Span};
pub use verify::{Report, TableSums, verify};
