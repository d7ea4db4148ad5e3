//! A house with two people's worth of talk: Ada, the bots Pia and Rex, a chat and a driven thread.

use commands::command::{AddMember, CancelRun, CreateHouse, CreateThread, FinishRun, Outcome, RegisterAgent, StartRun};
use commands::{Actor, Command, World, decide};
use events::{AgentId, AgentKind, Entry, Event, EventId, HouseId, Json, Role, RunId, Runtime, StreamName, ThreadId, Ulid, Uuid};

use crate::desk::Desk;

pub(super) const ADA: AgentId = AgentId(Uuid::from_u128(1));
pub(super) const PIA: AgentId = AgentId(Uuid::from_u128(2));
pub(super) const REX: AgentId = AgentId(Uuid::from_u128(3));

pub(super) fn thread(id: &str) -> ThreadId {
    ThreadId::new(id).unwrap()
}

pub(super) fn run(id: &str) -> RunId {
    RunId::new(id).unwrap()
}

#[derive(Default)]
pub(super) struct Scene {
    pub(super) world: World,
    pub(super) desk: Desk,
    entries: u128,
    /// Of the next entry.
    pub(super) now: u64,
}

pub(super) fn scene() -> Scene {
    let mut scene = Scene { now: 1_000, ..Scene::default() };
    let agent = |id, name: &str, kind| RegisterAgent {
        agent_id: Some(id),
        kind,
        runtime: (kind == AgentKind::Bot).then(|| Runtime::new("pi").unwrap()),
        name: Some(name.to_owned()),
    };
    scene.given(Actor::System, agent(ADA, "Ada", AgentKind::Human));
    for (id, name) in [(PIA, "Pia"), (REX, "Rex")] {
        scene.given(Actor::System, agent(id, name, AgentKind::Bot));
    }
    let house_id = HouseId::new("h").unwrap();
    scene.given(Actor::System, CreateHouse { house_id: Some(house_id.clone()), name: "h".to_owned(), owner: Some(ADA) });
    for agent_id in [PIA, REX] {
        scene.given(Actor::Agent(ADA), AddMember { house_id: house_id.clone(), agent_id, role: Role::Member });
    }
    for (id, agent_id, parent_agent_id) in [("t", None, None), ("d", Some(PIA), None), ("to-rex", None, Some(REX))] {
        let create = CreateThread {
            house_id: house_id.clone(),
            thread_id: Some(thread(id)),
            name: None,
            parent_thread_id: None,
            parent_agent_id,
            environment_id: None,
            sandbox_id: None,
            agent_id,
            tags: Vec::new(),
            pinned: false,
        };
        scene.given(Actor::Agent(ADA), create);
    }
    scene
}

impl Scene {
    /// The id of the first entry it makes.
    #[track_caller]
    pub(super) fn given(&mut self, actor: Actor, command: impl Into<Command>) -> EventId {
        let decision = decide(&self.world, &actor, &command.into()).unwrap();
        let first = EventId(Ulid(self.entries));
        for append in decision.appends {
            for event in append.events {
                self.append(&append.stream, decision.author, &event);
            }
        }
        first
    }

    fn append(&mut self, stream: &StreamName, author: Option<AgentId>, event: &Event) {
        let entry = Entry::of(EventId(Ulid(self.entries)), self.now, author, event);
        let seq = self.world.tail(stream).unwrap_or(0);
        self.world.apply(stream, seq, &entry).unwrap();
        self.desk.apply(stream, seq, &entry, 500);
        (self.entries, self.now) = (self.entries + 1, self.now + 1);
    }

    pub(super) fn entry(&mut self, actor: Actor, id: &str, author: Option<AgentId>, kind: &str, payload: &str) -> EventId {
        let (payload, kind) = (Json::parse(payload).unwrap(), kind.to_owned());
        self.given(actor, commands::command::AppendEntry { thread_id: thread(id), author_agent_id: author, kind, v: 1, payload })
    }

    pub(super) fn says(&mut self, who: AgentId, id: &str, text: &str) -> EventId {
        self.entry(Actor::Agent(who), id, None, "chat", &serde_json::json!({ "text": text }).to_string())
    }

    /// A bot's whole answer in a chat.
    pub(super) fn answers(&mut self, bot: AgentId, turn: &RunId, text: &str) -> EventId {
        let payload = serde_json::json!({ "role": "assistant", "content": [{ "type": "text", "text": text }],
            "stopReason": "stop", "runId": turn });
        self.entry(Actor::Agent(bot), "t", None, "pi.assistant", &payload.to_string())
    }

    pub(super) fn starts(&mut self, id: &str, run_id: &str) {
        self.given(Actor::System, StartRun { thread_id: thread(id), run_id: Some(run(run_id)) });
    }

    pub(super) fn ends(&mut self, id: &str) {
        let finish = FinishRun { thread_id: thread(id), run_id: None, outcome: Outcome::Completed, reason: None, failure: None };
        self.given(Actor::System, finish);
    }

    pub(super) fn is_cancelled(&mut self, id: &str) {
        self.given(Actor::Agent(ADA), CancelRun { thread_id: thread(id), run_id: None });
    }

    pub(super) fn is_claimed(&mut self, id: &str, bot: Option<AgentId>, run_id: &RunId, server: &str) {
        let payload = serde_json::json!({ "run_id": run_id, "server": server }).to_string();
        self.entry(Actor::System, id, bot, "signal.dispatch.claimed", &payload);
    }
}
