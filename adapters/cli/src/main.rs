//! The binary `arbe`: verbs, configuration, and the place where everything is put together.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

mod args;
mod config;
mod logverbs;
mod output;
mod serve;

use args::{Args, Verb};

/// Pages and slots come and go in megabytes; the system allocator would give each back to the kernel.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit codes that scripts rely on; never renumber.
mod exit {
    pub(crate) const FAILED: u8 = 1;
    pub(crate) const NOT_FOUND: u8 = 3;
    pub(crate) const DAMAGE: u8 = 5;
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Verb::Completions { shell } = args.verb {
        clap_complete::generate(shell, &mut Args::command(), "arbe", &mut std::io::stdout());
        return ExitCode::SUCCESS;
    }
    let done = config::Config::load(&args).and_then(|config| {
        output::tracing(&config);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(run(args, config))
    });
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("arbe: {error:#}");
            ExitCode::from(if error.is::<output::NotFound>() { exit::NOT_FOUND } else { exit::FAILED })
        }
    }
}

async fn run(args: Args, config: config::Config) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Serve(_) => serve::serve(config).await,
        Verb::Log { verb } => logverbs::run(verb, &config, args.common.json).await,
        Verb::Completions { .. } => Ok(ExitCode::SUCCESS),
    }
}
