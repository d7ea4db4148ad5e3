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
    /// List recorded sessions of other clients; `arbe thread list` lists threads
    Sessions(Box<SessionList>),
    /// Show a session, or one message with what stands around it
    #[command(after_long_help = help::GET)]
    Get(Box<Get>),
    /// Look for what was said in sessions and threads, by words and by meaning
    #[command(after_long_help = help::SEARCH)]
    Search(Box<Search>),
    /// Look for entries of threads by their words and by what they are
    #[command(after_long_help = help::FIND)]
    Find(Box<Find>),
    /// Serve the sessions to a model over MCP, on stdin and stdout
    #[command(after_long_help = help::MCP)]
    Mcp(Box<Mcp>),
    /// Measure how well search finds known items
    #[command(after_long_help = help::EVAL)]
    Eval(Box<Eval>),
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
    /// Make the vectors of another model anew
    #[arg(long)]
    pub(crate) force_embed: bool,
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
pub(crate) struct Search {
    /// Words, an identifier, a path, an error as it was printed, or a question in any language
    #[arg(required = true, value_name = "WORDS")]
    pub(crate) query: Vec<String>,
    /// Only sessions of this project; with a `*` at the end, of those that begin so
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Only this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only sessions of this client; threads are of `arbe`. One that nobody knows is a usage error
    #[arg(long, value_name = "CLIENT")]
    pub(crate) client: Option<String>,
    /// Only what a user or an assistant said
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<Speaker>,
    /// Only messages from this moment on
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Moment>,
    /// Only messages before this moment
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Moment>,
    /// Only sessions that score at least this, between 0 and 1
    #[arg(long, value_name = "SCORE")]
    pub(crate) min_score: Option<f64>,
    /// How many sessions, at most 50
    #[arg(long, value_name = "N", default_value_t = queries::library::SESSIONS)]
    pub(crate) limit: u32,
    /// Tell how it was looked for and which retriever proposed what, instead of what was found
    #[arg(long)]
    pub(crate) explain: bool,
    /// The house, by id or name [default: the only one]
    #[arg(long, env = "ARBE_HOUSE", value_name = "HOUSE")]
    pub(crate) house: Option<String>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Find {
    /// Every one has to be there, in whatever form; without any, the newest entries are found. Numbers of seven digits and more, and
    /// fractions, are found only where they stand in a text
    #[arg(value_name = "WORDS")]
    pub(crate) words: Vec<String>,
    /// Only of this thread
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// Only by this agent
    #[arg(long, value_name = "ID")]
    pub(crate) author: Option<String>,
    /// Only of this type; with a `*` at the end, of those that begin so
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// Only of threads that have this tag
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Option<String>,
    /// Only of threads that stand so
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<Standing>,
    /// Only entries from this moment on
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Moment>,
    /// Only entries before this moment
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Moment>,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u16,
    /// Pass over so many
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: usize,
    /// The house, by id or name [default: the only one]
    #[arg(long, env = "ARBE_HOUSE", value_name = "HOUSE")]
    pub(crate) house: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Standing {
    Open,
    Closed,
    Idle,
    Running,
    Completed,
    Failed,
    Cancelled,
}

impl std::fmt::Display for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Speaker {
    User,
    Assistant,
}

impl From<Speaker> for events::session::Role {
    fn from(speaker: Speaker) -> Self {
        match speaker {
            Speaker::User => Self::User,
            Speaker::Assistant => Self::Assistant,
        }
    }
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Mcp {
    /// The house, by id or name [default: the only one]
    #[arg(long, env = "ARBE_HOUSE", value_name = "HOUSE")]
    pub(crate) house: Option<String>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Eval {
    /// Tab-separated; the first line names the columns: query, gold (or expected: `client:id` or `client:id#message`, any of them),
    /// stratum (or kind), and maybe id
    #[arg(value_name = "TSV")]
    pub(crate) queries: PathBuf,
    /// Only one half of them, split by expected session
    #[arg(long, value_name = "HALF")]
    pub(crate) half: Option<Half>,
    /// Only one of the retrievers, or the search that asks both [default: each of them]
    #[arg(long, value_name = "ARM")]
    pub(crate) arm: Option<Arm>,
    /// Print every question that was not answered by the first session
    #[arg(long)]
    pub(crate) misses: bool,
    /// The house, by id or name [default: the only one]
    #[arg(long, env = "ARBE_HOUSE", value_name = "HOUSE")]
    pub(crate) house: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arm {
    Keyword,
    Vector,
    Hybrid,
}

impl From<Arm> for queries::library::Arms {
    fn from(arm: Arm) -> Self {
        match arm {
            Arm::Keyword => Self::Words,
            Arm::Vector => Self::Meaning,
            Arm::Hybrid => Self::Both,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Half {
    /// To choose constants by
    Tuning,
    /// To report
    Reporting,
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
        Self {
            client,
            from: None,
            home: None,
            house,
            import_from: Some(archive),
            all: false,
            only: None,
            skip,
            force_embed: false,
        }
    }
}

/// Some of the sessions.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Which {
    /// Only sessions of this client: claude-code, codex, opencode, pi, or whoever recorded some
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
