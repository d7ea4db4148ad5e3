//! The helper inside a machine: it starts a coding agent, owns its exit code, and sees to it that the thread knows how the run went.
//!
//! `outcome`, `harness`, `pieces`, `redact`, `session` and `told` are pure, and so is what `permissions` folds. The rest is the shell around them.

pub mod desk;
pub mod drive;
pub mod harness;
pub mod heard;
pub mod http;
pub mod last;
pub mod outcome;
pub mod permissions;
pub mod pi;
mod pieces;
mod plain;
pub mod prepare;
pub mod processes;
pub mod redact;
pub mod relay;
pub mod run;
pub mod session;
pub mod settings;
pub mod thread;
pub mod told;
