//! Python environments with the official client and with schemathesis, each made once in the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::directories;

const CLIENT_REQUIREMENTS: &str = include_str!("../conformance/requirements.txt");
const FUZZER_REQUIREMENTS: &str = include_str!("../conformance/schemathesis-requirements.txt");
const CLIENT: &str = include_str!("../conformance/client.py");
const MISSING: &str = "Python 3.10 or newer with venv is needed and was not found: install python3 and python3-venv, \
                       or set ARBE_SKIP_PIP=1 to leave out the tests that need it";

/// The Python client script, ready to run, or nothing if the user set `ARBE_SKIP_PIP=1`.
pub fn client() -> Result<Option<Command>> {
    let Some((mut python, directory)) = environment("python-client", CLIENT_REQUIREMENTS)? else { return Ok(None) };
    let script = directory.join("client.py");
    fs::write(&script, CLIENT)?;
    python.arg(script);
    Ok(Some(python))
}

/// Schemathesis, or nothing if the user set `ARBE_SKIP_PIP=1`.
pub fn schemathesis() -> Result<Option<Command>> {
    let Some(mut python) = environment("schemathesis", FUZZER_REQUIREMENTS)? else { return Ok(None) };
    python.0.args(["-m", "schemathesis.cli"]);
    Ok(Some(python.0))
}

/// The interpreter, and its directory.
fn environment(name: &str, requirements: &str) -> Result<Option<(Command, PathBuf)>> {
    if directories::skipped("ARBE_SKIP_PIP") {
        return Ok(None);
    }
    let directory = directories::target()?.join(name);
    fs::create_dir_all(&directory)?;
    let _lock = directories::lock(&directory.join("install.lock"))?;
    Ok(Some((Command::new(install(&directory, requirements)?), directory)))
}

fn install(directory: &Path, wanted: &str) -> Result<PathBuf> {
    let python = directory.join("venv/bin/python");
    let installed = directory.join("venv/installed.txt");
    if fs::read_to_string(&installed).ok().as_deref() == Some(wanted) {
        return Ok(python);
    }
    let requirements = directory.join("requirements.txt");
    fs::write(&requirements, wanted)?;
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(directory.join("venv")))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(requirements))?;
    fs::write(installed, wanted)?;
    Ok(python)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().context(MISSING)?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {error}\n{MISSING}");
    Ok(())
}
