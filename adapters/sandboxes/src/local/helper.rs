//! The processes between the server and what runs in a machine.
//!
//! `supervise` outlives the server, keeps the exit code and ends the whole namespace. `enter` takes on the limits and the user of the
//! machine, and becomes bubblewrap. `relay` listens on the machine's own loopback and leads to the sockets that were handed in.
//! The server starts the first, the first the second; the third runs inside.

mod enter;
mod families;
mod plan;
mod relay;
mod supervise;

use std::ffi::OsString;
use std::process::ExitCode;

pub(super) use plan::{Plan, Rlimit};

/// `supervise`, `enter OPTIONS STATUS FILTER PARENT` or `relay ADDRESS=SOCKET… -- COMMAND…`, after whatever words the caller's own program wants first.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let at = arguments.iter().position(|word| ["supervise", "enter", "relay"].iter().any(|verb| word == verb));
    let (leading, rest) = arguments.split_at(at.unwrap_or(0));
    let done = match rest.split_first().map(|(verb, rest)| (verb.to_str(), rest)) {
        Some((Some("supervise"), _)) => supervise::supervise(leading),
        Some((Some("enter"), rest)) => enter::enter(rest),
        Some((Some("relay"), rest)) => return relay::relay(rest),
        Some(_) | None => Err(std::io::Error::other("one of supervise, enter and relay is wanted")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error),
    }
}

/// Like bubblewrap itself, on the error output and with a code that no command is likely to choose.
fn complain(error: &std::io::Error) -> ExitCode {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "arbe-supervisor: {error}");
    ExitCode::from(125)
}
