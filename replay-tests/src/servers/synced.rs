use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::arbe::bare;
use crate::agents::run;

const LIMIT: Duration = Duration::from_secs(60);

/// Puts those sessions of a client that lie in this repository into a data directory, and gives what was counted.
pub fn sync(data: &Path, client: &str) -> Result<Value> {
    let sessions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/sessions").join(client);
    let mut command = bare()?;
    command.arg("--data-dir").arg(data).args(["--json", "sync", "--client", client, "--from"]).arg(sessions).env("HOME", data);
    let ended = run(command, LIMIT)?;
    ensure!(ended.status.success(), "{ended:?}");
    let told: Value = serde_json::from_str(&ended.stdout).with_context(|| format!("{ended:?}"))?;
    Ok(told["clients"][client].clone())
}
