//! A whole cluster in one thread: servers, clients and a store full of faults, all driven by one number.
//!
//! Time is simulated and all chance comes from the seed, so that a seed run twice prints the same bytes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use event_log::sabotage::{self, Sabotage};
use event_log::store::slots::ObjectSlots;
use event_log::{Cluster, Cursor, Status, Store};
use object_store::memory::InMemory;
use tokio::task::JoinSet;

mod audit;
mod client;
mod env;
mod faults;
mod fold;
mod history;
mod intent;
mod life;
mod net;
mod plan;
pub mod rng;
mod server;
mod verdict;

use audit::Audit;
use client::Client;
use env::Env;
use fold::Fold;
use history::{Answer, History};
pub use net::{Net, SERVERS, Up};
use plan::Plan;
use rng::Rng;

/// Simulated time after which clients count as stuck.
const PATIENCE: Duration = Duration::from_secs(600);
/// The last late PUT has landed by then, and followers have looked.
const AFTERMATH: Duration = Duration::from_secs(8);

/// What one seed came to.
#[derive(Clone, Debug)]
pub struct Run {
    /// One line of figures.
    pub line: String,
    pub trace: Vec<String>,
    pub problems: Vec<String>,
}

#[must_use]
pub fn run(seed: u64, trace: bool) -> Run {
    let mut rng = Rng::new(seed);
    let plan = Plan::draw(&mut rng);
    block_on(simulate(seed, plan, rng, trace))
}

/// A small run in which the first server dies at its `step`-th await point. Also says whether it lived that long.
#[must_use]
pub fn run_with_death_at(step: u64, depth: usize) -> (Run, bool) {
    let run = block_on(simulate(step, Plan::death_at(step, depth), Rng::new(depth as u64), false));
    let died = run.line.contains(" 1 crashes");
    (run, died)
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime with nothing but a clock can be made");
    runtime.block_on(work)
}

/// The same with a fault built into the engine.
#[must_use]
pub fn run_sabotaged(seed: u64, fault: Sabotage) -> Run {
    sabotage::set(Some(fault));
    let run = run(seed, false);
    sabotage::set(None);
    run
}

/// The cluster of a seed under other clients: `work` asks the servers while they fail. In the end all is calm, and every server is
/// held against the log.
pub fn run_under<W: Future<Output = ()>>(seed: u64, work: impl FnOnce(Arc<Net>) -> W) -> (Arc<InMemory>, Vec<String>) {
    let mut rng = Rng::new(seed);
    let plan = Plan::draw(&mut rng);
    block_on(async {
        let stage = Stage::set(plan, rng, false).await;
        stage.act(work(stage.net.clone())).await;
        stage.judge(&stage.fold().await).await;
        (stage.objects.clone(), stage.env.finish().2)
    })
}

async fn simulate(seed: u64, plan: Plan, rng: Rng, trace: bool) -> Run {
    let stage = Stage::set(plan, rng, trace).await;
    let Stage { env, objects, net, .. } = &stage;
    let history = Arc::new(History::default());
    let follower = tokio::spawn(follow(net.clone(), history.clone()));
    let mut clients: JoinSet<()> = (0..env.plan.clients).map(|id| client(net, &history, id).run()).collect();
    stage.act(async { while clients.join_next().await.is_some() {} }).await;
    follower.abort();
    let fold = stage.fold().await;
    if let Some(fold) = &fold {
        verdict::hold_against(&history, fold).into_iter().for_each(|wrong| env.problem(wrong));
    }
    stage.judge(&fold).await;
    report(seed, env, net, &history, objects).await
}

/// The servers of a run and what happens to them.
struct Stage {
    env: Arc<Env>,
    objects: Arc<InMemory>,
    cluster: Cluster,
    net: Arc<Net>,
}

impl Stage {
    async fn set(plan: Plan, rng: Rng, trace: bool) -> Self {
        let env = Env::new(plan, rng, trace);
        let objects = Arc::new(InMemory::new());
        let random = || env.draw(Rng::number);
        let slots = Arc::new(ObjectSlots::new(objects.clone(), ObjectSlots::remote_pace()));
        let store = Store { slots, objects: objects.clone(), url: "memory:".into() };
        let cluster = Cluster::load_or_create(&store, &random).await.expect("memory is an honest store");
        let net = Net::new(env.clone());
        for server in 0..SERVERS {
            tokio::spawn(server::serve(net.clone(), objects.clone(), server));
        }
        Self { env, objects, cluster, net }
    }

    async fn act(&self, clients: impl Future<Output = ()>) {
        let chaos = tokio::spawn(server::chaos(self.net.clone()));
        if tokio::time::timeout(PATIENCE, clients).await.is_err() {
            self.env.problem("clients are stuck".into());
        }
        self.env.calm_down();
        let _ = chaos.await;
        tokio::time::sleep(AFTERMATH).await;
        settle(&self.net).await;
    }

    async fn fold(&self) -> Option<Fold> {
        match Fold::of(&self.objects).await {
            Ok(fold) => Some(fold),
            Err(what) => {
                self.env.problem(format!("the log does not fold: {what}"));
                None
            }
        }
    }

    async fn judge(&self, fold: &Option<Fold>) {
        let Some(fold) = fold else { return };
        let audit = Audit { env: &self.env, objects: &self.objects, cluster: &self.cluster, fold };
        for server in 0..SERVERS {
            match self.net.get(server) {
                Some(up) => audit.server(&format!("server {server}"), &up.log).await,
                None => self.env.problem(format!("server {server} does not come back")),
            }
        }
        audit.check().await;
        audit.newcomers().await;
    }
}

fn client(net: &Arc<Net>, history: &Arc<History>, id: u64) -> Client {
    let home = net.env.below(SERVERS as u64) as usize;
    Client { net: net.clone(), history: history.clone(), id, home, sequences: BTreeMap::new() }
}

/// A projection that lives through its servers' crashes with nothing but its cursor.
async fn follow(net: Arc<Net>, history: Arc<History>) {
    let mut cursor = Cursor::default();
    let mut server = 0;
    loop {
        server = (server + 1) % SERVERS;
        tokio::time::sleep(Duration::from_millis(30)).await;
        let Some(up) = net.get(server) else { continue };
        let follower = tokio::select! {
            biased;
            () = up.life.death() => continue,
            follower = up.log.follow(cursor) => follower,
        };
        let Ok(mut follower) = follower else { continue };
        loop {
            let commit = tokio::select! {
                biased;
                () = up.life.death() => break,
                commit = follower.next() => commit,
            };
            let Ok(commit) = commit else { break };
            history.followed.lock().push((commit.before(), commit.records().len() as u64));
            cursor = commit.cursor;
        }
    }
}

/// Streams may end at any time; everybody hears of the last end before the books are closed.
async fn settle(net: &Net) {
    for server in 0..SERVERS {
        if let Some(up) = net.get(server) {
            up.log.refresh().await;
        }
    }
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

async fn report(seed: u64, env: &Env, net: &Net, history: &History, objects: &InMemory) -> Run {
    let told = history.told.lock().clone();
    let count = |matches: fn(&Answer) -> bool| told.iter().filter(|one| matches(&one.answer)).count();
    let acked = count(|a| matches!(a, Answer::Done(r) if r.outcomes.iter().any(|o| o.status == Status::Done)));
    let rejected = count(|a| matches!(a, Answer::Rejected(_)));
    let unknown = count(|a| matches!(a, Answer::Unknown));
    let retried = told.iter().filter(|one| one.retried).count();
    let fold = Fold::of(objects).await.unwrap_or_default();
    let sum = |counter: fn(&event_log::Counters) -> u64| -> u64 {
        (0..SERVERS).filter_map(|server| net.get(server)).map(|up| counter(up.log.counters())).sum()
    };
    let lost = sum(|c| c.slots_lost.load(Ordering::Relaxed));
    let forwarded = sum(|c| c.forwarded.load(Ordering::Relaxed));
    let packs = sum(|c| c.packs.load(Ordering::Relaxed));
    let checkpoints = sum(|c| c.checkpoints.load(Ordering::Relaxed));
    let (slots, voids, claims) = (fold.state.chain.next, fold.voids, fold.claims);
    let (crashes, faults) = (env.crashes.load(Ordering::Relaxed), env.faults.load(Ordering::Relaxed));
    let (depth, seconds) = (env.plan.depth, env.elapsed_ms() as f64 / 1_000.0);
    let (hash, trace, problems) = env.finish();
    let line = format!(
        "seed {seed}: depth {depth}, {acked} acked, {rejected} rejected, {retried} retried, {unknown} unknown, {slots} slots, \
         {voids} voids, {claims} claims, {lost} lost, {forwarded} forwarded, {crashes} crashes, {faults} faults, {packs} packs, \
         {checkpoints} checkpoints, {seconds:.1} s, trace {hash:016x}, {} problems",
        problems.len()
    );
    Run { line, trace, problems }
}
