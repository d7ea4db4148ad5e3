//! `arbe eval`: how well search finds items that are known to be there, and stays silent about what is not.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use queries::library::{self, Arms, PROTOCOL_VERSION, SearchRequest, SearchResponse};
use serde::Serialize;
use tokio::time::Instant;

use super::{Library, searching};
use crate::args::{Eval, Half};
use crate::config::Config;
use crate::output;
use crate::seeker::Seeker;

const ABSENT: &str = "absent";
/// Sessions that are looked at.
const DEPTH: u32 = 20;

struct Item {
    id: String,
    stratum: String,
    query: String,
    gold: BTreeSet<String>,
}

/// One stratum under one arm.
#[derive(Clone, Debug, Default, Serialize)]
struct Score {
    items: u64,
    /// Answered by the first session, by one of the first three, of the first ten. Of absent items: silent.
    first: u64,
    third: u64,
    tenth: u64,
    /// Sums of each item's reciprocal rank and discounted gain.
    reciprocal: f64,
    gain: f64,
    /// Bytes of all answers.
    bytes: u64,
}

#[derive(Serialize)]
struct Row {
    stratum: String,
    items: u64,
    success_at_1: f64,
    success_at_1_low: f64,
    success_at_1_high: f64,
    success_at_3: f64,
    success_at_10: f64,
    mrr: f64,
    ndcg_at_10: f64,
    bytes_per_answer: u64,
}

pub(super) async fn eval(args: Eval, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let items = read(&args)?;
    let library = Library::open(config, args.house.as_deref()).await?;
    let (seeker, late) = searching::seeker(&library, config).await?;
    if let Some(why) = late {
        bail!("the index is behind the log: {why:#}");
    }
    let arms = args.arm.map_or(Arms::Both, Arms::from);
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for item in &items {
        let (found, took) = ask(&seeker, &library, item, arms).await?;
        cold.push(took);
        let (_, took) = ask(&seeker, &library, item, arms).await?;
        warm.push(took);
        let rank = rank(item, &found);
        let bytes = serde_json::to_string(&found)?.len() as u64;
        scores.entry(item.stratum.clone()).or_default().count(item, rank, &found, bytes);
        if args.misses && !(rank == Some(1) || (item.stratum == ABSENT && found.sessions.is_empty())) {
            let rank = rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
            let hint = found.hints.first().cloned().unwrap_or_default();
            output::note(format_args!("{} rank {rank}: {} ({hint})", item.id, item.query));
        }
    }
    library.close().await;
    tell(&scores, &mut cold, &mut warm, json)?;
    Ok(ExitCode::SUCCESS)
}

fn read(args: &Eval) -> anyhow::Result<Vec<Item>> {
    let context = || args.queries.display().to_string();
    let text = std::fs::read_to_string(&args.queries).with_context(context)?;
    let mut items = Vec::new();
    for (number, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [id, stratum, query, gold, ..] = fields.as_slice() else {
            bail!("{}: line {} is not id, stratum, query, expected sessions", context(), number + 1);
        };
        let gold: BTreeSet<String> = gold.split_whitespace().map(|it| it.rsplit(':').next().unwrap_or(it).to_owned()).collect();
        if gold.is_empty() != (*stratum == ABSENT) {
            bail!("{}: line {}: only absent items expect nothing", context(), number + 1);
        }
        items.push(Item { id: (*id).to_owned(), stratum: (*stratum).to_owned(), query: (*query).to_owned(), gold });
    }
    items.retain(|item| args.half.is_none_or(|half| half == half_of(item)));
    Ok(items)
}

/// By the session, so that what was learned of one is not reported of it.
fn half_of(item: &Item) -> Half {
    let key = item.gold.first().unwrap_or(&item.id);
    match blake3::hash(key.as_bytes()).as_bytes()[0] & 1 {
        0 => Half::Tuning,
        _ => Half::Reporting,
    }
}

async fn ask(seeker: &Seeker, library: &Library, item: &Item, arms: Arms) -> anyhow::Result<(SearchResponse, Duration)> {
    let request = SearchRequest {
        protocol_version: PROTOCOL_VERSION,
        namespace: None,
        query: item.query.clone(),
        project: None,
        session_id: None,
        source_agent: None,
        role: None,
        since: None,
        until: None,
        min_score: None,
        limit: Some(DEPTH),
        min_position: None,
    };
    let began = Instant::now();
    let found = library::search_by(seeker, &library.house, request, arms).await?;
    Ok((found, began.elapsed()))
}

/// Where the first expected session stands. One that was found in a session it spawned counts.
fn rank(item: &Item, found: &SearchResponse) -> Option<usize> {
    let is_gold = |session: &queries::library::SessionHit| {
        let own = item.gold.contains(session.session_id.as_str());
        own || session.matches.iter().filter_map(|hit| hit.session_id.as_ref()).any(|id| item.gold.contains(id.as_str()))
    };
    found.sessions.iter().position(is_gold).map(|at| at + 1)
}

impl Score {
    fn count(&mut self, item: &Item, rank: Option<usize>, found: &SearchResponse, bytes: u64) {
        self.items += 1;
        self.bytes += bytes;
        if item.stratum == ABSENT {
            self.first += u64::from(found.sessions.is_empty());
            return;
        }
        let Some(rank) = rank else { return };
        self.first += u64::from(rank == 1);
        self.third += u64::from(rank <= 3);
        self.tenth += u64::from(rank <= 10);
        self.reciprocal += 1.0 / rank as f64;
        self.gain += if rank <= 10 { 1.0 / (rank as f64 + 1.0).log2() } else { 0.0 };
    }

    fn row(&self, stratum: &str) -> Row {
        let share = |count: f64| count / (self.items as f64).max(1.0);
        let (low, high) = wilson(self.first, self.items);
        Row {
            stratum: stratum.to_owned(),
            items: self.items,
            success_at_1: share(self.first as f64),
            success_at_1_low: low,
            success_at_1_high: high,
            success_at_3: share(self.third as f64),
            success_at_10: share(self.tenth as f64),
            mrr: share(self.reciprocal),
            ndcg_at_10: share(self.gain),
            bytes_per_answer: self.bytes / self.items.max(1),
        }
    }
}

/// The interval of a share, at 95 %.
fn wilson(hits: u64, of: u64) -> (f64, f64) {
    let (n, z) = (of.max(1) as f64, 1.96);
    let p = hits as f64 / n;
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let width = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt() / (1.0 + z * z / n);
    ((middle - width).max(0.0), (middle + width).min(1.0))
}

fn percentile(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    let at = ((times.len() as f64 - 1.0) * share).round().max(0.0) as usize;
    times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
}

fn tell(scores: &BTreeMap<String, Score>, cold: &mut [Duration], warm: &mut [Duration], json: bool) -> anyhow::Result<()> {
    let rows: Vec<Row> = scores.iter().map(|(stratum, score)| score.row(stratum)).collect();
    let times = [(&mut *cold, "first"), (&mut *warm, "again")].map(|(times, what)| {
        let (p50, p95) = (percentile(times, 0.5), percentile(times, 0.95));
        (what, p50, p95)
    });
    if json {
        let times: BTreeMap<_, _> =
            times.iter().map(|(what, p50, p95)| (*what, serde_json::json!({ "p50_ms": p50, "p95_ms": p95 }))).collect();
        return output::print_json(&serde_json::json!({ "strata": rows, "latency": times }));
    }
    let cells = |row: &Row| {
        let share = |share: f64| format!("{share:.2}");
        let interval = format!("{:.2}-{:.2}", row.success_at_1_low, row.success_at_1_high);
        vec![
            row.stratum.clone(),
            row.items.to_string(),
            share(row.success_at_1),
            interval,
            share(row.success_at_3),
            share(row.success_at_10),
            share(row.mrr),
            share(row.ndcg_at_10),
            row.bytes_per_answer.to_string(),
        ]
    };
    let head = ["STRATUM", "ITEMS", "S@1", "95 %", "S@3", "S@10", "MRR", "NDCG@10", "BYTES"];
    output::print(output::table(&head, &rows.iter().map(cells).collect::<Vec<_>>()))?;
    for (what, p50, p95) in times {
        output::print(format!("{what:<8} p50 {p50:.1} ms, p95 {p95:.1} ms\n"))?;
    }
    Ok(())
}
