//! What the agents are put through, as far as they can be without a person at the terminal.

use anyhow::Result;

use super::{Stage, printed};
use crate::agents::Agent;

pub(super) fn play(agent: Agent, stage: &Stage) -> Result<()> {
    match agent {
        Agent::ClaudeCode => claude_code(stage),
        Agent::Codex => codex(stage),
        Agent::Opencode => opencode(stage),
        Agent::Pi => pi(stage),
    }
}

/// A command, thinking, an image, a failure, a result that is spilled into a file, a sub-agent, a compaction, a refusal of the API, an
/// interruption, a fork.
fn claude_code(stage: &Stage) -> Result<()> {
    const SESSION: &str = "5eed0001-0000-4000-8000-000000000001";
    let claude = "claude --allowedTools Bash,Read,Agent";
    let begin = format!("{claude} --session-id {SESSION} -p --");
    let go_on = format!("{claude} --resume {SESSION} -p --");
    stage.ask(&begin, r#"TOOL: Bash {"command":"echo one","description":"Says one"}"#)?;
    stage.ask(&go_on, "THINK about it")?;
    let image = stage.home.project().join("dot.png");
    stage.ask(&go_on, &format!(r#"TOOL: Read {{"file_path":"{}"}}"#, image.display()))?;
    stage.ask(&go_on, r#"TOOL: Bash {"command":"exit 3","description":"Fails"}"#)?;
    stage.ask(&go_on, r#"TOOL: Bash {"command":"seq 1 30000","description":"Counts"}"#)?;
    let task = r#"TOOL: Bash {\"command\":\"echo two\",\"description\":\"Says two\"}"#;
    let agent = format!(r#"TOOL: Agent {{"description":"Say two","prompt":"{task}","subagent_type":"general-purpose"}}"#);
    stage.ask(&go_on, &agent)?;
    stage.ask(&go_on, "/compact")?;
    stage.ask(&go_on, "and after it?")?;
    stage.try_to(&go_on, "REFUSE this")?;
    stage.interrupt(&go_on)?;
    stage.ask(&format!("{claude} --resume {SESSION} --fork-session -p --"), "and in the fork?")?;
    Ok(())
}

/// An image and thinking, a command, a failure, a call with free text, a refusal of the API, an interruption, a fork; a sub-agent; a
/// compaction.
fn codex(stage: &Stage) -> Result<()> {
    let codex = "codex exec --json --skip-git-repo-check";
    let begun = stage.ask(&format!("{codex} -i dot.png --"), "THINK what is in the picture?")?;
    let session = printed(&begun, "thread_id")?;
    let go_on = format!("codex exec resume --json --skip-git-repo-check {session}");
    stage.ask(&go_on, r#"TOOL: exec_command {"cmd":"cat notes.txt"}"#)?;
    stage.ask(&go_on, r#"TOOL: exec_command {"cmd":"exit 3"}"#)?;
    stage.ask(&go_on, r#"TOOL: apply_patch "*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch\n""#)?;
    stage.try_to(&go_on, "REFUSE this")?;
    stage.interrupt(&go_on)?;
    stage.ask(&format!("codex exec fork --json --skip-git-repo-check {session}"), "and in the fork?")?;
    stage.ask(codex, r#"TOOL: multi_agent_v1/spawn_agent {"message":"count the words of notes.txt"}"#)?;
    stage.ask(codex, r#"FILL it, TOOL: exec_command {"cmd":"echo full"}"#)?;
    Ok(())
}

/// Thinking, a command, a failure, an image, a sub-agent, a list of things to do, a compaction, a refusal of the API, an interruption,
/// a fork.
fn opencode(stage: &Stage) -> Result<()> {
    let begun = stage.ask("opencode run --format json", "THINK about it")?;
    let session = printed(&begun, "sessionID")?;
    let go_on = format!("opencode run --session {session}");
    stage.ask(&go_on, r#"TOOL: bash {"command":"echo hi","description":"Says hi"}"#)?;
    let nothing = stage.home.project().join("nothing.txt");
    stage.ask(&go_on, &format!(r#"TOOL: read {{"filePath":"{}"}}"#, nothing.display()))?;
    stage.ask(&format!("{go_on} --file dot.png --"), "what is in the picture?")?;
    let task = r#"TOOL: bash {\"command\":\"echo two\",\"description\":\"Says two\"}"#;
    stage.ask(&go_on, &format!(r#"TOOL: task {{"description":"Say two","prompt":"{task}","subagent_type":"general"}}"#))?;
    let todo = r#"{"id":"1","content":"Look","status":"pending","priority":"high"}"#;
    stage.ask(&go_on, &format!(r#"TOOL: todowrite {{"todos":[{todo}]}}"#))?;
    stage.ask(&go_on, "FILL it")?;
    stage.ask(&go_on, "and after it?")?;
    stage.try_to(&go_on, "REFUSE this")?;
    stage.interrupt(&go_on)?;
    stage.ask(&format!("{go_on} --fork"), "and in the fork?")?;
    Ok(())
}

/// A failure, thinking, a file and an image, a refusal of the API, an interruption, a compaction, a fork.
fn pi(stage: &Stage) -> Result<()> {
    let pi = "pi -p --model scripted/scripted-1";
    let go_on = format!("{pi} --session-id demo");
    stage.ask(&go_on, "hello there")?;
    stage.ask(&go_on, r#"TOOL: bash {"command":"echo hi; exit 3"}"#)?;
    stage.ask(&go_on, "THINK about it")?;
    stage.ask(&format!("{go_on} @notes.txt @dot.png"), "what is this?")?;
    stage.try_to(&go_on, "REFUSE this")?;
    stage.interrupt(&go_on)?;
    stage.ask(&go_on, "FILL it")?;
    stage.ask(&go_on, "and after it?")?;
    stage.ask(&format!("{pi} --fork demo"), "and in the fork?")?;
    Ok(())
}
