//! Verbs of the session library.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use events::session::Session;

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
    /// Show a session, or one message with what stands around it
    #[command(after_long_help = help::GET)]
    Get(Box<Get>),
    /// How much is recorded, and in which state the datasets are
    Status(Box<LibraryStatus>),
    /// Write a session as files of a client, never over existing ones
    #[command(after_long_help = help::RESTORE)]
    Restore(Box<Restore>),
    /// Put a session where a client looks for it, and print how to go on
    #[command(after_long_help = help::RESUME)]
    Resume(Box<Resume>),
    /// Write sessions into one compact archive, never over an existing file
    #[command(after_long_help = help::EXPORT)]
    Export(Box<Export>),
    /// Take the sessions of an archive in; what is recorded already stays as it is
    Import(Box<Import>),
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
    #[arg(long, env = "ARBE_HOUSE", value_name = "HOUSE")]
    pub(crate) house: Option<String>,
    /// Import from this archive, which `arbe export` made, instead of from clients
    #[arg(long, value_name = "ARCHIVE", conflicts_with_all = ["client", "from", "home", "all"])]
    pub(crate) import_from: Option<PathBuf>,
    /// Parse everything again, also what has not changed since the last time
    #[arg(long)]
    pub(crate) all: bool,
    /// Do this stage alone
    #[arg(long, value_name = "STAGE", conflicts_with = "skip")]
    pub(crate) only: Option<Stage>,
    /// Leave this stage out
    #[arg(long, value_name = "STAGE")]
    pub(crate) skip: Vec<Stage>,
}

impl Sync {
    pub(crate) fn does(&self, stage: Stage) -> bool {
        self.only.is_none_or(|only| only == stage) && !self.skip.contains(&stage)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    /// What is new in the clients' directories goes into the log
    Import,
    /// Messages get vectors, if a model is configured
    Embed,
    /// The datasets come up to the log, and their indexes with them
    UpdateIndexes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// What people and models say
    Conversational,
    /// Every message
    Complete,
    /// Every message with its parts
    Verbatim,
}

impl From<Mode> for queries::library::ResponseMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Conversational => Self::Conversational,
            Mode::Complete => Self::Complete,
            Mode::Verbatim => Self::Verbatim,
        }
    }
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Get {
    /// The session's id, as `arbe sessions` shows it
    #[arg(required_unless_present = "message")]
    pub(crate) session: Option<String>,
    /// One message of it; the session may be left out where only one has it
    #[arg(long, value_name = "ID")]
    pub(crate) message: Option<String>,
    /// How much is told of a session [default: conversational]
    #[arg(long, value_name = "MODE", conflicts_with = "message")]
    pub(crate) mode: Option<Mode>,
    /// Messages before and after the one [default: 2]
    #[arg(long, value_name = "N", requires = "message")]
    pub(crate) context: Option<u32>,
    /// Go on after this message, or part of a message
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,
    /// The house, by id or name [default: the only one]
    #[arg(long, env = "ARBE_HOUSE", value_name = "HOUSE")]
    pub(crate) house: Option<String>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct LibraryStatus {
    /// The house, by id or name [default: the only one]
    #[arg(long, env = "ARBE_HOUSE", value_name = "HOUSE")]
    pub(crate) house: Option<String>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct SessionList {
    #[command(flatten)]
    pub(crate) which: Which,
    /// The house, by id or name [default: the only one]
    #[arg(long, env = "ARBE_HOUSE", value_name = "HOUSE")]
    pub(crate) house: Option<String>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Export {
    /// The archive to make, by custom NAME.pond; `-` for stdout
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) which: Which,
    /// The house, by id or name [default: the only one]
    #[arg(long, env = "ARBE_HOUSE", value_name = "HOUSE")]
    pub(crate) house: Option<String>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Import {
    /// An archive that `arbe export` made
    pub(crate) archive: PathBuf,
    /// The house that the sessions will belong to, by id or name [default: the only one]
    #[arg(long, env = "ARBE_HOUSE", value_name = "HOUSE")]
    pub(crate) house: Option<String>,
}

impl From<Import> for Sync {
    fn from(Import { archive, house }: Import) -> Self {
        let (client, skip) = (Vec::new(), Vec::new());
        Self { client, from: None, home: None, house, import_from: Some(archive), all: false, only: None, skip }
    }
}

/// Some of the sessions.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Which {
    /// Only sessions of this client
    #[arg(long, value_name = "CLIENT")]
    pub(crate) client: Option<String>,
    /// Only projects that begin with this
    #[arg(long, value_name = "PREFIX")]
    pub(crate) project: Option<String>,
    /// Only sessions begun at or after this moment
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Moment>,
}

impl Which {
    pub(crate) fn wants(&self, session: &Session) -> bool {
        let client = self.client.as_ref().is_none_or(|client| session.source_agent == *client);
        let project = self.project.as_ref().is_none_or(|project| session.project.starts_with(project.as_str()));
        let since = self.since.is_none_or(|since| session.created_at.millis() >= since.0);
        client && project && since
    }
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Restore {
    /// The session's id, as `arbe sessions` shows it, or a thread's
    pub(crate) session: String,
    /// For which client: claude-code, codex, opencode or pi. For the one that made it nothing is lost
    #[arg(long, value_name = "CLIENT")]
    pub(crate) to: String,
    /// Where the files go, as below the client's own directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Without the sessions that hang on it: sub-agents, forks
    #[arg(long)]
    pub(crate) alone: bool,
    /// The house, by id or name [default: the only one]
    #[arg(long, env = "ARBE_HOUSE", value_name = "HOUSE")]
    pub(crate) house: Option<String>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Resume {
    /// The session's id, as `arbe sessions` shows it, or a thread's
    pub(crate) session: String,
    /// The client to go on with: claude-code, codex, opencode or pi
    #[arg(long, value_name = "CLIENT")]
    pub(crate) with: String,
    /// Where the client looks [default: your home directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Without the sessions that hang on it: sub-agents, forks
    #[arg(long)]
    pub(crate) alone: bool,
    /// The house, by id or name [default: the only one]
    #[arg(long, env = "ARBE_HOUSE", value_name = "HOUSE")]
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
