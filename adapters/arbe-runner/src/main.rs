//! The binary `arbe-runner`. It is small and linked by itself, so that it runs in any machine it is put into.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use arbe_runner::outcome::Outcome;
use arbe_runner::relay::Way;
use arbe_runner::run::RunError;
use arbe_runner::settings::Settings;
use arbe_runner::{desk, processes, redact, relay, run};

const USAGE: &str = "\
usage: arbe-runner run [--token-on-stdin]       starts the harness and ends the run; configured by ARBE_* variables
       arbe-runner cancel                       asks the runner of ARBE_RUN_ID to cancel
       arbe-runner relay PORT=SOCKET... -- CMD  forwards ports of 127.0.0.1 to sockets while CMD runs
       arbe-runner --version
";

/// Exit codes that providers and scripts rely on; never renumber.
mod exit {
    pub(crate) const FAILED: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
    pub(crate) const CANCELLED: u8 = 3;
    /// The thread does not know how the run went.
    pub(crate) const UNSAID: u8 = 4;
    /// Another runner has begun with the run. This one did nothing.
    pub(crate) const BEGUN: u8 = 5;
}

const TOKEN: &str = "ARBE_STREAM_TOKEN";
/// Providers that have no namespace find the processes of a launch by this variable, so theirs must stay readable.
const FOUND_BY: &str = "ARBE_JOB";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if words == ["run"] && variable(TOKEN).is_some() {
        let error = begin_anew();
        return told(exit::FAILED, &format!("arbe-runner: it cannot be started again: {error}"));
    }
    if variable(FOUND_BY).is_none() {
        processes::hide();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return told(exit::FAILED, "the runtime cannot be started") };
    let code = match words.as_slice() {
        ["run"] => runtime.block_on(started(None)),
        ["run", "--token-on-stdin"] => runtime.block_on(started(std::io::read_to_string(std::io::stdin()).ok())),
        ["cancel"] => runtime.block_on(cancelled()),
        ["relay", rest @ ..] => runtime.block_on(relayed(rest)),
        ["--version"] => told(0, concat!("arbe-runner ", env!("CARGO_PKG_VERSION"))),
        _ => told(exit::USAGE, USAGE.trim_end()),
    };
    // A task that waits for the network must not hold up the end.
    runtime.shutdown_background();
    code
}

/// Everything is said on stderr: stdout belongs to commands that are run.
fn told(code: u8, message: &str) -> ExitCode {
    drop(writeln!(std::io::stderr(), "{message}"));
    ExitCode::from(code)
}

#[expect(clippy::disallowed_methods, reason = "a runner is configured by its variables alone")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What a process was started with can be read as long as it lives, by every tool of the same user. So the token is handed over to a
/// start without it. Returns only if that fails.
fn begin_anew() -> std::io::Error {
    let again = || {
        let (stdin, mut token) = std::io::pipe()?;
        token.write_all(variable(TOKEN).unwrap_or_default().as_bytes())?;
        drop(token);
        let mut command = Command::new(std::env::current_exe()?);
        Ok(command.args(["run", "--token-on-stdin"]).env_remove(TOKEN).stdin(stdin).exec())
    };
    again().unwrap_or_else(|error| error)
}

async fn started(token: Option<String>) -> ExitCode {
    let given = |name: &str| token.clone().filter(|_| name == TOKEN).or_else(|| variable(name));
    let settings = match Settings::read(given) {
        Ok(settings) => settings,
        Err(error) => return told(exit::USAGE, &format!("arbe-runner: {error}")),
    };
    let secrets = settings.secrets.clone();
    // What is said here is kept beside the machine.
    let told = |code: u8, words: &str| told(code, &redact::text(&secrets, &format!("arbe-runner: {words}")));
    let report = match run::run(settings).await {
        Ok(report) => report,
        Err(error @ RunError::Begun) => return told(exit::BEGUN, &error.to_string()),
        Err(error @ RunError::Signals(_)) => return told(exit::UNSAID, &error.to_string()),
        Err(error @ RunError::Stream(_)) => return told(exit::UNSAID, &format!("mirror: {error}")),
    };
    let (code, how) = match &report.outcome {
        Outcome::Completed => (0, "completed".to_owned()),
        Outcome::Cancelled => (exit::CANCELLED, "cancelled".to_owned()),
        Outcome::Orphaned => (exit::FAILED, "failed: nobody saw its end".to_owned()),
        Outcome::Failed { class, message, .. } => (exit::FAILED, format!("failed: {class}: {message}")),
    };
    match &report.unsaid {
        None => told(code, &how),
        Some(why) => told(exit::UNSAID, &format!("{how}; the thread could not be told: {why}")),
    }
}

async fn cancelled() -> ExitCode {
    let (Some(sessions), Some(run)) = (variable("ARBE_SESSION_DIR"), variable("ARBE_RUN_ID")) else {
        return told(exit::USAGE, "arbe-runner: ARBE_SESSION_DIR and ARBE_RUN_ID name the run to cancel");
    };
    match desk::cancel(&desk::socket(Path::new(&sessions), &run)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => told(exit::FAILED, &format!("arbe-runner: no runner of {run} answers: {error}")),
    }
}

async fn relayed(words: &[&str]) -> ExitCode {
    let Some(at) = words.iter().position(|word| *word == "--") else { return told(exit::USAGE, USAGE.trim_end()) };
    let ways = words[..at].iter().map(|word| word.parse()).collect::<Result<Vec<Way>, _>>();
    let command: Vec<String> = words[at + 1..].iter().map(|word| (*word).to_owned()).collect();
    match (ways, command.is_empty()) {
        (Ok(_), true) => told(exit::USAGE, USAGE.trim_end()),
        (Err(error), _) => told(exit::USAGE, &format!("arbe-runner: {error}")),
        (Ok(ways), false) => match relay::run(&ways, &command).await {
            Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(exit::FAILED)),
            Err(error) => told(exit::FAILED, &format!("arbe-runner: {error}")),
        },
    }
}
