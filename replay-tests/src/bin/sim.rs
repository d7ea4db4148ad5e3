//! The simulation at any length: `sim --seeds 1..100000`.

use std::io::Write;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use replay_tests::sim;

/// Runs seeds of the simulated cluster and prints one line for each.
#[derive(Debug, Parser)]
struct Options {
    #[arg(long, default_value = "1..1000", value_parser = seeds)]
    seeds: Range<u64>,
    /// Print everything that happened.
    #[arg(long)]
    trace: bool,
    /// Print only seeds with problems, and the sum.
    #[arg(long)]
    quiet: bool,
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    threads: usize,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("a range looks like 1..1000")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
    Ok(number(from)?..number(to)?)
}

fn main() -> ExitCode {
    let options = Options::parse();
    let began = Instant::now();
    let (next, failed) = (AtomicU64::new(options.seeds.start), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| work(&options, &next, &failed));
        }
    });
    let (count, failed) = (options.seeds.end - options.seeds.start, failed.into_inner());
    let took = began.elapsed();
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{count} seeds in {:.1} s, {failed} with problems", took.as_secs_f64());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn work(options: &Options, next: &AtomicU64, failed: &AtomicU64) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= options.seeds.end {
            return;
        }
        let run = sim::run(seed, options.trace);
        let mut out = std::io::stdout().lock();
        for line in &run.trace {
            let _ = writeln!(out, "{line}");
        }
        if !options.quiet || !run.problems.is_empty() {
            let _ = writeln!(out, "{}", run.line);
        }
        for problem in &run.problems {
            let _ = writeln!(out, "  seed {seed}: {problem}");
        }
        if !run.problems.is_empty() {
            failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}
