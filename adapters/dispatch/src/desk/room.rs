//! One thread on the desk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use commands::ports::command_run;
use events::dispatch::{CommandStarted, Warned};
use events::thread::{ChildFinished, SandboxResumed, StatusChanged};
use events::{
    AgentId, Chat, Content, DispatchEvent, Entry, Event, EventId, Family, PiEntry, RunId, SandboxId, ThreadEvent, ThreadId,
    ThreadStatus, family,
};
use serde::Deserialize;

use super::turn::{Said, Turn, turn_id};

/// Commands that are remembered after they ended, for those who ask for them again.
const REMEMBERED: usize = 64;
/// Words that programs match on, of `signal.dispatch.warned`.
pub(crate) const UNREACHABLE: &str = "machine_unreachable";
pub(crate) const REACHED: &str = "machine_reached";
pub(crate) const UNCLAIMED: &str = "no_server";
pub(crate) const UNMIRRORED: &str = "mirror_silent";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    /// The bot that drives it, if one does.
    pub(crate) driver: Option<AgentId>,
    pub(crate) run: Option<Run>,
    /// Where the last session was.
    pub(crate) session_on: Option<SandboxId>,
    /// Something of a session is on the thread.
    pub(crate) transcribed: bool,
    /// In a chat: not looked at yet. In a driven thread: said since the last run began.
    pub(crate) words: BTreeMap<u64, Said>,
    /// The place after the beginning of the last run that reached its machine.
    taken_up: u64,
    pub(crate) turns: BTreeMap<RunId, Turn>,
    /// Answers that ended before the words they answer were looked at.
    over: BTreeSet<RunId>,
    /// Answers of each bot to bots since a person said something, and when it last spoke.
    pub(crate) spoken: BTreeMap<AgentId, Spoken>,
    pub(crate) commands: BTreeMap<String, Running>,
    /// The last commands that were begun, with the places of their beginnings.
    begun: VecDeque<(String, u64)>,
    /// Who has just claimed a command that is not begun yet.
    claimed: Option<(RunId, String)>,
    /// Requests for leave that wait for an answer, with their entries.
    requests: BTreeMap<String, EventId>,
    /// Children that ended without their result having been told.
    pub(crate) notices: BTreeMap<EventId, Notice>,
    /// Runs that were ended while their machines were out of reach: their processes may still be there.
    pub(crate) strays: BTreeMap<RunId, SandboxId>,
    /// When work here last ended.
    pub(crate) rested: u64,
    /// Nobody says anything here until it is opened again.
    pub(crate) closed: bool,
}

/// A command on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    /// When it last gave a sign of life.
    pub(crate) seen: u64,
    /// Who runs it, if it was claimed.
    pub(crate) server: Option<String>,
    pub(crate) cancelled: bool,
}

/// What of an entry concerns more than its thread.
pub(super) enum Wider {
    Resumed(SandboxResumed),
    /// A person said it so long ago that it is not answered any more.
    Late(Said),
    /// A server was there.
    Claimed,
    Over(RunId),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spoken {
    pub(crate) times: u32,
    pub(crate) last: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) run_id: RunId,
    /// What was said in these places is what it is about.
    pub(crate) about: Range<u64>,
    pub(crate) since: u64,
    pub(crate) claims: u32,
    pub(crate) server: Option<String>,
    /// When it was last claimed, which is no sign of life: who claims a run has not seen it yet.
    pub(crate) claimed: u64,
    pub(crate) seen: u64,
    /// Its process was launched there.
    pub(crate) launched: bool,
    /// On which machine, wherever the thread points since.
    pub(crate) sandbox: Option<SandboxId>,
    pub(crate) cancelled: Option<u64>,
    /// It was said that no server takes it up.
    pub(crate) unclaimed: bool,
    /// It was said that it runs and is not heard.
    pub(crate) unmirrored: bool,
}

impl Run {
    /// Its server or it itself was there.
    pub(crate) fn stirred(&self) -> u64 {
        self.seen.max(self.claimed)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) child: ThreadId,
    pub(crate) status: ThreadStatus,
    /// When it ended: both threads were told in one commit.
    pub(crate) ts: u64,
}

/// What a transcript entry says of the answer it belongs to.
#[derive(Deserialize)]
struct Told<'a> {
    #[serde(default, rename = "runId", borrow)]
    run_id: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, rename = "stopReason", borrow)]
    stop_reason: Option<std::borrow::Cow<'a, str>>,
    #[serde(default)]
    content: Option<serde_json::Value>,
}

impl Room {
    pub(crate) fn is_open(&self) -> bool {
        self.is_busy() || !self.strays.is_empty()
    }

    pub(crate) fn is_busy(&self) -> bool {
        if self.closed {
            return !self.commands.is_empty();
        }
        let words = self.driver.is_none() || self.run.is_none();
        self.run.is_some()
            || (words && !self.words.is_empty())
            || !self.turns.is_empty()
            || !self.commands.is_empty()
            || !self.notices.is_empty()
    }

    /// Where the command was begun, if it was and somebody may still ask.
    pub(crate) fn begun(&self, command: &str) -> Option<u64> {
        self.begun.iter().find(|(id, _)| id == command).map(|(_, seq)| *seq)
    }

    pub(super) fn apply(&mut self, seq: u64, entry: &Entry, by_bot: bool, horizon: u64) -> Option<Wider> {
        if PiEntry::owns(&entry.kind) {
            return self.transcript(seq, entry, horizon).map(Wider::Over);
        }
        if !matches!(family(&entry.kind), Some(Family::Content | Family::Thread | Family::Dispatch)) {
            return None;
        }
        match entry.event() {
            Ok(Event::Content(Content::Chat(chat))) => self.chat(seq, entry, chat, by_bot, horizon).map(Wider::Late),
            Ok(Event::Thread(event)) => self.thread(seq, entry, event).map(Wider::Resumed),
            Ok(Event::Dispatch(event)) => self.dispatch(seq, entry, event),
            Ok(Event::Content(Content::Pi(_)) | Event::House(_) | Event::Directory(_) | Event::Session(_)) | Err(_) => None,
        }
    }

    /// What is too late to be answered. A driven thread takes up whatever no run was about, however old it is.
    fn chat(&mut self, seq: u64, entry: &Entry, chat: Chat, by_bot: bool, horizon: u64) -> Option<Said> {
        if by_bot && chat.reply_to.is_some_and(|to| self.notices.remove(&to).is_some()) {
            return None;
        }
        if !by_bot {
            self.spoken.values_mut().for_each(|spoken| spoken.times = 0);
        }
        let own = self.driver.is_some() && entry.author_agent_id == self.driver && chat.to != self.driver;
        // Who waits for leave is told what is said to the request; it is no task.
        let to_request = chat.reply_to.is_some_and(|to| self.requests.values().any(|request| *request == to));
        if own || to_request {
            return None;
        }
        let said = Said { id: entry.id, seq, ts: entry.ts, author: entry.author_agent_id, to: chat.to, text: chat.text };
        if entry.ts < horizon && self.driver.is_none() {
            return (!by_bot).then_some(said);
        }
        self.words.insert(seq, said);
        None
    }

    /// The answer that ends with it.
    fn transcript(&mut self, seq: u64, entry: &Entry, horizon: u64) -> Option<RunId> {
        if let Some(run) = &mut self.run {
            run.seen = run.seen.max(entry.ts);
        }
        if self.driver.is_some() {
            self.transcribed |= entry.kind != "pi.chunk";
            return None;
        }
        let (Some(author), Ok(said)) = (entry.author_agent_id, entry.payload.decode::<Told<'_>>()) else { return None };
        let turn = said.run_id.and_then(|id| RunId::new(&id).ok())?;
        if let Some(turn) = self.turns.get_mut(&turn) {
            turn.seen = turn.seen.max(entry.ts);
        }
        let ends = said.stop_reason.is_some_and(|reason| reason != "toolUse");
        if entry.kind != "pi.assistant" || !ends {
            return None;
        }
        self.turn_over(&turn);
        let spoken = self.spoken.entry(author).or_default();
        (spoken.times, spoken.last) = (spoken.times + 1, entry.ts);
        if entry.ts >= horizon {
            let text = said.content.as_ref().map(words_of).unwrap_or_default();
            self.words.insert(seq, Said { id: entry.id, seq, ts: entry.ts, author: Some(author), to: None, text });
        }
        Some(turn)
    }

    fn thread(&mut self, seq: u64, entry: &Entry, event: ThreadEvent) -> Option<SandboxResumed> {
        match event {
            ThreadEvent::Created(it) => self.driver = it.agent_id,
            ThreadEvent::StatusChanged(it) => self.status(seq, entry.ts, it),
            ThreadEvent::ChildFinished(ChildFinished { child_thread_id: child, status }) => {
                self.notices.insert(entry.id, Notice { child, status, ts: entry.ts });
            }
            ThreadEvent::SandboxResumed(it) => return Some(it),
            ThreadEvent::Renamed(_)
            | ThreadEvent::Pinned(_)
            | ThreadEvent::Unpinned(_)
            | ThreadEvent::Tagged(_)
            | ThreadEvent::EnvironmentSet(_)
            | ThreadEvent::AgentSpawn(_)
            | ThreadEvent::SandboxSet(_)
            | ThreadEvent::PiFailed(_)
            | ThreadEvent::PiSessionOrphaned(_) => {}
        }
        None
    }

    fn status(&mut self, seq: u64, ts: u64, it: StatusChanged) {
        self.closed = it.status == ThreadStatus::Closed;
        if self.closed {
            self.words.clear();
            self.turns.clear();
        }
        match (it.status, it.run_id) {
            (ThreadStatus::Running, Some(run_id)) => {
                self.words.clear();
                self.run = Some(Run {
                    run_id,
                    about: self.taken_up..seq,
                    since: ts,
                    claims: 0,
                    server: None,
                    claimed: ts,
                    seen: ts,
                    launched: false,
                    sandbox: None,
                    cancelled: None,
                    unclaimed: false,
                    unmirrored: false,
                });
            }
            (
                ThreadStatus::Running
                | ThreadStatus::Open
                | ThreadStatus::Closed
                | ThreadStatus::Idle
                | ThreadStatus::Completed
                | ThreadStatus::Failed
                | ThreadStatus::Cancelled,
                _,
            ) => {
                self.run = None;
                self.requests.clear();
                self.rested = ts;
            }
        }
    }

    fn dispatch(&mut self, seq: u64, entry: &Entry, event: DispatchEvent) -> Option<Wider> {
        let ts = entry.ts;
        match event {
            DispatchEvent::Claimed(it) => {
                self.claimed(entry, &it.run_id, it.server);
                return Some(Wider::Claimed);
            }
            DispatchEvent::SessionStarted(it) => {
                self.session_on = it.sandbox_id.clone().or(self.session_on.take());
                // What a run that never began was about is for the next one.
                if let Some(run) = self.sign(&it.run_id, ts) {
                    (run.launched, run.sandbox) = (true, it.sandbox_id);
                    self.taken_up = run.about.end + 1;
                }
            }
            DispatchEvent::Heartbeat(it) => drop(self.sign(&it.run_id, ts)),
            DispatchEvent::PiWaiting(it) => drop(self.sign(&it.run_id, ts)),
            DispatchEvent::Cancelled(it) => {
                self.turn_over(&it.run_id);
                self.asked_to_stop(&it.run_id, ts);
                return Some(Wider::Over(it.run_id));
            }
            DispatchEvent::Failed(it) => {
                self.turn_over(it.run_id.as_ref()?);
                return it.run_id.map(Wider::Over);
            }
            DispatchEvent::Warned(it) => self.warned(it),
            DispatchEvent::CommandStarted(it) => self.command(seq, ts, it),
            DispatchEvent::CommandOutput(it) => {
                self.commands.get_mut(&it.command_id).into_iter().for_each(|command| command.seen = ts);
            }
            DispatchEvent::CommandFinished(it) => {
                self.commands.remove(&it.command_id);
                self.rested = ts;
            }
            DispatchEvent::PermissionRequested(it) => self.asked(entry, it.request_id),
            DispatchEvent::PermissionResolved(it) => drop(self.requests.remove(&it.request_id)),
            DispatchEvent::Queued(_) | DispatchEvent::Reset(_) => {}
        }
        None
    }

    fn asked_to_stop(&mut self, id: &RunId, ts: u64) {
        if let Some(run) = self.run.as_mut().filter(|run| run.run_id == *id) {
            run.cancelled.get_or_insert(ts);
        }
        let own = self.commands.iter_mut().filter(|(command, _)| command_run(command).as_ref() == Some(id));
        own.for_each(|(_, command)| command.cancelled = true);
    }

    fn command(&mut self, seq: u64, ts: u64, it: CommandStarted) {
        let claim = self.claimed.take_if(|(run, _)| command_run(&it.command_id).as_ref() == Some(run));
        let server = claim.map(|(_, server)| server);
        self.begun.push_back((it.command_id.clone(), seq));
        self.begun.drain(..self.begun.len().saturating_sub(REMEMBERED));
        self.commands.insert(it.command_id, Running { seen: ts, server, cancelled: false });
    }

    fn warned(&mut self, it: Warned) {
        let Some(id) = it.run_id else { return };
        match it.warning.as_str() {
            UNREACHABLE => self.strays.extend(self.session_on.clone().map(|sandbox| (id, sandbox))),
            REACHED => drop(self.strays.remove(&id)),
            UNCLAIMED => self.run.iter_mut().filter(|run| run.run_id == id).for_each(|run| run.unclaimed = true),
            UNMIRRORED => self.run.iter_mut().filter(|run| run.run_id == id).for_each(|run| run.unmirrored = true),
            _ => {}
        }
    }

    /// The id of a request in an answer begins with the answer's.
    fn asked(&mut self, entry: &Entry, request: String) {
        let turn = request.split('.').next().and_then(|turn| RunId::new(turn).ok());
        if let Some(turn) = turn.and_then(|turn| self.turns.get_mut(&turn)) {
            turn.asked = true;
        }
        self.requests.insert(request, entry.id);
    }

    /// A claim of an answer whose words lie before the horizon is known by nothing but itself.
    fn claimed(&mut self, entry: &Entry, id: &RunId, server: String) {
        if let Some(run) = self.run.as_mut().filter(|run| run.run_id == *id) {
            (run.claims, run.server, run.claimed) = (run.claims + 1, Some(server), entry.ts);
            return;
        }
        let Some(bot) = entry.author_agent_id else {
            self.claimed = Some((id.clone(), server));
            return;
        };
        let turn = self.turns.entry(id.clone()).or_insert_with(|| Turn::new(bot, 0));
        (turn.claims, turn.server, turn.seen) = (turn.claims + 1, Some(server), entry.ts);
    }

    fn sign(&mut self, id: &RunId, ts: u64) -> Option<&mut Run> {
        if let Some(turn) = self.turns.get_mut(id) {
            turn.seen = turn.seen.max(ts);
        }
        let run = self.run.as_mut().filter(|run| run.run_id == *id)?;
        run.seen = run.seen.max(ts);
        Some(run)
    }

    pub(super) fn turn_over(&mut self, id: &RunId) {
        let known = self.turns.remove(id);
        // Its words are still to be looked at.
        if known.is_none_or(|turn| turn.said.is_none()) && !self.words.is_empty() && self.driver.is_none() {
            self.over.insert(id.clone());
        }
    }

    pub(super) fn heard(&mut self, thread: &ThreadId, said: &EventId, bots: &[AgentId]) {
        let Some(seq) = self.words.values().find(|it| it.id == *said).map(|it| it.seq) else { return };
        let Some(said) = self.words.remove(&seq) else { return };
        for bot in bots {
            let id = turn_id(thread, &said.id, *bot);
            if self.over.remove(&id) {
                continue;
            }
            self.turns.entry(id).or_insert_with(|| Turn::new(*bot, said.ts)).said = Some(said.clone());
        }
        if self.words.is_empty() {
            self.over.clear();
        }
    }

    /// Nobody answers it any more, and that is to be said.
    pub(super) fn too_late(&mut self, turn: RunId, bot: AgentId, said: Said) {
        let fresh = Turn { said: Some(said.clone()), late: true, ..Turn::new(bot, said.ts) };
        self.turns.entry(turn).or_insert(fresh);
    }
}

/// The text of a message's content: one text, or blocks of it.
pub(crate) fn words_of(content: &serde_json::Value) -> String {
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let texts = blocks.iter().filter_map(|block| block.get("text").and_then(serde_json::Value::as_str));
    content.as_str().into_iter().chain(texts).collect::<Vec<_>>().join("\n")
}
