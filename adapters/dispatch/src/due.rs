//! What there is to do now. A look at the desk and at the control plane; nothing is changed.

use std::time::Duration;

use commands::ports::command_run;
use commands::{Agent, Sandbox, SandboxStatus, Thread, World};
use events::{EventId, RunId, SandboxId, ThreadId, ThreadStatus};

use crate::desk::{Desk, Room, Run, Running, Said, Turn};
use crate::dispatcher::Inner;
use crate::options::Options;

/// Of a machine that is worked on a tree is kept so many times more seldom than of one at rest.
const BUSY_KEEPS: u32 = 12;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Bring a run onto its machine.
    Drive {
        thread: ThreadId,
        run: RunId,
    },
    /// See whether a run that was launched still lives.
    Watch {
        thread: ThreadId,
        run: RunId,
    },
    /// Somebody said something in a driven thread at rest.
    Next {
        thread: ThreadId,
        said: EventId,
    },
    Reply {
        thread: ThreadId,
        turn: RunId,
    },
    /// Tell a parent what its child came to.
    Notice {
        thread: ThreadId,
        finished: EventId,
    },
    /// Nobody waits for this command any more.
    Lost {
        thread: ThreadId,
        command: String,
    },
    /// A run that nobody can see any more.
    GiveUp {
        thread: ThreadId,
        run: RunId,
    },
    /// A run that nobody takes up.
    Unclaimed {
        thread: ThreadId,
        run: RunId,
    },
    /// What a run that was given up may have left on its machine.
    Stray {
        thread: ThreadId,
        run: RunId,
        sandbox: SandboxId,
    },
    Keep {
        sandbox: SandboxId,
    },
    Reap {
        sandbox: SandboxId,
    },
    /// Machines whose sandboxes are over.
    Sweep,
}

impl Job {
    /// One at a time.
    pub(crate) fn key(&self) -> String {
        match self {
            // The two follow each other.
            Self::Drive { run, .. } | Self::Watch { run, .. } | Self::GiveUp { run, .. } | Self::Unclaimed { run, .. } => {
                format!("run {run}")
            }
            Self::Stray { run, .. } => format!("stray {run}"),
            Self::Next { thread, .. } => format!("next {thread}"),
            Self::Reply { turn, .. } => format!("reply {turn}"),
            Self::Notice { finished, .. } => format!("notice {finished}"),
            Self::Lost { command, .. } => format!("lost {command}"),
            Self::Keep { sandbox } | Self::Reap { sandbox } => format!("sandbox {sandbox}"),
            Self::Sweep => "sweep".to_owned(),
        }
    }
}

impl Inner {
    /// Its machine lives on another server's host, or is only said to live: not for this server to work on, or to say anything of.
    pub(crate) fn is_elsewhere(&self, sandbox: &Sandbox) -> bool {
        let holds = |it: &str| self.outside.machines.get(&sandbox.provider).is_none_or(|machines| machines.holds(it));
        sandbox.status == SandboxStatus::Live && !sandbox.machine().is_some_and(holds)
    }
}

pub(crate) fn due(inner: &Inner) -> Vec<Job> {
    let (now, executing, kept) = (inner.now(), inner.executing.lock().clone(), inner.kept.lock().clone());
    let desk = inner.desk.lock();
    inner.outside.commands.with_world(|world| {
        let look = Look { world, desk: &desk, options: &inner.options, now };
        let open = desk.open().flat_map(|(id, room)| look.of_room(id, room));
        let mut jobs: Vec<_> = open.filter_map(|job| inner.for_this_server(&look, job)).collect();
        jobs.retain(|job| !matches!(job, Job::Lost { command, .. } if executing.contains_key(command)));
        let reached = |it: &Sandbox| inner.outside.machines.contains_key(&it.provider) && !inner.is_elsewhere(it);
        // Those that are gone are ever more, and this is asked after every commit.
        let live = |it: &Sandbox| it.status == SandboxStatus::Live && !it.destroyed && reached(it);
        let unmade = |it: &Sandbox| it.status == SandboxStatus::Pending && reached(it);
        let sandboxes = world.sandboxes().filter(|(_, it)| live(it) || unmade(it) || inner.leaving(it).is_some());
        jobs.extend(sandboxes.filter_map(|(id, _)| look.of_sandbox(id, kept.get(id).copied(), inner.tried_to_keep(id))));
        jobs.extend(inner.sweep(world, now));
        jobs
    })
}

pub(crate) fn passed(now: u64, since: u64, patience: Duration) -> bool {
    now.saturating_sub(since) >= patience.as_millis() as u64
}

pub(crate) struct Look<'a> {
    pub(crate) world: &'a World,
    pub(crate) desk: &'a Desk,
    pub(crate) options: &'a Options,
    pub(crate) now: u64,
}

impl Look<'_> {
    pub(crate) fn passed(&self, since: u64, patience: Duration) -> bool {
        passed(self.now, since, patience)
    }

    pub(crate) fn of_room(&self, id: &ThreadId, room: &Room) -> Vec<Job> {
        let Some(thread) = self.world.thread(id) else { return Vec::new() };
        let mut jobs = Vec::new();
        jobs.extend(room.run.as_ref().and_then(|run| self.of_run(id, run)));
        jobs.extend(self.next(id, thread, room));
        let due = room.turns.iter().filter(|(_, turn)| self.turn_is_due(room, turn));
        jobs.extend(due.map(|(turn, _)| Job::Reply { thread: id.clone(), turn: turn.clone() }));
        // In a closed thread it waits until that is opened again.
        let notices = room.notices.keys().filter(|_| !room.closed);
        jobs.extend(notices.map(|finished| Job::Notice { thread: id.clone(), finished: *finished }));
        let lost = |(command, it): &(&String, &Running)| {
            self.runs_here(room, command, it) || self.passed(it.seen, self.options.patience.lease)
        };
        let lost = room.commands.iter().filter(lost);
        jobs.extend(lost.map(|(command, _)| Job::Lost { thread: id.clone(), command: command.clone() }));
        let stands = |(_, on): &(&RunId, &SandboxId)| self.world.sandbox(on).is_some_and(|it| it.status == SandboxStatus::Live);
        let stray = |(run, on): (&RunId, &SandboxId)| Job::Stray { thread: id.clone(), run: run.clone(), sandbox: on.clone() };
        jobs.extend(room.strays.iter().filter(stands).map(stray));
        jobs
    }

    /// It was claimed here, or belongs to an answer that was.
    fn runs_here(&self, room: &Room, command: &str, it: &Running) -> bool {
        let turn = command_run(command).and_then(|turn| room.turns.get(&turn));
        let server = it.server.as_ref().or(turn.and_then(|turn| turn.server.as_ref()));
        server == Some(&self.options.server)
    }

    fn of_run(&self, thread: &ThreadId, run: &Run) -> Option<Job> {
        let patience = &self.options.patience;
        let (thread, id) = (thread.clone(), run.run_id.clone());
        match &run.server {
            Some(server) if *server != self.options.server => {
                // Whoever watches it has had its looks, and has not said that it is over.
                let launched = patience.lease.max(patience.orphan + patience.watch * 2);
                let silent = self.passed(run.stirred(), if run.launched { launched } else { patience.lease });
                silent.then_some(Job::Drive { thread, run: id })
            }
            Some(_) if run.launched => Some(Job::Watch { thread, run: id }),
            Some(_) | None => Some(Job::Drive { thread, run: id }),
        }
    }

    /// A driven thread takes up what is said there, one run at a time.
    fn next(&self, id: &ThreadId, thread: &Thread, room: &Room) -> Option<Job> {
        let rests = match thread.status {
            ThreadStatus::Idle | ThreadStatus::Completed | ThreadStatus::Failed | ThreadStatus::Cancelled => room.run.is_none(),
            ThreadStatus::Open | ThreadStatus::Closed | ThreadStatus::Running => false,
        };
        let said: Option<&Said> = room.words.values().next_back().filter(|_| rests && room.driver.is_some());
        said.map(|said| Job::Next { thread: id.clone(), said: said.id })
    }

    fn turn_is_due(&self, room: &Room, turn: &Turn) -> bool {
        let (patience, manners) = (&self.options.patience, &self.options.manners);
        match &turn.server {
            Some(server) if *server != self.options.server => self.passed(turn.seen, patience.lease),
            Some(_) => true,
            None => {
                let author = turn.said.as_ref().and_then(|said| said.author).and_then(|author| self.world.agent(author));
                let rested = || room.spoken.get(&turn.bot).is_none_or(|spoken| self.passed(spoken.last, manners.cooldown));
                !author.is_some_and(Agent::is_bot) || rested()
            }
        }
    }

    /// `kept` and `tried`: when its tree was last taken, and when that last came to nothing.
    pub(crate) fn of_sandbox(&self, id: &SandboxId, kept: Option<u64>, tried: Option<u64>) -> Option<Job> {
        let sandbox = self.world.sandbox(id)?;
        if sandbox.leaving {
            return Some(Job::Reap { sandbox: id.clone() });
        }
        let rested = self.desk.rested(self.world.threads_on(id));
        let ephemeral = match used(self.world, self.desk, id) {
            Use::Untouched => return None,
            Use::Busy => return self.of_busy(id, sandbox, rested, kept, tried),
            Use::Idle => true,
            Use::Shared => false,
        };
        let reap = || (ephemeral && self.passed(rested, self.options.patience.reap)).then(|| Job::Reap { sandbox: id.clone() });
        match sandbox.status {
            SandboxStatus::Pending => return reap(),
            SandboxStatus::Live => {}
            SandboxStatus::Dead => return None,
        }
        // What is not kept yet is not taken away.
        if kept.is_none_or(|kept| kept < rested) {
            return self.passed(rested, self.options.patience.keep).then(|| Job::Keep { sandbox: id.clone() });
        }
        reap()
    }

    /// What one has left there is kept while others still work, though not after every command of theirs.
    fn of_busy(&self, id: &SandboxId, sandbox: &Sandbox, rested: u64, kept: Option<u64>, tried: Option<u64>) -> Option<Job> {
        let keep = self.options.patience.keep;
        let unkept = rested > 0 && kept.is_none_or(|kept| kept < rested);
        let again = kept.max(tried).is_none_or(|last| self.passed(last, keep * BUSY_KEEPS));
        let due = sandbox.status == SandboxStatus::Live && unkept && again && self.passed(rested, keep);
        due.then(|| Job::Keep { sandbox: id.clone() })
    }
}

/// What a machine is to those who stand on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Busy,
    /// No work has ended on it.
    Untouched,
    /// At rest, and not made for delegated work alone.
    Shared,
    /// At rest, and nobody's but for delegated work.
    Idle,
}

pub(crate) fn used(world: &World, desk: &Desk, sandbox: &SandboxId) -> Use {
    // What was left on a machine that is over goes with it.
    let is_over = world.sandbox(sandbox).is_some_and(|it| it.status == SandboxStatus::Dead && !it.leaving);
    let stray = |room: &Room| !is_over && room.strays.values().any(|on| on == sandbox);
    let busy = |thread: &ThreadId| {
        world.thread(thread).is_some_and(|thread| thread.status == ThreadStatus::Running)
            || desk.room(thread).is_some_and(|room| room.is_busy() || stray(room))
    };
    if world.threads_on(sandbox).any(busy) {
        return Use::Busy;
    }
    match (desk.rested(world.threads_on(sandbox)), is_ephemeral(world, sandbox)) {
        (0, _) => Use::Untouched,
        (_, false) => Use::Shared,
        (_, true) => Use::Idle,
    }
}

/// Made for delegated work and used by nothing else. One that a member asked for is kept, and one that a chat stands on, or nobody.
fn is_ephemeral(world: &World, sandbox: &SandboxId) -> bool {
    if !world.sandbox(sandbox).is_some_and(|it| it.ephemeral) {
        return false;
    }
    let mut threads = world.threads_on(sandbox).peekable();
    let delegated =
        |id: &ThreadId| world.thread(id).is_some_and(|thread| thread.agent_id.is_some() && thread.parent_thread_id.is_some());
    threads.peek().is_some() && threads.all(delegated)
}
