//! Node packages for the tests, installed once into the target directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::directories;

const LOCK: &str = include_str!("../conformance/package-lock.json");
const FILES: [(&str, &str); 6] = [
    ("package.json", include_str!("../conformance/package.json")),
    ("package-lock.json", LOCK),
    ("vitest.config.mjs", include_str!("../conformance/vitest.config.mjs")),
    ("conformance.test.mjs", include_str!("../conformance/conformance.test.mjs")),
    ("create-container.mjs", include_str!("../conformance/create-container.mjs")),
    ("client.mjs", include_str!("../conformance/client.mjs")),
];
const MISSING: &str = "Node.js 20 or newer with npm is needed and was not found: install it from https://nodejs.org \
                       or your distribution, or set ARBE_SKIP_NPM=1 to leave out the tests that need it";

pub struct NodeProject {
    directory: PathBuf,
}

impl NodeProject {
    /// Nothing if the user set `ARBE_SKIP_NPM=1`.
    pub fn install() -> Result<Option<Self>> {
        if directories::skipped("ARBE_SKIP_NPM") {
            return Ok(None);
        }
        Ok(Some(Self { directory: install("conformance", &FILES, LOCK)? }))
    }

    pub fn script(&self, script: &str) -> Command {
        let mut command = Command::new("node");
        command.arg(self.directory.join(script)).current_dir(&self.directory);
        command
    }

    pub(crate) fn lock(&self, name: &str) -> Result<File> {
        directories::lock(&self.directory.join(name))
    }
}

/// A directory of the target directory with these files and the packages of the lock file, which is one of them.
pub(crate) fn install(name: &str, files: &[(&str, &str)], lock: &str) -> Result<PathBuf> {
    let directory = directories::target()?.join(name);
    fs::create_dir_all(&directory)?;
    // Tests run in several threads and processes; the first one installs, the others wait.
    let _lock = directories::lock(&directory.join("install.lock"))?;
    for (name, contents) in files {
        write_if_changed(&directory.join(name), contents)?;
    }
    let installed = directory.join("node_modules/installed-lock.json");
    if fs::read_to_string(&installed).ok().as_deref() != Some(lock) {
        npm_ci(&directory)?;
        fs::write(installed, lock)?;
    }
    Ok(directory)
}

/// The same for packages of programs. Nothing if the user set `ARBE_SKIP_NPM=1`, or where the programs do not run.
pub(crate) fn programs(name: &str, packages: &str, lock: &str) -> Result<Option<PathBuf>> {
    if directories::skipped("ARBE_SKIP_NPM") {
        return Ok(None);
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        eprintln!("skipped, because the packages of {name} are pinned for Linux on x86-64");
        return Ok(None);
    }
    install(name, &[("package.json", packages), ("package-lock.json", lock)], lock).map(Some)
}

fn npm_ci(directory: &Path) -> Result<()> {
    let output = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(directory)
        .output()
        .context(MISSING)?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "npm ci failed: {error}");
    Ok(())
}

/// A file that another process may be reading is left alone.
fn write_if_changed(path: &Path, contents: &str) -> Result<()> {
    if fs::read_to_string(path).ok().as_deref() != Some(contents) {
        fs::write(path, contents)?;
    }
    Ok(())
}
