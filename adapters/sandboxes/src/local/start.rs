//! Processes in a machine, as the server begins, follows and ends them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use commands::ports::{Execute, Exit, Launch, MachineError, OutputSink};
use events::dispatch::OutputStream;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use super::Options;
use super::bubble::{self, Arguments, Variables};
use super::helper::Plan;
use super::limits::Keeper;
use super::meta::{Meta, Place};
use super::procs::Process;
use super::record::{Ended, Record};
use super::redact::Redactor;

/// How much longer than the time it was given a supervisor may take to end a command.
const GRACE: Duration = Duration::from_secs(10);
/// What an error repeats of the words of bubblewrap.
const LAST_WORDS: usize = 600;

/// All that is needed to begin processes in one machine.
pub(crate) struct Starter<'a> {
    pub(crate) options: &'a Options,
    pub(crate) keeper: &'a Keeper,
    pub(crate) place: &'a Place,
    pub(crate) meta: &'a Meta,
    /// The name of its control groups.
    pub(crate) group: &'a str,
}

impl Starter<'_> {
    fn plan(&self, record: PathBuf, log: Option<PathBuf>, time: Duration, command: Vec<String>) -> Result<Plan, MachineError> {
        let (limits, user) = (&self.meta.limits, self.meta.user);
        let groups = self.keeper.hold(self.group, limits).map_err(|error| unavailable("its limits cannot be set", &error))?;
        Ok(Plan {
            record,
            log,
            milliseconds: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            user,
            groups,
            rlimits: self.keeper.rlimits(limits, user),
            bubblewrap: self.options.bubblewrap.clone(),
            command: bubble::command(self.meta, &self.options.helper_words, command),
        })
    }

    async fn begin(&self, plan: &Plan, arguments: &Arguments) -> Result<(Child, ChildStdin), MachineError> {
        let message = plan.message(arguments.bytes()).map_err(|error| MachineError::Refused(error.to_string()))?;
        let mut command = Command::new(&self.options.helper);
        command.args(&self.options.helper_words).arg("supervise").env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| unavailable("the supervisor cannot be started", &error))?;
        let mut stdin = child.stdin.take().expect("it is piped");
        let told = stdin.write_all(&message).await;
        told.map_err(|error| unavailable("the supervisor did not listen", &error))?;
        Ok((child, stdin))
    }

    /// Dropped before its end, everything that the command began ends.
    pub(crate) async fn execute(&self, execute: &Execute, output: OutputSink<'_>) -> Result<Exit, MachineError> {
        let command = vec!["/bin/sh".to_owned(), "-c".to_owned(), execute.command.clone()];
        let variables = Variables { env: &execute.env, secrets: &execute.secrets };
        let most = self.meta.limits.seconds.map_or(Duration::MAX, Duration::from_secs);
        self.run(command, &variables, execute.cwd.as_deref(), execute.timeout.min(most), output).await
    }

    pub(crate) async fn run(
        &self,
        command: Vec<String>,
        variables: &Variables<'_>,
        cwd: Option<&str>,
        time: Duration,
        output: OutputSink<'_>,
    ) -> Result<Exit, MachineError> {
        let record = self.place.executed().join(unused_name());
        let arguments = bubble::arguments(self.options, self.place, self.meta, variables, cwd)?;
        let plan = self.plan(record.clone(), None, time, command)?;
        let (mut child, lifeline) = self.begin(&plan, &arguments).await?;
        drop(arguments);
        let mut last_words = Vec::new();
        let mut follow = Follow::new(variables);
        let followed = follow.all(&mut child, output, &mut last_words);
        let in_time = tokio::time::timeout(time.saturating_add(GRACE), followed).await.is_ok();
        // All output has ended, or should have. Without its lifeline the supervisor ends too.
        let ended = if in_time { child.wait().await.ok() } else { None };
        drop(lifeline);
        if !in_time {
            return Ok(Exit::TimedOut);
        }
        let found = Record::load(&record);
        // It is read by nobody else.
        let _ = fs::remove_file(&record);
        match found.ok().flatten().and_then(|record| record.ended) {
            Some(Ended::Failed(_)) => Err(MachineError::Refused(words(&last_words))),
            Some(ended) => Ok(ended.exit()),
            None if !self.place.root.exists() => Err(MachineError::Gone("the machine was taken away".to_owned())),
            None if ended.is_some_and(|status| status.code().is_some()) => Err(MachineError::Unavailable(words(&last_words))),
            None => Err(MachineError::Unknown("its supervisor was killed".to_owned())),
        }
    }

    pub(crate) async fn launch(&self, launch: &Launch) -> Result<(), MachineError> {
        let record = record(self.place, &launch.name)?;
        let log = self.place.logs().join(&launch.name);
        let variables = Variables { env: &launch.env, secrets: &launch.secrets };
        let arguments = bubble::arguments(self.options, self.place, self.meta, &variables, None)?;
        let plan = self.plan(record, Some(log), self.options.runaway, launch.argv.clone())?;
        let (mut child, _stdin) = self.begin(&plan, &arguments).await?;
        let mut said = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let heard = tokio::time::timeout(GRACE, stdout.read_line(&mut said)).await;
        match (heard, said.trim()) {
            (Ok(Ok(_)), "started") => Ok(()),
            (Ok(Ok(_)), "taken") => Err(MachineError::Refused(format!("{} was launched already", launch.name))),
            (Ok(Ok(_)), _) => {
                let mut last_words = Vec::new();
                let mut stderr = child.stderr.take().expect("it is piped").take(LAST_WORDS as u64);
                // Whatever could be read is said.
                let _ = stderr.read_to_end(&mut last_words).await;
                Err(MachineError::Unavailable(words(&last_words)))
            }
            (Ok(Err(_)) | Err(_), _) => Err(MachineError::Unknown("the supervisor does not answer".to_owned())),
        }
    }
}

/// Where the record of a launched process is. Names are ids, so they need no other letters.
pub(crate) fn record(place: &Place, name: &str) -> Result<PathBuf, MachineError> {
    let known = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if !known || name.is_empty() || name.len() > 128 {
        return Err(MachineError::Refused(format!("{name:?} is no name of a process")));
    }
    Ok(place.launched().join(name))
}

/// Asks, waits, and then leaves no choice. One that has ended already is fine.
pub(crate) async fn stop(path: &Path, patience: Duration) -> Result<(), MachineError> {
    for (signal, patience) in [(Signal::TERM, patience), (Signal::QUIT, GRACE), (Signal::KILL, GRACE)] {
        let record = Record::load(path).map_err(|error| MachineError::Unknown(error.to_string()))?;
        let record = record.ok_or_else(|| MachineError::Gone("nobody launched a process of this name".to_owned()))?;
        if !record.runs() {
            return Ok(());
        }
        let reached = |process: &Process| signal == Signal::KILL || *process == record.supervisor;
        record.processes().filter(reached).for_each(|process| process.signal(signal));
        if ended(path, patience).await {
            return Ok(());
        }
    }
    Err(MachineError::Unknown("it does not end".to_owned()))
}

/// Looks often at first: most end at once.
async fn ended(path: &Path, patience: Duration) -> bool {
    let until = tokio::time::Instant::now() + patience;
    let mut pause = Duration::from_millis(5);
    loop {
        if !matches!(Record::load(path), Ok(Some(record)) if record.runs()) {
            return true;
        }
        if tokio::time::Instant::now() >= until {
            return false;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

/// Reads both outputs until both have ended.
struct Follow {
    stdout: Redactor,
    stderr: Redactor,
}

impl Follow {
    fn new(variables: &Variables<'_>) -> Self {
        Self { stdout: Redactor::new(variables.secrets), stderr: Redactor::new(variables.secrets) }
    }

    async fn all(&mut self, child: &mut Child, output: OutputSink<'_>, last_words: &mut Vec<u8>) {
        let mut stdout = child.stdout.take().expect("it is piped");
        let mut stderr = child.stderr.take().expect("it is piped");
        let (mut out, mut err) = (vec![0; 16 << 10], vec![0; 16 << 10]);
        let (mut out_open, mut err_open) = (true, true);
        while out_open || err_open {
            tokio::select! {
                read = some(&mut stdout, &mut out), if out_open => {
                    out_open = read > 0;
                    self.stdout.push(&out[..read], &mut |bytes| output(OutputStream::Stdout, bytes));
                }
                read = some(&mut stderr, &mut err), if err_open => {
                    err_open = read > 0;
                    self.stderr.push(&err[..read], &mut |bytes| {
                        keep_last(last_words, bytes);
                        output(OutputStream::Stderr, bytes);
                    });
                }
            }
        }
        self.stdout.finish(&mut |bytes| output(OutputStream::Stdout, bytes));
        self.stderr.finish(&mut |bytes| output(OutputStream::Stderr, bytes));
    }
}

/// An error is an end as any other.
async fn some(source: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) -> usize {
    source.read(buffer).await.unwrap_or(0)
}

fn keep_last(kept: &mut Vec<u8>, bytes: &[u8]) {
    kept.extend_from_slice(bytes);
    let excess = kept.len().saturating_sub(LAST_WORDS);
    kept.drain(..excess);
}

fn words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    if text.is_empty() { "it said nothing".to_owned() } else { text.to_owned() }
}

/// Told apart by this process and its count: a later server of the same number began at another time.
fn unused_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = Process::me().map_or(0, |me| me.since);
    format!("{}-{since}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn unavailable(what: &str, error: &io::Error) -> MachineError {
    MachineError::Unavailable(format!("{what}: {error}"))
}
