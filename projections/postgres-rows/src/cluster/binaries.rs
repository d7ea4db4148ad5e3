//! Finding a Postgres that is new enough.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::ClusterError;

/// `on delete set null (column)` came with it.
const OLDEST: u32 = 15;
const USUAL: [&str; 4] = ["/usr/lib/postgresql", "/usr/local/pgsql", "/opt/homebrew/opt", "/usr/local/opt"];
const OTHER: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/usr/local/pgsql/bin"];

#[derive(Clone, Debug)]
pub(super) struct Binaries {
    pub directory: PathBuf,
    pub major: u32,
}

impl Binaries {
    /// What the caller names and nothing else, or the newest of the usual places, or whatever `pg_config` says.
    pub(super) fn find(named: Option<&Path>) -> Result<Self, ClusterError> {
        if let Some(directory) = named {
            return Self::at(directory);
        }
        let mut looked = Vec::new();
        for directory in usual().into_iter().chain(configured()) {
            match major(&directory) {
                Some(major) if major >= OLDEST => return Ok(Self { directory, major }),
                Some(major) => looked.push(format!("{} (version {major})", directory.display())),
                None => {}
            }
        }
        let looked = if looked.is_empty() { String::new() } else { format!("; looked at {}", looked.join(", ")) };
        Err(ClusterError::NoBinaries { looked })
    }

    fn at(directory: &Path) -> Result<Self, ClusterError> {
        let why = match major(directory) {
            Some(major) if major >= OLDEST => return Ok(Self { directory: directory.to_owned(), major }),
            Some(major) => format!("has PostgreSQL {major}, which is older than {OLDEST}"),
            None if !directory.is_dir() => "is not a directory".to_owned(),
            None => "has no initdb and postgres that run".to_owned(),
        };
        Err(ClusterError::NotBinaries { directory: directory.display().to_string(), why })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

fn usual() -> Vec<PathBuf> {
    let entries = USUAL.iter().filter_map(|parent| std::fs::read_dir(parent).ok()).flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let version = name.trim_start_matches("postgresql@").parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, path)| path).chain(OTHER.map(PathBuf::from)).collect()
}

fn configured() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(text.trim()))
}

fn major(directory: &Path) -> Option<u32> {
    if !directory.join("initdb").exists() {
        return None;
    }
    let output = Command::new(directory.join("postgres")).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
