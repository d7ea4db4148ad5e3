//! A Python environment with the official client, made once in the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::directories;

const REQUIREMENTS: &str = include_str!("../conformance/requirements.txt");
const CLIENT: &str = include_str!("../conformance/client.py");
const MISSING: &str = "Python 3.10 or newer with venv is needed and was not found: install python3 and python3-venv, \
                       or set ARBE_SKIP_PIP=1 to leave out the test that needs it";

/// The Python client script, ready to run, or nothing if the user set `ARBE_SKIP_PIP=1`.
pub fn client() -> Result<Option<Command>> {
    if directories::skipped("ARBE_SKIP_PIP") {
        return Ok(None);
    }
    let directory = directories::target()?.join("python-client");
    fs::create_dir_all(&directory)?;
    let _lock = directories::lock(&directory.join("install.lock"))?;
    let script = directory.join("client.py");
    fs::write(&script, CLIENT)?;
    let python = install(&directory)?;
    let mut command = Command::new(python);
    command.arg(script);
    Ok(Some(command))
}

fn install(directory: &Path) -> Result<PathBuf> {
    let python = directory.join("venv/bin/python");
    let installed = directory.join("venv/installed.txt");
    if fs::read_to_string(&installed).ok().as_deref() == Some(REQUIREMENTS) {
        return Ok(python);
    }
    let requirements = directory.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS)?;
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(directory.join("venv")))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(requirements))?;
    fs::write(installed, REQUIREMENTS)?;
    Ok(python)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().context(MISSING)?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {error}\n{MISSING}");
    Ok(())
}
