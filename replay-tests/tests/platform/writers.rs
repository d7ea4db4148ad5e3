//! Commands through three servers at once, on a store and a network where everything that can go wrong does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use commands::{Actor, Command, CommandError, Commands, Done, Rejection};
use event_log::{CommandId, Cursor, Log, Options, command_id};
use futures::future::join_all;
use object_store::memory::InMemory;
use parking_lot::Mutex;
use postgres_rows::RowsProjector;
use projector::{Until, rebuild};
use replay_tests::rig::over;
use replay_tests::sim::{Net, SERVERS, Up, run_under};
use tokio::runtime::Runtime;

use crate::draw::Draw;
use crate::dump::dump;
use crate::play::{Counting, drawn};
use crate::postgres::database;
use crate::replays::recorded;
use crate::running::run;
use crate::scene::opening;

const CLIENTS: usize = 4;
const COMMANDS: usize = 60;
const SEEDS: u64 = 60;
const PATIENCE: Duration = Duration::from_secs(8);

struct Asked {
    id: CommandId,
    /// An earlier attempt may have been written, unknown to who asked.
    unsure: bool,
    answer: Result<Done, Rejection>,
}

/// One handler for each life of each server.
struct Desks {
    net: Arc<Net>,
    open: Mutex<Vec<Option<(Up, Commands)>>>,
    asked: Mutex<Vec<Asked>>,
}

impl Desks {
    async fn find(&self, home: usize) -> (Up, Commands) {
        for server in (home..).map(|n| n % SERVERS) {
            if let Some(up) = self.net.get(server) {
                let mut open = self.open.lock();
                let known = open[server].take().filter(|(known, _)| Arc::ptr_eq(&known.life, &up.life));
                let desk = known.unwrap_or_else(|| {
                    let source = Counting::from(self.net.env.below(u64::MAX));
                    (up.clone(), Commands::start(up.log.clone(), source))
                });
                open[server] = Some(desk.clone());
                return desk;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        unreachable!("servers are counted without end")
    }

    /// `None`: nobody knows.
    async fn request(&self, home: usize, actor: Actor, command: &Command, key: &str) -> Option<Result<Done, CommandError>> {
        let (up, commands) = self.find(home).await;
        tokio::select! {
            biased;
            () = up.life.death() => None,
            answer = tokio::time::timeout(PATIENCE, commands.execute(actor, command.clone(), Some(key))) => answer.ok(),
        }
    }

    async fn insist(&self, actor: Actor, command: Command, key: String) -> Result<(), Rejection> {
        let mut unsure = false;
        let answer = loop {
            let home = self.net.env.below(SERVERS as u64) as usize;
            match self.request(home, actor, &command, &key).await {
                Some(Ok(done)) => break Ok(done),
                Some(Err(CommandError::Rejected(rejection))) => break Err(rejection),
                Some(Err(CommandError::Unknown(_))) | None => unsure = true,
                Some(Err(CommandError::Unavailable(_) | CommandError::Conflict)) => {}
                Some(Err(error @ (CommandError::IdempotencyKeyReused | CommandError::Stopped(_)))) => panic!("{key}: {error}"),
            }
            self.net.env.pause(1, 100).await;
        };
        let id = command_id(&["command", &actor.to_string(), &key]);
        let told = answer.as_ref().map(|_| ()).map_err(Clone::clone);
        self.asked.lock().push(Asked { id, unsure, answer });
        told
    }

    async fn work(&self, draws: &[Draw]) {
        for (n, (actor, command)) in opening().into_iter().enumerate() {
            let asked = format!("opening {n}: {command:?}");
            let refused = self.insist(actor, command, format!("opening {n}")).await.err();
            assert_eq!(refused, None, "{asked}");
        }
        let client = async |n: usize| {
            for (k, draw) in draws[n * COMMANDS..][..COMMANDS].iter().enumerate() {
                self.net.env.pause(0, 200).await;
                let _ = self.insist(draw.actor(), draw.command(), format!("{n}/{k}")).await;
            }
        };
        join_all((0..CLIENTS).map(client)).await;
    }
}

/// Runs a seed and gives back the store and what was answered.
fn seed(seed: u64, draws: &[Draw]) -> (Arc<InMemory>, Vec<Asked>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let told = asked.clone();
    let (objects, problems) = run_under(seed, async |net| {
        let desks = Desks { net, open: Mutex::new(vec![None; SERVERS]), asked: Mutex::default() };
        desks.work(draws).await;
        told.lock().append(&mut desks.asked.lock());
    });
    assert!(problems.is_empty(), "seed {seed}: {problems:#?}");
    let asked = std::mem::take(&mut *asked.lock());
    (objects, asked)
}

async fn reopened(objects: Arc<InMemory>) -> Log {
    Log::open_existing(over(objects, 1, 64), Options::default()).await.unwrap()
}

/// Each command that was acknowledged is in the log once, as it was told; each that was refused is not.
async fn the_log_is_what_was_told(log: &Log, asked: &[Asked]) {
    let mut follower = log.follow(Cursor::default()).await.unwrap();
    let mut found: BTreeMap<CommandId, Vec<(u64, Vec<String>)>> = BTreeMap::new();
    let mut entries = std::collections::BTreeSet::new();
    while let Some(commit) = follower.try_next().await.unwrap() {
        let mut by_command: BTreeMap<CommandId, Vec<String>> = BTreeMap::new();
        for one in recorded(&commit) {
            let record = &commit.records()[(one.ordinal - commit.before()) as usize];
            by_command.entry(record.command.unwrap()).or_default().push(format!(
                "{}/{} {}",
                one.stream,
                one.seq,
                one.entry.to_json()
            ));
            assert!(entries.insert(one.entry.id), "{} is there twice", one.entry.id);
        }
        for (id, lines) in by_command {
            found.entry(id).or_default().push((commit.cursor.next, lines));
        }
    }
    for Asked { id, unsure, answer } in asked {
        let there = found.remove(id).unwrap_or_default();
        let told = |done: &Done| {
            let lines = done.entries.iter().map(|one| format!("{}/{} {}", one.stream, one.seq, one.entry.to_json()));
            vec![(done.position, lines.collect::<Vec<_>>())]
        };
        match answer {
            Ok(done) if done.entries.is_empty() => assert!(there.is_empty(), "{id:x}: {there:?}"),
            Ok(done) => assert_eq!(there, told(done), "{id:x}"),
            // A refusal says nothing of an earlier attempt whose outcome was unknown.
            Err(_) if *unsure => assert!(there.len() <= 1, "{id:x}: {there:?}"),
            Err(rejection) => assert!(there.is_empty(), "{id:x} was refused: {rejection}"),
        }
    }
    assert!(found.is_empty(), "nobody asked for {found:?}");
}

#[test]
fn commands_under_faults_are_in_the_log_once_or_not_at_all() {
    let runtime = Runtime::new().unwrap();
    let (mut acked, mut unsure) = (0, 0);
    for n in 0..SEEDS {
        let draws = drawn(CLIENTS * COMMANDS * SEEDS as usize);
        let (objects, asked) = seed(n, &draws[n as usize * CLIENTS * COMMANDS..]);
        acked += asked.iter().filter(|one| one.answer.is_ok()).count();
        unsure += asked.iter().filter(|one| one.unsure).count();
        runtime.block_on(async {
            let log = reopened(objects).await;
            the_log_is_what_was_told(&log, &asked).await;
            if n % 10 == 0 {
                rows_of_it_are_those_of_a_rebuild(&log).await;
            }
        });
    }
    assert!(acked > 1_000 && unsure > 50, "{acked} acknowledged, {unsure} unsure");
}

async fn rows_of_it_are_those_of_a_rebuild(log: &Log) {
    let Some(db) = database().await else { return };
    run(log, &db.rows).reaches(log.position()).await;
    let followed = dump(&db.rows).await;
    assert!(followed.contains("\"other\""), "{followed}");
    assert!(rebuild(log, &Arc::new(RowsProjector), &db.rows, Until::Head, |_| {}).await.unwrap().swapped);
    assert_eq!(dump(&db.rows).await, followed);
    db.rows.close().await;
}
