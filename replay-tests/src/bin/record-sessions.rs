//! Records the fixture sessions again, with the pinned versions of the coding agents.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Parser;
use replay_tests::agents::{Agent, Agents};
use replay_tests::recording;

#[derive(Parser)]
struct Args {
    /// Where the sessions go, as `<agent>/<version>`
    directory: PathBuf,
    /// Only this agent: claude-code, codex, opencode or pi
    #[arg(long)]
    agent: Option<String>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let Some(agents) = Agents::install()? else { bail!("without npm nothing can be recorded") };
    for agent in Agent::ALL.into_iter().filter(|agent| args.agent.as_ref().is_none_or(|name| name == agent.name())) {
        recording::record(&agents, agent, &args.directory)?;
        eprintln!("recorded {} {}", agent.name(), agent.version()?);
    }
    Ok(())
}
