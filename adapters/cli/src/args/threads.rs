//! Verbs about threads and what is in them.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use serde::Serialize;

use super::help;
use super::platform::{Limit, SetEnv};
use super::values::{entry_id, id};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Status {
    Open,
    Closed,
    Idle,
    Running,
    Completed,
    Failed,
    Cancelled,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ThreadVerb {
    /// List threads of the house
    List(ThreadFilter),
    /// Make a thread. Prints its id
    Create(NewThread),
    /// Show a thread with its children and sandbox
    Show(One),
    /// Rename a thread
    Rename {
        /// The thread's id
        #[arg(value_parser = id)]
        thread: String,
        /// What people call it
        #[arg(required_unless_present = "none")]
        name: Option<String>,
        /// No name
        #[arg(long, conflicts_with = "name")]
        none: bool,
    },
    /// Make a thread a place to land in
    Pin(One),
    /// Make it an ordinary thread again
    Unpin(One),
    /// Add tags
    Tag(Tags),
    /// Take tags away
    Untag(Tags),
    /// Set the environment that the thread's sandboxes are built from, or clear it with --none
    Env {
        /// The thread's id
        #[arg(value_parser = id)]
        thread: String,
        #[command(flatten)]
        environment: SetEnv,
    },
    /// Close a chat: nothing is said in it until it is reopened
    Close(One),
    /// Open a closed chat again
    Reopen(One),
    /// Run one command on the thread's machine, print what it prints and end with its exit code
    #[command(after_long_help = help::THREAD_RUN)]
    Run(RunOn),
    /// Have a bot work on a task in a child thread. Prints the child's id
    #[command(after_long_help = help::THREAD_DELEGATE)]
    Delegate(Delegate),
    /// Ask what is in progress to stop: the run, answers of bots, commands. A run that does not is stopped after a while
    Cancel(One),
    /// Have a thread that a bot drives go on: with what is said, or with its next run
    #[command(after_long_help = help::THREAD_RESUME)]
    Resume {
        /// The thread's id
        #[arg(value_parser = id)]
        thread: String,
        /// What to say there, or `-` to read it from stdin. A run that is under way is followed by one that takes it up
        #[arg(allow_hyphen_values = true)]
        text: Option<String>,
    },
    /// Tell what is known of a thread's run and machine, and what happens next. Changes nothing
    #[command(after_long_help = help::THREAD_DIAGNOSE)]
    Diagnose(One),
    /// End the runs of the house that are over, and take machines away that are idle or over, now
    #[command(long_about = help::THREAD_PRUNE_ABOUT)]
    Prune,
    /// Start a run on a thread that a bot drives, the first or a later one. Prints its id
    Start {
        /// The thread's id
        #[arg(value_parser = id)]
        thread: String,
    },
    /// Say how a run ended
    Finish(Finish),
    /// Make a token that is good for this one thread, for two hours. Prints it
    Token(One),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct One {
    /// The thread's id
    #[arg(value_parser = id)]
    pub(crate) thread: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Tags {
    /// The thread's id
    #[arg(value_parser = id)]
    pub(crate) thread: String,
    /// Free labels; they change nothing about how the thread behaves
    #[arg(required = true, value_name = "TAG")]
    pub(crate) tags: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ThreadFilter {
    /// Children of this thread
    #[arg(long, value_name = "THREAD", value_parser = id)]
    pub(crate) parent: Option<String>,
    /// With this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// Only pinned ones
    #[arg(long)]
    pub(crate) pinned: bool,
    /// In this state
    #[arg(long)]
    pub(crate) status: Option<Status>,
    /// Driven by this bot
    #[arg(long, value_name = "AGENT", value_parser = id)]
    pub(crate) agent: Option<String>,
    #[command(flatten)]
    pub(crate) limit: Limit,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NewThread {
    /// What people call it
    pub(crate) name: Option<String>,
    /// Make it a child of this thread
    #[arg(long, value_name = "THREAD", value_parser = id, conflicts_with = "parent_agent")]
    pub(crate) parent: Option<String>,
    /// Address it to this agent
    #[arg(long, value_name = "AGENT", value_parser = id)]
    pub(crate) parent_agent: Option<String>,
    /// The environment that its sandboxes are built from
    #[arg(long, value_name = "ENVIRONMENT", value_parser = id)]
    pub(crate) env: Option<String>,
    /// The bot that drives it, by its id; without one it is a chat
    #[arg(long, value_name = "AGENT", value_parser = id)]
    pub(crate) agent: Option<String>,
    /// A free label; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Make it a place to land in
    #[arg(long)]
    pub(crate) pin: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunOn {
    /// The thread's id
    #[arg(value_parser = id)]
    pub(crate) thread: String,
    /// Where, relative to the working tree
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// It is ended after so long, such as 90s or 10m; the exit code is 124 then [default: what the server has]
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<humantime::Duration>,
    /// A program and its arguments; one word alone is a line for the shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Delegate {
    /// The parent
    #[arg(value_parser = id)]
    pub(crate) thread: String,
    /// What is to be done, or `-` to read it from stdin. Without it the child is made and left idle
    #[arg(allow_hyphen_values = true)]
    pub(crate) task: Option<String>,
    /// The bot: its id, or its name in the house
    #[arg(long, value_name = "BOT")]
    pub(crate) agent: String,
    /// What people call the child
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// What its sandbox is built from [default: the parent's, else the house's]
    #[arg(long, value_name = "ENVIRONMENT", value_parser = id)]
    pub(crate) env: Option<String>,
    /// Work in this sandbox and its tree [default: a fresh one]
    #[arg(long, value_name = "SANDBOX", value_parser = id)]
    pub(crate) sandbox: Option<String>,
    /// A free label of the child; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Print the child as it grows, until its run has ended; exit code 0 if it completed, else 1
    #[arg(long, requires = "task")]
    pub(crate) follow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Completed,
    Failed,
    Cancelled,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Finish {
    /// The thread's id
    #[arg(value_parser = id)]
    pub(crate) thread: String,
    /// The run's id, as `arbe thread start` printed it
    #[arg(value_parser = id)]
    pub(crate) run: String,
    /// How it ended
    #[arg(long)]
    pub(crate) status: Outcome,
    /// What went wrong, for people; with --status failed
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// What kind of failure it was, for programs
    #[arg(long, value_name = "CLASS", requires = "message", default_value = "error")]
    pub(crate) error_class: String,
    /// The exit code of the process
    #[arg(long, value_name = "N", requires = "message", allow_negative_numbers = true)]
    pub(crate) exit_code: Option<i32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EntryVerb {
    /// List entries in order
    List {
        /// The thread's id
        #[arg(value_parser = id)]
        thread: String,
        /// Only those after this number
        #[arg(long, value_name = "SEQ")]
        after: Option<u64>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Append an entry of any type that a client may post, or several at once
    Append(NewEntry),
}

#[derive(Debug, ClapArgs)]
#[command(group(clap::ArgGroup::new("content").args(["payload", "payload_file", "batch"]).required(true)))]
pub(crate) struct NewEntry {
    /// The thread's id
    #[arg(value_parser = id)]
    pub(crate) thread: String,
    /// Such as chat or pi.entry
    #[arg(long = "type", value_name = "TYPE", required_unless_present = "batch", conflicts_with = "batch")]
    pub(crate) kind: Option<String>,
    /// Version of the type [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "batch")]
    pub(crate) v: Option<u32>,
    /// The payload as JSON
    #[arg(long, value_name = "JSON")]
    pub(crate) payload: Option<String>,
    /// The same from a file, or from stdin with `-`
    #[arg(long, value_name = "FILE")]
    pub(crate) payload_file: Option<PathBuf>,
    /// A JSON array of {type, v, payload} from a file, or from stdin with `-`: all of them or none
    #[arg(long, value_name = "FILE")]
    pub(crate) batch: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Say {
    /// The thread's id
    #[arg(value_parser = id)]
    pub(crate) thread: String,
    /// What to say, or `-` to read it from stdin
    #[arg(allow_hyphen_values = true)]
    pub(crate) text: String,
    /// Address it to this agent
    #[arg(long, value_name = "AGENT", value_parser = id)]
    pub(crate) to: Option<String>,
    /// The entry that this answers
    #[arg(long, value_name = "ENTRY", value_parser = entry_id)]
    pub(crate) reply_to: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Tail {
    /// The thread's id
    #[arg(value_parser = id)]
    pub(crate) thread: String,
    /// Go on from this offset (`now` for what comes next)
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true, conflicts_with_all = ["from_start", "lines"])]
    pub(crate) from: Option<String>,
    /// From the first entry
    #[arg(long, conflicts_with = "lines")]
    pub(crate) from_start: bool,
    /// Begin with this many entries before the end
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) lines: u64,
    /// End where the thread ends now
    #[arg(long)]
    pub(crate) no_follow: bool,
}
