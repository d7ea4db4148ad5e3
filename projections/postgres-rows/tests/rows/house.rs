//! A world of houses that lives by a seed: everything it tells could have been decided by commands.

use events::house as h;
use events::thread as t;
use events::{AgentKind, Chat, Content, Event, JsonObject, Role, Runtime, SecretId, StreamName, ThreadStatus, Uuid};
use events::{directory as d, dispatch};

use crate::story::{Story, agent, environment, house, in_directory, in_house, in_thread, sandbox, thread};

/// Houses that share the agents.
pub const HOUSES: usize = 3;
const BOTS: usize = 4;

pub struct Town {
    seed: u64,
    threads: Vec<Thread>,
    sandboxes: Vec<(usize, bool)>,
    runs: usize,
    secrets: usize,
}

struct Thread {
    house: usize,
    driver: Option<usize>,
    sandbox: Option<usize>,
    parent: Option<usize>,
}

impl Town {
    pub async fn settle(seed: u64, story: &mut Story) -> Self {
        for bot in 0..BOTS {
            let (kind, runtime) = (AgentKind::Bot, Some(Runtime::new("pi").expect("a runtime")));
            let registered = d::Registered { agent_id: agent(bot), kind, runtime, name: Some(format!("bot {bot}")) };
            story.tell([in_directory(registered)]).await;
        }
        for n in 0..HOUSES {
            let mut events = vec![in_house(n, h::Created { house_id: house(n), name: format!("house {n}") })];
            events.extend((0..BOTS).map(|bot| in_house(n, h::MemberAdded { agent_id: agent(bot), role: Role::Member })));
            let config = JsonObject::parse(r#"{"image":"debian"}"#).expect("an object");
            let created = h::EnvironmentCreated { environment_id: environment(n), name: "default".into(), config };
            events.push(in_house(n, created));
            story.tell(events).await;
        }
        Self { seed, threads: Vec::new(), sandboxes: Vec::new(), runs: 0, secrets: 0 }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % below.max(1)
    }

    pub async fn live(&mut self, story: &mut Story, commits: usize) -> u64 {
        let mut position = 0;
        for _ in 0..commits {
            let events = self.day();
            position = story.tell(events).await;
        }
        position
    }

    /// One commit's worth of events.
    pub fn day(&mut self) -> Vec<(StreamName, Event)> {
        match self.draw(12) {
            0 | 1 => self.found_thread(),
            2 => self.keep_house(),
            3 => self.keep_secrets(),
            4 => self.request_sandbox(),
            5 => self.end_sandbox(),
            6 | 7 => self.run(),
            8 => self.remove_in_vain_or_not(),
            _ => self.change_thread(),
        }
    }

    fn found_thread(&mut self) -> Vec<(StreamName, Event)> {
        let (n, house_n) = (self.threads.len(), self.draw(HOUSES));
        let driver = (self.draw(2) == 0).then(|| self.draw(BOTS));
        let parents: Vec<usize> = (0..n).filter(|p| self.threads[*p].house == house_n).collect();
        let parent = (!parents.is_empty() && self.draw(2) == 0).then(|| parents[self.draw(parents.len())]);
        let created = t::Created {
            thread_id: thread(n),
            house_id: house(house_n),
            name: (self.draw(2) == 0).then(|| format!("thread {n}")),
            parent_thread_id: parent.map(thread),
            parent_agent_id: (parent.is_none() && self.draw(3) == 0).then(|| agent(0)),
            environment_id: (self.draw(2) == 0).then(|| environment(house_n)),
            sandbox_id: None,
            agent_id: driver.map(agent),
            tags: if self.draw(3) == 0 { vec!["a \"b\"".into(), "ü,{}".into()] } else { Vec::new() },
            pinned: self.draw(4) == 0,
        };
        self.threads.push(Thread { house: house_n, driver, sandbox: None, parent });
        let mut events = vec![in_thread(n, created)];
        events.extend(parent.map(|parent| in_thread(parent, t::AgentSpawn { child_thread_id: thread(n) })));
        events
    }

    fn keep_house(&mut self) -> Vec<(StreamName, Event)> {
        let (n, word) = (self.draw(HOUSES), self.draw(1000));
        let config = JsonObject::parse(&format!(r#"{{"image":"debian","n":{word}}}"#)).expect("an object");
        let environment_id = environment(n);
        let event: Event = match self.draw(5) {
            0 => h::Renamed { name: format!("house {word}") }.into(),
            1 => h::DefaultEnvironmentSet { environment_id: (word % 2 == 0).then_some(environment_id) }.into(),
            2 => h::MemberRoleSet { agent_id: agent(word % BOTS), role: [Role::Owner, Role::Member][word % 2] }.into(),
            3 => h::EnvironmentUpdated { environment_id, name: format!("env {word}"), config }.into(),
            _ => return vec![in_directory(d::Renamed { agent_id: agent(word % BOTS), name: Some(format!("bot {word}")) })],
        };
        vec![in_house(n, event)]
    }

    fn keep_secrets(&mut self) -> Vec<(StreamName, Event)> {
        let (n, word) = (self.draw(HOUSES), self.draw(5));
        let (environment_id, name) = (environment(n), format!("KEY_{word}"));
        match self.draw(3) {
            0 => vec![in_house(n, h::SecretBound { environment_id, name, required: self.draw(2) == 0 })],
            1 => vec![in_house(n, h::SecretUnbound { environment_id, name })],
            _ => {
                self.secrets += 1;
                let secret_id = SecretId::new(&format!("x{}", self.secrets)).expect("an id");
                let name = format!("SECRET_{}", self.secrets);
                let (first, second) = (Uuid::from_u128(7), Uuid::from_u128(self.secrets as u128));
                let set = h::SecretSet { secret_id: secret_id.clone(), name, vault_secret_id: first };
                let mut events = vec![in_house(n, set)];
                events.push(in_house(n, h::SecretRotated { secret_id: secret_id.clone(), vault_secret_id: second }));
                if self.draw(2) == 0 {
                    events.push(in_house(n, h::SecretDeleted { secret_id }));
                }
                events
            }
        }
    }

    fn request_sandbox(&mut self) -> Vec<(StreamName, Event)> {
        let (house_n, n) = (self.draw(HOUSES), self.sandboxes.len());
        self.sandboxes.push((house_n, true));
        let requested =
            h::SandboxRequested { sandbox_id: sandbox(n), environment_id: environment(house_n), provider: "local".into() };
        let mut events = vec![in_house(house_n, requested)];
        if self.draw(3) > 0 {
            events.push(in_house(house_n, h::SandboxLive { sandbox_id: sandbox(n), provider_ref: format!("box-{n}") }));
        }
        if let Some(on) = (0..self.threads.len()).find(|t| self.threads[*t].house == house_n) {
            self.threads[on].sandbox = Some(n);
            events.push(in_thread(on, t::SandboxSet { sandbox_id: Some(sandbox(n)) }));
        }
        events
    }

    fn end_sandbox(&mut self) -> Vec<(StreamName, Event)> {
        let Some(n) = self.sandboxes.iter().position(|(_, alive)| *alive) else { return self.change_thread() };
        let house_n = self.sandboxes[n].0;
        self.sandboxes[n].1 = false;
        let mut events = vec![in_house(house_n, h::SandboxDead { sandbox_id: sandbox(n), reason: None })];
        if self.draw(2) == 0 {
            events.push(in_house(house_n, h::SandboxDestroyed { sandbox_id: sandbox(n) }));
        }
        let next = self.sandboxes.iter().position(|(at, alive)| *alive && *at == house_n);
        if let (Some(next), Some(on)) = (next, self.threads.iter().position(|t| t.sandbox == Some(n))) {
            self.threads[on].sandbox = Some(next);
            let resumed = t::SandboxResumed { sandbox_id: sandbox(next), from_sandbox_id: sandbox(n) };
            events.push(in_thread(on, resumed));
        }
        events
    }

    fn run(&mut self) -> Vec<(StreamName, Event)> {
        let driven: Vec<usize> = (0..self.threads.len()).filter(|n| self.threads[*n].driver.is_some()).collect();
        if driven.is_empty() {
            return self.found_thread();
        }
        let n = driven[self.draw(driven.len())];
        self.runs += 1;
        let run_id = events::RunId::new(&format!("r{}", self.runs)).expect("an id");
        let status = |status| t::StatusChanged { status, run_id: None, reason: None };
        let command_id = format!("c{}", self.runs % 7);
        match self.draw(6) {
            0 => vec![in_thread(n, dispatch::Queued { run_id, by: None })],
            1 => {
                let started = dispatch::SessionStarted { run_id, sandbox_id: None, session_ref: None };
                vec![in_thread(n, status(ThreadStatus::Running)), in_thread(n, started)]
            }
            2 => vec![in_thread(n, dispatch::Heartbeat { run_id })],
            3 => vec![in_thread(n, dispatch::CommandStarted { command_id, command: "ls".into(), sandbox_id: None, cwd: None })],
            4 => {
                vec![in_thread(n, dispatch::CommandFinished { command_id, exit_code: Some(0), truncated: false, duration_ms: 3 })]
            }
            _ => {
                let rest = [ThreadStatus::Completed, ThreadStatus::Failed, ThreadStatus::Cancelled][self.draw(3)];
                let mut events = vec![in_thread(n, status(rest))];
                if let Some(parent) = self.threads[n].parent.filter(|_| self.runs.is_multiple_of(2)) {
                    events.push(in_thread(parent, t::ChildFinished { child_thread_id: thread(n), status: rest }));
                }
                events
            }
        }
    }

    /// What is referred to stays; what nothing refers to goes.
    fn remove_in_vain_or_not(&mut self) -> Vec<(StreamName, Event)> {
        let n = self.draw(HOUSES);
        let word = 100 + self.draw(1_000_000);
        let config = JsonObject::parse("{}").expect("an object");
        let created = h::EnvironmentCreated { environment_id: environment(word), name: "short-lived".into(), config };
        let driver = self.threads.iter().find(|t| t.house == n).and_then(|t| t.driver);
        match (self.draw(3), driver) {
            (0, Some(driver)) => vec![in_house(n, h::MemberRemoved { agent_id: agent(driver) })],
            (1, _) if self.sandboxes.iter().any(|(at, _)| *at == n) => {
                vec![in_house(n, h::EnvironmentDeleted { environment_id: environment(n) })]
            }
            _ => vec![in_house(n, created), in_house(n, h::EnvironmentDeleted { environment_id: environment(word) })],
        }
    }

    fn change_thread(&mut self) -> Vec<(StreamName, Event)> {
        if self.threads.is_empty() {
            return self.found_thread();
        }
        let (n, word) = (self.draw(self.threads.len()), self.draw(100));
        let event: Event = match self.draw(7) {
            0 => t::Renamed { name: (word % 3 > 0).then(|| format!("name {word}")) }.into(),
            1 => t::Pinned {}.into(),
            2 => t::Unpinned {}.into(),
            3 => t::Tagged { tags: vec![format!("tag-{word}")] }.into(),
            4 => t::EnvironmentSet { environment_id: (word % 2 == 0).then(|| environment(self.threads[n].house)) }.into(),
            _ => Content::Chat(Chat { text: format!("word {word}"), to: None, reply_to: None }).into(),
        };
        vec![in_thread(n, event)]
    }
}
