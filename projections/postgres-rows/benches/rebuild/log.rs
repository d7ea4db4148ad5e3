//! A log of many events over many threads, the same on every run.

use std::sync::Arc;

use event_log::{Append, Change, Command, Create, Log, Payload};
use events::house as h;
use events::thread as t;
use events::{
    AgentId, AgentKind, Chat, Content, Entry, EnvironmentId, Event, EventId, HouseId, JsonObject, Role, Runtime, StreamName,
    ThreadId, ThreadStatus, Ulid, Uuid, directory as d, dispatch,
};

pub const HOUSES: u64 = 100;
const THREADS: u64 = 10_000;
const PER_COMMIT: usize = 400;

struct Writer {
    log: Log,
    told: u64,
    waiting: Vec<(StreamName, bool, Vec<String>)>,
    held: usize,
}

impl Writer {
    async fn tell(&mut self, stream: StreamName, first: bool, event: impl Into<Event>) {
        self.told += 1;
        let ts = 1_790_000_000_000 + self.told;
        let entry = Entry::of(EventId(Ulid::from_parts(ts, u128::from(self.told))), ts, None, &event.into()).to_json();
        match self.waiting.iter_mut().find(|(known, ..)| *known == stream) {
            Some((.., entries)) => entries.push(entry),
            None => self.waiting.push((stream, first, vec![entry])),
        }
        self.held += 1;
        if self.held >= PER_COMMIT {
            self.commit().await;
        }
    }

    async fn commit(&mut self) {
        self.held = 0;
        let changes = self.waiting.drain(..).map(|(stream, first, entries)| {
            let payload = Ok(Payload::messages(entries.iter().map(String::as_str)));
            let json = Some("application/json".into());
            let change = if first {
                Change::Create(Create { content_type: json, payload: Some(payload), ..Create::default() })
            } else {
                Change::Append(Append { content_type: None, payload, producer: None, stream_seq: None, close: false })
            };
            (Arc::from(stream.to_string()), change)
        });
        let command = Command { changes: changes.collect(), ..Command::default() };
        self.log.submit(command).await.unwrap();
    }
}

pub fn house(n: u64) -> HouseId {
    HouseId::new(&format!("house{n:04}")).unwrap()
}

fn thread(n: u64) -> ThreadId {
    ThreadId::new(&format!("thread{n:06}")).unwrap()
}

fn bot(n: u64) -> AgentId {
    AgentId(Uuid::from_u128(u128::from(n) + 1))
}

pub async fn write(log: &Log, events: u64) {
    let mut writer = Writer { log: log.clone(), told: 0, waiting: Vec::new(), held: 0 };
    for n in 0..HOUSES {
        let (kind, runtime) = (AgentKind::Bot, Some(Runtime::new("pi").unwrap()));
        let registered = d::Registered { agent_id: bot(n), kind, runtime, name: None };
        writer.tell(StreamName::Agents, n == 0, registered).await;
        let home = StreamName::House(house(n));
        writer.tell(home.clone(), true, h::Created { house_id: house(n), name: format!("house {n}") }).await;
        writer.tell(home.clone(), false, h::MemberAdded { agent_id: bot(n), role: Role::Member }).await;
        let environment_id = EnvironmentId::new(&format!("env{n:04}")).unwrap();
        let config = JsonObject::parse(r#"{"image":"debian"}"#).unwrap();
        writer.tell(home, false, h::EnvironmentCreated { environment_id, name: "default".into(), config }).await;
    }
    writer.commit().await;
    let mut drawn = 7_u64;
    for n in 0..events.saturating_sub(writer.told) {
        drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (pick, kind) = ((drawn >> 33) % THREADS, (drawn >> 20) % 20);
        if n < THREADS {
            writer.tell(StreamName::Thread(thread(n)), true, created(n)).await;
        } else {
            writer.tell(StreamName::Thread(thread(pick)), false, event(pick, kind, n)).await;
        }
    }
    if !writer.waiting.is_empty() {
        writer.commit().await;
    }
}

fn created(n: u64) -> t::Created {
    t::Created {
        thread_id: thread(n),
        house_id: house(n % HOUSES),
        name: Some(format!("thread {n}")),
        parent_thread_id: (n >= HOUSES && n.is_multiple_of(3)).then(|| thread(n % HOUSES)),
        parent_agent_id: None,
        environment_id: None,
        sandbox_id: None,
        agent_id: (n % 2 == 1).then(|| bot(n % HOUSES)),
        tags: vec!["bench".into()],
        pinned: false,
    }
}

fn event(thread: u64, kind: u64, n: u64) -> Event {
    let status = [ThreadStatus::Running, ThreadStatus::Completed][(n % 2) as usize];
    match kind {
        0 => t::Renamed { name: Some(format!("name {n}")) }.into(),
        1 => t::Tagged { tags: vec![format!("tag-{}", n % 50)] }.into(),
        2 | 3 if thread % 2 == 1 => t::StatusChanged { status, run_id: None, reason: None }.into(),
        4 | 5 if thread % 2 == 1 => dispatch::Heartbeat { run_id: events::RunId::new("r").unwrap() }.into(),
        _ => {
            Content::Chat(Chat { text: "a line of talk as people talk, about as long as this".into(), to: None, reply_to: None })
                .into()
        }
    }
}
