//! The long run with real processes: `soak --seconds 60 --store file`.

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use replay_tests::soak::{self, StoreKind};

/// Two servers on one store, killed at random while 16 clients write
#[derive(Debug, Parser)]
struct Options {
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    #[arg(long, value_enum, default_value = "file")]
    store: Kind,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    File,
    /// The honest S3 server, with faults.
    S3,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let store = match options.store {
        Kind::File => StoreKind::File,
        Kind::S3 => StoreKind::S3,
    };
    let outcome = soak::run(soak::Options { duration: Duration::from_secs(options.seconds), store, seed: options.seed })?;
    writeln!(
        std::io::stdout(),
        "{} acknowledged, {} unknown, {} kills, {} problems",
        outcome.acknowledged,
        outcome.unknown,
        outcome.kills,
        outcome.problems.len()
    )?;
    if !outcome.problems.is_empty() {
        bail!(outcome.problems.join("\n"));
    }
    Ok(())
}
