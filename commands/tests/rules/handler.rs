//! The shell on a real log in memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use commands::command::{
    AddMember, AppendEntry, CreateEnvironment, CreateHouse, CreateThread, Delegate, DeleteEnvironment, FinishRun, Outcome,
    PinThread, RegisterAgent, RemoveMember, RenameThread, StartRun, TagThread, UntagThread,
};
use commands::{Actor, Command, CommandError, Commands, Done, Source};
use event_log::{Append, Change, Create, Log, Options, Payload, Store, StoreUrl};
use events::{AgentId, HouseId, Role, StreamName, ThreadId};
use futures::future::join_all;

use crate::scene::{self, AS_MEMBER, AS_OWNER, BOT, MEMBER, OWNER, SYSTEM};

/// A clock and numbers that only go up, different in every server.
#[derive(Debug)]
struct Counting {
    seed: u128,
    drawn: AtomicU64,
}

impl Source for Counting {
    fn now_ms(&self) -> u64 {
        1_700_000_000_000 + self.drawn.load(Ordering::Relaxed)
    }

    fn random(&self) -> u128 {
        let n = self.drawn.fetch_add(1, Ordering::Relaxed);
        event_log::command_id(&[&self.seed.to_string(), &n.to_string()])
    }
}

fn store() -> Store {
    "memory:".parse::<StoreUrl>().unwrap().open(&[], true).unwrap()
}

async fn open(store: &Store) -> Log {
    Log::open(store.clone(), Options { keep: false, ..Options::default() }).await.unwrap()
}

fn start(log: &Log, seed: u128) -> Commands {
    Commands::start(log.clone(), Arc::new(Counting { seed, drawn: AtomicU64::new(0) }))
}

async fn alone() -> (Log, Commands) {
    let log = open(&store()).await;
    let commands = start(&log, 1);
    (log, commands)
}

/// A server on a log that holds these entries.
pub async fn on(entries: &[(StreamName, u64, events::Entry)]) -> (Log, Commands) {
    let log = open(&store()).await;
    for same in entries.chunk_by(|a, b| a.0 == b.0) {
        let texts: Vec<_> = same.iter().map(|(_, _, entry)| entry.to_json()).collect();
        let payload = Ok(Payload::messages(texts.iter().map(String::as_str)));
        let content_type = Some("application/json".into());
        let (stream, first, _) = &same[0];
        let change = if *first == 0 {
            Change::Create(Create { content_type, payload: Some(payload), ..Create::default() })
        } else {
            Change::Append(Append { content_type, payload, producer: None, stream_seq: None, close: false })
        };
        log.submit(event_log::Command::one(stream.to_string(), change)).await.unwrap();
    }
    let commands = start(&log, 1);
    commands.caught_up().await.unwrap();
    (log, commands)
}

/// A house with an owner and a bot.
async fn house(commands: &Commands) -> HouseId {
    commands.execute(SYSTEM, scene::human(OWNER), None).await.unwrap();
    commands.execute(SYSTEM, scene::bot(BOT), None).await.unwrap();
    let create = CreateHouse { house_id: None, name: "home".to_owned(), owner: None };
    let id = commands.execute(AS_OWNER, create, None).await.unwrap().made.house_id.unwrap();
    commands.execute(AS_OWNER, scene::add_member(id.as_str(), BOT), None).await.unwrap();
    id
}

fn chat(house: &HouseId) -> CreateThread {
    CreateThread { thread_id: None, ..scene::chat(house.as_str(), "unused") }
}

async fn thread(commands: &Commands, create: CreateThread) -> ThreadId {
    commands.execute(AS_OWNER, create, None).await.unwrap().made.thread_id.unwrap()
}

fn say(id: &ThreadId, text: &str) -> AppendEntry {
    scene::say(id.as_str(), text)
}

fn environment(house: &HouseId) -> CreateEnvironment {
    CreateEnvironment { environment_id: None, ..scene::create_environment(house.as_str(), "unused") }
}

async fn entries(log: &Log, stream: &StreamName) -> Vec<events::Entry> {
    let page = log.read(&stream.to_string(), event_log::From::Start, usize::MAX).await.unwrap();
    let text = page.chunks.join(&b',');
    serde_json::from_slice(&[b"[".as_slice(), &text, b"]"].concat()).unwrap()
}

#[tokio::test]
async fn a_command_is_durable_and_seen_by_the_next() {
    let (log, commands) = alone().await;
    let id = house(&commands).await;
    let thread = thread(&commands, chat(&id)).await;
    let done = commands.execute(AS_OWNER, say(&thread, "hello"), None).await.unwrap();
    assert_eq!((done.entries.len(), done.entries[0].seq), (1, 1));
    commands.wait(done.position).await.unwrap();
    let stream = StreamName::Thread(thread);
    assert_eq!(entries(&log, &stream).await[1], done.entries[0].entry);
    assert_eq!(commands.with_world(|world| world.tail(&stream)), Some(2));
    assert!(commands.is_caught_up());
}

#[tokio::test]
async fn a_refused_command_appends_nothing() {
    let (log, commands) = alone().await;
    let id = house(&commands).await;
    let before = log.position();
    let stranger = Actor::Agent(scene::STRANGER);
    let error = commands.execute(stranger, chat(&id), None).await.unwrap_err();
    assert_eq!((error.code(), log.position()), ("not_found", before));
}

#[tokio::test]
async fn what_is_already_so_is_done_without_a_word() {
    let (log, commands) = alone().await;
    let id = house(&commands).await;
    let thread_id = thread(&commands, chat(&id)).await;
    commands.execute(AS_OWNER, PinThread { thread_id: thread_id.clone() }, None).await.unwrap();
    let before = log.position();
    let done = commands.execute(AS_OWNER, PinThread { thread_id }, None).await.unwrap();
    assert_eq!((done.entries.len(), log.position()), (0, before));
}

fn same(a: &Done, b: &Done) {
    assert_eq!((a.position, &a.made, &a.entries), (b.position, &b.made, &b.entries));
}

#[tokio::test]
async fn a_retry_is_answered_with_what_the_first_attempt_did() {
    let (log, commands) = alone().await;
    let id = house(&commands).await;
    let first = commands.execute(AS_OWNER, chat(&id), Some("key")).await.unwrap();
    let thread = first.made.thread_id.clone().unwrap();
    let said = commands.execute(AS_OWNER, say(&thread, "once"), Some("said")).await.unwrap();
    same(&first, &commands.execute(AS_OWNER, chat(&id), Some("key")).await.unwrap());
    same(&said, &commands.execute(AS_OWNER, say(&thread, "once"), Some("said")).await.unwrap());
    assert_eq!(entries(&log, &StreamName::Thread(thread)).await.len(), 2);
}

#[tokio::test]
async fn a_retry_succeeds_even_though_its_own_effect_would_refuse_it() {
    let (_, commands) = alone().await;
    let id = house(&commands).await;
    let driven = thread(&commands, CreateThread { agent_id: Some(BOT), ..chat(&id) }).await;
    let start = StartRun { thread_id: driven.clone(), run_id: None };
    let first = commands.execute(AS_OWNER, start.clone(), Some("go")).await.unwrap();
    assert_eq!(commands.execute(AS_OWNER, start.clone(), None).await.unwrap_err().code(), "wrong_status");
    same(&first, &commands.execute(AS_OWNER, start, Some("go")).await.unwrap());
    let finish = |run_id| FinishRun { run_id, ..scene::finish(driven.as_str(), Outcome::Completed) };
    commands.execute(SYSTEM, finish(first.made.run_id.clone()), Some("end")).await.unwrap();
    commands.execute(SYSTEM, finish(first.made.run_id.clone()), Some("end")).await.unwrap();
}

#[tokio::test]
async fn a_retry_is_known_after_a_restart_and_on_another_server() {
    let store = store();
    let log = open(&store).await;
    let commands = start(&log, 1);
    let id = house(&commands).await;
    let first = commands.execute(AS_OWNER, chat(&id), Some("key")).await.unwrap();
    drop(commands);
    let again = start(&log, 2);
    same(&first, &again.execute(AS_OWNER, chat(&id), Some("key")).await.unwrap());
    log.close().await;
    let elsewhere = start(&open(&store).await, 3);
    same(&first, &elsewhere.execute(AS_OWNER, chat(&id), Some("key")).await.unwrap());
}

#[tokio::test]
async fn who_has_left_a_house_gets_no_receipts_from_it_any_more() {
    let (log, commands) = alone().await;
    let id = house(&commands).await;
    commands.execute(SYSTEM, scene::human(MEMBER), None).await.unwrap();
    commands.execute(AS_OWNER, scene::add_member(id.as_str(), MEMBER), None).await.unwrap();
    let created = commands.execute(AS_MEMBER, chat(&id), Some("thread")).await.unwrap();
    let said = say(&created.made.thread_id.clone().unwrap(), "mine");
    commands.execute(AS_MEMBER, said.clone(), Some("said")).await.unwrap();
    commands.execute(AS_MEMBER, environment(&id), Some("recipe")).await.unwrap();
    let leave = RemoveMember { house_id: id.clone(), agent_id: MEMBER };
    let left = commands.execute(AS_MEMBER, leave.clone(), Some("leave")).await.unwrap();
    same(&left, &commands.execute(AS_MEMBER, leave, Some("leave")).await.unwrap());
    let before = log.position();
    let retries: [(Command, &str); 3] =
        [(chat(&id).into(), "thread"), (said.into(), "said"), (environment(&id).into(), "recipe")];
    for (command, key) in retries.clone() {
        let error = commands.execute(AS_MEMBER, command, Some(key)).await.unwrap_err();
        assert_eq!((error.code(), log.position()), ("not_found", before), "{key}");
    }
    commands.execute(AS_OWNER, scene::add_member(id.as_str(), MEMBER), None).await.unwrap();
    same(&created, &commands.execute(AS_MEMBER, retries[0].0.clone(), Some("thread")).await.unwrap());
}

#[tokio::test]
async fn who_was_sent_away_from_the_house_they_made_does_not_hear_of_it() {
    let (_, commands) = alone().await;
    house(&commands).await;
    commands.execute(SYSTEM, scene::human(MEMBER), None).await.unwrap();
    let create = CreateHouse { house_id: None, name: "theirs".to_owned(), owner: None };
    let made = commands.execute(AS_MEMBER, create.clone(), Some("house")).await.unwrap().made.house_id.unwrap();
    let owner = AddMember { role: Role::Owner, ..scene::add_member(made.as_str(), OWNER) };
    commands.execute(AS_MEMBER, owner, None).await.unwrap();
    commands.execute(AS_OWNER, RemoveMember { house_id: made, agent_id: MEMBER }, None).await.unwrap();
    let error = commands.execute(AS_MEMBER, create, Some("house")).await.unwrap_err();
    assert_eq!(error.code(), "not_found");
}

#[tokio::test]
async fn a_key_belongs_to_one_command_of_one_actor() {
    let (_, commands) = alone().await;
    let id = house(&commands).await;
    let first = commands.execute(AS_OWNER, chat(&id), Some("key")).await.unwrap();
    let other = CreateThread { name: Some("other".to_owned()), ..chat(&id) };
    let error = commands.execute(AS_OWNER, other, Some("key")).await.unwrap_err();
    assert_eq!(error.code(), "idempotency_key_reused");
    let of_bot = commands.execute(Actor::Agent(BOT), chat(&id), Some("key")).await.unwrap();
    assert_ne!(first.made, of_bot.made);
    assert_eq!(commands.execute(AS_OWNER, chat(&id), Some("")).await.unwrap_err().code(), "invalid");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_retries_at_once_are_one_command() {
    let (log, commands) = alone().await;
    let id = house(&commands).await;
    let tries = (0..50).map(|_| {
        let (commands, create) = (commands.clone(), chat(&id));
        tokio::spawn(async move { commands.execute(AS_OWNER, create, Some("key")).await.unwrap() })
    });
    let done: Vec<_> = join_all(tries).await.into_iter().map(Result::unwrap).collect();
    done.iter().for_each(|one| same(one, &done[0]));
    let stream = StreamName::Thread(done[0].made.thread_id.clone().unwrap());
    assert_eq!(entries(&log, &stream).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_talk_at_once_while_the_house_changes() {
    let (log, commands) = alone().await;
    let id = house(&commands).await;
    let thread = thread(&commands, chat(&id)).await;
    let work = (0..50).map(|n| {
        let (commands, id, thread) = (commands.clone(), id.clone(), thread.clone());
        tokio::spawn(async move {
            commands.execute(AS_OWNER, say(&thread, &n.to_string()), None).await.unwrap();
            commands.execute(AS_OWNER, environment(&id), None).await.unwrap();
            let tag = TagThread { thread_id: thread.clone(), tags: vec![format!("tag-{n}")] };
            commands.execute(AS_OWNER, tag, None).await.unwrap();
        })
    });
    for one in join_all(work).await {
        one.unwrap();
    }
    commands.with_world(|world| {
        assert_eq!(world.environments().count(), 50);
        assert_eq!(world.thread(&thread).unwrap().tags.len(), 50, "no tag was lost to another");
    });
    let said = entries(&log, &StreamName::Thread(thread)).await;
    assert_eq!(said.iter().filter(|entry| entry.kind == "chat").count(), 50);
    assert_eq!(said.iter().map(|entry| entry.id).collect::<BTreeSet<_>>().len(), said.len());
}

/// A try draws the id of its event, a command the id of what it makes, and a repeated try more. Without turns all but one of those
/// that decide on the same house run into each other.
#[tokio::test]
async fn neighbours_who_change_one_house_take_turns() {
    const MANY: u64 = 100;
    let log = open(&store()).await;
    let source = Arc::new(Counting { seed: 1, drawn: AtomicU64::new(0) });
    let commands = Commands::start(log, source.clone());
    let id = house(&commands).await;
    let before = source.drawn.load(Ordering::Relaxed);
    let all = join_all((0..MANY).map(|_| commands.execute(AS_OWNER, environment(&id), None))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(source.drawn.load(Ordering::Relaxed) - before, 2 * MANY, "nobody had to try twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_that_start_a_run_one_does() {
    let (_, commands) = alone().await;
    let id = house(&commands).await;
    let driven = thread(&commands, CreateThread { agent_id: Some(BOT), ..chat(&id) }).await;
    let tries = (0..50).map(|_| {
        let (commands, start) = (commands.clone(), StartRun { thread_id: driven.clone(), run_id: None });
        tokio::spawn(async move { commands.execute(AS_OWNER, start, None).await })
    });
    let tries: Vec<_> = join_all(tries).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(tries.iter().filter(|one| one.is_ok()).count(), 1);
    assert!(tries.iter().filter_map(|one| one.as_ref().err()).all(|error| error.code() == "wrong_status"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_handlers_on_one_log_agree() {
    let log = open(&store()).await;
    let (one, two) = (start(&log, 1), start(&log, 2));
    race(one, two).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_servers_on_one_store_agree() {
    let store = store();
    let (a, b) = (open(&store).await, open(&store).await);
    let (one, two) = (start(&a, 1), start(&b, 2));
    race(one, two).await;
}

async fn race(one: Commands, two: Commands) {
    let id = house(&one).await;
    let thread_id = thread(&two, chat(&id)).await;
    let work = (0..20).map(|n| {
        let commands = if n % 2 == 0 { one.clone() } else { two.clone() };
        let (id, thread_id) = (id.clone(), thread_id.clone());
        tokio::spawn(async move {
            commands.execute(AS_OWNER, environment(&id), None).await.unwrap();
            let tag = TagThread { thread_id, tags: vec![format!("tag-{n}")] };
            commands.execute(AS_OWNER, tag, None).await.unwrap().position
        })
    });
    let end = join_all(work).await.into_iter().map(Result::unwrap).max().unwrap();
    one.wait(end).await.unwrap();
    two.wait(end).await.unwrap();
    let worlds = [&one, &two].map(|commands| commands.with_world(Clone::clone));
    assert_eq!(worlds[0].thread(&thread_id).unwrap().tags.len(), 20);
    assert_eq!(worlds[0], worlds[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deletion_that_lost_its_race_says_so() {
    let log = open(&store()).await;
    let (one, two) = (start(&log, 1), start(&log, 2));
    let id = house(&one).await;
    for n in 0..40 {
        let made = one.execute(AS_OWNER, environment(&id), None).await.unwrap().made;
        let environment_id = made.environment_id.unwrap();
        let key = (n % 2 == 0).then_some(environment_id.as_str());
        two.caught_up().await.unwrap();
        let refer = CreateThread { environment_id: Some(environment_id.clone()), ..chat(&id) };
        let delete = DeleteEnvironment { environment_id: environment_id.clone() };
        let race = (two.execute(AS_OWNER, refer, None), one.execute(AS_OWNER, delete.clone(), key));
        let (referred, deleted) = tokio::join!(race.0, race.1);
        one.caught_up().await.unwrap();
        let stays = one.with_world(|world| world.environment(&environment_id).is_some());
        match (referred, &deleted) {
            (Ok(_), Err(error)) => assert_eq!((error.code(), stays), ("environment_in_use", true)),
            (Err(error), Ok(_)) => assert_eq!((error.code(), stays), ("environment_not_found", false)),
            other => panic!("{other:?}"),
        }
        if key.is_some() {
            let again = one.execute(AS_OWNER, delete, key).await;
            assert_eq!(again.is_ok(), deleted.is_ok(), "a retry is told the same");
        }
    }
}

#[tokio::test]
async fn a_large_entry_is_folded_and_read_back() {
    let (_, commands) = alone().await;
    let id = house(&commands).await;
    let thread = thread(&commands, chat(&id)).await;
    let payload = format!(r#"{{"text":"{}"}}"#, "x".repeat(6 << 20));
    let entry = scene::entry(thread.as_str(), "pi.assistant", &payload);
    let first = commands.execute(Actor::Agent(BOT), entry.clone(), Some("large")).await.unwrap();
    same(&first, &commands.execute(Actor::Agent(BOT), entry, Some("large")).await.unwrap());
    assert_eq!(first.entries[0].entry.payload.get(), payload);
    commands.execute(AS_OWNER, say(&thread, "after it"), None).await.unwrap();
}

#[tokio::test]
async fn delegation_appends_to_both_streams_at_one_position() {
    let (_, commands) = alone().await;
    let id = house(&commands).await;
    let parent = thread(&commands, chat(&id)).await;
    let made = commands.execute(AS_OWNER, environment(&id), None).await.unwrap().made;
    let environment_id = made.environment_id;
    let task = Delegate { child_thread_id: None, environment_id, ..scene::delegate(parent.as_str(), "unused") };
    let done = commands.execute(AS_OWNER, task, None).await.unwrap();
    let child = done.made.thread_id.unwrap();
    let streams: Vec<_> = done.entries.iter().map(|recorded| (&recorded.stream, recorded.seq)).collect();
    assert_eq!(streams, [(&StreamName::Thread(child.clone()), 0), (&StreamName::Thread(parent), 1)]);
}

#[tokio::test]
async fn what_cannot_be_folded_stops_commands_loudly() {
    let (log, commands) = alone().await;
    let id = house(&commands).await;
    let stream = StreamName::House(id.clone()).to_string();
    let payload =
        Ok(Payload::messages([r#"{"id":"00000000000000000000000000","ts":1,"type":"signal.house.burned","v":1,"payload":{}}"#]));
    let junk = Append { content_type: None, payload, producer: None, stream_seq: None, close: false };
    log.submit(event_log::Command::one(stream, Change::Append(junk))).await.unwrap();
    let error = commands.execute(AS_OWNER, chat(&id), None).await.unwrap_err();
    assert_eq!(error.code(), "stopped");
    assert!(commands.caught_up().await.is_err());
}

#[tokio::test]
async fn a_bot_without_an_id_gets_one() {
    let (_, commands) = alone().await;
    house(&commands).await;
    let register = RegisterAgent { agent_id: None, ..scene::bot(BOT) };
    let ids: Vec<AgentId> = join_all((0..3).map(|_| commands.execute(AS_OWNER, register.clone(), None)))
        .await
        .into_iter()
        .map(|done| done.unwrap().made.agent_id.unwrap())
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 3);
    assert!(ids.iter().all(|id| id.0.get_version_num() == 4));
}

#[tokio::test]
async fn several_commands_happen_together_or_not_at_all() {
    let (log, commands) = alone().await;
    let id = house(&commands).await;
    let thread_id = thread(&commands, chat(&id)).await;
    let tags = |tags: &[&str]| -> Vec<String> { tags.iter().map(|tag| (*tag).to_owned()).collect() };
    let all = |name: &str| -> Vec<Command> {
        vec![
            RenameThread { thread_id: thread_id.clone(), name: Some(name.to_owned()) }.into(),
            TagThread { thread_id: thread_id.clone(), tags: tags(&["a", "b"]) }.into(),
            UntagThread { thread_id: thread_id.clone(), tags: tags(&["b"]) }.into(),
        ]
    };
    let before = log.position();
    let refused = commands.execute_all(AS_OWNER, all(&"x".repeat(10_000)), None).await;
    assert!(matches!(refused, Err(CommandError::Rejected(_))), "{refused:?}");
    assert_eq!(log.position(), before);
    let first = commands.execute_all(AS_OWNER, all("n"), Some("k")).await.unwrap();
    let again = commands.execute_all(AS_OWNER, all("n"), Some("k")).await.unwrap();
    assert_eq!((first.position, first.entries.len()), (again.position, again.entries.len()));
    let thread = commands.with_world(|world| world.thread(&thread_id).cloned()).unwrap();
    assert_eq!((thread.name.as_deref(), thread.tags), (Some("n"), tags(&["a"])));
    assert_eq!(log.position(), before + 1);
}
