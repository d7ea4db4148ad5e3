use events::thread::Created;
use events::{AgentId, EnvironmentId, HouseId, RunId, SandboxId, ThreadEvent, ThreadId, ThreadStatus};

use super::{Absent, Effect, InProgress, World};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub house_id: HouseId,
    pub name: Option<String>,
    pub pinned: bool,
    pub parent_thread_id: Option<ThreadId>,
    pub parent_agent_id: Option<AgentId>,
    pub environment_id: Option<EnvironmentId>,
    pub sandbox_id: Option<SandboxId>,
    pub agent_id: Option<AgentId>,
    /// Sorted, each once.
    pub tags: Vec<String>,
    pub status: ThreadStatus,
    /// The latest run, also after it ended.
    pub run_id: Option<RunId>,
    /// Besides the run.
    pub in_progress: InProgress,
    pub tail: u64,
}

impl Thread {
    fn new(created: Created) -> Self {
        Self {
            status: if created.agent_id.is_some() { ThreadStatus::Idle } else { ThreadStatus::Open },
            house_id: created.house_id,
            name: created.name,
            pinned: created.pinned,
            parent_thread_id: created.parent_thread_id,
            parent_agent_id: created.parent_agent_id,
            environment_id: created.environment_id,
            sandbox_id: created.sandbox_id,
            agent_id: created.agent_id,
            tags: created.tags,
            run_id: None,
            in_progress: InProgress::default(),
            tail: 0,
        }
    }
}

impl World {
    pub(super) fn apply_thread(&mut self, id: &ThreadId, event: ThreadEvent, author: Option<AgentId>) -> Result<Effect, Absent> {
        if let ThreadEvent::Created(created) = event {
            return self.thread_created(id, created);
        }
        let thread = self.threads.get_mut(id).ok_or(Absent)?;
        match event {
            ThreadEvent::Renamed(it) => thread.name = it.name,
            ThreadEvent::Pinned(_) => thread.pinned = true,
            ThreadEvent::Unpinned(_) => thread.pinned = false,
            ThreadEvent::Tagged(it) => thread.tags = it.tags,
            ThreadEvent::EnvironmentSet(it) => {
                self.index.refer(thread.environment_id.as_ref(), it.environment_id.as_ref());
                thread.environment_id = it.environment_id;
            }
            ThreadEvent::StatusChanged(it) => {
                thread.status = it.status;
                thread.run_id = it.run_id.or(thread.run_id.take());
            }
            ThreadEvent::SandboxSet(it) => {
                let delegated = thread.agent_id.is_some() && thread.parent_thread_id.is_some();
                self.index.move_thread(id, thread.sandbox_id.as_ref(), it.sandbox_id.as_ref());
                thread.sandbox_id.clone_from(&it.sandbox_id);
                // The system points a thread at a sandbox only where it asks for one.
                if let Some(sandbox) = it.sandbox_id.as_ref().and_then(|id| self.sandboxes.get_mut(id)) {
                    sandbox.ephemeral |= delegated && author.is_none();
                }
            }
            ThreadEvent::SandboxResumed(it) => {
                let former = self.sandboxes.get(&it.from_sandbox_id).is_some_and(|former| former.ephemeral);
                self.sandboxes.get_mut(&it.sandbox_id).into_iter().for_each(|sandbox| sandbox.ephemeral = former);
                self.index.move_thread(id, thread.sandbox_id.as_ref(), Some(&it.sandbox_id));
                thread.sandbox_id = Some(it.sandbox_id);
            }
            ThreadEvent::Created(_)
            | ThreadEvent::AgentSpawn(_)
            | ThreadEvent::ChildFinished(_)
            | ThreadEvent::PiFailed(_)
            | ThreadEvent::PiSessionOrphaned(_) => {}
        }
        Ok(Effect::Applied)
    }

    fn thread_created(&mut self, id: &ThreadId, created: Created) -> Result<Effect, Absent> {
        if !self.houses.contains_key(&created.house_id) || created.thread_id != *id || self.threads.contains_key(id) {
            return Err(Absent);
        }
        self.index.move_thread(id, None, created.sandbox_id.as_ref());
        self.index.refer(None, created.environment_id.as_ref());
        if let Some(agent) = created.agent_id {
            self.index.driven.entry((created.house_id.clone(), agent)).or_default().insert(id.clone());
        }
        self.threads.insert(id.clone(), Thread::new(created));
        Ok(Effect::Applied)
    }
}
