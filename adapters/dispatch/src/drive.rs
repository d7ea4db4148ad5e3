//! A run on its way to its machine. Every step can be taken again.

use std::time::Duration;

use commands::command::{Failure, FinishRun, Outcome};
use commands::ports::{Launch, MachineError, ProcessState};
use events::dispatch::{Heartbeat, Reset, SessionStarted, Warned};
use events::{RunId, StatusReason, ThreadId};

use crate::desk::Run;
use crate::dispatcher::{Inner, Later};
use crate::machine::Ready;
use crate::options::Runner;
use crate::ports::RebuildError;
use crate::prompt;
use crate::surroundings::{Halt, Trouble};

const LISTEN: Duration = Duration::from_millis(200);

impl Inner {
    fn run(&self, thread: &ThreadId, run: &RunId) -> Option<Run> {
        self.desk.lock().run(thread, run).cloned()
    }

    pub(crate) async fn drive(&self, thread: &ThreadId, run: &RunId) -> Result<(), Later> {
        let Some(found) = self.run(thread, run) else { return Ok(()) };
        if found.server.as_ref() != Some(&self.options.server) {
            self.say_reset(thread, &found).await?;
            if !self.claim(thread, None, run, found.claims).await? {
                return Ok(());
            }
        }
        if found.launched {
            return Ok(());
        }
        let first = self.first_try(thread, run);
        let alive = self.alive(thread, run);
        let launched = tokio::select! {
            launched = self.launch(thread, &found) => launched,
            never = alive => match never {},
        };
        match launched {
            Ok(()) => Ok(()),
            Err(Halt::Final(trouble)) => self.fail(thread, run, &trouble, None).await,
            Err(Halt::Later(later)) if self.given_up(first) => {
                self.fail(thread, run, &Trouble::new("sandbox_unreachable", later), None).await
            }
            Err(Halt::Later(later)) => Err(later),
        }
    }

    /// Before the claim, which hides who was silent: whoever tries again says the same.
    async fn say_reset(&self, thread: &ThreadId, found: &Run) -> Result<(), Later> {
        let Some(silent) = found.server.as_ref().filter(|_| !found.launched) else { return Ok(()) };
        let why = format!("the server {silent} was silent, and the run begins anew");
        let reset = Reset { run_id: found.run_id.clone(), why };
        self.tell(thread, None, reset, &format!("{}:reset:{}", found.run_id, found.claims)).await
    }

    fn first_try(&self, thread: &ThreadId, run: &RunId) -> u64 {
        let (now, mut tried) = (self.now(), self.tried.lock());
        let (of, at) = tried.entry(thread.clone()).or_insert_with(|| (run.clone(), now));
        if of != run {
            (*of, *at) = (run.clone(), now);
        }
        *at
    }

    /// A run may have waited long for a server; that is not its machine's fault.
    fn given_up(&self, first: u64) -> bool {
        self.now().saturating_sub(first) >= self.options.patience.machine.as_millis() as u64
    }

    /// A machine may take long to be made; nobody is to take that for the end of this server.
    async fn alive(&self, thread: &ThreadId, run: &RunId) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(self.options.patience.lease / 3).await;
            let beat = Heartbeat { run_id: run.clone() };
            if let Err(error) = self.say(thread, None, beat, None).await {
                tracing::debug!(%error, "a sign of life was not written");
            }
        }
    }

    async fn launch(&self, thread: &ThreadId, run: &Run) -> Result<(), Halt> {
        let id = &run.run_id;
        if self.end_if_cancelled(thread, id).await? {
            return Ok(());
        }
        self.is_driven(thread)?;
        let ready = tokio::select! {
            ready = self.ready(thread) => ready?,
            () = self.called_off(thread, id) => return Ok(self.end_if_cancelled(thread, id).await.map(drop)?),
        };
        self.warn_of_secrets(thread, id, &ready).await?;
        if self.end_if_cancelled(thread, id).await? {
            return Ok(());
        }
        self.stop_strays_on(thread, &ready.sandbox, &*ready.machines, &ready.provider_ref).await?;
        // One that an earlier attempt launched is taken up, also if it has ended since: then it is judged like any other.
        if self.process(&ready, id).await? == ProcessState::Absent {
            self.equip(thread, run, &ready).await?;
        }
        let (sandbox_id, session_ref) = (Some(ready.sandbox.clone()), Some(thread.to_string()));
        let started = SessionStarted { run_id: id.clone(), sandbox_id, session_ref };
        Ok(self.tell(thread, None, started, &format!("{id}:session")).await?)
    }

    /// No machine is made for what nothing in it would start.
    fn is_driven(&self, thread: &ThreadId) -> Result<(), Trouble> {
        let bot = self.outside.commands.with_world(|world| world.thread(thread).and_then(|thread| thread.agent_id));
        let harness = bot.map(|bot| self.harness(bot)).filter(|harness| !self.options.harnesses.contains(harness));
        harness.map_or(Ok(()), |harness| {
            let driven: Vec<_> = self.options.harnesses.iter().map(String::as_str).collect();
            Err(Trouble::new("harness", format_args!("{harness} is not driven; {} is", driven.join(", "))))
        })
    }

    /// A clone and a setup take their time, and nobody who wants the run to stop waits for them.
    async fn called_off(&self, thread: &ThreadId, run: &RunId) {
        while self.run(thread, run).is_some_and(|run| run.cancelled.is_none()) {
            tokio::time::sleep(LISTEN).await;
        }
    }

    async fn process(&self, ready: &Ready, run: &RunId) -> Result<ProcessState, Halt> {
        match ready.machines.process(&ready.provider_ref, run.as_str()).await {
            Ok(state) => Ok(state),
            Err(MachineError::Gone(_)) => Ok(ProcessState::Absent),
            Err(error) => Err(Later::of(error).into()),
        }
    }

    /// Of a run, of a command that came through a door, or of the answer that a command belongs to: of each once.
    pub(crate) async fn warn_of_secrets(&self, thread: &ThreadId, run: &RunId, ready: &Ready) -> Result<(), Later> {
        let missing = ready.secrets.missing_optional.iter().map(|name| (name, "secret_missing", "is bound but not set"));
        let stripped = ready.secrets.stripped.iter().map(|name| (name, "secret_reserved", "is a reserved name and was left out"));
        for (name, warning, why) in missing.chain(stripped) {
            let message = format!("{name} {why}");
            let warned = Warned { run_id: Some(run.clone()), warning: warning.to_owned(), message };
            self.tell(thread, None, warned, &format!("{run}:secret:{name}")).await?;
        }
        Ok(())
    }

    /// The files first, then the process, which is one of its name at a time.
    async fn equip(&self, thread: &ThreadId, run: &Run, ready: &Ready) -> Result<(), Halt> {
        let (machines, at, id) = (&ready.machines, &ready.provider_ref, &run.run_id);
        let runner = self.options.runners.get(machines.provider());
        let runner = runner.ok_or_else(|| Trouble::new("no_runner", "this server has no runner for such machines"))?;
        let (env, secrets) = self.variables(thread, id, ready).await?;
        // A session that never reached the thread takes its words with it.
        let transcribed = self.desk.lock().room(thread).is_some_and(|room| room.transcribed);
        let from = if transcribed { run.about.start } else { 0 };
        let task = self.task(thread, from..run.about.end).await?;
        machines.write(at, &prompt::prompt_file(id), task.into()).await.map_err(unwritten)?;
        let hydrated = self.hydrate(thread, id, ready).await?;
        if let Runner::Upload(binary) = runner {
            machines.write(at, &prompt::runner_file(id), binary.clone()).await.map_err(unwritten)?;
        }
        let argv = prompt::argv(runner, thread, id, hydrated);
        let launch = Launch { name: id.to_string(), argv, env, secrets };
        match machines.launch(at, &launch).await {
            Ok(()) => Ok(()),
            // It may have been launched all the same; the next attempt asks, and finds a machine that is gone dead.
            Err(error @ (MachineError::Unknown(_) | MachineError::Unavailable(_) | MachineError::Gone(_))) => {
                Err(Later::of(error).into())
            }
            Err(error @ (MachineError::Refused(_) | MachineError::Setup(_))) => match self.process(ready, id).await? {
                ProcessState::Absent => Err(Trouble::new("launch_refused", error).into()),
                ProcessState::Running | ProcessState::Exited(_) => Ok(()),
            },
        }
    }

    /// On the machine of the last session its own files go on. Elsewhere the session is made again of the thread.
    async fn hydrate(&self, thread: &ThreadId, run: &RunId, ready: &Ready) -> Result<bool, Halt> {
        let session_on = self.desk.lock().room(thread).and_then(|room| room.session_on.clone());
        if session_on.as_ref() == Some(&ready.sandbox) || session_on.is_none() {
            return Ok(false);
        }
        let bot = ready.surroundings.thread.agent_id;
        let harness = bot.map_or_else(|| "pi".to_owned(), |bot| self.harness(bot));
        let tree = ready.machines.tree(&ready.provider_ref).await.map_err(unwritten)?;
        let session = self.outside.rebuild.session(thread, &harness, &tree).await;
        let session = session.map_err(|error| match error {
            RebuildError::Broken(_) => Halt::from(Trouble::new("hydrate", error)),
            RebuildError::Unavailable(_) => Later::of(error).into(),
        })?;
        let Some(session) = session else { return Ok(false) };
        let path = prompt::session_file(run);
        ready.machines.write(&ready.provider_ref, &path, session.clone()).await.map_err(unwritten)?;
        let there = ready.machines.read(&ready.provider_ref, &path).await.map_err(unwritten)?;
        if there == session { Ok(true) } else { Err(Trouble::new("hydrate", "the session did not arrive whole").into()) }
    }

    async fn end_if_cancelled(&self, thread: &ThreadId, run: &RunId) -> Result<bool, Later> {
        let Some(found) = self.run(thread, run) else { return Ok(true) };
        if found.cancelled.is_none() {
            return Ok(false);
        }
        self.end(thread, run, Outcome::Cancelled, None, None).await?;
        Ok(true)
    }

    pub(crate) async fn fail(
        &self,
        thread: &ThreadId,
        run: &RunId,
        trouble: &Trouble,
        exit_code: Option<i32>,
    ) -> Result<(), Later> {
        let failure = Failure { error_class: trouble.class.to_owned(), message: trouble.message.clone(), exit_code };
        let reason = exit_code.map(|_| StatusReason::Exit);
        self.end(thread, run, Outcome::Failed, reason, Some(failure)).await
    }

    /// Whoever was first has ended it.
    pub(crate) async fn end(
        &self,
        thread: &ThreadId,
        run: &RunId,
        outcome: Outcome,
        reason: Option<StatusReason>,
        failure: Option<Failure>,
    ) -> Result<(), Later> {
        let finish = FinishRun { thread_id: thread.clone(), run_id: Some(run.clone()), outcome, reason, failure };
        self.settle(finish, &format!("{run}:end")).await
    }
}

/// A machine that is gone is found dead by the next look.
fn unwritten(error: MachineError) -> Halt {
    match error {
        MachineError::Refused(_) | MachineError::Setup(_) => Trouble::new("upload_refused", error).into(),
        MachineError::Gone(_) | MachineError::Unavailable(_) | MachineError::Unknown(_) => Later::of(error).into(),
    }
}
