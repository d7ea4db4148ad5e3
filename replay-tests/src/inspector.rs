//! The official inspector of MCP servers, pinned, from npm: it asks a server one thing, and ends.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agents::{Ended, LOOPBACK_ALONE, run};
use crate::node;

const PACKAGES: &str = include_str!("../inspector/package.json");
const LOCK: &str = include_str!("../inspector/package-lock.json");
const LIMIT: Duration = Duration::from_secs(60);
/// Without the first it serves a page for people, and without the second it listens for a browser in which somebody is to sign in.
const ALONE: [&str; 2] = ["--cli", "--stored-auth-only"];
/// Otherwise it looks for the keyring of whoever runs the tests.
const SECRETS: (&str, &str) = ("MCP_INSPECTOR_SECRET_STORE", "memory");

pub struct Inspector {
    programs: PathBuf,
    home: TempDir,
}

impl Inspector {
    /// Nothing if the user set `ARBE_SKIP_NPM=1`, or where the pinned packages do not run.
    pub fn install() -> Result<Option<Self>> {
        let Some(directory) = node::programs("inspector", PACKAGES, LOCK)? else { return Ok(None) };
        Ok(Some(Self { programs: directory.join("node_modules/.bin"), home: tempfile::tempdir()? }))
    }

    /// The server is described as in the settings of other clients: by `command` and `args`, or by `type`, `url` and `headers`. Standard
    /// output is one object with the `result`; the last line of standard error is one with the `error`.
    pub fn ask(&self, server: &Value, question: &[&str]) -> Result<Ended> {
        let settings = self.home.path().join("servers.json");
        fs::write(&settings, json!({ "mcpServers": { "asked": server } }).to_string())?;
        let mut command = Command::new(self.programs.join("mcp-inspector"));
        command.args(ALONE).arg("--config").arg(settings).args(["--server", "asked", "--format", "json"]).args(question);
        let path = format!("{}:/usr/bin:/bin", self.programs.display());
        command.env_clear().env("HOME", self.home.path()).env("PATH", path).envs(LOOPBACK_ALONE).envs([SECRETS]);
        run(command, LIMIT)
    }
}
