//! What a run is given: its task, and the variables of the machine.

use std::collections::{BTreeMap, BTreeSet};

use commands::ports::{Plain, VaultError};
use commands::secrets::ResolveError;
use events::{Entry, EventId, RunId, StreamName, ThreadId};
use url::Url;

use crate::dispatcher::{Inner, Later};
use crate::machine::Ready;
use crate::model::{Api, ModelConfig};
use crate::options::Runner;
use crate::story::chat;
use crate::surroundings::{Halt, Trouble};
use crate::ways::{DOOR_PORT, MODEL_PORT};

/// Relative to the home directory of the machine, as all that follow.
const RUNNER: &str = ".arbe/bin/arbe-runner";
const GO_ON: &str = "Continue.";
const CUT: &str = "[What was said before this is too long for a task, and stands in the thread only.]";

pub(crate) fn prompt_file(run: &RunId) -> String {
    format!(".arbe/runs/{run}/prompt")
}

pub(crate) fn session_file(run: &RunId) -> String {
    format!(".arbe/runs/{run}/session.jsonl")
}

/// Where a run's own copy of the runner is put: what is there already may be running, and cannot be written over.
pub(crate) fn runner_file(run: &RunId) -> String {
    format!(".arbe/runs/{run}/arbe-runner")
}

/// Where a runner leaves how its run ended.
pub(crate) fn outcome_file(thread: &ThreadId, run: &RunId) -> String {
    format!(".arbe/sessions/{thread}/run/{run}.json")
}

/// Paths are told by the shell, which alone knows the home directory. Ids hold nothing that a shell reads.
pub(crate) fn argv(runner: &Runner, thread: &ThreadId, run: &RunId, hydrated: bool) -> Vec<String> {
    let (prompt, session) = (prompt_file(run), session_file(run));
    let mut script = format!("export ARBE_PROMPT_FILE=\"$HOME/{prompt}\" ARBE_SESSION_DIR=\"$HOME/.arbe/sessions/{thread}\"\n");
    script.push_str("mkdir -p \"$ARBE_SESSION_DIR\" || exit 125\n");
    if hydrated {
        script.push_str(&format!("export ARBE_SESSION_FILE=\"$HOME/{session}\"\n"));
    }
    let binary = match runner {
        Runner::At(path) => path.clone(),
        Runner::Upload(_) => {
            script.push_str(&install(run));
            String::new()
        }
    };
    script.push_str("exec \"${1:-$HOME/");
    script.push_str(RUNNER);
    script.push_str("}\" run\n");
    ["sh", "-c", &script, "arbe-run", &binary].map(str::to_owned).to_vec()
}

/// One that is the same stays, so that nothing changes under a run that begins beside this one.
fn install(run: &RunId) -> String {
    format!(
        "u=\"$HOME/{}\" b=\"$HOME/{RUNNER}\"\n\
         mkdir -p \"${{b%/*}}\" && chmod 755 \"$u\" || exit 125\n\
         mv -n \"$u\" \"$b\" 2>/dev/null\n\
         [ ! -e \"$u\" ] || cmp -s \"$u\" \"$b\" || mv -f \"$u\" \"$b\" || exit 125\n\
         rm -f \"$u\"\n",
        runner_file(run)
    )
}

/// `host:port`, and whether it is encrypted. Then it must be reached by its own name, which a port of the loopback does not have.
pub(crate) fn address_of(url: &str) -> Option<(String, bool)> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    Some((format!("{}:{}", url.host_str()?, url.port_or_known_default()?), url.scheme() == "https"))
}

impl Inner {
    /// What was said since the run before, as it was said.
    pub(crate) async fn task(&self, thread: &ThreadId, about: std::ops::Range<u64>) -> Result<String, Later> {
        let driver = self.outside.commands.with_world(|world| world.thread(thread).and_then(|thread| thread.agent_id));
        // A bot may give a task to itself.
        let for_it = move |entry: &Entry| chat(entry).filter(|chat| entry.author_agent_id != driver || chat.to == driver);
        let of_task = |entry: &Entry| entry.kind == "signal.permission.requested" || for_it(entry).is_some();
        let (entries, is_cut) = self.back(thread, about, u64::MAX, of_task, |_| false).await?;
        let said: Vec<_> = entries.iter().filter_map(|(_, entry)| for_it(entry)).collect();
        // What is said to a request for leave was told to the run that asked.
        let requests = entries.iter().filter(|(_, entry)| entry.kind == "signal.permission.requested");
        let requests: BTreeSet<EventId> = requests.map(|(_, entry)| entry.id).collect();
        let tasks = said.into_iter().filter(|chat| chat.reply_to.is_none_or(|to| !requests.contains(&to)));
        Ok(task_of(tasks.map(|chat| chat.text).collect(), is_cut))
    }

    /// The variables, and those of them that nobody outside the machine may see.
    pub(crate) async fn variables(
        &self,
        thread: &ThreadId,
        run: &RunId,
        ready: &Ready,
    ) -> Result<(BTreeMap<String, String>, BTreeMap<String, Plain>), Halt> {
        let at = &ready.surroundings;
        let bot = at.thread.agent_id.ok_or_else(|| Trouble::new("no_driver", "no bot drives the thread"))?;
        let provider = ready.machines.provider();
        let relayed = self.options.relayed.contains(provider);
        let door = if relayed { format!("http://127.0.0.1:{DOOR_PORT}") } else { self.options.door.url.clone() };
        let stream = StreamName::Thread(thread.clone());
        let token = self.outside.tokens.thread_token(bot, thread);
        let token = token.ok_or_else(|| Trouble::new("no_token", "the thread's token could not be signed"))?;
        let mut secrets = ready.secrets.values.clone();
        let mut env = at.recipe.env.clone();
        env.retain(|name, _| !commands::secrets::is_reserved(name));
        let mut set = |name: &str, value: String| drop(env.insert(name.to_owned(), value));
        set("ARBE_THREAD_ID", thread.to_string());
        set("ARBE_RUN_ID", run.to_string());
        set("ARBE_AUTHOR_ID", bot.to_string());
        set("ARBE_SANDBOX_ID", ready.sandbox.to_string());
        set("ARBE_STREAM_URL", format!("{}/api/stream/{stream}", door.trim_end_matches('/')));
        set("ARBE_HARNESS", self.harness(bot));
        if !at.recipe.permissions.is_empty() {
            set("ARBE_PERMISSIONS", serde_json::json!({ "ask": at.recipe.permissions.ask }).to_string());
        }
        let model = self.model(&at.recipe)?;
        for (name, value) in model.iter().flat_map(|model| model_variables(model, relayed)) {
            set(name, value);
        }
        let key = model.and_then(|model| model.api_key_secret).filter(|name| !secrets.contains_key(name));
        if let Some(name) = key {
            secrets.insert(name.clone(), self.one_secret(&at.thread.house_id, name).await?);
        }
        set("ARBE_SECRET_NAMES", secrets.keys().cloned().collect::<Vec<_>>().join(","));
        secrets.insert("ARBE_STREAM_TOKEN".to_owned(), Plain::new(token.into_bytes()));
        Ok((env, secrets))
    }

    pub(crate) fn harness(&self, bot: events::AgentId) -> String {
        let runtime =
            |world: &commands::World| world.agent(bot).and_then(|agent| agent.runtime.as_ref().map(ToString::to_string));
        self.outside.commands.with_world(runtime).unwrap_or_else(|| "pi".to_owned())
    }

    pub(crate) async fn one_secret(&self, house: &events::HouseId, name: String) -> Result<Plain, Halt> {
        let scope = commands::secrets::Scope::Names(vec![name.clone()]);
        let resolved = commands::secrets::resolve(&*self.outside.vault, &self.outside.commands, house, &scope).await;
        let resolved = resolved.map_err(|error| match error {
            ResolveError::Value { source: VaultError::Unavailable(_), .. } => Halt::from(Later::of(error)),
            ResolveError::Value { .. } => Trouble::new("secret_unreadable", error).into(),
            ResolveError::Missing(_) | ResolveError::NotFound(_) => Trouble::new("secret_missing", error).into(),
            ResolveError::Stopped(stopped) => Halt::Later(commands::CommandError::from(stopped).into()),
        })?;
        let value = resolved.values.get(&name).cloned();
        Ok(value.ok_or_else(|| Trouble::new("secret_missing", format_args!("{name} is a reserved name")))?)
    }
}

/// Whoever works at it is told that it is not all.
fn task_of(mut texts: Vec<String>, is_cut: bool) -> String {
    if texts.is_empty() {
        texts.push(GO_ON.to_owned());
    }
    if is_cut {
        texts.insert(0, CUT.to_owned());
    }
    texts.join("\n\n")
}

fn model_variables(model: &ModelConfig, relayed: bool) -> Vec<(&'static str, String)> {
    let api = match model.api {
        Api::Openai => "openai-completions",
        Api::Anthropic => "anthropic-messages",
    };
    let mut variables = vec![
        ("ARBE_MODEL", model.model.clone()),
        ("ARBE_MODEL_API", api.to_owned()),
        ("ARBE_MODEL_URL", if relayed { relayed_url(&model.base_url) } else { model.base_url.clone() }),
    ];
    variables.extend(model.api_key_secret.clone().map(|name| ("ARBE_MODEL_KEY_NAME", name)));
    variables
}

fn relayed_url(url: &str) -> String {
    let moved = || {
        let mut moved = Url::parse(url).ok().filter(|url| url.scheme() == "http")?;
        moved.set_host(Some("127.0.0.1")).ok()?;
        moved.set_port(Some(MODEL_PORT)).ok()?;
        Some(moved.to_string().trim_end_matches('/').to_owned())
    };
    moved().unwrap_or_else(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_model_is_reached_through_the_relay_only_where_nothing_is_encrypted() {
        assert_eq!(relayed_url("http://127.0.0.1:18080/v1"), "http://127.0.0.1:4438/v1");
        assert_eq!(relayed_url("https://models.example/v1"), "https://models.example/v1");
        assert_eq!(address_of("http://models.example/v1"), Some(("models.example:80".to_owned(), false)));
        assert_eq!(address_of("https://models.example/v1"), Some(("models.example:443".to_owned(), true)));
        assert_eq!(address_of("unix:/run/model"), None);
    }

    #[test]
    fn a_task_that_is_not_all_that_was_said_begins_with_word_of_that() {
        let said = || vec!["one".to_owned(), "two".to_owned()];
        assert_eq!((task_of(Vec::new(), false), task_of(said(), false)), (GO_ON.to_owned(), "one\n\ntwo".to_owned()));
        assert_eq!(task_of(said(), true), format!("{CUT}\n\none\n\ntwo"));
    }

    #[test]
    fn the_script_of_a_launch_names_no_secret_and_takes_the_runner_from_where_it_is() {
        let (thread, run) = (ThreadId::new("t1").unwrap(), RunId::new("r1").unwrap());
        let argv = argv(&Runner::At("/opt/runner".to_owned()), &thread, &run, true);
        assert_eq!((argv[0].as_str(), argv[4].as_str()), ("sh", "/opt/runner"));
        assert!(argv[2].contains("ARBE_SESSION_FILE=\"$HOME/.arbe/runs/r1/session.jsonl\""));
        assert!(!super::argv(&Runner::Upload(bytes::Bytes::new()), &thread, &run, false)[2].contains("SESSION_FILE"));
    }

    #[test]
    fn a_runner_is_put_in_its_place_beside_one_that_runs_and_only_a_different_one_replaces_it() {
        let home = tempfile::tempdir().unwrap();
        let (thread, place) = (ThreadId::new("t1").unwrap(), home.path().join(RUNNER));
        let mut lives = Vec::new();
        for (n, (code, replaced)) in [("sleep 5", true), ("sleep 5", false), ("exit 7", true)].into_iter().enumerate() {
            let run = RunId::new(&format!("r{n}")).unwrap();
            let upload = home.path().join(runner_file(&run));
            std::fs::create_dir_all(upload.parent().unwrap()).unwrap();
            let before = std::fs::metadata(&place).ok().map(|it| it.ino());
            std::fs::write(&upload, format!("#!/bin/sh\n{code}\n")).unwrap();
            let argv = argv(&Runner::Upload(bytes::Bytes::new()), &thread, &run, false);
            lives.push(std::process::Command::new(&argv[0]).args(&argv[1..]).env("HOME", home.path()).spawn().unwrap());
            while upload.exists() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            assert_eq!(before != Some(std::fs::metadata(&place).unwrap().ino()), replaced, "{n}");
        }
        assert_eq!(lives.pop().unwrap().wait().unwrap().code(), Some(7));
        for mut life in lives {
            life.kill().unwrap();
            life.wait().unwrap();
        }
    }
}
