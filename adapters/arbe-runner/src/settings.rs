//! What a run is given: the `ARBE_*` variables. Their names are part of what a machine is prepared with; never renamed.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use events::{AgentId, RunId, SandboxId, ThreadId};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::harness::{Endpoint, Harness};
use crate::http::Address;

/// A guard against processes that hang, not a length of runs.
const GUARD: Duration = Duration::from_secs(3 * 24 * 60 * 60);

pub struct Settings {
    pub thread: ThreadId,
    pub run: RunId,
    pub author: Option<AgentId>,
    pub sandbox: Option<SandboxId>,
    /// The thread's stream.
    pub stream: Address,
    pub token: String,
    pub prompt: PathBuf,
    pub sessions: PathBuf,
    /// A session to go on with, made for this run.
    pub session_file: Option<PathBuf>,
    pub harness: Harness,
    /// What starts the harness, if it is not its binary on the path.
    pub command: Vec<String>,
    pub model: Option<String>,
    pub endpoint: Option<Endpoint>,
    /// The harness's home.
    pub home: Option<PathBuf>,
    pub guard: Duration,
    /// What must not be repeated from the harness's last words.
    pub secrets: Vec<String>,
    /// Tools that need leave before each use; `*` for all.
    pub ask: Vec<String>,
}

/// As a recipe has them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Permissions {
    ask: Vec<String>,
}

/// The token and the secrets are not shown.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("thread", &self.thread).field("run", &self.run).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("{0} is not set")]
    Missing(&'static str),
    #[error("{name} does not fit: {why}")]
    Unfit { name: &'static str, why: String },
}

impl Settings {
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let given = Given(&variable);
        let thread: ThreadId = given.needed("ARBE_THREAD_ID")?;
        let harness = given.optional("ARBE_HARNESS")?.unwrap_or_else(|| "pi".to_owned());
        let harness = Harness::named(&harness)
            .ok_or_else(|| SettingsError::Unfit { name: "ARBE_HARNESS", why: format!("{harness:?} is not known") })?;
        let sessions: PathBuf = given.needed("ARBE_SESSION_DIR")?;
        let names: String = given.optional("ARBE_SECRET_NAMES")?.unwrap_or_default();
        let token: String = given.needed("ARBE_STREAM_TOKEN")?;
        let secrets = names.split(',').filter_map(|name| variable(name.trim())).chain([token.clone()]);
        Ok(Self {
            stream: Address::of_stream(&given.needed::<String>("ARBE_STREAM_URL")?, &thread)
                .map_err(|why| SettingsError::Unfit { name: "ARBE_STREAM_URL", why: why.to_string() })?,
            thread,
            run: given.needed("ARBE_RUN_ID")?,
            author: given.optional("ARBE_AUTHOR_ID")?,
            sandbox: given.optional("ARBE_SANDBOX_ID")?,
            token,
            prompt: given.needed("ARBE_PROMPT_FILE")?,
            session_file: given.optional("ARBE_SESSION_FILE")?,
            home: given.optional(harness.descriptor().home)?,
            sessions,
            harness,
            command: given.words("ARBE_HARNESS_COMMAND")?,
            model: given.optional("ARBE_MODEL")?,
            endpoint: given.endpoint()?,
            guard: given.optional("ARBE_PI_TIMEOUT")?.map_or(GUARD, Duration::from_secs),
            secrets: parts(secrets),
            ask: given.json::<Permissions>("ARBE_PERMISSIONS")?.map(|it| it.ask).unwrap_or_default(),
        })
    }
}

/// Shorter ones are in every text.
const SHORTEST: usize = 4;
/// The same of a line of one: a key is often shown in part.
const SHORTEST_LINE: usize = 8;

/// The values, and each line of them that says something; the longest first. `sandboxes` takes a value apart in the same way.
fn parts(secrets: impl Iterator<Item = String>) -> Vec<String> {
    let mut parts = Vec::new();
    for secret in secrets {
        let telling = |line: &&str| *line != secret && line.len() >= SHORTEST_LINE && !line.starts_with("-----");
        parts.extend(secret.split('\n').map(str::trim).filter(telling).map(str::to_owned));
        if secret.len() >= SHORTEST {
            parts.push(secret);
        }
    }
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    parts
}

struct Given<'a, F>(&'a F);

impl<F: Fn(&str) -> Option<String>> Given<'_, F> {
    fn optional<T: std::str::FromStr<Err: fmt::Display>>(&self, name: &'static str) -> Result<Option<T>, SettingsError> {
        let Some(text) = (self.0)(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        text.parse().map(Some).map_err(|why: T::Err| SettingsError::Unfit { name, why: why.to_string() })
    }

    fn needed<T: std::str::FromStr<Err: fmt::Display>>(&self, name: &'static str) -> Result<T, SettingsError> {
        self.optional(name)?.ok_or(SettingsError::Missing(name))
    }

    /// A JSON array of texts, so that no shell has to be understood.
    fn words(&self, name: &'static str) -> Result<Vec<String>, SettingsError> {
        Ok(self.json(name)?.unwrap_or_default())
    }

    fn json<T: DeserializeOwned>(&self, name: &'static str) -> Result<Option<T>, SettingsError> {
        let Some(text) = self.optional::<String>(name)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|why| SettingsError::Unfit { name, why: why.to_string() })
    }

    fn endpoint(&self) -> Result<Option<Endpoint>, SettingsError> {
        let Some(base_url) = self.optional("ARBE_MODEL_URL")? else { return Ok(None) };
        let api = self.optional("ARBE_MODEL_API")?.unwrap_or_else(|| "openai-completions".to_owned());
        Ok(Some(Endpoint { api, base_url, key_variable: self.optional("ARBE_MODEL_KEY_NAME")? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: [(&str, &str); 6] = [
        ("ARBE_THREAD_ID", "t1"),
        ("ARBE_RUN_ID", "r1"),
        ("ARBE_STREAM_URL", "http://127.0.0.1:4437/api/stream/arbe-thread-t1"),
        ("ARBE_STREAM_TOKEN", "token-1"),
        ("ARBE_PROMPT_FILE", "/home/agent/prompt"),
        ("ARBE_SESSION_DIR", "/home/agent/sessions"),
    ];

    fn with(more: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        let all: Vec<_> = LEAST.iter().chain(more).copied().collect();
        let last = |name: &str| all.iter().rev().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned());
        Settings::read(last)
    }

    #[test]
    fn every_variable_that_is_needed_is_named_when_it_is_missing() {
        assert!(with(&[]).is_ok());
        for (name, _) in LEAST {
            assert_eq!(with(&[(name, "")]).unwrap_err(), SettingsError::Missing(name));
        }
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_name() {
        for (name, value) in [
            ("ARBE_THREAD_ID", "../x"),
            ("ARBE_STREAM_URL", "ftp://x"),
            ("ARBE_HARNESS", "emacs"),
            ("ARBE_HARNESS_COMMAND", "node cli.js"),
            ("ARBE_PI_TIMEOUT", "soon"),
            ("ARBE_PERMISSIONS", r#"["bash"]"#),
            ("ARBE_PERMISSIONS", r#"{"ask":[],"allow":["bash"]}"#),
        ] {
            let error = with(&[(name, value)]).unwrap_err();
            assert!(matches!(error, SettingsError::Unfit { name: told, .. } if told == name), "{error}");
        }
    }

    #[test]
    fn a_value_is_left_out_line_by_line_too_but_not_what_every_key_begins_with() {
        let key = "-----BEGIN PRIVATE KEY-----\r\nMIIEvQIBADANBgkq\r\nhkiG9w0BAQEF\r\nshort\r\n-----END PRIVATE KEY-----\r\n";
        let settings = with(&[("ARBE_SECRET_NAMES", "PEM"), ("PEM", key)]).unwrap();
        assert_eq!(settings.secrets, [key, "MIIEvQIBADANBgkq", "hkiG9w0BAQEF", "token-1"]);
    }

    #[test]
    fn neither_the_token_nor_a_secret_is_shown() {
        let settings = with(&[("ARBE_SECRET_NAMES", "GH,ABSENT"), ("GH", "hunter22")]).unwrap();
        assert_eq!(settings.secrets, ["hunter22", "token-1"]);
        let shown = format!("{settings:?}");
        assert!(!shown.contains("token-1") && !shown.contains("hunter22"), "{shown}");
    }
}
