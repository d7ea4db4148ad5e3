//! The datasets on a real log in memory and in a real directory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use commands::RealSource;
use commands::sessions::{Recording, Sessions};
use event_log::{Append, Change, Command, Create, Log, Options, Payload, StoreUrl};
use events::session::{Message, Session, SessionId};
use events::{AgentId, AgentKind, DirectoryEvent, Entry, Event, EventId, HouseId, StreamName, ThreadEvent, ThreadId, Ulid};
use lance_sessions::{Around, Datasets, SessionsProjector, Table, Upkeep};
use projector::{Copies, Dropped, Live, Pace, Runner, Sink, Until, advance, rebuild, verify};
use tempfile::TempDir;

struct Site {
    log: Log,
    sessions: Sessions,
    datasets: Datasets,
    directory: TempDir,
}

async fn site() -> Site {
    let store = StoreUrl::Memory.open(&[], true).unwrap();
    let log = Log::open(store, Options { keep: true, ..Options::default() }).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let datasets = Datasets::open(directory.path(), log.clone()).unwrap();
    Site { sessions: Sessions::new(log.clone(), Arc::new(RealSource)), log, datasets, directory }
}

fn house() -> HouseId {
    HouseId::new("h-1").unwrap()
}

fn id(session: &str) -> SessionId {
    SessionId::new(session).unwrap()
}

fn session(id: &str) -> Session {
    let odd = r#""options":{"source":{"n":18446744073709551616,"twice":{"a":1,"a":2},"deep":"\ud800"}}"#;
    let text = format!(r#"{{"id":"{id}","source_agent":"pi","created_at":"2026-01-01T00:00:00Z","project":"/p",{odd}}}"#);
    serde_json::from_str(&text).unwrap()
}

fn message(n: u64) -> Message {
    let said = format!(r#"{{"id":"0","type":"text","provenance":"conversational","text":"word {n}","options":{{}}}}"#);
    let call = r#"{"id":"1","type":"tool_call","provenance":"conversational","call_id":"c","name":"sh","params":{"x":1.00,"y":1e400},"provider_executed":false,"options":{}}"#;
    let file = r#"{"id":"2","type":"file","provenance":"conversational","media_type":"image/png","file_name":"a.png","data":"aGVsbG8=","options":{"k":null}}"#;
    let content = format!("[{said},{call},{file}]");
    let text = format!(
        r#"{{"id":"m{n}","role":"assistant","timestamp":"2026-01-01T00:00:{:02}Z","content":{content},"options":{{"source":{{"n":{n}}}}}}}"#,
        n % 60
    );
    serde_json::from_str(&text).unwrap()
}

impl Site {
    async fn record(&self, session_id: &str, messages: std::ops::Range<u64>) {
        let messages = messages.map(message).collect();
        let recording = Recording { session_id: id(session_id), session: Some(session(session_id)), messages };
        self.sessions.record(&house(), recording).await.unwrap();
    }

    async fn write(&self, stream: &StreamName, first: bool, author: Option<AgentId>, event: &Event) -> String {
        let position = self.log.position();
        let id = EventId(Ulid(u128::from(position) + 7));
        let entry = Entry::of(id, 1_767_225_600_000 + position, author, event);
        let payload = Payload::messages([entry.to_json()].iter().map(String::as_str));
        let content_type = Some("application/json".into());
        let change = if first {
            Change::Create(Create { content_type, payload: Some(Ok(payload)), ..Create::default() })
        } else {
            let append = Append { content_type, payload: Ok(payload), producer: None, stream_seq: None, close: false };
            Change::Append(append)
        };
        let changes = vec![(stream.to_string().into(), change)];
        self.log.submit(Command { id: None, since: None, expect: Vec::new(), changes }).await.unwrap();
        entry.id.to_string()
    }

    /// Feeds the live copy up to now.
    async fn follow(&self) {
        let until = self.log.position();
        let runner = Runner::new(self.log.clone(), Arc::new(SessionsProjector), self.datasets.clone(), Pace::default());
        let mut watermark = runner.monitor().watermark();
        tokio::select! {
            stop = runner.run() => panic!("{stop}"),
            reached = watermark.reached(until, std::time::Duration::from_secs(30)) => assert!(reached, "it does not come there"),
        }
    }

    /// The copy that serves.
    fn copy(&self) -> std::path::PathBuf {
        self.directory.path().join(std::fs::read_to_string(self.directory.path().join("live")).unwrap())
    }

    async fn sums(&self) -> projector::Sums {
        self.datasets.live_sums().await.unwrap().unwrap().1
    }
}

fn versions(copies: &Path) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir(copies).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            count += if entry.file_name() == "_versions" {
                std::fs::read_dir(entry.path()).unwrap().count()
            } else {
                versions(&entry.path())
            };
        }
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_read_back_are_what_was_recorded_value_for_value() {
    let site = site().await;
    site.record("s/1", 0..5).await;
    site.follow().await;
    let stored = site.datasets.session(&house(), &id("s/1")).await.unwrap().unwrap();
    assert_eq!(serde_json::to_string(&stored).unwrap(), serde_json::to_string(&session("s/1")).unwrap());
    let rows = site.datasets.messages(&house(), &id("s/1"), Around::default()).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.id.to_string()).collect::<Vec<_>>(), ["m0", "m1", "m2", "m3", "m4"]);
    assert_eq!(rows[3].search_text.as_deref(), Some("word 3\na.png\nimage/png"));
    let parts = site.datasets.parts(&house(), &id("s/1"), &[rows[3].id.clone()]).await.unwrap();
    assert_eq!(parts.iter().map(|part| part.kind.as_str()).collect::<Vec<_>>(), ["text", "tool_call", "file"]);
    let call: serde_json::Map<String, serde_json::Value> = {
        let text = parts[1].variant.get().replace("1e400", "\"1e400\"");
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!(call["params"]["y"], "1e400", "a number that no float holds");
    assert_eq!(parts[2].data.as_deref(), Some("aGVsbG8="));
    assert_eq!(parts[2].options.get(), r#"{"k":null}"#);
    assert_eq!(site.datasets.count(&house(), &id("s/1"), Around { from: 3, ..Around::default() }).await.unwrap(), 3);
    let other = HouseId::new("h-2").unwrap();
    assert_eq!(site.datasets.session(&other, &id("s/1")).await.unwrap(), None, "another house has none of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_followed_equals_one_rebuilt_and_a_repetition_writes_no_version() {
    let site = site().await;
    for part in 0..4 {
        site.record("s/1", 0..part * 10 + 5).await;
        site.record(&format!("s/{part}x"), 0..3).await;
        site.follow().await;
    }
    let followed = site.sums().await;
    let before = versions(site.directory.path());
    site.record("s/1", 0..35).await;
    site.follow().await;
    assert_eq!(versions(site.directory.path()), before, "nothing new, no version");
    let report = verify(&site.log, &Arc::new(SessionsProjector), &site.datasets, |_| {}).await.unwrap();
    assert!(report.equal(), "{report:?}");
    let rebuilt = rebuild(&site.log, &Arc::new(SessionsProjector), &site.datasets, Until::Head, |_| {}).await.unwrap();
    assert!(rebuilt.swapped);
    assert_eq!(site.sums().await, followed);
    assert!(followed["messages"].starts_with("47 rows"), "{followed:?}");
    assert!(followed["parts"].starts_with("141 rows"), "{followed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_notices_a_table_that_is_gone() {
    let site = site().await;
    site.record("s/1", 0..5).await;
    site.follow().await;
    let live = std::fs::read_to_string(site.directory.path().join("live")).unwrap();
    let parts = site.directory.path().join(live).join("houses/h-1/parts.lance");
    std::fs::remove_dir_all(parts).unwrap();
    let fresh = Datasets::open(site.directory.path(), site.log.clone()).unwrap();
    let report = verify(&site.log, &Arc::new(SessionsProjector), &fresh, |_| {}).await.unwrap();
    assert!(!report.equal());
    let wrong: Vec<_> = report.tables.iter().filter(|it| it.live != it.replayed).map(|it| it.table.as_str()).collect();
    assert_eq!(wrong, ["parts"]);
}

/// The feeder died after it had written some of the tables, and before the checkpoint.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_was_half_applied_is_finished_and_not_doubled() {
    for missing in [&[][..], &["sessions"][..], &["sessions", "messages"][..]] {
        let site = site().await;
        let Live::Current(_) = site.datasets.live().await.unwrap() else { panic!("a new copy is current") };
        let live = site.copy();
        let state = std::fs::read(live.join("state.json")).unwrap();
        site.record("s/1", 0..5).await;
        site.follow().await;
        let expected = site.sums().await;
        std::fs::write(live.join("state.json"), state).unwrap();
        for table in missing {
            std::fs::remove_dir_all(live.join(format!("houses/h-1/{table}.lance"))).unwrap();
        }
        let again = Datasets::open(site.directory.path(), site.log.clone()).unwrap();
        let site = Site { datasets: again, ..site };
        site.follow().await;
        assert_eq!(site.sums().await, expected, "without {missing:?}");
        assert!(expected["parts"].starts_with("15 rows"), "{expected:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_lost_or_cannot_be_read_is_built_anew() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 5] = [
        ("a table", |copy| std::fs::remove_dir_all(copy.join("houses/h-1/parts.lance")).unwrap()),
        ("the whole copy", |copy| std::fs::remove_dir_all(copy).unwrap()),
        ("its state", |copy| std::fs::remove_file(copy.join("state.json")).unwrap()),
        ("the sense of its state", |copy| std::fs::write(copy.join("state.json"), "{").unwrap()),
        ("the head of a table", |copy| {
            let versions = std::fs::read_dir(copy.join("houses/h-1/messages.lance/_versions")).unwrap();
            versions.for_each(|version| std::fs::write(version.unwrap().path(), "").unwrap());
        }),
    ];
    for (what, harm) in harms {
        let site = site().await;
        site.record("s/1", 0..5).await;
        site.follow().await;
        let expected = site.sums().await;
        harm(&site.copy());
        let again = Datasets::open(site.directory.path(), site.log.clone()).unwrap();
        let site = Site { datasets: again, ..site };
        site.follow().await;
        assert_eq!(site.sums().await, expected, "{what}");
        site.record("s/1", 5..7).await;
        site.follow().await;
        assert!(site.sums().await["messages"].starts_with("7 rows"), "{what}: it is fed on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_taken_away_under_its_feeder_is_built_anew() {
    let site = site().await;
    site.record("s/1", 0..5).await;
    let runner = Runner::new(site.log.clone(), Arc::new(SessionsProjector), site.datasets.clone(), Pace::default());
    let mut watermark = runner.monitor().watermark();
    let running = tokio::spawn(async move { runner.run().await });
    let patience = std::time::Duration::from_secs(30);
    assert!(watermark.reached(site.log.position(), patience).await);
    std::fs::remove_dir_all(site.copy().join("houses/h-1/messages.lance")).unwrap();
    site.record("s/1", 5..7).await;
    assert!(watermark.reached(site.log.position(), patience).await);
    assert!(site.sums().await["messages"].starts_with("7 rows"), "what was there before came back");
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_the_past_is_listed_and_dropped_and_one_that_is_fed_or_serves_is_not() {
    let site = site().await;
    site.record("s/1", 0..5).await;
    site.follow().await;
    let until = Until::Position(2);
    rebuild(&site.log, &Arc::new(SessionsProjector), &site.datasets, until, |_| {}).await.unwrap();
    let copies = site.datasets.copies().unwrap();
    let told: Vec<_> = copies.iter().map(|it| (it.name.as_str(), it.state, it.label.as_str(), it.position)).collect();
    assert_eq!(told, [("sessions_v1_1", "live", "", site.log.position()), ("sessions_v1_2", "building", "position 2", 2)]);
    let mut fed = site.datasets.beside("another").await.unwrap();
    assert!(fed.claim().await.unwrap());
    for (name, dropped) in [
        ("sessions_v1_1", Dropped::Live),
        ("sessions_v1_3", Dropped::Busy),
        ("sessions_v1_2", Dropped::Gone),
        ("sessions_v1_2", Dropped::Unknown),
        ("v1_1", Dropped::Unknown),
        ("sessions_../x", Dropped::Unknown),
    ] {
        assert_eq!(site.datasets.drop_copy(name).await.unwrap(), dropped, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_were_never_synced_do_not_outlive_a_power_cut() {
    let site = site().await;
    site.record("s/1", 0..5).await;
    site.follow().await;
    let state = std::fs::read_to_string(site.copy().join("state.json")).unwrap();
    site.record("s/1", 5..7).await;
    site.follow().await;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(state.contains(boot.trim()));
    let before = site.copy();
    std::fs::write(before.join("state.json"), state.replace(boot.trim(), "another")).unwrap();
    site.follow().await;
    assert_ne!(site.copy(), before, "a table was ahead of what was synced");
    assert!(site.sums().await["messages"].starts_with("7 rows"));
}

/// The copy serves from the moment that it is named; what else a swap writes may be missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_swap_that_was_cut_short_is_a_swap() {
    let site = site().await;
    site.record("s/1", 0..5).await;
    site.follow().await;
    let Live::Current(mut old) = site.datasets.live().await.unwrap() else { panic!("it is current") };
    rebuild(&site.log, &Arc::new(SessionsProjector), &site.datasets, Until::Head, |_| {}).await.unwrap();
    let new = site.copy();
    let state = std::fs::read_to_string(new.join("state.json")).unwrap();
    std::fs::write(new.join("state.json"), state.replacen('{', "{\"label\":\"rebuild\",", 1)).unwrap();
    let at = old.checkpoint().await.unwrap();
    let moved = old.commit(&projector::Span { from: at, to: at }, Vec::new()).await;
    assert!(matches!(moved, Err(projector::SinkError::Moved)), "{moved:?}");
    site.record("s/1", 5..7).await;
    site.follow().await;
    assert_eq!(site.copy(), new);
    rebuild(&site.log, &Arc::new(SessionsProjector), &site.datasets, Until::Head, |_| {}).await.unwrap();
    assert_ne!(site.copy(), new, "the copy that serves is not taken for one that is being built");
    assert!(site.sums().await["messages"].starts_with("7 rows"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_may_hold_what_a_filter_means() {
    let site = site().await;
    for name in ["it's", "' or true or '", "%"] {
        site.record(name, 0..2).await;
    }
    site.follow().await;
    for name in ["it's", "' or true or '", "%"] {
        assert_eq!(site.datasets.count(&house(), &id(name), Around::default()).await.unwrap(), 2, "{name}");
    }
    assert_eq!(site.datasets.count(&house(), &id("_"), Around::default()).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_batches_are_made_one_and_nothing_is_lost() {
    let site = site().await;
    for n in 0..40 {
        site.record("s/1", 0..n + 1).await;
        advance(&site.log, &Arc::new(SessionsProjector), &site.datasets, |_| {}).await.unwrap();
    }
    let health = site.datasets.health(&house()).await.unwrap();
    assert!(health["messages"].rows == 40 && health["messages"].fragments <= 33, "{health:?}");
    let report = verify(&site.log, &Arc::new(SessionsProjector), &site.datasets, |_| {}).await.unwrap();
    assert!(report.equal(), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_a_session_of_ours_and_bots_speak_in_it_as_assistants() {
    let site = site().await;
    let (human, bot) = (agent(1), agent(2));
    for (agent, kind, first) in [(human, AgentKind::Human, true), (bot, AgentKind::Bot, false)] {
        let runtime = if kind == AgentKind::Bot { r#","runtime":"pi""# } else { "" };
        let kind = if kind == AgentKind::Bot { "bot" } else { "human" };
        let text = format!(r#"{{"agent_id":"{agent}","kind":"{kind}"{runtime}}}"#);
        let registered = DirectoryEvent::Registered(serde_json::from_str(&text).unwrap());
        site.write(&StreamName::Agents, first, None, &Event::Directory(registered)).await;
    }
    let thread = ThreadId::new("t-1").unwrap();
    let stream = StreamName::Thread(thread.clone());
    let created = r#"{"thread_id":"t-1","house_id":"h-1","name":"standup","pinned":false,"tags":[]}"#;
    let created = ThreadEvent::Created(serde_json::from_str(created).unwrap());
    site.write(&stream, true, Some(human), &Event::Thread(created)).await;
    for (agent, text) in [(human, "good morning"), (bot, "hello")] {
        let entry = Entry::of(EventId(Ulid(1)), 1, None, &chat(text));
        site.write(&stream, false, Some(agent), &entry.event().unwrap()).await;
        site.follow().await;
    }
    let session = site.datasets.session(&house(), &id("t-1")).await.unwrap().unwrap();
    assert_eq!((session.source_agent.as_str(), session.project.as_str()), ("arbe", "h-1"));
    let said = Around { said: true, ..Around::default() };
    let rows = site.datasets.messages(&house(), &id("t-1"), said).await.unwrap();
    let told: Vec<_> = rows.iter().map(|row| (row.role.as_str(), row.search_text.as_deref().unwrap())).collect();
    assert_eq!(told, [("user", "good morning"), ("assistant", "hello")]);
    assert_eq!(site.datasets.count(&house(), &id("t-1"), Around::default()).await.unwrap(), 3, "the signal is carried");
    let report = verify(&site.log, &Arc::new(SessionsProjector), &site.datasets, |_| {}).await.unwrap();
    assert!(report.equal(), "{report:?}");
}

fn agent(n: u8) -> AgentId {
    format!("00000000-0000-4000-8000-{n:012}").parse().unwrap()
}

fn chat(text: &str) -> Event {
    let entry = format!(r#"{{"id":"{}","ts":1,"type":"chat","v":1,"payload":{{"text":"{text}"}}}}"#, Ulid(1));
    Entry::from_slice(entry.as_bytes()).unwrap().event().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_feeds_a_copy_and_a_swap_moves_it_on() {
    let site = site().await;
    site.record("s/1", 0..5).await;
    let other = Datasets::open(site.directory.path(), site.log.clone()).unwrap();
    let Live::Current(mut first) = site.datasets.live().await.unwrap() else { panic!("a new copy is current") };
    let Live::Current(mut second) = other.live().await.unwrap() else { panic!("it is the same") };
    assert!(first.claim().await.unwrap());
    assert!(!second.claim().await.unwrap());
    drop(first);
    assert!(second.claim().await.unwrap());
    rebuild(&site.log, &Arc::new(SessionsProjector), &site.datasets, Until::Head, |_| {}).await.unwrap();
    let span = projector::Span { from: second.checkpoint().await.unwrap(), to: second.checkpoint().await.unwrap() };
    assert!(matches!(second.commit(&span, Vec::new()).await, Err(projector::SinkError::Moved)));
    assert_eq!(other.count(&house(), &id("s/1"), Around::default()).await.unwrap(), 5, "readers see the new copy");
}

#[tokio::test(flavor = "multi_thread")]
async fn upkeep_indexes_everything_and_keeps_every_row() {
    let site = site().await;
    site.record("s/1", 0..3).await;
    for n in 0..6 {
        site.record(&format!("s/{n}"), 0..3).await;
        site.follow().await;
    }
    let before = site.sums().await;
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    assert_eq!(site.sums().await, before);
    let health = site.datasets.health(&house()).await.unwrap();
    assert_eq!((health["messages"].rows, health["messages"].unindexed), (18, 0), "{health:?}");
    assert_eq!(health["messages"].indexes, 7);
    let unchanged = versions(site.directory.path());
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    assert_eq!(versions(site.directory.path()), unchanged, "upkeep of what is in order writes nothing");
    let plan = site.datasets.plan(&house(), Table::Messages, "id = 'm1' and session_id = 's/1'").await.unwrap().unwrap();
    assert!(plan.contains("ScalarIndexQuery"), "{plan}");
    let found = site.datasets.message(&house(), &events::session::MessageId::new("m1").unwrap(), None).await.unwrap();
    assert_eq!(found.len(), 6, "an id is unique within its session only");
}
