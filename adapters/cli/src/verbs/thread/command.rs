//! `arbe thread run`: one command on the thread's machine, with what it prints as it comes.

use std::io::Write;

use anyhow::Context;
use commands::ports::{COMMAND_TIMEOUT, command_mark};
use events::ThreadId;
use reqwest::Method;
use serde::Serialize;
use serde_json::Value;

use crate::args::RunOn;
use crate::client::{Answer, CallError, From, Slice};
use crate::exit;
use crate::output::{CommandEnded, clean, note, print, print_raw};
use crate::row::cell;
use crate::verbs::Platform;
use crate::verbs::narration::looked_into;
use crate::verbs::tail::{BREATH, Reader};

/// As `timeout(1)` says it.
const TIMED_OUT: u8 = 124;

#[derive(Serialize)]
struct NewCommand {
    command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
}

pub(super) async fn run(platform: &Platform, on: RunOn) -> anyhow::Result<()> {
    let RunOn { thread, cwd, timeout, command } = on;
    let timeout = timeout.map(|limit| limit.as_millis().div_ceil(1_000).max(1) as u64);
    let body = serde_json::to_vec(&NewCommand { command: line(&command), cwd, timeout })?;
    let answer = if platform.json {
        let answer = ended(platform, &thread, &body).await?;
        print_raw(answer.read()?)?;
        answer
    } else {
        show(platform, &thread, &body).await?
    };
    let ran: Value = answer.read()?;
    if ran["truncated"] == true {
        note("there was more output than the thread keeps");
    }
    end(&ran)
}

/// Its exit code is ours; without one the command was ended, or nobody knows how it did.
fn end(ran: &Value) -> anyhow::Result<()> {
    let (code, message) = match ran["exit_code"].as_i64() {
        Some(0) => return Ok(()),
        Some(code) => (u8::try_from(code).unwrap_or(exit::FAILED), format!("the command ended with exit code {code}")),
        None => {
            let why = ran["why"].as_str().unwrap_or("how it ended is not known");
            let code = if ran["error_class"] == COMMAND_TIMEOUT { TIMED_OUT } else { exit::FAILED };
            (code, format!("the command has no exit code: {}", clean(why)))
        }
    };
    Err(CommandEnded { code, message }.into())
}

/// One word is a line for the shell; several are a program and its arguments, whatever is in them.
fn line(words: &[String]) -> String {
    match words {
        [line] => line.clone(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    }
}

fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// A command may take longer than an answer does. Asked for again under the same key it is not run again, only waited for.
async fn ended(platform: &Platform, thread: &str, body: &[u8]) -> Result<Answer, CallError> {
    loop {
        match platform.client.command(Method::POST, &["threads", thread, "commands"], Some(body.to_vec())).await {
            Err(CallError::Unknown { source, .. }) if source.is_silence() => {}
            answer => return answer,
        }
    }
}

async fn show(platform: &Platform, thread: &str, body: &[u8]) -> anyhow::Result<Answer> {
    let (client, reader) = (&platform.client, Reader::new(platform, thread));
    let mut shown = Shown { mark: mark(platform, thread).await?, bytes: 0 };
    let now = From { offset: "now".into(), cursor: None };
    let mut from = client.retry(async || client.slice(thread, &now, false).await).await?.next;
    let ended = ended(platform, thread, body);
    tokio::pin!(ended);
    let answer = loop {
        tokio::select! {
            answer = &mut ended => break answer?,
            slice = reader.next(&from) => {
                let slice = slice?;
                let quiet = slice.entries.is_empty();
                shown.print(&slice)?;
                from = slice.next;
                if quiet {
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
    };
    loop {
        let slice = client.retry(async || client.slice(thread, &from, false).await).await?;
        shown.print(&slice)?;
        if slice.up_to_date {
            break;
        }
        from = slice.next;
    }
    // Of a server that names commands otherwise, it comes at the end.
    let ran: Value = answer.read()?;
    if let (0, Some(output)) = (shown.bytes, ran["output"].as_str()) {
        print(output)?;
    }
    Ok(answer)
}

/// What the command's id ends with.
async fn mark(platform: &Platform, thread: &str) -> anyhow::Result<String> {
    let me: Value = platform.get(&["me"], vec![]).await?.read()?;
    let agent = cell(&me, "agent_id").parse().context("one's own id")?;
    let thread = ThreadId::new(thread).context("the thread's id")?;
    Ok(format!(".{}", command_mark(&thread, agent, &platform.client.idempotency_key)))
}

struct Shown {
    mark: String,
    bytes: usize,
}

impl Shown {
    fn print(&mut self, slice: &Slice) -> anyhow::Result<()> {
        for (_, entry) in &slice.entries {
            let entry = looked_into(entry)?;
            let (payload, ours) = (&entry["payload"], entry["type"] == "signal.command.output");
            self.warn(&entry);
            let Some(text) = payload["text"].as_str().filter(|_| ours && cell(payload, "command_id").ends_with(&self.mark))
            else {
                continue;
            };
            self.bytes += text.len();
            if payload["stream"] == "stderr" {
                std::io::stderr().write_all(text.as_bytes()).context("stderr")?;
            } else {
                print(text)?;
            }
        }
        Ok(())
    }

    /// What it goes without. Why it has no exit code is said at its end.
    fn warn(&self, entry: &Value) {
        let payload = &entry["payload"];
        let of_secrets = entry["type"] == "signal.dispatch.warned" && cell(payload, "warning").starts_with("secret_");
        if of_secrets && self.mark.strip_prefix('.') == payload["run_id"].as_str() {
            note(cell(payload, "message"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::code;

    #[test]
    fn the_exit_code_is_that_of_the_command_or_says_that_it_has_none() {
        assert!(end(&json!({ "exit_code": 0 })).is_ok());
        for (ran, expected) in [
            (json!({ "exit_code": 3 }), 3),
            (json!({ "exit_code": 137 }), 137),
            (json!({ "exit_code": 256 }), 1),
            (json!({ "exit_code": -1 }), 1),
            (json!({ "exit_code": null, "error_class": "command_timeout", "why": "it took longer than 90s" }), 124),
            (json!({ "exit_code": null, "error_class": "command_cancelled", "why": "it was cancelled, and stopped" }), 1),
            (json!({}), 1),
        ] {
            assert_eq!(code(&end(&ran).unwrap_err()), expected, "{ran}");
        }
    }

    #[test]
    fn one_word_is_for_the_shell_and_several_are_kept_apart() {
        let said = |words: &[&str]| line(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(said(&["ls | wc -l"]), "ls | wc -l");
        assert_eq!(said(&["git", "commit", "-m", "it's $done", ""]), r"git commit -m 'it'\''s $done' ''");
        assert_eq!(said(&["cargo", "test", "--features=a,b", "x::y"]), "cargo test --features=a,b x::y");
    }
}
