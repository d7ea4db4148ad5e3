//! A small world to try things in: two houses that know nothing of each other.

use commands::command::{
    AddMember, AppendEntry, CreateEnvironment, CreateHouse, CreateThread, Delegate, FinishRun, MarkSandboxDead, MarkSandboxLive,
    Outcome, RegisterAgent, RequestSandbox, StartRun,
};
use commands::{Actor, Command, Decision, Rejection, World, decide};
use events::{
    AgentId, AgentKind, Entry, EnvironmentId, Event, EventId, HouseId, Json, JsonObject, KeyHash, KeyId, Role, RunId, Runtime,
    SandboxId, SecretId, StreamName, ThreadId, Ulid, Uuid,
};

use crate::invariants;

pub const OWNER: AgentId = AgentId(Uuid::from_u128(1));
pub const MEMBER: AgentId = AgentId(Uuid::from_u128(2));
pub const BOT: AgentId = AgentId(Uuid::from_u128(3));
pub const OTHER_BOT: AgentId = AgentId(Uuid::from_u128(4));
pub const STRANGER: AgentId = AgentId(Uuid::from_u128(9));
pub const NOBODY: AgentId = AgentId(Uuid::from_u128(99));

pub const SYSTEM: Actor = Actor::System;
pub const AS_OWNER: Actor = Actor::Agent(OWNER);
pub const AS_MEMBER: Actor = Actor::Agent(MEMBER);
pub const AS_BOT: Actor = Actor::Agent(BOT);
pub const AS_STRANGER: Actor = Actor::Agent(STRANGER);

pub fn house(id: &str) -> HouseId {
    HouseId::new(id).unwrap()
}

pub fn thread(id: &str) -> ThreadId {
    ThreadId::new(id).unwrap()
}

pub fn environment(id: &str) -> EnvironmentId {
    EnvironmentId::new(id).unwrap()
}

pub fn sandbox(id: &str) -> SandboxId {
    SandboxId::new(id).unwrap()
}

pub fn secret(id: &str) -> SecretId {
    SecretId::new(id).unwrap()
}

pub fn run(id: &str) -> RunId {
    RunId::new(id).unwrap()
}

pub fn key(id: &str) -> KeyId {
    KeyId::new(id).unwrap()
}

pub fn hash(digit: char) -> KeyHash {
    KeyHash::new(&digit.to_string().repeat(64)).unwrap()
}

pub fn config() -> JsonObject {
    JsonObject::parse(r#"{"image":"debian"}"#).unwrap()
}

pub fn bot(id: AgentId) -> RegisterAgent {
    RegisterAgent { agent_id: Some(id), kind: AgentKind::Bot, runtime: Some(Runtime::new("pi").unwrap()), name: None }
}

pub fn human(id: AgentId) -> RegisterAgent {
    RegisterAgent { agent_id: Some(id), kind: AgentKind::Human, runtime: None, name: None }
}

pub fn create_house(id: &str, owner: AgentId) -> CreateHouse {
    CreateHouse { house_id: Some(house(id)), name: id.to_owned(), owner: Some(owner) }
}

pub fn add_member(in_house: &str, agent_id: AgentId) -> AddMember {
    AddMember { house_id: house(in_house), agent_id, role: Role::Member }
}

pub fn create_environment(in_house: &str, id: &str) -> CreateEnvironment {
    let environment_id = Some(environment(id));
    CreateEnvironment { house_id: house(in_house), environment_id, name: id.to_owned(), config: config() }
}

/// A chat without anything.
pub fn chat(in_house: &str, id: &str) -> CreateThread {
    CreateThread {
        house_id: house(in_house),
        thread_id: Some(thread(id)),
        name: None,
        parent_thread_id: None,
        parent_agent_id: None,
        environment_id: None,
        sandbox_id: None,
        agent_id: None,
        tags: Vec::new(),
        pinned: false,
    }
}

pub fn driven(in_house: &str, id: &str) -> CreateThread {
    CreateThread { agent_id: Some(BOT), ..chat(in_house, id) }
}

pub fn delegate(parent: &str, child: &str) -> Delegate {
    Delegate {
        thread_id: thread(parent),
        child_thread_id: Some(thread(child)),
        agent_id: BOT,
        name: None,
        environment_id: None,
        sandbox_id: None,
        tags: Vec::new(),
        prompt: None,
        run_id: None,
    }
}

pub fn start(id: &str, run_id: &str) -> StartRun {
    StartRun { thread_id: thread(id), run_id: Some(run(run_id)) }
}

pub fn finish(id: &str, outcome: Outcome) -> FinishRun {
    FinishRun { thread_id: thread(id), run_id: None, outcome, reason: None, failure: None }
}

pub fn request(in_house: &str, id: &str, from: &str) -> RequestSandbox {
    RequestSandbox {
        house_id: house(in_house),
        sandbox_id: Some(sandbox(id)),
        thread_id: None,
        environment_id: Some(environment(from)),
        provider: "local".to_owned(),
    }
}

pub fn live(id: &str) -> MarkSandboxLive {
    MarkSandboxLive { sandbox_id: sandbox(id), provider_ref: format!("machine-{id}") }
}

pub fn dead(id: &str) -> MarkSandboxDead {
    MarkSandboxDead { sandbox_id: sandbox(id), reason: None }
}

pub fn entry(id: &str, kind: &str, payload: &str) -> AppendEntry {
    let payload = Json::parse(payload).unwrap();
    AppendEntry { thread_id: thread(id), author_agent_id: None, kind: kind.to_owned(), v: 1, payload }
}

pub fn say(id: &str, text: &str) -> AppendEntry {
    entry(id, "chat", &serde_json::json!({ "text": text }).to_string())
}

/// A log in memory, with the world folded from it.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    pub world: World,
    pub log: Vec<(StreamName, u64, Entry)>,
    pub last_refused: Option<(Actor, Command)>,
}

/// House `h` with an owner, a member and two bots, environment `e`, chat `t`, driven thread `d`, and sandbox `s` from `e`; house
/// `other` of a stranger with environment `oe`, thread `ot` and sandbox `os`.
pub fn scene() -> Scene {
    let mut scene = Scene::default();
    for (actor, command) in opening() {
        scene.given(actor, command);
    }
    scene
}

/// What makes the scene.
pub fn opening() -> Vec<(Actor, Command)> {
    let mut made: Vec<(Actor, Command)> = Vec::new();
    made.extend([OWNER, MEMBER, STRANGER].map(|id| (SYSTEM, human(id).into())));
    made.extend([BOT, OTHER_BOT].map(|id| (SYSTEM, bot(id).into())));
    made.push((SYSTEM, create_house("h", OWNER).into()));
    made.extend([MEMBER, BOT, OTHER_BOT].map(|id| (AS_OWNER, add_member("h", id).into())));
    made.push((AS_OWNER, create_environment("h", "e").into()));
    made.push((AS_MEMBER, chat("h", "t").into()));
    made.push((AS_MEMBER, driven("h", "d").into()));
    made.push((AS_MEMBER, request("h", "s", "e").into()));
    made.push((SYSTEM, create_house("other", STRANGER).into()));
    made.push((AS_STRANGER, create_environment("other", "oe").into()));
    made.push((AS_STRANGER, chat("other", "ot").into()));
    made.push((AS_STRANGER, request("other", "os", "oe").into()));
    made
}

impl Scene {
    #[track_caller]
    pub fn given(&mut self, actor: Actor, command: impl Into<Command>) -> Vec<(StreamName, Event)> {
        let command = command.into();
        match self.ask(actor, &command) {
            Ok(events) => events,
            Err(rejection) => panic!("{command:?} is refused: {rejection}"),
        }
    }

    /// What is appended, as the kinds per stream.
    #[track_caller]
    pub fn kinds(&mut self, actor: Actor, command: impl Into<Command>) -> Vec<String> {
        let events = self.given(actor, command);
        events.iter().map(|(stream, event)| format!("{stream} {}", event.kind())).collect()
    }

    #[track_caller]
    pub fn refused(&mut self, actor: Actor, command: impl Into<Command>) -> &'static str {
        let (command, before, length) = (command.into(), self.world.clone(), self.log.len());
        match self.ask(actor, &command) {
            Ok(events) => panic!("{command:?} is not refused: {events:?}"),
            Err(rejection) => {
                assert_eq!((&self.world, self.log.len()), (&before, length));
                self.last_refused = Some((actor, command));
                rejection.code()
            }
        }
    }

    pub fn ask(&mut self, actor: Actor, command: &Command) -> Result<Vec<(StreamName, Event)>, Rejection> {
        let decision = decide(&self.world, &actor, command)?;
        Ok(self.append(decision))
    }

    /// As the log does it: refused whole if a stream that was read has moved since `seen`.
    pub fn append_if_unmoved(&mut self, seen: &World, decision: Decision) -> bool {
        let unmoved = decision.reads.iter().all(|stream| seen.tail(stream) == self.world.tail(stream));
        if unmoved {
            self.append(decision);
        }
        unmoved
    }

    pub fn append(&mut self, decision: Decision) -> Vec<(StreamName, Event)> {
        let mut appended = Vec::new();
        for append in decision.appends {
            for event in append.events {
                let id = EventId(Ulid(self.log.len() as u128));
                let entry = Entry::of(id, 1_000 + self.log.len() as u64, decision.author, &event);
                let seq = self.world.tail(&append.stream).unwrap_or(0);
                self.world.apply(&append.stream, seq, &entry).unwrap();
                self.log.push((append.stream.clone(), seq, entry));
                appended.push((append.stream.clone(), event));
            }
        }
        invariants::check(&self.world);
        appended
    }
}
