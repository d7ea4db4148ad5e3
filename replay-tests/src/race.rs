//! Races Durable Streams servers over HTTP: one machine, one run, one server at a time.

mod append;
mod case;
mod catch_up;
mod cold_start;
mod contestant;
mod fan_out;
mod found;
pub(crate) mod http1;
mod long_poll;
mod machine;
mod node;
mod options;
mod platform;
pub(crate) mod process;
mod report;
mod samples;
mod usage;
pub(crate) mod wire;

use std::future::Future;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::signal::unix::{SignalKind, signal};

use case::Case;
use contestant::Contestant;
pub use options::Options;
pub use platform::Options as LatencyOptions;
use report::{Report, Row};

const CASE_LIMIT: Duration = Duration::from_secs(900);

/// The load shares the machine with the server it measures, so it never takes more than one core.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let options = options.clone();
    on_one_core(async move { race(&options).await })
}

/// What the platform adds to its log: commands against bare appends, and queries that wait for what was just written.
pub fn latency(options: &LatencyOptions) -> anyhow::Result<()> {
    let options = options.clone();
    on_one_core(async move { platform::measure(&options).await })
}

fn on_one_core(race: impl Future<Output = anyhow::Result<()>> + Send + 'static) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().context("starting the runtime")?;
    let racing = runtime.spawn(until_stopped(race));
    runtime.block_on(racing)?
}

/// Ending the race by dropping it lets every server be stopped by its guard.
async fn until_stopped(race: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        outcome = race => outcome,
        _ = interrupted.recv() => bail!("interrupted"),
        _ = terminated.recv() => bail!("terminated"),
    }
}

async fn race(options: &Options) -> anyhow::Result<()> {
    machine::raise_open_file_limit();
    let (contestants, absent) = contestant::find(options);
    machine::settle().await;
    let machine = machine::describe(&options.directory())?;
    let mut report = Report::new(machine, &contestants, absent);
    if !options.json {
        report.write_heading(&mut io::stdout())?;
    }
    for workload in options.workloads() {
        for case in case::of(workload, options.quick) {
            if options.wants_case(&case.name()) {
                race_case(options, &contestants, case, &mut report).await;
            }
        }
        if !options.json {
            report.write_table(workload, &mut io::stdout())?;
        }
    }
    if options.json {
        serde_json::to_writer_pretty(io::stdout(), &report)?;
        writeln!(io::stdout())?;
    }
    Ok(())
}

async fn race_case(options: &Options, contestants: &[Contestant], case: Case, report: &mut Report) {
    let racing: Vec<_> = contestants.iter().filter(|one| case.supports(one)).collect();
    for round in 1..=options.rounds.max(1) {
        for contestant in &racing {
            machine::settle().await;
            eprintln!("{} {}: {} {round}", case.workload().name(), case.name(), contestant.name());
            let outcome = tokio::time::timeout(CASE_LIMIT, case.race(contestant, options))
                .await
                .unwrap_or_else(|_| bail!("took longer than {} s", CASE_LIMIT.as_secs()));
            report.push(Row::new(case, contestant.name(), outcome));
        }
    }
    report.keep_medians();
}
