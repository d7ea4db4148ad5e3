//! Verbs of the session library.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::help;
use super::values::Moment;

/// Verbs that run on the log itself, with or without a server.
#[derive(Debug, Subcommand)]
pub(crate) enum LibraryVerb {
    /// Bring what is new in the sessions of Claude Code, Codex, opencode and pi into the log
    #[command(after_long_help = help::SYNC)]
    Sync(Box<Sync>),
    /// List recorded sessions
    Sessions(Box<SessionList>),
    /// Write a session as files of a client, never over existing ones
    #[command(after_long_help = help::RESTORE)]
    Restore(Box<Restore>),
    /// Put a session where a client looks for it, and print how to go on
    #[command(after_long_help = help::RESUME)]
    Resume(Box<Resume>),
    /// Try the codecs on session files
    Codec {
        #[command(subcommand)]
        verb: CodecVerb,
    },
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Sync {
    /// Only these clients: claude-code, codex, opencode, pi [default: all that are found]
    #[arg(long, value_name = "CLIENT")]
    pub(crate) client: Vec<String>,
    /// Read this directory or file instead of where the client keeps its sessions
    #[arg(long, value_name = "PATH", requires = "client")]
    pub(crate) from: Option<PathBuf>,
    /// Whose clients are read [default: your home directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// The house that the sessions belong to, by id or name [default: the only one]
    #[arg(long, value_name = "HOUSE")]
    pub(crate) house: Option<String>,
    /// Parse everything again, also what has not changed since the last time
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct SessionList {
    /// Only sessions of this client
    #[arg(long, value_name = "CLIENT")]
    pub(crate) client: Option<String>,
    /// Only projects that begin with this
    #[arg(long, value_name = "PREFIX")]
    pub(crate) project: Option<String>,
    /// Only sessions begun at or after this moment
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Moment>,
    /// The house, by id or name [default: the only one]
    #[arg(long, value_name = "HOUSE")]
    pub(crate) house: Option<String>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Restore {
    /// The session's id, as `arbe sessions` shows it
    pub(crate) session: String,
    /// For which client: claude-code, codex, opencode or pi. For the one that made it nothing is lost
    #[arg(long, value_name = "CLIENT")]
    pub(crate) to: String,
    /// Where the files go, as below the client's own directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// The house, by id or name [default: the only one]
    #[arg(long, value_name = "HOUSE")]
    pub(crate) house: Option<String>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Resume {
    /// The session's id, as `arbe sessions` shows it
    pub(crate) session: String,
    /// The client to go on with: claude-code, codex, opencode or pi
    #[arg(long, value_name = "CLIENT")]
    pub(crate) with: String,
    /// Where the client looks [default: your home directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// The house, by id or name [default: the only one]
    #[arg(long, value_name = "HOUSE")]
    pub(crate) house: Option<String>,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CodecVerb {
    /// Parse sessions, restore them natively, and compare value by value; exit code 1 if anything differs
    Check(CodecCheck),
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct CodecCheck {
    /// Which client wrote them: claude-code, codex, opencode or pi
    #[arg(long, value_name = "CLIENT")]
    pub(crate) client: String,
    /// Directories or files
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
}
