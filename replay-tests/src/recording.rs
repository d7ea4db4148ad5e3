//! Records sessions of the real coding agents, for the fixtures: each goes through its scenes with the scripted model, and what it wrote
//! is kept without the vendor's words.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::agents::{Agent, Agents, Ended, Home, quoted, run};
use crate::model::Model;

mod keep;
mod scenes;
mod words;

const LIMIT: Duration = Duration::from_secs(60);
const DOT: &[u8] = include_bytes!("../agents/dot.png");

/// Writes `<into>/<agent>/<version>`, laid out as the agent does.
pub fn record(agents: &Agents, agent: Agent, into: &Path) -> Result<()> {
    let model = Model::start()?;
    let stage = Stage { home: agents.home(&model)? };
    for (name, contents) in
        [("notes.txt", "three words here\n".as_bytes()), ("AGENTS.md", b"# Agents\nBe brief.\n"), ("dot.png", DOT)]
    {
        std::fs::write(stage.home.project().join(name), contents)?;
    }
    // Pi keeps what it thinks is recent out of a summary, and all of this is.
    std::fs::write(stage.home.root().join(".pi/agent/settings.json"), r#"{"compaction":{"keepRecentTokens":1}}"#)?;
    scenes::play(agent, &stage)?;
    keep::sessions(agent, &stage.home, &into.join(agent.name()).join(agent.version()?))
}

struct Stage {
    home: Home,
}

impl Stage {
    /// One prompt, to a command that ends well.
    fn ask(&self, command: &str, prompt: &str) -> Result<Ended> {
        let ended = self.try_to(command, prompt)?;
        ensure!(ended.status.success(), "{command} {prompt:?}: {ended:?}");
        Ok(ended)
    }

    /// One prompt, to a command that may fail.
    fn try_to(&self, command: &str, prompt: &str) -> Result<Ended> {
        run(self.home.shell(&format!("{command} {}", quoted(prompt)))?, LIMIT)
    }

    /// One prompt that is answered without end, until somebody has had enough.
    fn interrupt(&self, command: &str) -> Result<Ended> {
        self.try_to(&format!("timeout --signal=INT --kill-after=5 8 {command}"), "HANG, please")
    }
}

/// What follows a key in the JSON that an agent prints.
fn printed<'a>(ended: &'a Ended, key: &str) -> Result<&'a str> {
    let begun = format!("\"{key}\":\"");
    let value = ended.stdout.split_once(&begun).and_then(|(_, rest)| rest.split_once('"'));
    Ok(value.with_context(|| format!("no {key} in {ended:?}"))?.0)
}
