//! `arbe rebuild` and `arbe verify`, with or without a running server.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use event_log::Log;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use postgres_rows::{CopyInfo, Dropped, Rows, RowsProjector};
use projector::{Progress, Projector, Until};
use serde_json::json;

use crate::args::{self, CopyVerb, Rebuild, Verify};
use crate::config::Config;
use crate::database::{self, Database};
use crate::output::{NotFound, Refused, Usage};
use crate::{exit, logverbs, output};

pub(crate) async fn rebuild(args: Rebuild, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    known(&args.projections)?;
    let (log, database) = open(config).await?;
    let until = args.until.map_or(Until::Head, |until| match until {
        args::Until::Position(position) => Until::Position(position),
        args::Until::Time(ms) => Until::Time(ms),
    });
    let bar = bar("rebuilding");
    let rebuilt = projector::rebuild(&log, &Arc::new(RowsProjector), &database.rows, until, |at| show(&bar, at)).await;
    bar.finish_and_clear();
    let seconds = bar.elapsed().as_secs_f64();
    close(log, database).await;
    let rebuilt = rebuilt?;
    let (position, records, applied) = (rebuilt.checkpoint.position(), rebuilt.checkpoint.records, rebuilt.applied);
    if json {
        output::print_json(&json!({
            "projection": RowsProjector::NAME, "version": RowsProjector::VERSION, "position": position, "records": records,
            "applied": applied, "schema": rebuilt.address, "live": rebuilt.swapped, "seconds": seconds,
        }))?;
    } else {
        let state = if rebuilt.swapped { "live" } else { "beside the live copy" };
        let (name, schema, rate) = (RowsProjector::NAME, rebuilt.address, applied as f64 / seconds);
        output::print(format!(
            "{name}: {records} records up to position {position} in schema {schema}, {state} ({seconds:.1} s, {rate:.0} records/s)\n"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn verify(args: Verify, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    known(&args.projections)?;
    let (log, database) = open(config).await?;
    let bar = bar("verifying");
    let report = projector::verify(&log, &Arc::new(RowsProjector), &database.rows, |at| show(&bar, at)).await;
    bar.finish_and_clear();
    let damage = database.rows.damage().await;
    close(log, database).await;
    let (report, damage) = (report?, damage?);
    let (position, equal) = (report.checkpoint.position(), report.equal());
    if json {
        let (name, tables) = (RowsProjector::NAME, &report.tables);
        output::print_json(
            &json!({ "projection": name, "position": position, "equal": equal, "damage": damage, "tables": tables }),
        )?;
    } else {
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
            None if equal => "the rows are what the log says".into(),
            None => "the rows differ from the log: run `arbe rebuild`".into(),
        };
        output::print(format!("{}: position {position}, {verdict}\n", RowsProjector::NAME))?;
    }
    Ok(if equal { ExitCode::SUCCESS } else { ExitCode::from(exit::DAMAGE) })
}

/// `arbe projections copies` and `arbe projections drop`.
pub(crate) async fn copies(verb: &CopyVerb, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    check(config)?;
    let database = Database::open(config).await.context("the rows")?;
    let done = match verb {
        CopyVerb::Copies { .. } => list_copies(&database.rows, json).await,
        CopyVerb::Drop { schema, .. } => drop_copy(&database.rows, schema, json).await,
    };
    database.close().await;
    done.map(|()| ExitCode::SUCCESS)
}

async fn list_copies(rows: &Rows, json: bool) -> anyhow::Result<()> {
    let copies = rows.copies().await?;
    if json {
        return copies.iter().try_for_each(|copy| {
            output::print_json(&json!({
                "schema": copy.schema, "projection": copy.projection, "version": copy.version, "state": copy.state,
                "label": copy.label, "position": copy.next, "records": copy.records, "stopped": copy.stopped,
            }))
        });
    }
    let row = |copy: &CopyInfo| {
        vec![copy.schema.clone(), copy.state.clone(), label(copy), copy.next.to_string(), copy.records.to_string()]
    };
    let copies: Vec<_> = copies.iter().map(row).collect();
    output::print(output::table(&["SCHEMA", "STATE", "MADE FOR", "POSITION", "RECORDS"], &copies))
}

fn label(copy: &CopyInfo) -> String {
    let time = copy.label.strip_prefix("time ").and_then(|ms| ms.parse().ok());
    time.map_or_else(|| copy.label.clone(), |ms| args::Until::Time(ms).to_string())
}

async fn drop_copy(rows: &Rows, schema: &str, json: bool) -> anyhow::Result<()> {
    match rows.drop_copy(schema).await? {
        Dropped::Gone if json => output::print_json(&json!({ "schema": schema, "dropped": true })),
        Dropped::Gone => {
            output::note(format_args!("dropped {schema}"));
            Ok(())
        }
        Dropped::Live => Err(Refused(format!("{schema} is the copy that serves; `arbe rebuild` replaces it")).into()),
        Dropped::Busy => Err(Refused(format!("{schema} is in use by a server or a rebuild; stop that first")).into()),
        Dropped::Unknown => Err(NotFound(format!("there is no copy {schema}; `arbe projections copies` lists them")).into()),
    }
}

fn known(projections: &[String]) -> anyhow::Result<()> {
    match projections.iter().find(|name| *name != RowsProjector::NAME) {
        Some(name) => Err(NotFound(format!("there is no projection {name:?}; there is {:?}", RowsProjector::NAME)).into()),
        None => Ok(()),
    }
}

async fn open(config: &Config) -> anyhow::Result<(Log, Database)> {
    check(config)?;
    let log = logverbs::open(config).await?;
    Ok((log, Database::open(config).await.context("the rows")?))
}

fn check(config: &Config) -> anyhow::Result<()> {
    if config.database_url.as_deref() == Some(database::NONE) {
        return Err(Usage("there are no rows without a database; leave database_url out, or name a server".into()).into());
    }
    database::check(config)
}

async fn close(log: Log, database: Database) {
    database.close().await;
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
