//! One command on a thread's own machine, with what it prints on the thread.

use std::collections::btree_map::Entry as Slot;
use std::sync::Arc;
use std::time::Duration;

use commands::ports::{COMMAND_TIMEOUT, Execute, Exit, HandsError, MachineError, Ran, RunCommand, command_mark, command_run};
use commands::{CommandError, Rejection, Sandbox};
use event_log::command_id;
use events::dispatch::{Claimed, CommandFinished, CommandOutput, CommandStarted, Failed, Warned};
use events::{AgentId, Entry, OutputStream, RunId, StreamName, ThreadId, ThreadStatus};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::dispatcher::{Inner, Later};
use crate::keep::DESTROYED;
use crate::machine::Ready;
use crate::output::Output;
use crate::sayable::sayable;
use crate::surroundings::{Halt, Trouble};

const FLUSH: Duration = Duration::from_millis(150);
const FOLLOW: Duration = Duration::from_millis(200);

/// What the id of a command that came through a door begins with; then its mark. The same on every server.
const DOOR: &str = "run";
/// Words that programs match on: why a command has no exit code.
const CANCELLED: &str = "command_cancelled";
const BROKEN: &str = "command_broken";
const LOST: &str = "command_lost";
/// Shorter than what a warning holds, which names the command too: whoever asks again hears the same.
const LONGEST_WHY: usize = 7_900;

/// A command with the id it has on the thread.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) by: AgentId,
    /// The answer that it belongs to, whose claim is its own.
    pub(crate) answer: Option<RunId>,
    pub(crate) ask: RunCommand,
}

impl Inner {
    /// Through a door: it goes on when nobody waits any more.
    pub(crate) async fn command_for(self: Arc<Self>, by: AgentId, ask: RunCommand, key: Option<&str>) -> Result<Ran, HandsError> {
        let member = self.outside.commands.with_world(|world| {
            let thread = world.thread(&ask.thread_id).filter(|thread| world.is_member(&thread.house_id, by))?;
            Some(thread.status)
        });
        match member {
            None => return Err(CommandError::from(Rejection::NotFound { what: "thread" }).into()),
            Some(ThreadStatus::Closed) => return Err(CommandError::from(Rejection::ThreadClosed).into()),
            Some(_) => {}
        }
        let id = match key {
            Some(key) => command_mark(&ask.thread_id, by, key),
            None => format!("{:032x}", self.fresh()),
        };
        let order = Order { id: format!("{DOOR}.{id}"), by, answer: None, ask };
        let thread = order.ask.thread_id.clone();
        let done = tokio::spawn(async move { self.order(order).await }).await;
        match done {
            Ok(Ok(ran)) => Ok(ran),
            Ok(Err(Halt::Final(trouble))) => {
                Err(HandsError::NotBegun { error_class: trouble.class.to_owned(), message: trouble.message })
            }
            Ok(Err(Halt::Later(Later::Command(error)))) => Err(error.into()),
            Ok(Err(Halt::Later(Later::Outside(why)))) => {
                Err(HandsError::NotBegun { error_class: "sandbox_unreachable".to_owned(), message: why })
            }
            Err(error) => {
                tracing::error!(%thread, %error, "a command was lost");
                Err(CommandError::Unknown("the command was lost".to_owned()).into())
            }
        }
    }

    fn fresh(&self) -> u128 {
        let n = self.executed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        command_id(&["run_command", &self.options.server, &self.now().to_string(), &n.to_string()])
    }

    /// What was not begun is said on the thread as well.
    pub(crate) async fn order(&self, order: Order) -> Result<Ran, Halt> {
        let begun = self.begin(&order).await;
        if let Err(Halt::Final(trouble)) = &begun {
            let (error_class, message) = (trouble.class.to_owned(), trouble.message.clone());
            let failed = Failed { run_id: None, error_class, message };
            self.tell(&order.ask.thread_id, None, failed, &format!("{}:failed", order.id)).await?;
        }
        begun
    }

    async fn begin(&self, order: &Order) -> Result<Ran, Halt> {
        // Asked for again while the first is at it: both would take the start for theirs.
        while !self.takes(order) {
            tokio::time::sleep(FOLLOW).await;
        }
        let mine = Executing { inner: self, id: &order.id };
        if let Some(seq) = self.begun(order).await {
            drop(mine);
            return self.follow_command(order, seq).await;
        }
        let ready = self.machine_for(order).await?;
        if let Some(seq) = self.start(order, &ready).await? {
            drop(mine);
            return self.follow_command(order, seq).await;
        }
        Ok(self.run_to_end(order, &ready).await?)
    }

    fn takes(&self, order: &Order) -> bool {
        match self.executing.lock().entry(order.id.clone()) {
            Slot::Vacant(free) => {
                free.insert(order.ask.thread_id.clone());
                true
            }
            Slot::Occupied(_) => false,
        }
    }

    async fn machine_for(&self, order: &Order) -> Result<Ready, Halt> {
        let patient = Instant::now() + self.options.patience.machine;
        loop {
            if self.is_cancelled(order) {
                return Err(Later::of("the answer was cancelled").into());
            }
            match self.ready(&order.ask.thread_id).await {
                Err(Halt::Later(later)) if Instant::now() < patient => {
                    tracing::debug!(error = %later, "a command waits for its machine");
                    tokio::time::sleep(FOLLOW * 5).await;
                }
                ready => return ready,
            }
        }
    }

    /// Where it was begun before, by whichever server, as far as this one knows.
    async fn begun(&self, order: &Order) -> Option<u64> {
        // A desk that lags behind only knows less: the claim decides.
        let _ = self.caught_up().await;
        self.desk.lock().room(&order.ask.thread_id).and_then(|room| room.begun(&order.id))
    }

    /// Whether this server is to run it. Of several that are asked under one key the log takes the claim of one; if that dies before it
    /// has begun anything, another may. `Some`: it is begun, there.
    async fn claim_command(&self, order: &Order) -> Result<Option<u64>, Halt> {
        let Some(run_id) = command_run(&order.id).filter(|_| order.answer.is_none()) else { return Ok(None) };
        for number in 0_u32.. {
            let claimed = Claimed { run_id: run_id.clone(), server: self.options.server.clone() };
            match self.say(&order.ask.thread_id, None, claimed, Some(&format!("{}:claim:{number}", order.id))).await {
                Ok(_) => break,
                Err(CommandError::IdempotencyKeyReused) => {}
                Err(error) => return Err(error.into()),
            }
            let patient = Instant::now() + self.options.patience.lease;
            while Instant::now() < patient {
                if let Some(seq) = self.begun(order).await {
                    return Ok(Some(seq));
                }
                tokio::time::sleep(FOLLOW).await;
            }
        }
        Ok(None)
    }

    fn is_cancelled(&self, order: &Order) -> bool {
        let desk = self.desk.lock();
        let room = desk.room(&order.ask.thread_id);
        let over = |turn: &RunId| room.is_none_or(|room| !room.turns.contains_key(turn));
        order.answer.as_ref().is_some_and(over)
            || room.and_then(|room| room.commands.get(&order.id)).is_some_and(|command| command.cancelled)
    }

    /// Where it was begun, if somebody did so before: then it is only waited for.
    async fn start(&self, order: &Order, ready: &Ready) -> Result<Option<u64>, Halt> {
        if let Some(seq) = self.claim_command(order).await? {
            return Ok(Some(seq));
        }
        if self.is_cancelled(order) {
            return Err(Later::of("the answer was cancelled").into());
        }
        let RunCommand { thread_id, command, cwd, .. } = &order.ask;
        if let Some(run) = command_run(&order.id) {
            self.warn_of_secrets(thread_id, &run, ready).await?;
        }
        let before = self.outside.log.position();
        let started = CommandStarted {
            command_id: order.id.clone(),
            command: command.clone(),
            sandbox_id: Some(ready.sandbox.clone()),
            cwd: cwd.clone(),
        };
        let key = format!("{}:started", order.id);
        match self.say(thread_id, Some(order.by), started, Some(&key)).await {
            Ok(done) if done.position > before => Ok(None),
            Ok(done) => Ok(Some(done.entries.first().map_or(0, |recorded| recorded.seq))),
            Err(CommandError::IdempotencyKeyReused) => Ok(Some(0)),
            Err(error) => Err(error.into()),
        }
    }

    async fn run_to_end(&self, order: &Order, ready: &Ready) -> Result<Ran, Later> {
        let patience = &self.options.patience;
        let limit = ready.surroundings.recipe.limits.seconds.map_or(patience.command_max, Duration::from_secs);
        let timeout = order.ask.timeout.unwrap_or(patience.command).min(limit).min(patience.command_max);
        let mut env = ready.surroundings.recipe.env.clone();
        env.retain(|name, _| !commands::secrets::is_reserved(name));
        let execute = Execute {
            command: order.ask.command.clone(),
            cwd: order.ask.cwd.clone(),
            secrets: ready.secrets.values.clone(),
            env,
            timeout,
        };
        let (output, began, mut whole) = (Mutex::new(Output::default()), Instant::now(), String::new());
        let exit = self.executed(order, ready, &execute, &output, &mut whole).await?;
        // Nobody else takes a machine away on which a command runs.
        let ends = |it: &Sandbox| it.leaving || it.destroyed;
        let is_destroyed = self.outside.commands.with_world(|world| world.sandbox(&ready.sandbox).is_some_and(ends));
        self.flush(order, &output, &mut whole, &mut Instant::now(), true).await?;
        if matches!(exit, Some(Err(MachineError::Gone(_)))) {
            self.look_after(&ready.sandbox, &*ready.machines, &ready.provider_ref).await?;
        }
        let (exit_code, error_class, why) = match exit_code(exit, timeout) {
            Ok(code) => (Some(code), None, None),
            Err((warning, why)) => {
                let why = if is_destroyed && warning == BROKEN { format!("the machine is gone: {DESTROYED}") } else { why };
                self.say_why(&order.ask.thread_id, &order.id, warning, &why).await?;
                (None, Some(warning.to_owned()), Some(why))
            }
        };
        let finished = CommandFinished {
            command_id: order.id.clone(),
            exit_code,
            truncated: output.lock().truncated,
            duration_ms: began.elapsed().as_millis() as u64,
        };
        let CommandFinished { truncated, duration_ms, .. } = finished;
        let done = self.say(&order.ask.thread_id, Some(order.by), finished, Some(&format!("{}:finished", order.id))).await?;
        let (command_id, position) = (order.id.clone(), done.position);
        Ok(Ran { command_id, exit_code, output: whole, truncated, duration_ms, error_class, why, position })
    }

    /// `None`: it was cancelled. A command that nobody waits for any more is ended with all that it began.
    async fn executed(
        &self,
        order: &Order,
        ready: &Ready,
        execute: &Execute,
        output: &Mutex<Output>,
        whole: &mut String,
    ) -> Result<Option<Result<Exit, MachineError>>, Later> {
        let mut sink = |stream: OutputStream, bytes: &[u8]| output.lock().push(stream, bytes);
        let executing = ready.machines.execute(&ready.provider_ref, execute, &mut sink);
        tokio::pin!(executing);
        let (mut told, mut kept) = (Instant::now(), Instant::now());
        loop {
            tokio::select! {
                exit = &mut executing => return Ok(Some(exit)),
                () = tokio::time::sleep(FLUSH) => self.flush(order, output, whole, &mut told, false).await?,
            }
            if self.is_cancelled(order) {
                return Ok(None);
            }
            if kept.elapsed() >= self.options.patience.lease {
                kept = Instant::now();
                keep_alive(ready);
            }
        }
    }

    /// Why a command has no exit code, before its end is told.
    async fn say_why(&self, thread: &ThreadId, id: &str, warning: &str, why: &str) -> Result<(), Later> {
        let warned = Warned { run_id: command_run(id), warning: warning.to_owned(), message: format!("the command {id}: {why}") };
        self.tell(thread, None, warned, &format!("{id}:why")).await
    }

    /// An empty piece now and then says that the command is still waited for.
    async fn flush(
        &self,
        order: &Order,
        output: &Mutex<Output>,
        whole: &mut String,
        told: &mut Instant,
        end: bool,
    ) -> Result<(), Later> {
        let mut texts = output.lock().take(end);
        if texts.is_empty() && !end && told.elapsed() >= self.options.patience.lease / 3 {
            texts.push((OutputStream::Stdout, String::new()));
        }
        for (stream, text) in texts {
            whole.push_str(&text);
            let output = CommandOutput { command_id: order.id.clone(), stream, text };
            match self.say(&order.ask.thread_id, Some(order.by), output, None).await {
                // It ends with its thread, and what it still printed is said to nobody.
                Ok(_) | Err(CommandError::Rejected(Rejection::ThreadClosed)) => {}
                Err(error) => return Err(error.into()),
            }
            *told = Instant::now();
        }
        Ok(())
    }

    /// The outcome of a command that was begun before, here or elsewhere.
    async fn follow_command(&self, order: &Order, from: u64) -> Result<Ran, Halt> {
        let (thread, id) = (&order.ask.thread_id, order.id.as_str());
        let (mut whole, mut at, mut reason) = (String::new(), from, (None, None));
        loop {
            let page = self.page(thread, at, u64::MAX).await?;
            let is_at_end = page.is_empty();
            for (seq, entry) in page {
                at = seq + 1;
                if is_another(&entry, order) {
                    return Err(Later::from(CommandError::IdempotencyKeyReused).into());
                }
                if let Some(text) = printed(&entry, id) {
                    whole.push_str(&text);
                }
                if let Some((class, why)) = why(&entry, id) {
                    reason = (Some(class), Some(why));
                }
                if let Some(it) = finished(&entry, id) {
                    let position = self.outside.log.position();
                    let CommandFinished { command_id, exit_code, truncated, duration_ms } = it;
                    let (error_class, why) = reason;
                    let output = whole;
                    return Ok(Ran { command_id, exit_code, output, truncated, duration_ms, error_class, why, position });
                }
            }
            if self.outside.log.stream_names(&StreamName::Thread(thread.clone()).to_string()).is_empty() {
                return Err(Trouble::new("not_found", "the thread is gone").into());
            }
            if is_at_end {
                tokio::time::sleep(FOLLOW).await;
            }
        }
    }

    /// Whoever ran it is gone. What became of it is not known, and that is what is said.
    pub(crate) async fn lost_command(&self, thread: &ThreadId, id: &str) -> Result<(), Later> {
        // In this order: once nobody here executes it, its end is in the log, and then on the desk.
        if self.executing.lock().contains_key(id) {
            return Ok(());
        }
        self.caught_up().await?;
        let open = self.desk.lock().room(thread).is_some_and(|room| room.commands.contains_key(id));
        if !open || self.executing.lock().contains_key(id) {
            return Ok(());
        }
        self.say_why(thread, id, LOST, "outcome unknown: the server that ran it was stopped").await?;
        let finished = CommandFinished { command_id: id.to_owned(), exit_code: None, truncated: false, duration_ms: 0 };
        self.tell(thread, None, finished, &format!("{id}:finished")).await
    }
}

/// Held by who runs a command, however that ends.
struct Executing<'a> {
    inner: &'a Inner,
    id: &'a str,
}

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        self.inner.executing.lock().remove(self.id);
    }
}

/// A command may take as long as a machine stands without work; its provider does not see it as such.
fn keep_alive(ready: &Ready) {
    let (machines, provider_ref) = (ready.machines.clone(), ready.provider_ref.clone());
    tokio::spawn(async move {
        if let Err(error) = machines.keep_alive(&provider_ref).await {
            tracing::debug!(%error, "a machine was not kept from being stopped");
        }
    });
}

/// Or why there is none: a word that programs match on, and a sentence.
fn exit_code(exit: Option<Result<Exit, MachineError>>, limit: Duration) -> Result<i32, (&'static str, String)> {
    match exit {
        Some(Ok(Exit::Code(code))) => Ok(code),
        // Providers take such a code for a signal, and a shell tells of a signal by such a code.
        Some(Ok(Exit::Signal(signal))) => Ok(128 + signal),
        Some(Ok(Exit::Sandbox(signal))) => Err((BROKEN, format!("its sandbox was killed from outside, by signal {signal}"))),
        Some(Ok(Exit::TimedOut)) => {
            Err((COMMAND_TIMEOUT, format!("it took longer than {limit:?} and was ended, with all that it began")))
        }
        Some(Err(error)) => Err((BROKEN, sayable(&error.to_string()).chars().take(LONGEST_WHY).collect())),
        None => Err((CANCELLED, "it was cancelled, and stopped".to_owned())),
    }
}

fn why(entry: &Entry, id: &str) -> Option<(String, String)> {
    let warned: Warned = (entry.kind == "signal.dispatch.warned").then(|| entry.payload.decode().ok())??;
    let about =
        matches!(warned.warning.as_str(), CANCELLED | COMMAND_TIMEOUT | BROKEN | LOST) && warned.run_id == command_run(id);
    let why = about.then(|| warned.message.strip_prefix(&format!("the command {id}: ")).map(str::to_owned))??;
    Some((warned.warning, why))
}

/// Begun under the same id, which is made of a key, and not what is asked for now.
fn is_another(entry: &Entry, order: &Order) -> bool {
    let begun = (entry.kind == "signal.command.started").then(|| entry.payload.decode::<CommandStarted>().ok()).flatten();
    let RunCommand { command, cwd, .. } = &order.ask;
    begun.is_some_and(|it| it.command_id == order.id && (it.command != *command || it.cwd != *cwd))
}

fn printed(entry: &Entry, id: &str) -> Option<String> {
    let output: CommandOutput = (entry.kind == "signal.command.output").then(|| entry.payload.decode().ok())??;
    (output.command_id == id).then_some(output.text)
}

pub(crate) fn finished(entry: &Entry, id: &str) -> Option<CommandFinished> {
    let finished: CommandFinished = (entry.kind == "signal.command.finished").then(|| entry.payload.decode().ok())??;
    (finished.command_id == id).then_some(finished)
}
