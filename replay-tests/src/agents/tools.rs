//! pi where every user of this host can get at it: the target directory may be closed to those as whom machines run.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

/// Large, and not needed by pi.
const OTHERS: [&str; 3] = ["@anthropic-ai/claude-code-linux-x64", "@openai/codex", "opencode-linux-x64-baseline"];
const PACKAGES: &str = "node_modules";

/// A directory for `arbe serve --tools`, gone with its value.
pub struct Tools(TempDir);

impl Tools {
    pub(super) fn of(installed: &Path) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
        let packages = installed.join(PACKAGES);
        let others = OTHERS.map(|name| packages.join(name));
        let wanted = |path: &Path| others.iter().all(|other| other != path);
        take(&packages, &directory.path().join(PACKAGES), &wanted).with_context(|| packages.display().to_string())?;
        Ok(Self(directory))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// By hard links where that goes.
fn take(from: &Path, to: &Path, wanted: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if !wanted(&path) {
            continue;
        } else if kind.is_dir() {
            take(&path, &to, wanted)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&path)?, &to)?;
        } else if fs::hard_link(&path, &to).is_err() {
            fs::copy(&path, &to)?;
        }
    }
    Ok(())
}
