//! The Node reference server comes as a library; this is the smallest program around it.

use std::path::Path;
use std::process::Command;

const PROGRAM: &str = "
import { DurableStreamTestServer } from '@durable-streams/server'
const server = new DurableStreamTestServer({
  host: '127.0.0.1',
  port: Number(process.env.RACE_PORT),
  dataDir: process.env.RACE_DATA,
})
await server.start()
process.on('SIGTERM', () => server.stop().then(() => process.exit(0)))
";

pub(super) fn command(modules: &Path, data: &Path, port: u16) -> Command {
    let mut command = Command::new("node");
    command
        .args(["--input-type=module", "-e", PROGRAM])
        .current_dir(modules.parent().unwrap_or(modules))
        .env("RACE_PORT", port.to_string())
        .env("RACE_DATA", data);
    command
}

pub(super) fn version(modules: &Path) -> Option<String> {
    let manifest = std::fs::read(modules.join("@durable-streams/server/package.json")).ok()?;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).ok()?;
    let server = manifest.get("version")?.as_str()?;
    let node = super::process::version_of(Path::new("node"))?;
    Some(format!("@durable-streams/server {server} on node {node}"))
}
