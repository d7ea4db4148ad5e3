//! What is open, folded from the log. Pure: the same entries give the same desk, and what is done is off it again.
//!
//! It holds what the control plane does not keep: who claimed a run, when it last gave a sign of life, what was said and not answered,
//! which commands run. A server that starts folds it anew and goes on where the last one was.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use events::{AgentId, AgentKind, DirectoryEvent, Entry, Event, EventId, RunId, SandboxId, StreamName, ThreadId};

mod room;
mod turn;

use room::Wider;
pub(crate) use room::{Notice, REACHED, Room, Run, Running, UNCLAIMED, UNMIRRORED, UNREACHABLE, words_of};
pub(crate) use turn::{Said, Turn, turn_id};

/// A server that claims something has heard what was said so long before.
const HEARD_AFTER: u64 = 60_000;

#[derive(Debug, Default)]
pub(crate) struct Desk {
    rooms: BTreeMap<ThreadId, Room>,
    /// Threads with something open, so that nobody has to look at the others.
    open: BTreeSet<ThreadId>,
    bots: BTreeSet<AgentId>,
    /// The sandbox that a resumed one stands for.
    came_from: BTreeMap<SandboxId, SandboxId>,
    /// What people said in chats while no server was there, before the horizon.
    late: VecDeque<(ThreadId, Said)>,
    /// Answers that ended since, and when: what they answer is not late.
    over: VecDeque<(u64, RunId)>,
    /// Everything below this slot is folded.
    pub(crate) position: u64,
}

impl Desk {
    /// `horizon`: what was said in a chat before this moment is not answered any more, only told so.
    pub(crate) fn apply(&mut self, stream: &StreamName, seq: u64, entry: &Entry, horizon: u64) {
        let thread = match stream {
            StreamName::Thread(thread) => thread,
            StreamName::Agents => return self.agent(entry),
            StreamName::House(_) | StreamName::Session(..) => return,
        };
        let by_bot = entry.author_agent_id.is_some_and(|author| self.bots.contains(&author));
        let room = self.rooms.entry(thread.clone()).or_default();
        let wider = room.apply(seq, entry, by_bot, horizon);
        if room.is_open() {
            self.open.insert(thread.clone());
        } else {
            self.open.remove(thread);
        }
        match wider {
            Some(Wider::Resumed(it)) => drop(self.came_from.insert(it.sandbox_id, it.from_sandbox_id)),
            Some(Wider::Late(said)) => self.late.push_back((thread.clone(), said)),
            Some(Wider::Over(turn)) => self.over.push_back((entry.ts, turn)),
            Some(Wider::Claimed) => self.server_was_there(entry.ts),
            None => {}
        }
    }

    fn server_was_there(&mut self, ts: u64) {
        while self.late.pop_front_if(|(_, said)| said.ts + HEARD_AFTER < ts).is_some() {}
        while self.over.pop_front_if(|(at, _)| *at + HEARD_AFTER < ts).is_some() {}
    }

    fn agent(&mut self, entry: &Entry) {
        if let Ok(Event::Directory(DirectoryEvent::Registered(it))) = entry.event()
            && it.kind == AgentKind::Bot
        {
            self.bots.insert(it.agent_id);
        }
    }

    pub(crate) fn room(&self, thread: &ThreadId) -> Option<&Room> {
        self.rooms.get(thread)
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = (&ThreadId, &Room)> {
        self.open.iter().filter_map(|thread| self.rooms.get_key_value(thread))
    }

    pub(crate) fn run(&self, thread: &ThreadId, run: &RunId) -> Option<&Run> {
        self.rooms.get(thread)?.run.as_ref().filter(|it| it.run_id == *run)
    }

    pub(crate) fn turn(&self, thread: &ThreadId, turn: &RunId) -> Option<&Turn> {
        self.rooms.get(thread)?.turns.get(turn)
    }

    pub(crate) fn came_from(&self, sandbox: &SandboxId) -> Option<&SandboxId> {
        self.came_from.get(sandbox)
    }

    /// By the sandbox that each stands for.
    pub(crate) fn successors(&self) -> BTreeMap<&SandboxId, &SandboxId> {
        self.came_from.iter().map(|(new, from)| (from, new)).collect()
    }

    /// What was said in chats and nobody has looked at yet.
    pub(crate) fn unheard(&self) -> Vec<(ThreadId, Said)> {
        let chats = self.open().filter(|(_, room)| room.driver.is_none());
        chats.flat_map(|(thread, room)| room.words.values().map(|said| (thread.clone(), said.clone()))).collect()
    }

    /// Who is to answer. With nobody, the words are done with.
    pub(crate) fn heard(&mut self, thread: &ThreadId, said: &EventId, bots: &[AgentId]) {
        let Some(room) = self.rooms.get_mut(thread) else { return };
        room.heard(thread, said, bots);
        if !room.is_open() {
            self.open.remove(thread);
        }
    }

    /// What is too late to be answered, once, with those answers that were given after all.
    pub(crate) fn take_late(&mut self) -> (VecDeque<(ThreadId, Said)>, BTreeSet<RunId>) {
        (std::mem::take(&mut self.late), self.over.iter().map(|(_, turn)| turn.clone()).collect())
    }

    pub(crate) fn too_late(&mut self, thread: &ThreadId, turn: RunId, bot: AgentId, said: Said) {
        if let Some(room) = self.rooms.get_mut(thread).filter(|room| !room.closed) {
            room.too_late(turn, bot, said);
            self.open.insert(thread.clone());
        }
    }

    /// What the thread did not take is not tried for ever. The next server may try again.
    pub(crate) fn forget(&mut self, thread: &ThreadId, notice: Option<&EventId>, turn: Option<&RunId>) {
        let Some(room) = self.rooms.get_mut(thread) else { return };
        notice.into_iter().for_each(|notice| drop(room.notices.remove(notice)));
        turn.into_iter().for_each(|turn| room.turn_over(turn));
        if !room.is_open() {
            self.open.remove(thread);
        }
    }

    /// The last moment at which one of these threads was worked on.
    pub(crate) fn rested<'a>(&self, threads: impl Iterator<Item = &'a ThreadId>) -> u64 {
        threads.filter_map(|thread| self.rooms.get(thread)).map(|room| room.rested).max().unwrap_or_default()
    }
}
