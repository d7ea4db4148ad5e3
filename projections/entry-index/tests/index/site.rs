//! A log in memory, an index in a directory, and what can be said and asked there.

use std::path::PathBuf;
use std::sync::Arc;

use commands::RealSource;
use commands::sessions::{Recording, Sessions};
use entry_index::{EntriesProjector, EntryFilter, EntryIndex, FoundEntries, MessageFilter, Question, Ranked};
use event_log::{Append, Change, Command, Create, Log, Options, Payload, StoreUrl};
use events::session::{Message, Session, SessionId};
use events::{AgentId, Entry, EventId, HouseId, StreamName, ThreadId, Ulid};
use projector::{Copies, advance, verify};
use tempfile::TempDir;

/// Half past midnight of the first of January 2026, in milliseconds.
pub const HALF_PAST: u64 = 1_767_225_600_000 + 30 * 60_000;

pub struct Site {
    pub log: Log,
    pub sessions: Sessions,
    pub index: EntryIndex,
    pub directory: TempDir,
}

pub async fn site() -> Site {
    let store = StoreUrl::Memory.open(&[], true).unwrap();
    let log = Log::open(store, Options { keep: true, ..Options::default() }).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let index = EntryIndex::open(directory.path(), log.clone()).unwrap();
    Site { sessions: Sessions::new(log.clone(), Arc::new(RealSource)), log, index, directory }
}

pub fn house(name: &str) -> HouseId {
    HouseId::new(name).unwrap()
}

/// What a session and its messages have in common.
#[derive(Clone, Copy)]
pub struct Talk {
    pub house: &'static str,
    pub project: &'static str,
    pub agent: &'static str,
    pub role: &'static str,
    pub minute: u32,
}

pub const TALK: Talk = Talk { house: "h-1", project: "/p/loud", agent: "pi", role: "assistant", minute: 30 };

impl Talk {
    pub fn session(&self, id: &str) -> Session {
        let Self { project, agent, .. } = self;
        let created = "2026-01-01T00:00:00Z";
        let text =
            format!(r#"{{"id":"{id}","source_agent":"{agent}","created_at":"{created}","project":"{project}","options":{{}}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    pub fn message(&self, n: usize, said: &str) -> Message {
        let part = format!(r#"{{"id":"0","type":"text","provenance":"conversational","text":"{said}","options":{{}}}}"#);
        let text = format!(
            r#"{{"id":"m{n}","role":"{}","timestamp":"2026-01-01T00:{:02}:00Z","content":[{part}],"options":{{}}}}"#,
            self.role, self.minute
        );
        serde_json::from_str(&text).unwrap()
    }
}

pub fn agent(n: u8) -> AgentId {
    format!("00000000-0000-4000-8000-{n:012}").parse().unwrap()
}

impl Site {
    /// The whole of a session, from its first message on.
    pub async fn say(&self, talk: Talk, id: &str, said: &[&str]) {
        let messages = said.iter().enumerate().map(|(n, said)| talk.message(n, said)).collect();
        let session_id = SessionId::new(id).unwrap();
        let recording = Recording { session_id, session: Some(talk.session(id)), messages };
        self.sessions.record(&house(talk.house), recording).await.unwrap();
    }

    pub async fn write(&self, thread: &str, first: bool, author: u8, ts: u64, kind: &str, payload: &str) {
        let written = format!(r#"{{"id":"{}","ts":1,"type":"{kind}","v":1,"payload":{payload}}}"#, Ulid(1));
        let event = Entry::from_slice(written.as_bytes()).unwrap().event().unwrap();
        let id = EventId(Ulid(u128::from(self.log.position()) + 7));
        let entry = Entry::of(id, ts, Some(agent(author)), &event);
        let payload = Payload::messages([entry.to_json()].iter().map(String::as_str));
        let content_type = Some("application/json".into());
        let change = if first {
            Change::Create(Create { content_type, payload: Some(Ok(payload)), ..Create::default() })
        } else {
            Change::Append(Append { content_type, payload: Ok(payload), producer: None, stream_seq: None, close: false })
        };
        let stream = StreamName::Thread(ThreadId::new(thread).unwrap()).to_string();
        let changes = vec![(stream.into(), change)];
        self.log.submit(Command { id: None, since: None, expect: Vec::new(), changes }).await.unwrap();
    }

    pub async fn thread(&self, house: &str, thread: &str, tags: &str) {
        let created = format!(r#"{{"thread_id":"{thread}","house_id":"{house}","name":"standup","pinned":false,"tags":{tags}}}"#);
        self.write(thread, true, 1, HALF_PAST, "signal.thread.created", &created).await;
    }

    pub async fn chat(&self, thread: &str, text: &str) {
        self.write(thread, false, 1, HALF_PAST, "chat", &format!(r#"{{"text":"{text}"}}"#)).await;
    }

    pub async fn follow(&self) {
        advance(&self.log, &Arc::new(EntriesProjector), &self.index, |_| {}).await.unwrap();
    }

    pub fn ask(&self, of: &str, question: &str, filter: &MessageFilter, most: usize) -> Ranked {
        self.index.messages(&house(of), &Question::new(question), filter, most).unwrap().unwrap()
    }

    pub fn find(&self, of: &str, question: &str, filter: &EntryFilter, most: usize) -> FoundEntries {
        self.index.entries(&house(of), &Question::new(question), filter, 0, most).unwrap().unwrap()
    }

    pub fn found(&self, question: &str) -> Vec<String> {
        ids(&self.ask("h-1", question, &MessageFilter::default(), 10))
    }

    pub async fn sums(&self) -> projector::Sums {
        self.index.live_sums().await.unwrap().unwrap().1
    }

    pub async fn assert_verified(&self) {
        let report = verify(&self.log, &Arc::new(EntriesProjector), &self.index, |_| {}).await.unwrap();
        assert!(report.equal(), "{report:?}");
    }

    /// The copy that serves.
    pub fn copy(&self) -> PathBuf {
        self.directory.path().join(std::fs::read_to_string(self.directory.path().join("live")).unwrap())
    }
}

pub fn ids(ranked: &Ranked) -> Vec<String> {
    ranked.sessions.iter().map(|fit| fit.session_id.clone()).collect()
}

pub fn scores(ranked: &Ranked) -> Vec<(String, f32)> {
    ranked.sessions.iter().map(|fit| (fit.session_id.clone(), fit.score)).collect()
}

pub const LOUD: &str = "walrus walrus walrus";
pub const QUIET: &str =
    "among many other words of a rather long morning somebody mentions the walrus once and goes on with something else";

pub async fn speak_of_fish(site: &Site) {
    site.say(TALK, "mine", &["the walrus sleeps", "parseHeaderLine reads a line"]).await;
    site.say(TALK, "mine-too", &["the heron waits for the line", "walrus and heron"]).await;
    site.thread("h-1", "t-1", "[]").await;
    site.chat("t-1", "the heron is back").await;
}
