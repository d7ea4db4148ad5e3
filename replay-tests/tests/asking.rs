//! Coding agents that look something up: the real ones, over MCP, with a scripted model that calls `pond_search` and is shown what came back.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use replay_tests::agents::{Agents, Home, quoted, run};
use replay_tests::model::{Model, Role};
use replay_tests::servers::{arbe_binary, sync};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(60);
/// Said in a session of Codex that lies in this repository.
const SAID: &str = "I turned the sign around";

#[test]
fn claude_code_finds_what_codex_said() -> Result<()> {
    let Some(agents) = Agents::install()? else { return Ok(()) };
    let model = Model::start()?;
    let home = home(&agents, &model)?;
    let server = json!({ "mcpServers": { "arbe": { "command": arbe_binary()?, "args": ["--data-dir", data(&home), "mcp"] } } });
    let asked = ask("mcp__arbe__pond_search");
    let tools = "--strict-mcp-config --allowedTools mcp__arbe__pond_search";
    let command = format!("claude -p --mcp-config {} {tools} -- {}", quoted(&server.to_string()), quoted(&asked));
    is_answered(&home, &model, &command)
}

#[test]
fn codex_finds_what_was_said_in_another_session() -> Result<()> {
    let Some(agents) = Agents::install()? else { return Ok(()) };
    let model = Model::start()?;
    let home = home(&agents, &model)?;
    let mut settings = fs::OpenOptions::new().append(true).open(home.root().join(".codex/config.toml"))?;
    let (program, data) = (json!(arbe_binary()?), json!(data(&home)));
    write!(settings, "\n[mcp_servers.arbe]\ncommand = {program}\nargs = [\"--data-dir\", {data}, \"mcp\"]\n")?;
    let command = format!("codex exec --skip-git-repo-check {}", quoted(&ask("mcp__arbe/pond_search")));
    is_answered(&home, &model, &command)
}

fn ask(tool: &str) -> String {
    format!("TOOL: {tool} {}", json!({ "query": "turned the sign around" }))
}

fn data(home: &Home) -> String {
    home.aside().join("data").to_string_lossy().into_owned()
}

/// A home beside which sessions of Codex have been recorded.
fn home(agents: &Agents, model: &Model) -> Result<Home> {
    let home = agents.home(model)?;
    sync(Path::new(&data(&home)), "codex")?;
    Ok(home)
}

fn is_answered(home: &Home, model: &Model, command: &str) -> Result<()> {
    let ended = run(home.shell(command)?, LIMIT)?;
    ensure!(ended.status.success(), "{command}: {ended:?}");
    let requests = model.requests();
    let mut results = requests.iter().flat_map(|it| it.texts(Role::Result));
    ensure!(results.any(|text| text.contains(SAID)), "the model was not shown what is said: {ended:?} {requests:#?}");
    ensure!(ended.stdout.contains("It gave: "), "{ended:?}");
    Ok(())
}
