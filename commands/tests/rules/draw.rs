//! Commands by chance, on few things, so that they meet.

use std::ops::Range;

use commands::command::*;
use commands::{Actor, Command};
use events::{AgentId, Role, Uuid};
use proptest::prelude::*;

use crate::scene::*;

/// The third is made on the way.
pub const HOUSES: [&str; 3] = ["h", "other", "third"];
const ENVIRONMENTS: [&str; 8] = ["e", "oe", "h-1", "h-2", "other-1", "other-2", "third-1", "third-2"];
const THREADS: [&str; 9] = ["t", "d", "ot", "t1", "t2", "t3", "t4", "t5", "t6"];
const SANDBOXES: [&str; 8] = ["s", "os", "h-1", "h-2", "other-1", "other-2", "third-1", "third-2"];
const SECRETS: [&str; 6] = ["h-1", "h-2", "other-1", "other-2", "third-1", "third-2"];
pub const AGENTS: [AgentId; 6] = [OWNER, MEMBER, BOT, OTHER_BOT, STRANGER, NOBODY];

const SIGNALS: [(&str, &str); 13] = [
    ("signal.dispatch.queued", r#"{"run_id":"r1"}"#),
    ("signal.dispatch.session_started", r#"{"run_id":"r1","sandbox_id":"s"}"#),
    ("signal.dispatch.heartbeat", r#"{"run_id":"r1"}"#),
    ("signal.dispatch.pi_waiting", r#"{"run_id":"r1","for":"permission"}"#),
    ("signal.dispatch.failed", r#"{"run_id":"r1","error_class":"no_environment","message":"none"}"#),
    ("signal.dispatch.reset", r#"{"run_id":"r1","why":"asked"}"#),
    ("signal.dispatch.cancelled", r#"{"run_id":"r1"}"#),
    ("signal.command.started", r#"{"command_id":"c","command":"ls","sandbox_id":"os"}"#),
    ("signal.command.started", r#"{"command_id":"c","command":"ls"}"#),
    ("signal.command.finished", r#"{"command_id":"c","exit_code":0,"truncated":false,"duration_ms":3}"#),
    ("signal.permission.requested", r#"{"request_id":"q","action":"network"}"#),
    ("signal.permission.resolved", r#"{"request_id":"q","allowed":true}"#),
    ("pi.entry", r#"{"any":1}"#),
];

/// One draw of numbers that name things; what they do not name is left out.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    what: usize,
    actor: usize,
    a: usize,
    b: usize,
    c: usize,
    /// How many steps ago the view was taken that the decision is made on.
    pub lag: usize,
}

impl Draw {
    pub fn actor(self) -> Actor {
        AGENTS.get(self.actor).map_or(SYSTEM, |id| Actor::Agent(*id))
    }

    fn agent(self) -> AgentId {
        AGENTS[self.b % AGENTS.len()]
    }

    fn house(self) -> &'static str {
        HOUSES[self.a % HOUSES.len()]
    }

    fn thread(self) -> &'static str {
        THREADS[self.a % THREADS.len()]
    }

    fn environment(self) -> &'static str {
        ENVIRONMENTS[self.b % ENVIRONMENTS.len()]
    }

    fn sandbox(self) -> &'static str {
        SANDBOXES[self.c % SANDBOXES.len()]
    }

    fn house_of_sandbox(self) -> &'static str {
        match self.sandbox().chars().next() {
            Some('o') => "other",
            Some('t') => "third",
            _ => "h",
        }
    }

    /// Ids of new things are drawn, so two houses never come upon the same.
    fn new_in(self, house: &str) -> String {
        format!("{house}-{}", 1 + self.b % 2)
    }

    fn role(self) -> Role {
        if self.c.is_multiple_of(2) { Role::Owner } else { Role::Member }
    }

    fn outcome(self) -> Outcome {
        [Outcome::Completed, Outcome::Failed, Outcome::Cancelled][self.b % 3]
    }

    fn create_thread(self) -> CreateThread {
        CreateThread {
            parent_thread_id: (self.c.is_multiple_of(3)).then(|| thread(THREADS[self.c % THREADS.len()])),
            parent_agent_id: (self.c.is_multiple_of(5)).then(|| self.agent()),
            environment_id: (self.b.is_multiple_of(2)).then(|| environment(self.environment())),
            sandbox_id: (self.c.is_multiple_of(2)).then(|| sandbox(self.sandbox())),
            agent_id: (!self.c.is_multiple_of(4)).then(|| self.agent()),
            ..chat(self.house(), THREADS[(self.a / 2) % THREADS.len()])
        }
    }

    fn of_the_house(self) -> Command {
        let (house_id, agent_id) = (house(self.house()), self.agent());
        let environment_id = environment(self.environment());
        let name = ["A", "B"][self.c % 2].to_owned();
        match self.what % 12 {
            0 => AddMember { house_id, agent_id, role: self.role() }.into(),
            1 => RemoveMember { house_id, agent_id }.into(),
            2 => SetRole { house_id, agent_id, role: self.role() }.into(),
            3 => SetDefaultEnvironment { house_id, environment_id: (!self.c.is_multiple_of(3)).then_some(environment_id) }.into(),
            4 if self.c.is_multiple_of(3) => {
                let environment = create_environment(self.house(), &self.new_in(self.house()));
                CreateEnvironmentWithSecrets { environment, secret_bindings: [(name, self.a.is_multiple_of(2))].into() }.into()
            }
            4 => create_environment(self.house(), &self.new_in(self.house())).into(),
            5 | 6 => DeleteEnvironment { environment_id }.into(),
            7 => BindSecret { environment_id, name, required: self.a.is_multiple_of(2) }.into(),
            8 => {
                let secret_id = Some(secret(&self.new_in(self.house())));
                SetSecret { house_id, secret_id, name, vault_secret_id: Uuid::nil() }.into()
            }
            9 => DeleteSecret { secret_id: secret(SECRETS[self.b % SECRETS.len()]) }.into(),
            10 => bot(agent_id).into(),
            _ => IssueKey { agent_id, key_id: Some(key("k")), hash: hash(['a', 'b'][self.c % 2]), label: None }.into(),
        }
    }

    fn of_a_thread(self) -> Command {
        let thread_id = thread(self.thread());
        let sandbox_id = Some(sandbox(self.sandbox()));
        match self.what % 12 {
            0..=2 => self.create_thread().into(),
            3 => SetThreadEnvironment { thread_id, environment_id: Some(environment(self.environment())) }.into(),
            4 => SetThreadEnvironment { thread_id, environment_id: None }.into(),
            5 => SetThreadSandbox { thread_id, sandbox_id: sandbox_id.filter(|_| !self.b.is_multiple_of(3)) }.into(),
            6 => say(self.thread(), "hello").into(),
            7 => CloseThread { thread_id }.into(),
            8 => ReopenThread { thread_id }.into(),
            _ => {
                let reuse = sandbox_id.filter(|_| self.b.is_multiple_of(2));
                let child = THREADS[(self.a + self.c) % THREADS.len()];
                let (prompt, run_id) = self.c.is_multiple_of(3).then(|| ("do it".to_owned(), run("r1"))).unzip();
                Delegate { sandbox_id: reuse, agent_id: self.agent(), prompt, run_id, ..delegate(self.thread(), child) }.into()
            }
        }
    }

    fn of_work(self) -> Command {
        let (thread_id, sandbox_id) = (thread(self.thread()), sandbox(self.sandbox()));
        let run_id = Some(run(["r1", "r2", "r3"][self.c % 3]));
        match self.what % 12 {
            0 => StartRun { thread_id, run_id }.into(),
            1 => ResumeRun { thread_id, run_id }.into(),
            2 => finish(self.thread(), self.outcome()).into(),
            3 => CancelRun { thread_id, run_id }.into(),
            4 => OrphanRun { thread_id, run_id, silent_ms: 1 }.into(),
            5 => live(self.sandbox()).into(),
            6 | 7 => dead(self.sandbox()).into(),
            8 => DestroySandbox { sandbox_id }.into(),
            9 => {
                let new_sandbox_id = Some(sandbox(&self.new_in(self.house_of_sandbox())));
                ResumeSandbox { sandbox_id, new_sandbox_id, provider: None }.into()
            }
            10 => RequestSandbox {
                thread_id: Some(thread_id),
                ..request(self.house(), &self.new_in(self.house()), self.environment())
            }
            .into(),
            _ => request(self.house(), &self.new_in(self.house()), self.environment()).into(),
        }
    }

    fn of_words(self) -> Command {
        let (house_id, thread_id, agent_id) = (house(self.house()), thread(self.thread()), self.agent());
        let (environment_id, secret_id) = (environment(self.environment()), secret(SECRETS[self.b % SECRETS.len()]));
        let word = ["A", "B", "ü \"{},\\"][self.c % 3].to_owned();
        let tags = vec![word.clone(), "tag".to_owned()];
        match self.what % 12 {
            0 => {
                let owner = self.actor().agent().is_none().then_some(agent_id);
                CreateHouse { house_id: Some(house("third")), name: word, owner }.into()
            }
            1 => RenameHouse { house_id, name: word }.into(),
            2 => RenameAgent { agent_id, name: (!self.c.is_multiple_of(4)).then_some(word) }.into(),
            3 => RevokeKey { agent_id, key_id: key("k") }.into(),
            4 => UpdateEnvironment { environment_id, name: Some(word), config: None }.into(),
            5 => UnbindSecret { environment_id, name: word }.into(),
            6 => RotateSecret { secret_id, vault_secret_id: Uuid::from_u128(self.c as u128) }.into(),
            7 => RenameThread { thread_id, name: (!self.c.is_multiple_of(4)).then_some(word) }.into(),
            8 if self.c.is_multiple_of(2) => PinThread { thread_id }.into(),
            8 => UnpinThread { thread_id }.into(),
            9 if self.c.is_multiple_of(3) => TagThread { thread_id, tags }.into(),
            9 if self.c % 3 == 1 => UntagThread { thread_id, tags }.into(),
            9 => ReplaceTags { thread_id, tags }.into(),
            _ => {
                let (kind, payload) = SIGNALS[self.b % SIGNALS.len()];
                entry(self.thread(), kind, payload).into()
            }
        }
    }

    pub fn command(self) -> Command {
        match self.what / 12 {
            0 => self.of_the_house(),
            1 => self.of_a_thread(),
            2 => self.of_work(),
            _ => self.of_words(),
        }
    }
}

pub fn draws(count: Range<usize>) -> impl Strategy<Value = Vec<Draw>> {
    let draw = (0..48_usize, 0..18_usize, 0..60_usize, 0..60_usize, 0..60_usize, 0..5_usize);
    let draw = draw.prop_map(|(what, actor, a, b, c, lag)| Draw { what, actor, a, b, c, lag });
    prop::collection::vec(draw, count)
}

/// Deletions among the references that could undo them, all of them allowed, on old views.
pub fn races() -> impl Strategy<Value = Vec<Draw>> {
    let what = prop::sample::select(vec![0, 1, 1, 4, 5, 5, 12, 13, 15, 16]);
    let draw = (what, 0..60_usize, 0..60_usize, 0..60_usize, 0..4_usize);
    let draw = draw.prop_map(|(what, a, b, c, lag)| Draw { what, actor: AGENTS.len(), a, b, c, lag });
    prop::collection::vec(draw, 1..120)
}
