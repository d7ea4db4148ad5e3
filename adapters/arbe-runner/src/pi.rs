//! The pi process: started in a group of its own, spoken to in JSON lines.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::{processes, redact};

/// Of what it wrote to stderr, for whoever asks why it failed.
const LAST_WORDS: usize = 2_000;
/// The mirror's own bound, and some more for pi to close.
const CLOSING: Duration = Duration::from_secs(15);
const AFTER_TERM: Duration = Duration::from_secs(12);
/// Told many times a second, whole, and of no use here.
const PASSED_OVER: [&[u8]; 2] = [br#"{"type":"message_update""#, br#"{"type":"tool_execution_update""#];

pub struct Start {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub variables: BTreeMap<String, String>,
    pub without: &'static [&'static str],
    /// Left out of whatever it writes to stderr.
    pub secrets: Vec<String>,
}

pub struct Pi {
    child: Child,
    pid: Option<Pid>,
    /// Gone when it is to close by itself.
    stdin: Option<mpsc::UnboundedSender<String>>,
    events: mpsc::Receiver<Value>,
    words: Arc<Mutex<String>>,
    listening: JoinHandle<()>,
}

impl Pi {
    pub fn start(start: Start) -> io::Result<Self> {
        let mut command = Command::new(&start.program);
        command.args(&start.arguments).envs(&start.variables).process_group(0).kill_on_drop(true);
        for name in start.without {
            command.env_remove(name);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let (sender, events) = mpsc::channel(64);
        let words = Arc::<Mutex<String>>::default();
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(hear(stdout, sender));
        }
        let listening = tokio::spawn(listen(child.stderr.take(), words.clone(), start.secrets));
        let stdin = child.stdin.take().map(speak);
        Ok(Self { child, pid, stdin, events, words, listening })
    }

    #[must_use]
    pub fn pid(&self) -> Option<Pid> {
        self.pid
    }

    /// `None` when it will say nothing more.
    pub async fn next(&mut self) -> Option<Value> {
        self.events.recv().await
    }

    /// Whether it may hear it; what pi makes of it comes as an event.
    pub fn tell(&self, command: &Value) -> bool {
        self.stdin.as_ref().is_some_and(|stdin| stdin.send(format!("{command}\n")).is_ok())
    }

    /// Lets it close by itself for a while, asks it to end, and ends it. `None`: it had to be killed.
    pub async fn end(&mut self, gently: bool) -> Option<ExitStatus> {
        self.stdin = None;
        // What it still has to say must not hold it up.
        self.events.close();
        if gently && let Some(status) = self.gone_within(CLOSING).await {
            return Some(status);
        }
        self.signal(Signal::TERM);
        if let Some(status) = self.gone_within(AFTER_TERM).await {
            return Some(status);
        }
        self.signal(Signal::KILL);
        self.gone_within(AFTER_TERM).await;
        None
    }

    async fn gone_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        tokio::time::timeout(patience, self.child.wait()).await.ok().and_then(Result::ok)
    }

    fn signal(&self, signal: Signal) {
        self.pid.into_iter().for_each(|pid| processes::signal_group(pid, signal));
    }

    /// What it wrote to stderr at last.
    pub async fn last_words(&mut self) -> String {
        // A tool that it left behind may hold stderr open.
        drop(tokio::time::timeout(Duration::from_millis(500), &mut self.listening).await);
        self.words.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn hear(stdout: ChildStdout, sender: mpsc::Sender<Value>) {
    let mut lines = Lines::new(stdout);
    while let Some(line) = lines.next().await {
        if PASSED_OVER.iter().any(|start| line.starts_with(start)) {
            continue;
        }
        // Whatever else prints there is no event.
        if let Ok(event) = serde_json::from_slice(line) {
            // It is read to its end even when nobody listens any more, so that pi never waits for us.
            drop(sender.send(event).await);
        }
    }
}

/// By somebody else: one that hangs takes no more than a pipe holds, and whoever waited for it could not stop it.
fn speak(mut stdin: ChildStdin) -> mpsc::UnboundedSender<String> {
    let (sender, mut lines) = mpsc::unbounded_channel::<String>();
    tokio::spawn(async move {
        while let Some(line) = lines.recv().await {
            if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
                return;
            }
        }
    });
    sender
}

/// What comes out here is kept beside the machine, so it is without secrets, as all output is.
async fn listen(stderr: Option<ChildStderr>, words: Arc<Mutex<String>>, secrets: Vec<String>) {
    let Some(stderr) = stderr else { return };
    let mut lines = Lines::new(stderr);
    let mut out = io::stderr();
    while let Some(line) = lines.next().await {
        let line = redact::text(&secrets, &String::from_utf8_lossy(line).replace('\0', "\u{fffd}"));
        drop(io::Write::write_all(&mut out, line.as_bytes()));
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.push_str(&line);
        let over = words.len().saturating_sub(LAST_WORDS);
        let cut = (over..).find(|at| words.is_char_boundary(*at)).unwrap_or_default();
        words.drain(..cut);
    }
}

/// Split at `\n` and nothing else.
struct Lines<R> {
    from: BufReader<R>,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(from: R) -> Self {
        Self { from: BufReader::new(from), line: Vec::new() }
    }

    async fn next(&mut self) -> Option<&[u8]> {
        self.line.clear();
        let read = self.from.read_until(b'\n', &mut self.line).await.ok()?;
        (read > 0).then_some(self.line.as_slice())
    }
}
