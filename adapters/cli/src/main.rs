//! The binary `arbe`: verbs, configuration, and the place where everything is put together.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::{CommandFactory, Parser};

mod args;
mod client;
mod config;
mod database;
mod datasets;
mod endpoint;
mod library;
mod logverbs;
mod mcp;
mod operate;
mod output;
mod owner;
mod platform;
mod proxy;
mod row;
mod seeker;
mod serve;
mod tools;
mod vaultverbs;
mod verbs;
mod work;

use args::{Args, Verb};

/// Pages and slots come and go in megabytes; the system allocator would give each back to the kernel.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// In milliseconds.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Exit codes that scripts rely on; never renumber.
mod exit {
    pub(crate) const FAILED: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
    pub(crate) const NOT_FOUND: u8 = 3;
    pub(crate) const REFUSED: u8 = 4;
    pub(crate) const DAMAGE: u8 = 5;
}

fn main() -> ExitCode {
    // Of two providers that are linked in, the one that everything here is made for. It can be set once, and this is the first.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let args = Args::parse();
    let args = Args { verb: args.verb.by_its_name(), ..args };
    if matches!(args.verb, Verb::Serve(_) | Verb::Vault(_) | Verb::Secret(_)) {
        leave_no_core();
    }
    if let Verb::Completions { shell } = args.verb {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Args::command(), "arbe", &mut script);
        return ended(output::print(script).map(|()| ExitCode::SUCCESS));
    }
    if matches!(args.verb, Verb::Library(_) | Verb::Rebuild(_) | Verb::Verify(_)) {
        thriftily();
    }
    ended(if let Verb::Man { directory } = &args.verb { manual(directory.as_deref()) } else { start(args) })
}

/// It would hold keys and the values of secrets.
fn leave_no_core() {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = rustix::process::setrlimit(rustix::process::Resource::Core, none) {
        eprintln!("arbe: a crash may leave a core dump with secrets in it: {error}");
    }
}

/// Batches come and go, and what one took is given back at once. The allocator reads its settings before anything of ours runs, so the
/// process begins anew; where that cannot be, it goes on and takes more.
#[expect(clippy::disallowed_methods, reason = "a setting of the allocator, not of ours")]
fn thriftily() {
    if std::env::var_os(PURGE_DELAY).is_some() {
        return;
    }
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let mut words = std::env::args_os();
    let mut anew = Command::new("/proc/self/exe");
    anew.arg0(words.next().unwrap_or_else(|| "arbe".into())).args(words).env(PURGE_DELAY, "0");
    let error = anew.exec();
    tracing::debug!(%error, "memory is given back late");
}

fn ended(done: anyhow::Result<ExitCode>) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("arbe: {error:#}");
            ExitCode::from(output::code(&error))
        }
    }
}

fn start(args: Args) -> anyhow::Result<ExitCode> {
    let config = config::Config::load(&args).map_err(|error| output::Usage(format!("{error:#}")))?;
    output::tracing(&config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(args, config))
}

fn manual(directory: Option<&Path>) -> anyhow::Result<ExitCode> {
    match directory {
        None => clap_mangen::Man::new(Args::command()).render(&mut std::io::stdout())?,
        Some(directory) => {
            let written = std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(Args::command(), directory));
            written.with_context(|| directory.display().to_string())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn run(args: Args, config: config::Config) -> anyhow::Result<ExitCode> {
    let json = args.common.json;
    if let Verb::Projections(projections) = &args.verb
        && let Some(verb) = &projections.verb
    {
        return operate::copies(verb, &config, json).await;
    }
    match args.verb {
        Verb::Serve(_) => serve::serve(config).await,
        Verb::Rebuild(rebuild) => operate::rebuild(*rebuild, &config, json).await,
        Verb::Verify(verify) => operate::verify(*verify, &config, json).await,
        Verb::Vault(on) => vaultverbs::run(on.verb, &config, json).await,
        Verb::Tools { verb } => tools::run(verb, &config, json).await,
        Verb::StreamProxy(proxy) => proxy::run(proxy).await,
        Verb::Log { verb } => logverbs::run(verb, &config, json).await,
        Verb::Library(verb) => library::run(verb, &config, json).await,
        Verb::Completions { .. } | Verb::Man { .. } => Ok(ExitCode::SUCCESS),
        Verb::Say(_)
        | Verb::Tail(_)
        | Verb::Thread(_)
        | Verb::Entry(_)
        | Verb::House(_)
        | Verb::Member(_)
        | Verb::Agent(_)
        | Verb::Env(_)
        | Verb::Secret(_)
        | Verb::Sandbox(_)
        | Verb::Permission(_)
        | Verb::Whoami(_)
        | Verb::Projections(_) => verbs::run(args.verb, &config, json).await,
    }
}
