//! One command now, on the thread's own machine.

use std::time::Duration;

use axum::http::Method;
use commands::ports::RunCommand;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::{Created, Done};
use super::docs::Routes;
use super::error::ApiError;
use super::extract::{Body, Caller, Key, Path};
use super::threads::ThreadPath;

pub(super) fn routes(routes: Routes) -> Routes {
    const PATH: &str = "/api/threads/{thread_id}/commands";
    routes.add(&Method::POST, PATH, "run_command", "Run one command on the thread's machine", run)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewCommand {
    /// For the shell, in the working tree.
    #[schemars(length(min = 1))]
    command: String,
    /// Relative to the working tree.
    #[serde(default)]
    cwd: Option<String>,
    /// Seconds; the server has a default and a limit.
    #[serde(default)]
    #[schemars(range(min = 1))]
    timeout: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CommandRan {
    command_id: String,
    /// 128 and the number of the signal if one ended it. None when it was cancelled, when its time limit or its machine ended it, or
    /// when nobody knows: then `why` says so.
    exit_code: Option<i32>,
    /// Both streams as they came.
    output: String,
    /// There was more than is kept.
    truncated: bool,
    duration_ms: u64,
    /// Why there is no exit code, for programs: `command_timeout`, `command_cancelled`, `command_broken`, `command_lost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_class: Option<String>,
    /// The same for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// Answers when the command has ended. The thread shows what it prints meanwhile, and it goes on if the caller goes away.
async fn run(caller: Caller, Path(path): Path<ThreadPath>, key: Key, Body(body): Body<NewCommand>) -> Created<CommandRan> {
    caller.thread(&path.thread_id, |_| ())?;
    let hands = caller.hands()?;
    if body.command.trim().is_empty() || body.timeout == Some(0) {
        return Err(ApiError::bad_request("a command has words, and a timeout at least a second"));
    }
    let NewCommand { command, cwd, timeout } = body;
    let ask = RunCommand { thread_id: path.thread_id, command, cwd, timeout: timeout.map(Duration::from_secs) };
    let ran = hands.run_command(caller.agent, ask, key.0.as_deref()).await?;
    let commands::ports::Ran { command_id, exit_code, output, truncated, duration_ms, error_class, why, position } = ran;
    Ok(Done { position, body: CommandRan { command_id, exit_code, output, truncated, duration_ms, error_class, why } })
}
