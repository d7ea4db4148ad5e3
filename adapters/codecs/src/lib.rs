//! Codecs between the session files of coding agents and the canonical model of `events::session`.
//!
//! A codec has two faces. *Parse* reads a client's files and hands out canonical sessions; it can build them only through [`seam`],
//! which takes values out of source records and cannot be given any others. *Serialize* is a pure function of a canonical session.
//! Whether a restoration is native, and so lossless, is decided in [`restore`], never by a codec.
//!
//! What a codec does not take out of a record stays in the record's remainder, which is stored beside it: nothing can be lost by
//! being overlooked. A new client is a file here and a line in [`registry`]; see the README. No network, no clock, no log in this crate.

pub mod artifact;
pub mod check;
mod claude_code;
mod codex;
pub mod fault;
mod foreign;
pub mod lineage;
pub mod opencode;
mod pi;
pub mod registry;
pub mod restore;
pub mod seam;
pub mod source;
pub mod thread;
pub mod value;
