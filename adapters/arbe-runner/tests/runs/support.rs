use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use arbe_runner::harness::{Endpoint, models_of_pi};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::model;
use crate::stream::Stream;

/// A machine with a thread: pi, a model, and places.
pub struct Scene {
    pub stream: Stream,
    pub place: TempDir,
    command: String,
    model: String,
    variables: BTreeMap<String, String>,
}

pub struct Ended {
    pub status: ExitStatus,
    pub stderr: String,
}

#[expect(clippy::disallowed_methods, reason = "where pi is, is told to tests by variables")]
fn harness() -> Option<String> {
    let (node, pi) = (std::env::var("ARBE_NODE").ok(), std::env::var("ARBE_PI").ok());
    match (node, pi) {
        (Some(node), Some(pi)) => Some(serde_json::json!([node, pi]).to_string()),
        _ => {
            eprintln!("skipped: ARBE_NODE and ARBE_PI do not say where pi is");
            None
        }
    }
}

impl Scene {
    pub async fn start(thread: &str) -> Option<Self> {
        Some(Self::of(thread, harness()?).await)
    }

    /// With a shell script in the place of pi.
    pub async fn feigned(thread: &str, script: &str) -> Self {
        Self::of(thread, serde_json::json!(["/bin/sh", "-c", script]).to_string()).await
    }

    async fn of(thread: &str, command: String) -> Self {
        let place = tempfile::tempdir().unwrap();
        let (stream, model) = (Stream::start(thread).await, model::start().await);
        let scene = Self { stream, place, command, model, variables: BTreeMap::new() };
        std::fs::create_dir_all(scene.path("home")).unwrap();
        std::fs::create_dir_all(scene.path("tree")).unwrap();
        let retry = r#"{"retry":{"enabled":true,"maxRetries":3,"baseDelayMs":50}}"#;
        std::fs::write(scene.path("home").join("settings.json"), retry).unwrap();
        scene
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub fn sessions(&self) -> PathBuf {
        self.path("sessions")
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// The same thread in a machine that has nothing of it.
    pub fn elsewhere(&self) -> Self {
        let place = tempfile::tempdir().unwrap();
        for name in ["home", "tree"] {
            std::fs::create_dir_all(place.path().join(name)).unwrap();
        }
        let (stream, command, model) = (self.stream.clone(), self.command.clone(), self.model.clone());
        Self { stream, place, command, model, variables: BTreeMap::new() }
    }

    pub fn command(&self, run: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arbe-runner"));
        let path = |name: &str| self.path(name).to_string_lossy().into_owned();
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", path("home")).current_dir(self.path("tree"));
        for (name, value) in [
            ("ARBE_THREAD_ID", self.stream.thread.clone()),
            ("ARBE_RUN_ID", run.to_owned()),
            ("ARBE_STREAM_URL", self.stream.url.clone()),
            ("ARBE_STREAM_TOKEN", self.stream.token()),
            ("ARBE_PROMPT_FILE", path("prompt")),
            ("ARBE_SESSION_DIR", path("sessions")),
            ("ARBE_HARNESS", "pi".to_owned()),
            ("ARBE_HARNESS_COMMAND", self.command.clone()),
            ("ARBE_MODEL", "m1".to_owned()),
            ("ARBE_MODEL_URL", self.model.clone()),
            ("PI_CODING_AGENT_DIR", path("home")),
        ] {
            command.env(name, value);
        }
        command.envs(&self.variables).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Without a runner, though with its mirror.
    pub fn pi(&self, prompt: &str) -> Command {
        let words: Vec<String> = serde_json::from_str(&self.command).unwrap();
        let api = "openai-completions".to_owned();
        let models = models_of_pi(&Endpoint { api, base_url: self.model.clone(), key_variable: None }, "m1");
        std::fs::write(self.path("home").join("models.json"), models.to_string()).unwrap();
        let mut pi = Command::new(&words[0]);
        pi.args(&words[1..]).args(["--model", "arbe/m1", "--no-extensions", "--session-dir"]).arg(self.sessions());
        pi.args(["-e", concat!(env!("CARGO_MANIFEST_DIR"), "/mirror/arbe-mirror.ts"), "-p", prompt]);
        pi.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.path("home")).current_dir(self.path("tree"));
        pi.env("PI_CODING_AGENT_DIR", self.path("home")).env("PI_OFFLINE", "1").env("PI_TELEMETRY", "0");
        pi.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        pi
    }

    pub fn begin(&self, run: &str, prompt: &str) -> Child {
        std::fs::write(self.path("prompt"), prompt).unwrap();
        self.command(run).arg("run").spawn().unwrap()
    }

    pub async fn run(&self, run: &str, prompt: &str) -> Ended {
        ended(self.begin(run, prompt)).await
    }

    /// The lines of pi's own file.
    pub fn file(&self) -> Vec<Value> {
        let files = std::fs::read_dir(self.sessions()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|it| it == "jsonl")).collect();
        files.sort();
        let text = std::fs::read_to_string(files.last().expect("a session file")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

pub async fn ended(child: Child) -> Ended {
    let output = tokio::time::timeout(Duration::from_secs(120), child.wait_with_output()).await.expect("it ends").unwrap();
    Ended { status: output.status, stderr: String::from_utf8_lossy(&output.stderr).into_owned() }
}

/// A number of seconds that no other process of this host sleeps for.
pub fn word(n: u32) -> String {
    format!("7{}0{n}", std::process::id())
}

/// Of processes with this word on their command line.
pub fn alive(word: &str) -> usize {
    let lines =
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

pub async fn until(what: &str, mut check: impl FnMut() -> bool) {
    for _ in 0..600 {
        if check() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not within 30 s: {what}");
}
