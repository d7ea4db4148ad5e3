//! Sessions of every coding agent, put before the real others: what `arbe resume` writes and says is taken by the agent itself, which
//! then shows a scripted model all that was said before.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use replay_tests::agents::{Agent, Agents, Home, run};
use replay_tests::model::{Conversation, Model, Role};
use replay_tests::servers::arbe_binary;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);
const FOLLOW_UP: &str = "And what is to be done next?";

/// A recorded session: the agent, where its home was kept, the file with the canonical form, the session.
struct Source(Agent, &'static str, &'static str, &'static str);

const SOURCES: [Source; 6] = [
    Source(Agent::ClaudeCode, "2.0.37", "2.0.37.canonical.json", "d79ec8a1-fac6-498c-9ec0-75c1b1b9befd"),
    Source(Agent::ClaudeCode, "2.1.325", "2.1.325.canonical.json", "665176e9-93d1-48b3-b3f8-bd05c2fb850a"),
    Source(
        Agent::Codex,
        "0.166.0",
        "0.166.0/sessions/2026/11/16/rollout-2026-11-16T14-15-34-01a1e4b6-993b-7f92-a2b7-a85ccc7b3db4.canonical.json",
        "01a1e4b6-993b-7f92-a2b7-a85ccc7b3db4",
    ),
    Source(Agent::Opencode, "1.18.33", "1.18.33.canonical.json", "ses_e1b5062c3ffeqmdRzCDJEQhGId"),
    Source(Agent::Pi, "", "sessions/--srv-demo--/2026-11-16T14-11-23-839Z_demo-078.canonical.json", "demo-078"),
    Source(Agent::Pi, "", "sessions/--srv-demo--/2026-11-16T14-11-33-512Z_demo-150.canonical.json", "demo-150"),
];

#[test]
fn claude_code_goes_on_with_what_any_agent_began() -> Result<()> {
    goes_on_with_all(Agent::ClaudeCode)
}

#[test]
fn codex_goes_on_with_what_any_agent_began() -> Result<()> {
    goes_on_with_all(Agent::Codex)
}

#[test]
fn opencode_goes_on_with_what_any_agent_began() -> Result<()> {
    goes_on_with_all(Agent::Opencode)
}

#[test]
fn pi_goes_on_with_what_any_agent_began() -> Result<()> {
    goes_on_with_all(Agent::Pi)
}

fn goes_on_with_all(agent: Agent) -> Result<()> {
    let Some(agents) = Agents::install()? else { return Ok(()) };
    for source in &SOURCES {
        goes_on(agent, source, &agents).with_context(|| format!("{} {} in {}", source.0.name(), source.3, agent.name()))?;
    }
    Ok(())
}

fn goes_on(agent: Agent, source: &Source, agents: &Agents) -> Result<()> {
    let model = Model::start()?;
    let home = agents.home(&model)?;
    let recorded = recorded(source, &home)?;
    arbe(&home, &["sync", "--client", source.0.name(), "--from", recorded.to_str().context("a text")?])?;
    if source.0 == Agent::Opencode && agent == Agent::Opencode {
        // It has a database by now, which the session goes into.
        let ended = run(home.shell("opencode run -m scripted/scripted-1 'Hello.'")?, LIMIT)?;
        ensure!(ended.status.success(), "{ended:?}");
    }
    let resumed = arbe(&home, &["resume", source.3, "--with", agent.name()])?;
    let native = source.0 == agent;
    ensure!(resumed["native"] == native, "{resumed}");

    let command = agent.asking(resumed["command"].as_str().context("a command")?, FOLLOW_UP);
    let ended = run(home.shell(&command)?, LIMIT)?;
    ensure!(ended.status.success(), "{command}: {ended:?}");
    let asked = |it: &Conversation| !it.tools.is_empty() && it.texts(Role::User).any(|text| text.contains(FOLLOW_UP));
    let request = model.requests().into_iter().rfind(asked);
    let request = request.with_context(|| format!("the model was not asked; {command}: {ended:?}"))?;
    let said = said(source, &home, native)?;
    shows(&request, &said)?;
    let again = arbe(&home, &["resume", source.3, "--with", agent.name()]).err().context("it was written over")?;
    ensure!(format!("{again:#}").contains("is there already"), "{again:#}");
    Ok(())
}

/// The recorded home, as if it had been recorded in this one's project.
fn recorded(source: &Source, home: &Home) -> Result<PathBuf> {
    let from = fixtures(source.0).join(source.1);
    let to = home.aside().join("recorded");
    copy(&from, &to, &|text| text.replace("/srv/demo", &home.project().to_string_lossy()))?;
    let statements = to.join("opencode.db.sql");
    if statements.is_file() {
        rusqlite::Connection::open(to.join("opencode.db"))?.execute_batch(&fs::read_to_string(&statements)?)?;
    }
    Ok(to)
}

fn copy(from: &Path, to: &Path, moved: &dyn Fn(&str) -> String) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let to = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &to, moved)?;
        } else if !path.to_string_lossy().ends_with(".canonical.json") {
            fs::write(to, moved(&fs::read_to_string(path)?))?;
        }
    }
    Ok(())
}

fn fixtures(agent: Agent) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/sessions").join(agent.name())
}

/// The one object that `arbe --json` prints.
fn arbe(home: &Home, args: &[&str]) -> Result<Value> {
    let mut command = Command::new(arbe_binary()?);
    command.args(args).arg("--json").current_dir(home.project()).env_clear();
    command.env("HOME", home.root()).env("ARBE_DATA_DIR", home.aside().join("data"));
    let ended = run(command, LIMIT)?;
    ensure!(ended.status.success(), "{args:?}: {ended:?}");
    Ok(serde_json::from_str(&ended.stdout)?)
}

/// What was said and given in a session, in order, and how many calls were made.
struct Said {
    texts: Vec<(Role, String)>,
    calls: usize,
}

/// By the golden canonical form. What an agent of its own put together into a summary it does not say again.
fn said(source: &Source, home: &Home, native: bool) -> Result<Said> {
    let golden = fs::read_to_string(fixtures(source.0).join(source.2))?.replace("/srv/demo", &home.project().to_string_lossy());
    let records: Vec<Value> = serde_json::from_str(&golden)?;
    let is = |record: &&Value| record["id"] == source.3 && record.get("source_agent").is_some();
    let start = records.iter().position(|it| is(&it)).context("the session is in its golden form")?;
    let messages = records[start + 1..].iter().take_while(|record| record.get("source_agent").is_none());
    let mut said = Said { texts: Vec::new(), calls: 0 };
    for message in messages {
        let role = if message["role"] == "assistant" { Role::Assistant } else { Role::User };
        for part in message["content"].as_array().into_iter().flatten() {
            let result = &part["result"];
            let text = part["text"].as_str().or(result.as_str()).or(result[0]["text"].as_str()).unwrap_or_default().trim();
            if native && text.starts_with("This session is being continued from a previous conversation") {
                said = Said { texts: Vec::new(), calls: 0 };
            }
            said.calls += usize::from(part["type"] == "tool_call");
            match part["type"].as_str() {
                Some("text") if part["provenance"] == "conversational" => said.texts.push((role, text.to_owned())),
                Some("tool_result") => said.texts.push((Role::Result, text.to_owned())),
                _ => {}
            }
        }
    }
    ensure!(said.texts.iter().any(|(role, _)| *role == Role::User), "nobody said anything");
    Ok(said)
}

/// Everything that was said is in the request, in its role and order, and at its end the follow-up.
fn shows(request: &Conversation, said: &Said) -> Result<()> {
    let mut turns = request.turns.iter();
    let mut expected: Vec<_> = said.texts.iter().map(|(role, text)| (*role, text.as_str())).collect();
    expected.push((Role::User, FOLLOW_UP));
    let mut last = None;
    for (role, text) in expected {
        let holds = |it: &&replay_tests::model::Turn| it.role == role && it.text.contains(text);
        // Several texts may have become one turn.
        if last.as_ref().is_none_or(|it| !holds(it)) {
            last = turns.find(|it| holds(it));
        }
        ensure!(last.is_some(), "the model did not see {role:?} {text:?} where it was said, in {request:#?}");
    }
    for role in [Role::Call, Role::Result] {
        let seen = request.texts(role).count();
        ensure!(seen == said.calls, "the model saw {seen} of {} × {role:?}, in {request:#?}", said.calls);
    }
    Ok(())
}
