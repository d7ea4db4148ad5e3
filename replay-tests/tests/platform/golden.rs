//! A whole log as it was once written, with every kind of event in it. Today's code reads it, decodes each event to the value it had,
//! and makes the rows that follow from it. The log is never written anew; a new kind or version gets a log beside this one. The rows
//! are those of the projection's current version: a new version of the tables changes them, by hand.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use commands::Commands;
use commands::command::*;
use commands::{Actor, Command};
use event_log::{Cursor, Log, Options, StoreUrl, check};
use events::{Entry, KINDS, Role, SessionKey, StreamName, Uuid};
use replay_tests::rig::Standing;
use tempfile::TempDir;

use crate::dump::dump;
use crate::play::{Counting, write};
use crate::postgres::database;
use crate::replays::recorded;
use crate::running::run;
use crate::scene::*;

const PI: [&str; 5] = ["pi.chunk", "pi.assistant", "pi.tool_result", "pi.compaction", "pi.entry"];

fn golden(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("fixtures/log-v1").join(file)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for child in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let there = to.join(child.file_name());
        if child.file_type().unwrap().is_dir() {
            copy(&child.path(), &there);
        } else {
            std::fs::copy(child.path(), there).unwrap();
        }
    }
}

/// Kinds that came after this log was written, which is never written again. Their golden values are in `events`.
const LATER: [&str; 2] = ["signal.dispatch.claimed", "signal.dispatch.warned"];

/// Reading leaves no trace in the fixture.
async fn opened() -> (Log, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    copy(&golden("store"), directory.path());
    let store = || StoreUrl::File(directory.path().to_owned()).open(&[], false).unwrap();
    let found = check::check(store(), &mut |_| {}).await.unwrap();
    assert!(found.damages.is_empty() && found.slots > 60, "{found:?}");
    (Log::open_existing(store(), Options::default()).await.unwrap(), directory)
}

/// A line per event: where it stands, and the value it decodes to.
async fn values(log: &Log) -> String {
    let mut follower = log.follow(Cursor::default()).await.unwrap();
    let mut text = String::new();
    while let Some(commit) = follower.try_next().await.unwrap() {
        for one in recorded(&commit) {
            let value = Entry::of(one.entry.id, one.ts, one.entry.author_agent_id, &one.event);
            let written = (&one.entry.kind, one.entry.v);
            text.push_str(&format!(
                "{} {}/{} {}v{} {}\n",
                one.position,
                one.stream,
                one.seq,
                written.0,
                written.1,
                value.to_json()
            ));
        }
    }
    text
}

#[tokio::test]
async fn every_event_of_the_golden_log_decodes_to_its_golden_value() {
    let (log, _directory) = opened().await;
    let expected = std::fs::read_to_string(golden("events.txt")).unwrap();
    assert_eq!(values(&log).await, expected);
    let of_then = KINDS.iter().map(|(kind, _)| *kind).filter(|kind| !LATER.contains(kind)).chain(PI);
    let missing: Vec<_> = of_then.filter(|kind| !expected.contains(&format!(" {kind}v1 "))).collect();
    assert!(missing.is_empty(), "without an event: {missing:?}");
}

#[tokio::test]
async fn the_rows_of_the_golden_log_are_the_golden_rows() {
    let (log, _directory) = opened().await;
    let Some(db) = database().await else { return };
    run(&log, &db.rows).reaches(log.position()).await;
    assert_eq!(dump(&db.rows).await, std::fs::read_to_string(golden("rows.txt")).unwrap());
}

#[tokio::test]
async fn the_world_folds_from_the_golden_log() {
    let (log, _directory) = opened().await;
    let commands = Commands::start(log, Counting::from(1));
    commands.caught_up().await.unwrap();
    commands.with_world(|world| {
        crate::invariants::check(world);
        assert_eq!(world.threads().count(), 4);
    });
}

/// `cargo test -p replay-tests --test platform -- --ignored write_a_golden_log`
#[tokio::test]
#[ignore = "for a log of a new version: writes fixtures"]
async fn write_a_golden_log() {
    let (directory, db) = (tempfile::tempdir().unwrap(), database().await.unwrap());
    let store = StoreUrl::File(directory.path().to_owned()).open(&[], true).unwrap();
    let world = Standing::at(1_790_000_000_000, 1);
    let log = Log::open(store, Options { world: world.clone(), keep: false, ..Options::default() }).await.unwrap();
    let source = Counting::from(7);
    let commands = Commands::start(log.clone(), source.clone());
    for (n, (actor, command)) in opening().into_iter().chain(everything()).enumerate() {
        let key = (n % 3 == 0).then(|| format!("key {n}"));
        let asked = format!("{command:?}");
        let done = commands.execute(actor, command, key.as_deref()).await;
        done.unwrap_or_else(|error| panic!("{asked}: {error}"));
        world.pass(1_000);
        source.drawn.fetch_add(1_000, Ordering::Relaxed);
    }
    write(&log, &recorded_session()).await;
    run(&log, &db.rows).reaches(log.position()).await;
    log.close().await;
    assert!(!golden("store").exists(), "golden files are not written over");
    copy(directory.path(), &golden("store"));
    without_runways(&golden("store"));
    let log = Log::open_existing(StoreUrl::File(directory.path().to_owned()).open(&[], false).unwrap(), Options::default());
    std::fs::write(golden("events.txt"), values(&log.await.unwrap()).await).unwrap();
    std::fs::write(golden("rows.txt"), dump(&db.rows).await).unwrap();
}

/// As the fixtures of events have one.
fn recorded_session() -> Vec<(StreamName, u64, Entry)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("event-store/events/fixtures");
    let stream = StreamName::Session(house("h"), SessionKey::new("5e55").unwrap());
    let entry = |kind: &str| Entry::from_json(&std::fs::read_to_string(fixtures.join(kind).join("v1.json")).unwrap()).unwrap();
    let entries = ["session.recorded", "session.message_recorded"].map(entry);
    (0..).zip(entries).map(|(seq, entry)| (stream.clone(), seq, entry)).collect()
}

/// The zeros that lie ahead of the last frame in a segment.
fn without_runways(directory: &Path) {
    for child in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if child.file_type().unwrap().is_dir() {
            without_runways(&child.path());
        } else if child.path().extension().is_some_and(|extension| extension == "slots") {
            let bytes = std::fs::read(child.path()).unwrap();
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            std::fs::write(child.path(), &bytes[..used]).unwrap();
        }
    }
}

/// Something of every kind, and something left to do in the end.
fn everything() -> Vec<(Actor, Command)> {
    let mut all = of_the_directory_and_the_house();
    all.extend(of_sandboxes());
    all.extend(of_threads());
    all.extend(said());
    all
}

fn of_the_directory_and_the_house() -> Vec<(Actor, Command)> {
    let bound = |name: &str, required| BindSecret { environment_id: environment("e"), name: name.into(), required };
    let set = |id: &str, name: &str| SetSecret {
        house_id: house("h"),
        secret_id: Some(secret(id)),
        name: name.into(),
        vault_secret_id: Uuid::from_u128(7),
    };
    vec![
        (AS_BOT, RenameAgent { agent_id: BOT, name: Some("Pi «π»".into()) }.into()),
        (AS_OWNER, IssueKey { agent_id: OWNER, key_id: Some(key("k")), hash: hash('a'), label: Some("laptop".into()) }.into()),
        (AS_OWNER, IssueKey { agent_id: OWNER, key_id: Some(key("k2")), hash: hash('b'), label: None }.into()),
        (AS_OWNER, RevokeKey { agent_id: OWNER, key_id: key("k") }.into()),
        (AS_OWNER, RenameHouse { house_id: house("h"), name: "Haus \"A\"".into() }.into()),
        (AS_OWNER, SetDefaultEnvironment { house_id: house("h"), environment_id: Some(environment("e")) }.into()),
        (AS_OWNER, SetRole { house_id: house("h"), agent_id: MEMBER, role: Role::Owner }.into()),
        (AS_OWNER, RemoveMember { house_id: house("h"), agent_id: OTHER_BOT }.into()),
        (AS_OWNER, create_environment("h", "e2").into()),
        (AS_OWNER, UpdateEnvironment { environment_id: environment("e"), name: Some("main".into()), config: None }.into()),
        (AS_OWNER, DeleteEnvironment { environment_id: environment("e2") }.into()),
        (AS_OWNER, bound("TOKEN", true).into()),
        (AS_OWNER, bound("SPARE", false).into()),
        (AS_OWNER, UnbindSecret { environment_id: environment("e"), name: "SPARE".into() }.into()),
        (AS_OWNER, set("x1", "TOKEN").into()),
        (AS_OWNER, set("x2", "OLD").into()),
        (AS_OWNER, RotateSecret { secret_id: secret("x1"), vault_secret_id: Uuid::from_u128(8) }.into()),
        (AS_OWNER, DeleteSecret { secret_id: secret("x2") }.into()),
    ]
}

fn of_sandboxes() -> Vec<(Actor, Command)> {
    let resume = ResumeSandbox { sandbox_id: sandbox("s"), new_sandbox_id: Some(sandbox("s2")), provider: None };
    vec![
        (SYSTEM, live("s").into()),
        (AS_MEMBER, SetThreadSandbox { thread_id: thread("t"), sandbox_id: Some(sandbox("s")) }.into()),
        (SYSTEM, MarkSandboxDead { sandbox_id: sandbox("s"), reason: Some("idle".into()) }.into()),
        (AS_MEMBER, resume.into()),
        (SYSTEM, DestroySandbox { sandbox_id: sandbox("s") }.into()),
    ]
}

fn of_threads() -> Vec<(Actor, Command)> {
    let failure = Failure { error_class: "exit".into(), message: "it went wrong".into(), exit_code: Some(101) };
    let thread_id = thread("t");
    vec![
        (AS_MEMBER, RenameThread { thread_id: thread_id.clone(), name: Some("über alles".into()) }.into()),
        (AS_MEMBER, PinThread { thread_id: thread_id.clone() }.into()),
        (AS_MEMBER, TagThread { thread_id: thread_id.clone(), tags: vec!["b \"q\"".into(), "a,{}".into()] }.into()),
        (AS_MEMBER, PinThread { thread_id: thread("d") }.into()),
        (AS_MEMBER, UnpinThread { thread_id: thread("d") }.into()),
        (AS_MEMBER, SetThreadEnvironment { thread_id, environment_id: Some(environment("e")) }.into()),
        (AS_MEMBER, delegate("t", "child").into()),
        (SYSTEM, start("child", "r1").into()),
        (SYSTEM, FinishRun { failure: Some(failure), ..finish("child", Outcome::Failed) }.into()),
        (AS_MEMBER, ResumeRun { thread_id: thread("child"), run_id: Some(run_id("r2")) }.into()),
        (SYSTEM, OrphanRun { thread_id: thread("child"), run_id: None, silent_ms: 60_000 }.into()),
        (AS_STRANGER, CloseThread { thread_id: thread("ot") }.into()),
    ]
}

fn run_id(id: &str) -> events::RunId {
    crate::scene::run(id)
}

fn said() -> Vec<(Actor, Command)> {
    let mut all: Vec<(Actor, Command)> = vec![(AS_MEMBER, say("t", "Überprüfe den \"Login\"\n— danke 🙏").into())];
    all.extend(PI.map(|kind| (AS_BOT, entry("t", kind, r#"{ "b":1.0,"a":1e400, "s":"\u00e9\/" }"#).into())));
    let signals = [
        ("signal.dispatch.queued", r#"{"run_id":"r3"}"#),
        ("signal.dispatch.session_started", r#"{"run_id":"r3","sandbox_id":"s2","session_ref":"2f1c"}"#),
        ("signal.dispatch.heartbeat", r#"{"run_id":"r3"}"#),
        ("signal.dispatch.pi_waiting", r#"{"run_id":"r3","for":"permission"}"#),
        ("signal.dispatch.failed", r#"{"run_id":"r3","error_class":"no_machine","message":"none"}"#),
        ("signal.dispatch.reset", r#"{"run_id":"r3","why":"asked by a member"}"#),
        ("signal.dispatch.cancelled", r#"{"run_id":"r3"}"#),
        ("signal.command.started", r#"{"command_id":"c1","command":"cargo test","sandbox_id":"s2","cwd":"/home/app"}"#),
        ("signal.command.output", r#"{"command_id":"c1","stream":"stderr","text":"warning\n"}"#),
        ("signal.command.finished", r#"{"command_id":"c1","exit_code":101,"truncated":false,"duration_ms":5321}"#),
        ("signal.command.started", r#"{"command_id":"c2","command":"ls"}"#),
        ("signal.permission.requested", r#"{"request_id":"q1","action":"network","detail":"crates.io"}"#),
        ("signal.permission.resolved", r#"{"request_id":"q1","allowed":true}"#),
        ("signal.permission.requested", r#"{"request_id":"q2","action":"write"}"#),
        ("signal.dispatch.queued", r#"{"run_id":"r4"}"#),
    ];
    all.extend(signals.map(|(kind, payload)| (AS_BOT, entry("d", kind, payload).into())));
    all
}
