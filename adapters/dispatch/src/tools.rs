//! What a bot can do besides talking.

use std::time::Duration;

use commands::Actor;
use commands::command::Delegate;
use commands::ports::RunCommand;
use events::{AgentId, EnvironmentId, SandboxId};
use serde::Deserialize;
use serde_json::json;

use crate::command::Order;
use crate::dispatcher::{Inner, Later};
use crate::model::{Call, Tool};
use crate::reply::Answering;
use crate::surroundings::{Halt, Trouble};

/// Characters of output that a model is told, the last ones.
const TOLD: usize = 16_000;

pub(crate) fn tools() -> Vec<Tool> {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let run = json!({
        "type": "object",
        "required": ["command"],
        "properties": {
            "command": text("For the shell, in the working tree."),
            "cwd": text("Relative to the working tree."),
            "timeout_seconds": { "type": "integer", "minimum": 1 },
        },
    });
    let delegate = json!({
        "type": "object",
        "required": ["task"],
        "properties": {
            "task": text("What is to be done, with everything one has to know."),
            "bot": text("The name of the bot that is to do it. You yourself if left out."),
            "name": text("A short title."),
            "environment_id": text("The recipe of its machine, if not this thread's."),
            "sandbox_id": text("An existing machine to share; `this` for the thread's own. Without it the task gets its own."),
        },
    });
    vec![
        Tool {
            name: "run_command",
            description: "Runs one command on the thread's machine and returns its output.",
            parameters: run,
        },
        Tool {
            name: "delegate_task",
            description: "Gives a longer task to a coding agent on a machine of its own. Returns the thread to follow at once.",
            parameters: delegate,
        },
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    command: String,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    timeout_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    task: String,
    #[serde(default)]
    bot: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    environment_id: Option<EnvironmentId>,
    #[serde(default)]
    sandbox_id: Option<String>,
}

/// `place` is the call's own, the same in every attempt.
pub(crate) async fn perform(inner: &Inner, it: &Answering, place: &str, call: &Call) -> Result<String, Halt> {
    let unreadable = |error: serde_json::Error| Trouble::new("bad_arguments", format_args!("the arguments do not fit: {error}"));
    match call.name.as_str() {
        "run_command" => {
            let run: Run = serde_json::from_str(&call.arguments).map_err(unreadable)?;
            inner.leave(it, place, call).await?;
            run_command(inner, it, place, run).await
        }
        "delegate_task" => {
            let task: Task = serde_json::from_str(&call.arguments).map_err(unreadable)?;
            inner.leave(it, place, call).await?;
            delegate(inner, it, place, task).await
        }
        other => Err(Trouble::new("no_such_tool", format_args!("there is no tool {other}")).into()),
    }
}

async fn run_command(inner: &Inner, it: &Answering, place: &str, run: Run) -> Result<String, Halt> {
    let Run { command, cwd, timeout_seconds } = run;
    let ask = RunCommand { thread_id: it.thread.clone(), command, cwd, timeout: timeout_seconds.map(Duration::from_secs) };
    let ran = inner.order(Order { id: place.to_owned(), by: it.bot, answer: Some(it.id.clone()), ask }).await.map_err(
        |halt| match halt {
            Halt::Later(Later::Outside(why)) => Trouble::new("sandbox_unreachable", why).into(),
            halt @ (Halt::Final(_) | Halt::Later(Later::Command(_))) => halt,
        },
    )?;
    let skipped = ran.output.chars().count().saturating_sub(TOLD);
    let output: String = ran.output.chars().skip(skipped).collect();
    let cut = match (skipped > 0, ran.truncated) {
        (false, false) => "",
        (true, false) => "(only the end of the output)\n",
        (_, true) => "(the output was too long and only its beginning was kept; this is the last of what was)\n",
    };
    let unknown = || ran.why.clone().unwrap_or_else(|| "how it ended is not known".to_owned());
    let exit = ran.exit_code.map_or_else(unknown, |code| format!("exit code {code}"));
    Ok(format!("{cut}{output}\n({exit})"))
}

async fn delegate(inner: &Inner, it: &Answering, place: &str, task: Task) -> Result<String, Halt> {
    let agent_id = match &task.bot {
        Some(name) => bot_named(inner, it, name)?,
        None => it.bot,
    };
    let sandbox_id = match task.sandbox_id.as_deref() {
        None | Some("") => None,
        // It may have changed while leave was waited for.
        Some("this") => inner.surroundings(&it.thread)?.thread.sandbox_id,
        Some(id) => Some(SandboxId::new(id).map_err(|error| Trouble::new("bad_arguments", error))?),
    };
    let delegate = Delegate {
        thread_id: it.thread.clone(),
        child_thread_id: None,
        agent_id,
        name: task.name.map(|name| name.chars().filter(|c| !c.is_control()).take(200).collect()),
        environment_id: task.environment_id,
        sandbox_id,
        tags: Vec::new(),
        prompt: Some(task.task),
        run_id: None,
    };
    let done = inner.outside.commands.execute(Actor::Agent(it.bot), delegate, Some(&format!("{place}:task"))).await?;
    let thread = done.made.thread_id.map(|id| id.to_string()).unwrap_or_default();
    Ok(format!("begun in thread {thread}; its result will be posted here when it ends"))
}

fn bot_named(inner: &Inner, it: &Answering, name: &str) -> Result<AgentId, Trouble> {
    let name = name.trim_start_matches('@').to_lowercase();
    let found = inner.outside.commands.with_world(|world| {
        let house = world.house(&it.at.thread.house_id)?;
        let is = |id: &&AgentId| {
            let agent = world.agent(**id);
            let called = agent.and_then(|agent| agent.name.as_ref()).is_some_and(|own| own.to_lowercase() == name);
            agent.is_some_and(commands::Agent::is_bot) && (called || id.to_string() == name)
        };
        house.members.keys().find(is).copied()
    });
    found.ok_or_else(|| Trouble::new("agent_not_found", format_args!("the house has no bot {name}")))
}
