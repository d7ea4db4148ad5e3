use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Cargo puts a test at `<target>/<profile>/deps/<test>` and a binary at `<target>/<profile>/<binary>`.
fn profile() -> Result<PathBuf> {
    let executable = std::env::current_exe()?;
    let parent = executable.parent().context("an executable is in a directory")?;
    let profile = if parent.ends_with("deps") { parent.parent() } else { Some(parent) };
    Ok(profile.context("`deps` is in a profile directory")?.to_owned())
}

pub(crate) fn target() -> Result<PathBuf> {
    Ok(profile()?.parent().context("a profile directory is in the target directory")?.to_owned())
}

pub fn arbe_binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("ARBE_BIN") {
        return Ok(path.into());
    }
    let built = [profile()?.join("arbe"), target()?.join("debug/arbe")];
    let found = built.into_iter().find(|path| path.is_file());
    found.context("no `arbe` binary beside the tests: run `cargo build` first, or set ARBE_BIN")
}

/// Waits for other threads and processes that hold it; given back when dropped.
pub(crate) fn lock(path: &Path) -> Result<File> {
    let file = File::create(path)?;
    file.lock()?;
    Ok(file)
}

pub(crate) fn skipped(variable: &str) -> bool {
    let skipped = std::env::var_os(variable).is_some_and(|value| value == "1");
    if skipped {
        eprintln!("skipped, because {variable} is set");
    }
    skipped
}
