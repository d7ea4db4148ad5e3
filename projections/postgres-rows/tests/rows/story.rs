//! Logs to project: events in a line, and long ones made from a seed.

use std::collections::HashSet;
use std::sync::Arc;

use event_log::{Append, Change, Command, Create, Log, Options, Payload, StoreUrl};
use events::{AgentId, Entry, EnvironmentId, Event, EventId, HouseId, SandboxId, StreamName, ThreadId, Ulid, Uuid};

pub fn house(n: usize) -> HouseId {
    HouseId::new(&format!("h{n}")).expect("an id")
}

pub fn thread(n: usize) -> ThreadId {
    ThreadId::new(&format!("t{n}")).expect("an id")
}

pub fn environment(n: usize) -> EnvironmentId {
    EnvironmentId::new(&format!("e{n}")).expect("an id")
}

pub fn sandbox(n: usize) -> SandboxId {
    SandboxId::new(&format!("s{n}")).expect("an id")
}

pub fn agent(n: usize) -> AgentId {
    AgentId(Uuid::from_u128(n as u128 + 1))
}

pub const START: u64 = 1_790_000_000_000;

pub struct Story {
    pub log: Log,
    made: HashSet<String>,
    told: u64,
}

impl Story {
    pub async fn new() -> Self {
        let store = StoreUrl::Memory.open(&[], true).expect("a store");
        Self::on(Log::open(store, Options::default()).await.expect("a log"))
    }

    pub fn on(log: Log) -> Self {
        Self { log, made: HashSet::new(), told: 0 }
    }

    /// The time of the event told last.
    pub fn now(&self) -> u64 {
        START + self.told
    }

    fn entry(&mut self, author: Option<AgentId>, event: &Event) -> String {
        self.told += 1;
        let id = EventId(Ulid::from_parts(self.now(), u128::from(self.told)));
        Entry::of(id, self.now(), author, event).to_json()
    }

    /// One commit. Returns its position.
    pub async fn tell(&mut self, events: impl IntoIterator<Item = (StreamName, Event)>) -> u64 {
        self.tell_by(None, events).await
    }

    pub async fn tell_by(&mut self, author: Option<AgentId>, events: impl IntoIterator<Item = (StreamName, Event)>) -> u64 {
        let mut streams: Vec<(String, Vec<String>)> = Vec::new();
        for (stream, event) in events {
            let (name, entry) = (stream.to_string(), self.entry(author, &event));
            match streams.iter_mut().find(|(known, _)| *known == name) {
                Some((_, entries)) => entries.push(entry),
                None => streams.push((name, vec![entry])),
            }
        }
        self.write(streams).await
    }

    pub async fn write(&mut self, streams: Vec<(String, Vec<String>)>) -> u64 {
        let changes = streams.into_iter().map(|(name, entries)| {
            let payload = Ok(Payload::messages(entries.iter().map(String::as_str)));
            let change = if self.made.insert(name.clone()) {
                Change::Create(Create {
                    content_type: Some("application/json".into()),
                    payload: Some(payload),
                    ..Create::default()
                })
            } else {
                Change::Append(Append { content_type: None, payload, producer: None, stream_seq: None, close: false })
            };
            (Arc::from(name), change)
        });
        let command = Command { changes: changes.collect(), ..Command::default() };
        self.log.submit(command).await.expect("a commit").position
    }
}

pub fn in_house(n: usize, event: impl Into<Event>) -> (StreamName, Event) {
    (StreamName::House(house(n)), event.into())
}

pub fn in_thread(n: usize, event: impl Into<Event>) -> (StreamName, Event) {
    (StreamName::Thread(thread(n)), event.into())
}

pub fn in_directory(event: impl Into<Event>) -> (StreamName, Event) {
    (StreamName::Agents, event.into())
}
