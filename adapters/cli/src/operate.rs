//! `arbe rebuild` and `arbe verify`, with or without a running server.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use event_log::Log;
use indicatif::{ProgressBar, ProgressStyle};
use postgres_rows::RowsProjector;
use projector::{Progress, Projector, Until};
use serde_json::json;

use crate::args::{self, Rebuild, Verify};
use crate::config::Config;
use crate::database::{self, Database};
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
    let (rate, elapsed) = (bar.per_sec(), bar.elapsed());
    close(log, database).await;
    let rebuilt = rebuilt?;
    let (position, records) = (rebuilt.checkpoint.position(), rebuilt.checkpoint.records);
    if json {
        output::print_json(&json!({
            "projection": RowsProjector::NAME, "version": RowsProjector::VERSION, "position": position, "records": records,
            "schema": rebuilt.address, "live": rebuilt.swapped, "seconds": elapsed.as_secs_f64(),
        }))?;
    } else {
        let state = if rebuilt.swapped { "live" } else { "beside the live copy" };
        let (name, schema, seconds) = (RowsProjector::NAME, rebuilt.address, elapsed.as_secs_f64());
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
    close(log, database).await;
    let damage = database.rows.damage().await;
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

fn known(projections: &[String]) -> anyhow::Result<()> {
    match projections.iter().find(|name| *name != RowsProjector::NAME) {
        Some(name) => {
            Err(output::NotFound(format!("there is no projection {name:?}; there is {:?}", RowsProjector::NAME)).into())
        }
        None => Ok(()),
    }
}

async fn open(config: &Config) -> anyhow::Result<(Log, Database)> {
    if config.database_url.as_deref() == Some(database::NONE) {
        return Err(output::Usage("there are no rows without a database; leave database_url out, or name a server".into()).into());
    }
    database::check(config)?;
    let log = logverbs::open(config).await?;
    let database = Database::open(config).await.context("the rows")?;
    Ok((log, database))
}

async fn close(log: Log, database: Database) {
    database.close().await;
    log.close().await;
}

fn bar(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} records, {per_sec}, {eta} left");
    let bar = ProgressBar::new(0).with_message(what).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn show(bar: &ProgressBar, at: Progress) {
    bar.set_length(at.of_records);
    bar.set_position(at.records);
}
