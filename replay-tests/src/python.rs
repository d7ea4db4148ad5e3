//! Python environments with the official client and with schemathesis, each made once in the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::directories;

const CLIENT_REQUIREMENTS: &str = include_str!("../conformance/requirements.txt");
const FUZZER_REQUIREMENTS: &str = include_str!("../conformance/schemathesis-requirements.txt");
const CLIENT: &str = include_str!("../conformance/client.py");
const FUZZER: &str = include_str!("../conformance/schemathesis.toml");
const MISSING: &str = "Python 3.10 or newer with venv is needed and was not found: install python3 and python3-venv, \
                       or set ARBE_SKIP_PIP=1 to leave out the tests that need it";

/// The Python client script, ready to run, or nothing if the user set `ARBE_SKIP_PIP=1`.
pub fn client() -> Result<Option<Command>> {
    let Some((mut python, script)) = environment("python-client", CLIENT_REQUIREMENTS, ("client.py", CLIENT))? else {
        return Ok(None);
    };
    python.arg(script);
    Ok(Some(python))
}

/// Schemathesis with its configuration, or nothing if the user set `ARBE_SKIP_PIP=1`.
pub fn schemathesis() -> Result<Option<Command>> {
    let made = environment("schemathesis", FUZZER_REQUIREMENTS, ("schemathesis.toml", FUZZER))?;
    let Some((mut python, configuration)) = made else { return Ok(None) };
    python.args(["-m", "schemathesis.cli", "--config-file"]).arg(configuration);
    Ok(Some(python))
}

/// The interpreter, and where the file that goes with it is.
fn environment(name: &str, requirements: &str, file: (&str, &str)) -> Result<Option<(Command, PathBuf)>> {
    if directories::skipped("ARBE_SKIP_PIP") {
        return Ok(None);
    }
    let directory = directories::target()?.join(name);
    fs::create_dir_all(&directory)?;
    let _lock = directories::lock(&directory.join("install.lock"))?;
    let path = directory.join(file.0);
    fs::write(&path, file.1)?;
    Ok(Some((Command::new(install(&directory, requirements)?), path)))
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
