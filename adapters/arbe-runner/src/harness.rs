//! Coding agents: what is started, where it keeps its session, how its events tell the end, how it is gone on with. Plain data and pure
//! functions. Only pi is driven by the runner today; the others are described so that a driver for them has nothing to find out.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::outcome::{End, Prompt};

/// Part of variables and events. Never renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harness {
    Pi,
    ClaudeCode,
    Codex,
}

/// What is fixed about a harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub name: &'static str,
    /// On npm, with the version that was tried.
    pub package: &'static str,
    pub binary: &'static str,
    /// Set for every run: no updates, no telemetry.
    pub variables: &'static [(&'static str, &'static str)],
    /// Which variable moves its home, and where below it sessions are.
    pub home: &'static str,
    pub sessions: &'static str,
    /// How it is asked to stop without losing its last words.
    pub cancel: Cancel,
    /// Whether its tools outlive it when it is killed.
    pub leaves_tools: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// A line on its stdin, which it answers.
    Rpc,
    /// SIGTERM.
    Term,
}

/// How the session begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// A new one, under this id. With pi, one of this id in the session directory is gone on with.
    New { id: String },
    /// One that stands in a file.
    File { path: PathBuf, id: String },
}

impl Harness {
    pub const ALL: [Self; 3] = [Self::Pi, Self::ClaudeCode, Self::Codex];

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|harness| harness.descriptor().name == name)
    }

    #[must_use]
    pub fn descriptor(self) -> Descriptor {
        match self {
            Self::Pi => Descriptor {
                name: "pi",
                package: "@earendil-works/pi-coding-agent@0.78.0",
                binary: "pi",
                variables: &[("PI_OFFLINE", "1"), ("PI_TELEMETRY", "0")],
                home: "PI_CODING_AGENT_DIR",
                sessions: "sessions/--<working directory>--/<time>_<id>.jsonl",
                cancel: Cancel::Rpc,
                leaves_tools: true,
            },
            Self::ClaudeCode => Descriptor {
                name: "claude-code",
                package: "@anthropic-ai/claude-code@2.1.325",
                binary: "claude",
                variables: &[
                    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                    ("DISABLE_AUTOUPDATER", "1"),
                    ("DISABLE_TELEMETRY", "1"),
                    ("DISABLE_ERROR_REPORTING", "1"),
                ],
                home: "CLAUDE_CONFIG_DIR",
                sessions: "projects/<working directory>/<id>.jsonl",
                cancel: Cancel::Term,
                leaves_tools: false,
            },
            Self::Codex => Descriptor {
                name: "codex",
                package: "@openai/codex@0.166.0",
                binary: "codex",
                variables: &[],
                home: "CODEX_HOME",
                sessions: "sessions/<year>/<month>/<day>/rollout-<time>-<id>.jsonl",
                cancel: Cancel::Term,
                leaves_tools: false,
            },
        }
    }

    /// What stands after the binary. pi is given its prompt over stdin, the others as their last argument.
    #[must_use]
    pub fn arguments(self, begin: &Begin, at: &Places<'_>, model: Option<&str>, prompt: &str) -> Vec<String> {
        let mut args: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| args.extend(words.iter().map(|word| (*word).to_owned()));
        let text = |path: &Path| path.to_string_lossy().into_owned();
        match self {
            Self::Pi => {
                add(&["--mode", "rpc", "--session-dir", &text(at.sessions)]);
                match begin {
                    Begin::New { id } => add(&["--session-id", id]),
                    Begin::File { path, .. } => add(&["--session", &text(path)]),
                }
                model.into_iter().for_each(|model| add(&["--model", model]));
                add(&["--no-extensions", "--extension", &text(at.mirror)]);
            }
            Self::ClaudeCode => {
                add(&["-p", "--output-format", "stream-json", "--verbose"]);
                match begin {
                    Begin::New { id } => add(&["--session-id", id]),
                    Begin::File { id, .. } => add(&["--resume", id]),
                }
                model.into_iter().for_each(|model| add(&["--model", model]));
                add(&["--", prompt]);
            }
            Self::Codex => {
                add(&["exec"]);
                if let Begin::File { .. } = begin {
                    add(&["resume"]);
                }
                add(&["--json", "--skip-git-repo-check"]);
                model.into_iter().for_each(|model| add(&["--model", model]));
                // It takes an id; given a path, it would begin anew without a word.
                if let Begin::File { id, .. } = begin {
                    add(&[id]);
                }
                add(&["--", prompt]);
            }
        }
        args
    }
}

/// Where things are for one run.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    pub sessions: &'a Path,
    pub mirror: &'a Path,
}

/// What a harness's events have said so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub spoke: bool,
    pub prompt: Prompt,
    pub end: Option<End>,
    /// It shrinks its context, and may go on after that.
    pub compacting: bool,
    /// It waits to ask its model again.
    pub retrying: bool,
}

impl Default for Facts {
    fn default() -> Self {
        Self { spoke: false, prompt: Prompt::Unanswered, end: None, compacting: false, retrying: false }
    }
}

impl Facts {
    pub fn note(&mut self, harness: Harness, event: &Value) {
        self.spoke = true;
        match harness {
            Harness::Pi => self.of_pi(event),
            Harness::ClaudeCode => self.of_claude(event),
            Harness::Codex => self.of_codex(event),
        }
    }

    fn of_pi(&mut self, event: &Value) {
        match event["type"].as_str() {
            Some("response") if event["command"] == "prompt" => {
                self.prompt = match event["success"].as_bool() {
                    Some(true) => Prompt::Accepted,
                    Some(false) | None => Prompt::Refused(text(&event["error"]).unwrap_or_default()),
                };
            }
            Some("agent_start") => (self.end, self.retrying) = (None, false),
            // What is to be retried is not over.
            Some("agent_end") if event["willRetry"] == true => self.retrying = true,
            Some("agent_end") => {
                self.retrying = false;
                let messages = event["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
                let last = messages.iter().rev().find(|message| message["role"] == "assistant").unwrap_or(&Value::Null);
                self.end = Some(End { stop_reason: text(&last["stopReason"]), error: text(&last["errorMessage"]) });
            }
            Some("auto_retry_end") => self.retrying = false,
            Some("compaction_start") => self.compacting = true,
            Some("compaction_end") => self.compacting = false,
            Some(_) | None => {}
        }
    }

    fn of_claude(&mut self, event: &Value) {
        match (event["type"].as_str(), event["is_error"].as_bool()) {
            (Some("system"), _) => self.prompt = Prompt::Accepted,
            (Some("result"), Some(true)) => {
                let error = text(&event["result"]).or_else(|| text(&event["subtype"]));
                self.end = Some(End { stop_reason: Some("error".to_owned()), error });
            }
            (Some("result"), Some(false) | None) => {
                let stop_reason = text(&event["terminal_reason"]).or_else(|| Some("stop".to_owned()));
                self.end = Some(End { stop_reason, error: None });
            }
            (Some(_) | None, _) => {}
        }
    }

    fn of_codex(&mut self, event: &Value) {
        match event["type"].as_str() {
            Some("turn.started") => (self.prompt, self.end) = (Prompt::Accepted, None),
            Some("turn.completed") => self.end = Some(End { stop_reason: Some("stop".to_owned()), error: None }),
            Some("turn.failed") => {
                let error = text(&event["error"]["message"]);
                self.end = Some(End { stop_reason: Some("error".to_owned()), error });
            }
            Some(_) | None => {}
        }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Where a model is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// As pi names it: `openai-completions` or `anthropic-messages`.
    pub api: String,
    pub base_url: String,
    /// The variable that holds the key; its value stands in no file.
    pub key_variable: Option<String>,
}

/// The provider that pi is told of.
pub const PROVIDER: &str = "arbe";

/// pi's `models.json` for one model at one endpoint.
#[must_use]
pub fn models_of_pi(endpoint: &Endpoint, model: &str) -> Value {
    let key = endpoint.key_variable.as_ref().map_or_else(|| "none".to_owned(), |name| format!("${name}"));
    json!({ "providers": { PROVIDER: {
        "baseUrl": endpoint.base_url,
        "api": endpoint.api,
        "apiKey": key,
        "compat": { "supportsDeveloperRole": false, "supportsReasoningEffort": false, "supportsStore": false },
        "models": [{
            "id": model, "name": model, "reasoning": false, "input": ["text"], "contextWindow": 128_000, "maxTokens": 8_192
        }],
    } } })
}

#[cfg(test)]
mod tests;
