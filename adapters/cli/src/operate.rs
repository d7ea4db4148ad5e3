//! `arbe rebuild` and `arbe verify`, with or without a running server.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use entry_index::{EntriesProjector, EntryIndex};
use event_log::Log;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use lance_sessions::{Datasets, SessionsProjector};
use postgres_rows::RowsProjector;
use projector::{Copies, Dropped, Progress, Projector, ReplayError, Report, SinkError, Until};
use serde::Serialize;
use serde_json::json;

use crate::args::{self, CopyVerb, Rebuild, Verify};
use crate::config::Config;
use crate::database::{self, Database};
use crate::output::{Damage, NotFound, Refused, Usage};
use crate::{datasets, exit, logverbs, output, seeker};

pub(crate) async fn rebuild(args: Rebuild, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let chosen = Chosen::of(&args.projections, config)?;
    let until = args.until.map_or(Until::Head, |until| match until {
        args::Until::Position(position) => Until::Position(position),
        args::Until::Time(ms) => Until::Time(ms),
    });
    let Opened { log, database, datasets, index } = chosen.open(config).await?;
    let built = async {
        if let Some(database) = &database {
            build(&log, RowsProjector, &database.rows, until, json).await?;
        }
        if let Some(datasets) = &datasets {
            build(&log, SessionsProjector, datasets, until, json).await?;
        }
        if let Some(index) = &index {
            build(&log, EntriesProjector, index, until, json).await?;
        }
        anyhow::Ok(())
    };
    let built = built.await;
    close(log, database).await;
    built.map(|()| ExitCode::SUCCESS)
}

async fn build<P: Projector, K: Copies<P::Change>>(
    log: &Log,
    projector: P,
    copies: &K,
    until: Until,
    json: bool,
) -> anyhow::Result<()> {
    let bar = bar("rebuilding");
    let rebuilt = projector::rebuild(log, &Arc::new(projector), copies, until, |at| show(&bar, at)).await;
    bar.finish_and_clear();
    let seconds = bar.elapsed().as_secs_f64();
    let rebuilt = rebuilt.context(P::NAME)?;
    let (position, records, applied) = (rebuilt.checkpoint.position(), rebuilt.checkpoint.records, rebuilt.applied);
    if json {
        return output::print_json(&json!({
            "projection": P::NAME, "version": P::VERSION, "position": position, "records": records,
            "applied": applied, "address": rebuilt.address, "live": rebuilt.swapped, "seconds": seconds,
        }));
    }
    let state = if rebuilt.swapped { "live" } else { "beside the live copy" };
    let (name, schema, rate) = (P::NAME, rebuilt.address, applied as f64 / seconds);
    output::print(format!(
        "{name}: {records} records up to position {position} in {schema}, {state} ({seconds:.1} s, {rate:.0} records/s)\n"
    ))
}

pub(crate) async fn verify(args: Verify, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let chosen = Chosen::of(&args.projections, config)?;
    let Opened { log, database, datasets, index } = chosen.open(config).await?;
    let checked = async {
        let mut equal = true;
        if let Some(database) = &database {
            let report = look(&log, RowsProjector, &database.rows).await?;
            equal &= tell::<RowsProjector>(&report, database.rows.damage().await?, json)?;
        }
        if let Some(datasets) = &datasets {
            equal &= tell::<SessionsProjector>(&look(&log, SessionsProjector, datasets).await?, None, json)?;
        }
        if let Some(index) = &index {
            equal &= tell::<EntriesProjector>(&look(&log, EntriesProjector, index).await?, None, json)?;
        }
        anyhow::Ok(equal)
    };
    let equal = checked.await;
    close(log, database).await;
    Ok(if equal? { ExitCode::SUCCESS } else { ExitCode::from(exit::DAMAGE) })
}

async fn look<P: Projector, K: Copies<P::Change>>(log: &Log, projector: P, copies: &K) -> anyhow::Result<Report> {
    let bar = bar("verifying");
    let report = projector::verify(log, &Arc::new(projector), copies, |at| show(&bar, at)).await;
    bar.finish_and_clear();
    report.map_err(|error| match error {
        ReplayError::Sink(SinkError::Damaged(why)) => Damage(format!("{}: {why}", P::NAME)).into(),
        error => anyhow::Error::from(error).context(P::NAME),
    })
}

fn tell<P: Projector>(report: &Report, damage: Option<String>, json: bool) -> anyhow::Result<bool> {
    let (position, equal) = (report.checkpoint.position(), report.equal());
    if json {
        let (name, tables) = (P::NAME, &report.tables);
        let said = json!({ "projection": name, "position": position, "equal": equal, "damage": damage, "tables": tables });
        output::print_json(&said)?;
        return Ok(equal);
    }
    let row = |table: &projector::TableSums| {
        let verdict = match &table.live {
            None => "GONE",
            live if *live == table.replayed => "equal",
            Some(_) => "DIFFERS",
        };
        let sum = |sum: &Option<String>| sum.clone().unwrap_or_else(|| "-".into());
        vec![table.table.clone(), verdict.into(), sum(&table.live), sum(&table.replayed)]
    };
    let rows: Vec<_> = report.tables.iter().map(row).collect();
    output::print(output::table(&["TABLE", "VERDICT", "LIVE", "REPLAYED"], &rows))?;
    let verdict = match damage {
        Some(damage) => damage,
        None if equal => format!("the {} are what the log says", P::NAME),
        None => format!("the {} differ from the log: run `arbe rebuild {}`", P::NAME, P::NAME),
    };
    output::print(format!("{}: position {position}, {verdict}\n", P::NAME))?;
    Ok(equal)
}

/// `arbe projections copies` and `arbe projections drop`.
pub(crate) async fn copies(verb: &CopyVerb, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let opened = Chosen::of(&[], config)?.open(config).await?;
    let done = match verb {
        CopyVerb::Copies { .. } => list_copies(&opened, json).await,
        CopyVerb::Drop { copy, .. } => drop_copy(&opened, copy, json).await,
    };
    close(opened.log, opened.database).await;
    done.map(|()| ExitCode::SUCCESS)
}

/// A copy of any projection.
#[derive(Serialize)]
struct Copy {
    copy: String,
    projection: String,
    version: u64,
    state: String,
    label: String,
    position: u64,
    records: u64,
    stopped: Option<String>,
}

impl From<postgres_rows::CopyInfo> for Copy {
    fn from(it: postgres_rows::CopyInfo) -> Self {
        Self {
            copy: it.schema,
            projection: it.projection,
            version: it.version.unsigned_abs().into(),
            state: state(it.state, &it.label),
            label: it.label,
            position: it.next.unsigned_abs(),
            records: it.records.unsigned_abs(),
            stopped: it.stopped,
        }
    }
}

impl From<projector::CopyInfo> for Copy {
    fn from(it: projector::CopyInfo) -> Self {
        Self {
            copy: it.name,
            projection: it.projection.to_owned(),
            version: it.version.into(),
            state: state(it.state.to_owned(), &it.label),
            label: it.label,
            position: it.position,
            records: it.records,
            stopped: it.stopped,
        }
    }
}

/// A copy of the past is not on its way to serve.
fn state(state: String, label: &str) -> String {
    let past = label.starts_with("position ") || label.starts_with("time ");
    if past && state == "building" { "beside".to_owned() } else { state }
}

async fn list_copies(opened: &Opened, json: bool) -> anyhow::Result<()> {
    let mut copies: Vec<Copy> = Vec::new();
    if let Some(database) = &opened.database {
        copies.extend(database.rows.copies().await?.into_iter().map(Copy::from));
    }
    if let Some(datasets) = &opened.datasets {
        copies.extend(datasets.copies()?.into_iter().map(Copy::from));
    }
    if let Some(index) = &opened.index {
        copies.extend(index.copies()?.into_iter().map(Copy::from));
    }
    if json {
        return copies.iter().try_for_each(output::print_json);
    }
    let row = |copy: &Copy| {
        vec![copy.copy.clone(), copy.state.clone(), label(&copy.label), copy.position.to_string(), copy.records.to_string()]
    };
    let copies: Vec<_> = copies.iter().map(row).collect();
    output::print(output::table(&["COPY", "STATE", "MADE FOR", "POSITION", "RECORDS"], &copies))
}

fn label(label: &str) -> String {
    let time = label.strip_prefix("time ").and_then(|ms| ms.parse().ok());
    time.map_or_else(|| label.to_owned(), |ms| args::Until::Time(ms).to_string())
}

async fn drop_copy(opened: &Opened, copy: &str, json: bool) -> anyhow::Result<()> {
    let mut dropped = Dropped::Unknown;
    if let Some(database) = &opened.database {
        dropped = database.rows.drop_copy(copy).await?;
    }
    if let (Dropped::Unknown, Some(datasets)) = (dropped, &opened.datasets) {
        dropped = datasets.drop_copy(copy).await?;
    }
    if let (Dropped::Unknown, Some(index)) = (dropped, &opened.index) {
        dropped = index.drop_copy(copy).await?;
    }
    match dropped {
        Dropped::Gone if json => output::print_json(&json!({ "copy": copy, "dropped": true })),
        Dropped::Gone => {
            output::note(format_args!("dropped {copy}"));
            Ok(())
        }
        Dropped::Live => Err(Refused(format!("{copy} is the copy that serves; `arbe rebuild` replaces it")).into()),
        Dropped::Busy => Err(Refused(format!("{copy} is in use by a server or a rebuild; stop that first")).into()),
        Dropped::Unknown => Err(NotFound(format!("there is no copy {copy}; `arbe projections copies` lists them")).into()),
    }
}

/// Which projections are meant.
struct Chosen {
    rows: bool,
    sessions: bool,
    entries: bool,
}

struct Opened {
    log: Log,
    database: Option<Database>,
    datasets: Option<Datasets>,
    index: Option<EntryIndex>,
}

impl Chosen {
    /// All that there are, if none is named. Without a database there are no rows.
    fn of(names: &[String], config: &Config) -> anyhow::Result<Self> {
        let known = [RowsProjector::NAME, SessionsProjector::NAME, EntriesProjector::NAME];
        if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(NotFound(format!("there is no projection {name:?}; there are {}", known.join(", "))).into());
        }
        let named = |wanted: &str| names.iter().any(|name| name == wanted);
        let without = config.database_url.as_deref() == Some(database::NONE);
        let rows = named(RowsProjector::NAME) || (names.is_empty() && !without);
        if rows {
            check(config)?;
        }
        let [sessions, entries] = [SessionsProjector::NAME, EntriesProjector::NAME].map(|name| names.is_empty() || named(name));
        Ok(Self { rows, sessions, entries })
    }

    async fn open(&self, config: &Config) -> anyhow::Result<Opened> {
        let log = logverbs::open(config).await?;
        let database = if self.rows { Some(Database::open(config).await.context("the rows")?) } else { None };
        let datasets = match self.sessions {
            // A copy has the vectors of the one it replaces.
            true => Some(datasets::open_with(config, &log, seeker::model(config).await?.as_ref())?),
            false => None,
        };
        let index = if self.entries { Some(seeker::open(config, &log)?) } else { None };
        Ok(Opened { log, database, datasets, index })
    }
}

fn check(config: &Config) -> anyhow::Result<()> {
    if config.database_url.as_deref() == Some(database::NONE) {
        return Err(Usage("there are no rows without a database; leave database_url out, or name a server".into()).into());
    }
    database::check(config)
}

async fn close(log: Log, database: Option<Database>) {
    if let Some(database) = database {
        database.close().await;
    }
    log.close().await;
}

/// Of the way in thousandths.
const WAY: u64 = 1_000;

fn bar(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {msg}");
    let bar = ProgressBar::new(WAY).with_prefix(what).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn show(bar: &ProgressBar, at: Progress) {
    bar.set_position((at.done * WAY as f64) as u64);
    let left = at.eta.map_or_else(String::new, |eta| format!(", {:#} left", HumanDuration(eta)));
    bar.set_message(format!("{} records, {:.0}/s{left}", at.records, at.events_per_second));
}
