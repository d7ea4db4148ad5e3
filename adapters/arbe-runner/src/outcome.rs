//! How a run ended, told from everything that is known of it. The exit code alone would lie: a harness that gave up on its model exits
//! with 0, and one that was put down after its work was done does not.

/// What is known when nothing of the harness is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Whether it said anything at all.
    pub spoke: bool,
    pub prompt: Prompt,
    /// The last terminal fact of its events, unless work went on after it.
    pub end: Option<End>,
    pub exit: Exit,
    /// Whether we asked it to stop, because somebody asked us.
    pub cancelled: bool,
    /// Whether it outlived the guard against runs that hang.
    pub timed_out: bool,
    pub mirrored: Mirrored,
    /// The last of what it wrote to stderr.
    pub last_words: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    Unanswered,
    Accepted,
    Refused(String),
}

/// The agent's loop is over and will not be tried again.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct End {
    pub stop_reason: Option<String>,
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// By our hand, after its work was over.
    PutDown,
    /// Nobody was there to see it.
    Unseen,
}

/// Whether the thread holds every entry of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mirrored {
    Whole,
    /// Without a number nobody could tell what there was.
    Missing {
        entries: Option<usize>,
        why: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Completed,
    Failed { class: &'static str, message: String, exit_code: Option<i32> },
    Cancelled,
    Orphaned,
}

/// Classes of failure are read by programs; never renamed.
pub mod class {
    pub const ABORTED: &str = "aborted";
    pub const EXIT: &str = "exit";
    pub const HARNESS: &str = "harness";
    pub const HYDRATE: &str = "hydrate";
    pub const MIRROR: &str = "mirror";
    pub const MODEL: &str = "model";
    pub const PROMPT: &str = "prompt";
    pub const SIGNAL: &str = "signal";
    pub const START: &str = "start";
    pub const TIMEOUT: &str = "timeout";
}

/// For which a model's last answer may end and the work be done: it said all, or all that it may, or a tool's result was the end.
const DONE: [&str; 4] = ["stop", "length", "toolUse", "completed"];

#[must_use]
pub fn decide_outcome(evidence: &Evidence) -> Outcome {
    if evidence.cancelled {
        return Outcome::Cancelled;
    }
    if evidence.timed_out {
        return failed(evidence, class::TIMEOUT, "the run outlived its guard and was stopped".to_owned());
    }
    if evidence.exit == Exit::Unseen {
        return Outcome::Orphaned;
    }
    match (&evidence.end, &evidence.prompt) {
        (Some(end), Prompt::Accepted | Prompt::Unanswered) => ended(evidence, end),
        (_, Prompt::Refused(why)) => failed(evidence, class::PROMPT, format!("the harness refused the prompt: {why}")),
        (None, Prompt::Accepted | Prompt::Unanswered) => broken_off(evidence),
    }
}

fn ended(evidence: &Evidence, end: &End) -> Outcome {
    let error = |otherwise: &str| end.error.clone().unwrap_or_else(|| otherwise.to_owned());
    match (end.stop_reason.as_deref(), evidence.exit) {
        (Some("error"), _) => failed(evidence, class::MODEL, error("the model failed")),
        (Some("aborted"), _) => failed(evidence, class::ABORTED, error("the harness broke off by itself")),
        (Some(reason), Exit::Code(0) | Exit::PutDown) if DONE.contains(&reason) => done(evidence),
        (Some(reason), Exit::Code(0) | Exit::PutDown) => {
            let unknown = format!("the model's last answer ended for a reason that is not known: {reason}");
            failed(evidence, class::MODEL, error(&unknown))
        }
        (None, Exit::Code(0) | Exit::PutDown) => failed(evidence, class::MODEL, error("the model gave no answer")),
        (Some(_) | None, Exit::Code(_) | Exit::Signal(_) | Exit::Unseen) => broken_off(evidence),
    }
}

fn done(evidence: &Evidence) -> Outcome {
    let message = match &evidence.mirrored {
        Mirrored::Whole => return Outcome::Completed,
        Mirrored::Missing { entries: Some(entries), why } => {
            format!("the work is done, but {entries} entries did not reach the thread: {why}")
        }
        Mirrored::Missing { entries: None, why } => {
            format!("the work is done, but whether the thread has all of it cannot be told: {why}")
        }
    };
    failed(evidence, class::MIRROR, message)
}

/// It went before its work was over, or fell while it closed.
fn broken_off(evidence: &Evidence) -> Outcome {
    let words = |text: &str| {
        let last = evidence.last_words.trim();
        if last.is_empty() { text.to_owned() } else { format!("{text}: {last}") }
    };
    match evidence.exit {
        Exit::Signal(signal) => failed(evidence, class::SIGNAL, words(&format!("the harness was killed by signal {signal}"))),
        // What a shell says of a program that is not there: its own, or the one that it is to be run with.
        Exit::Code(127) if !evidence.spoke => failed(evidence, class::START, not_installed(&words("it exited with 127"))),
        Exit::Code(code) if !evidence.spoke => {
            failed(evidence, class::START, words(&format!("the harness said nothing and exited with {code}")))
        }
        Exit::Code(code) => {
            failed(evidence, class::EXIT, words(&format!("the harness exited with {code} before its work was over")))
        }
        Exit::PutDown => failed(evidence, class::EXIT, words("the harness did not answer and was put down")),
        Exit::Unseen => Outcome::Orphaned,
    }
}

/// `why` is what was seen of it.
#[must_use]
pub fn not_installed(why: &str) -> String {
    format!(
        "the coding agent is not installed: {why}; `arbe tools install` on the server's host installs it for local machines, and a \
         distant machine needs it in its image"
    )
}

fn failed(evidence: &Evidence, class: &'static str, message: String) -> Outcome {
    let exit_code = match evidence.exit {
        Exit::Code(code) => Some(code),
        // As a shell tells it.
        Exit::Signal(signal) => Some(128 + signal),
        Exit::PutDown | Exit::Unseen => None,
    };
    Outcome::Failed { class, message, exit_code }
}

#[cfg(test)]
mod tests;
