//! `arbe eval`: how well search finds items that are known to be there, and stays silent about what is not.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use lance_sessions::{Coverage, VectorSource};
use queries::library::{self, Arms, PROTOCOL_VERSION, SearchRequest, SearchResponse};
use serde::Serialize;
use tokio::time::Instant;

use super::{Library, searching};
use crate::args::Eval;
use crate::config::Config;
use crate::output::Refused;
use crate::seeker::Seeker;
use crate::{datasets, output, seeker};

mod intervals;
mod items;
mod score;
mod there;

use items::Item;
use score::{Row, Score};
use there::{Lost, There};

/// Sessions that are looked at.
const DEPTH: u32 = 20;
/// Questions for each of which everything is opened anew.
const COLD: usize = 20;

#[derive(Serialize)]
struct Latency {
    arm: &'static str,
    /// `cold`: the first question of an index that was just opened, with the opening. `first` and `again`: every question, of one
    /// that stays open.
    what: &'static str,
    samples: usize,
    p50_ms: f64,
    p95_ms: f64,
}

/// One retriever, or the search that people get.
struct Run {
    arms: Arms,
    scores: BTreeMap<String, Score>,
    cold: Vec<Duration>,
    first: Vec<Duration>,
    again: Vec<Duration>,
}

/// What is asked, and where.
struct Bench<'a> {
    items: &'a [Item],
    seeker: &'a Seeker,
    library: &'a Library,
    config: &'a Config,
    /// Whether to tell what was not answered.
    misses: bool,
}

pub(super) async fn eval(args: Eval, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let items = items::read(&args)?;
    let library = Library::open(config, args.house.as_deref()).await?;
    let (items, lost) = There::read(&library, &items).await?.part(items);
    if let Err(nothing) = there::tell(&items, &lost) {
        library.close().await;
        return Err(nothing);
    }
    let (seeker, late) = searching::seeker(&library, config).await?;
    if let Some(why) = late {
        bail!("the index is behind the log: {why:#}");
    }
    let mut arms = match args.arm {
        Some(arm) => vec![arm.into()],
        None if seeker.model().is_some() => vec![Arms::Words, Arms::Meaning, Arms::Both],
        None => vec![Arms::Words],
    };
    let mut refused = None;
    if let Some(model) = seeker.model().filter(|_| arms.iter().any(|arms| *arms != Arms::Words)) {
        let coverage = seeker.datasets.coverage(&library.house, model.model()).await?;
        refused = complete(model.model(), coverage).err();
    }
    if refused.is_some() {
        arms.retain(|arms| *arms == Arms::Words);
    }
    let bench = Bench { items: &items, seeker: &seeker, library: &library, config, misses: args.misses };
    let mut runs = Vec::new();
    for arms in arms {
        runs.push(bench.run(arms).await?);
    }
    library.close().await;
    if !runs.is_empty() {
        tell(&mut runs, &lost, json)?;
    }
    refused.map_or(Ok(ExitCode::SUCCESS), |refused| Err(refused.into()))
}

/// Figures of a part would be taken for those of the whole.
fn complete(model: &str, coverage: Coverage) -> Result<(), Refused> {
    let Coverage { messages_with_text, missing, .. } = coverage;
    if missing == 0 {
        return Ok(());
    }
    let what =
        format!("{missing} of {messages_with_text} messages are not embedded with {model}, so only words can be evaluated");
    let how = "run `arbe sync --only embed` first, with --force-embed where they are embedded with another model";
    Err(Refused(format!("{what}; {how}")))
}

impl Bench<'_> {
    async fn run(&self, arms: Arms) -> anyhow::Result<Run> {
        let cold = self.cold(arms).await?;
        let mut run = Run { arms, scores: BTreeMap::new(), cold, first: Vec::new(), again: Vec::new() };
        for item in self.items {
            let (found, took) = self.ask(self.seeker, item, arms).await?;
            run.first.push(took);
            let (_, took) = self.ask(self.seeker, item, arms).await?;
            run.again.push(took);
            let (rank, answered) = (item.rank(&found), !found.sessions.is_empty());
            let bytes = serde_json::to_string(&found)?.len() as u64;
            run.scores.entry(item.stratum.clone()).or_default().count(item.is_absent(), rank, answered, bytes);
            if self.misses && !(rank == Some(1) || (item.is_absent() && !answered)) {
                let rank = rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
                let hint = found.hints.first().cloned().unwrap_or_default();
                output::note(format_args!("{} {} rank {rank}: {} ({hint})", name(arms), item.id, item.query));
            }
        }
        Ok(run)
    }

    async fn cold(&self, arms: Arms) -> anyhow::Result<Vec<Duration>> {
        let step = self.items.len().div_ceil(COLD).max(1);
        let mut times = Vec::new();
        for item in self.items.iter().step_by(step) {
            let began = Instant::now();
            self.ask(&self.opened_anew()?, item, arms).await?;
            times.push(began.elapsed());
        }
        Ok(times)
    }

    /// Nothing of it is in memory yet, but for the model: to load that is not to search.
    fn opened_anew(&self) -> anyhow::Result<Seeker> {
        let (log, model) = (&self.library.log, self.seeker.model());
        let index = seeker::open(self.config, log)?;
        let datasets = datasets::open_with(self.config, log, model)?;
        Ok(Seeker::new(self.config, log, index, datasets, model.cloned()))
    }

    async fn ask(&self, seeker: &Seeker, item: &Item, arms: Arms) -> anyhow::Result<(SearchResponse, Duration)> {
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
        let found = library::search_by(seeker, &self.library.house, request, arms).await?;
        Ok((found, began.elapsed()))
    }
}

fn name(arms: Arms) -> &'static str {
    match arms {
        Arms::Both => "hybrid",
        Arms::Words => "keyword",
        Arms::Meaning => "vector",
    }
}

fn percentile(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    let at = ((times.len() as f64 - 1.0) * share).round().max(0.0) as usize;
    times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
}

impl Run {
    fn rows(&self) -> Vec<Row> {
        self.scores.iter().map(|(stratum, score)| score.row(name(self.arms), stratum)).collect()
    }

    fn latency(&mut self) -> Vec<Latency> {
        let arm = name(self.arms);
        let all = [("cold", &mut self.cold), ("first", &mut self.first), ("again", &mut self.again)];
        let told = |(what, times): (&'static str, &mut Vec<Duration>)| {
            let (p50_ms, p95_ms) = (percentile(times, 0.5), percentile(times, 0.95));
            Latency { arm, what, samples: times.len(), p50_ms, p95_ms }
        };
        all.into_iter().map(told).collect()
    }
}

fn tell(runs: &mut [Run], lost: &[Lost], json: bool) -> anyhow::Result<()> {
    let (mut strata, mut means, mut table, mut times) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in runs {
        let rows = run.rows();
        let mean = Row::mean(name(run.arms), &rows);
        table.extend(rows.iter().chain(&mean).map(Row::cells));
        strata.extend(rows.iter().map(Row::json));
        means.extend(mean.iter().map(Row::json));
        times.extend(run.latency());
    }
    if json {
        let told = serde_json::json!({ "strata": strata, "means": means, "latency": times, "not_there": lost });
        return output::print_json(&told);
    }
    output::print(output::table(&score::HEAD, &table))?;
    for time in times {
        let Latency { arm, what, samples, p50_ms, p95_ms } = time;
        output::print(format!("{arm:<8} {what:<5}  p50 {p50_ms:.1} ms, p95 {p95_ms:.1} ms, {samples} questions\n"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_embedded_in_part_is_not_evaluated() {
        let whole = Coverage { messages_with_text: 5, embedded: 4, other_model: 0, missing: 0 };
        complete("m:1", whole).unwrap();
        let refused = complete("m:1", Coverage { embedded: 3, missing: 2, ..whole }).unwrap_err().to_string();
        assert!(refused.contains("2 of 5") && refused.contains("`arbe sync --only embed`"), "{refused}");
    }
}
