//! The rows of a long log: rebuilt while the live copy serves, held against a COPY of the same rows, killed and begun again, verified.
//! `make scale`, or `cargo bench -p postgres-rows -- 1000000`.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints and may die")]

mod log;
mod process;
mod reader;

use std::sync::Arc;
use std::time::{Duration, Instant};

use event_log::{Log, Options, StoreUrl};
use postgres_rows::{Cluster, ClusterOptions, Rows, RowsProjector};
use projector::{Copies, Sums, Until, rebuild, verify};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use process::{Done, Rebuild, Site};
use reader::Reader;

const KILLS: usize = 6;
/// Events a second below which a rebuild of a full log is too slow.
const SLOWEST: f64 = 50_000.0;
/// Memory is flat if the second half of a rebuild takes no more than this much of what the first took.
const FLAT: f64 = 1.25;
const TABLES: [&str; 9] =
    ["houses", "agents", "agent_keys", "members", "environments", "secrets", "sandboxes", "threads", "reconciliation"];

/// Server-side COPY of every table out of one copy and into an empty one.
async fn copy(cluster: &Cluster, from: &str, to: &str) -> f64 {
    let options = cluster.admin("arbe");
    let directory = options.get_socket().unwrap().clone();
    let mut conn = PgConnection::connect_with(&options).await.unwrap();
    for table in TABLES {
        let out = format!("copy {from}.{table} to '{}/{table}.copy'", directory.display());
        sqlx::raw_sql(AssertSqlSafe(out)).execute(&mut conn).await.unwrap();
    }
    let started = Instant::now();
    for table in TABLES {
        let back = format!("copy {to}.{table} from '{}/{table}.copy'", directory.display());
        sqlx::raw_sql(AssertSqlSafe(back)).execute(&mut conn).await.unwrap();
    }
    started.elapsed().as_secs_f64()
}

async fn sums(rows: &Rows) -> Sums {
    rows.live_sums().await.unwrap().unwrap().1
}

async fn live_schema(rows: &Rows) -> String {
    rows.copies().await.unwrap().into_iter().find(|copy| copy.state == "live").unwrap().schema
}

/// A rebuild in a process of its own while a reader asks the live copy.
async fn rebuild_while_serving(site: &Site, rows: &Rows, events: u64) -> Done {
    let reader = Reader::start(rows.clone());
    let done = Rebuild::start(site).finish().await;
    let rate = events as f64 / done.seconds;
    println!("rebuilt   {rate:.0} events/s ({:.2} s, {:.2} s with opening)", done.seconds, done.whole);
    let memory = &done.memory;
    let at = |tenth: usize| memory[(memory.len() * tenth / 10).min(memory.len() - 1)];
    println!("memory    {:?} MiB at each tenth", (1..=10).map(at).collect::<Vec<_>>());
    reader.finish().await;
    assert!(rate >= SLOWEST, "slower than {SLOWEST} events/s");
    assert!(at(10) as f64 <= at(5) as f64 * FLAT, "memory grows with the log");
    done
}

/// Kills rebuilds at moments that chance chooses, each of which goes on where the one before was, then lets one finish.
async fn kill_and_begin_again(site: &Site, rows: &Rows, once: &Done, expected: &Sums) {
    let mut serving = live_schema(rows).await;
    let mut seed = u64::from(std::process::id());
    let mut killed = Vec::new();
    while killed.len() < KILLS {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = once.whole / 2.0 * (seed >> 40) as f64 / (1_u64 << 24) as f64;
        if Rebuild::start(site).kill_after(Duration::from_secs_f64(moment)).await {
            killed.push((moment * 100.0).round() / 100.0);
            assert_eq!(live_schema(rows).await, serving, "the old copy serves");
        } else {
            serving = live_schema(rows).await;
        }
        assert_eq!(&sums(rows).await, expected, "what serves is what served");
    }
    let last = Rebuild::start(site).finish().await;
    assert_ne!(live_schema(rows).await, serving, "the new copy serves");
    assert_eq!(&sums(rows).await, expected, "the new copy is the same");
    println!("killed    {KILLS} rebuilds after {killed:?} s; the next went on for {:.2} s to the same checksums", last.seconds);
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, verb, rest @ ..] = arguments.as_slice()
        && verb == process::VERB
    {
        return process::rebuild(rest).await;
    }
    let events = arguments.iter().filter_map(|arg| arg.parse().ok()).next().unwrap_or(1_000_000);
    let directory = tempfile::Builder::new().prefix("rebuild-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let cluster = ClusterOptions { directory: directory.path().join("cluster"), binaries: None };
    let cluster = match Cluster::start(cluster).await {
        Ok(cluster) => cluster,
        Err(error) => panic!("there is nothing to measure without a database: {error}"),
    };
    let rows = Rows::connect(cluster.options(), 4).await.unwrap();
    let site = Site { log: directory.path().join("log"), socket: cluster.options().get_socket().unwrap().clone() };
    let store = StoreUrl::File(site.log.clone()).open(&[], true).unwrap();
    let log = Log::open(store, Options::default()).await.unwrap();

    let started = Instant::now();
    log::write(&log, events).await;
    println!("wrote     {events} events in {:.1} s", started.elapsed().as_secs_f64());

    let projector = Arc::new(RowsProjector);
    let started = Instant::now();
    rebuild(&log, &projector, &rows, Until::Head, |_| {}).await.unwrap();
    println!("first     {:.0} events/s, with nobody else there", events as f64 / started.elapsed().as_secs_f64());
    let expected = sums(&rows).await;

    let once = rebuild_while_serving(&site, &rows, events).await;
    assert_eq!(sums(&rows).await, expected);
    let empty = rebuild(&log, &projector, &rows, Until::Position(0), |_| {}).await.unwrap();
    let copied = copy(&cluster, &live_schema(&rows).await, &empty.address).await;
    println!("ratio     {:.1} (time of the rebuild to {copied:.2} s for a COPY of its rows)", once.seconds / copied);

    kill_and_begin_again(&site, &rows, &once, &expected).await;
    let started = Instant::now();
    let report = verify(&log, &projector, &rows, |_| {}).await.unwrap();
    assert!(report.equal(), "{report:?}");
    println!("verified  equal in {:.2} s", started.elapsed().as_secs_f64());
    rows.close().await;
    log.close().await;
    cluster.stop().await;
}
