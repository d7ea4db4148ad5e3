//! The platform as a process, with machines on this host, a scripted model, and the real pi.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use replay_tests::agents::{Agents, Tools};
use replay_tests::model::Model;
use replay_tests::servers::ArbeServer;
use replay_tests::soak::http::request;
use serde_json::Value;
use tempfile::TempDir;

use crate::machine::{Machine, Process};

pub const PATIENCE: Duration = Duration::from_secs(90);
/// For processes that were killed.
const GONE: Duration = Duration::from_secs(5);

pub struct Scene {
    server: RwLock<ArbeServer>,
    pub model: Model,
    token: String,
    flags: Vec<String>,
    machines: TempDir,
    _tools: Arc<Tools>,
}

/// One server for all tests that do not harm it, for as long as one of them runs.
static SHARED: Mutex<Weak<Scene>> = Mutex::new(Weak::new());
static TOOLS: Mutex<Weak<Tools>> = Mutex::new(Weak::new());

/// Nothing if tests without Postgres or npm are to be skipped.
pub fn tools() -> Option<Arc<Tools>> {
    if std::env::var_os("ARBE_SKIP_POSTGRES").is_some_and(|set| set == "1") {
        eprintln!("skipped, because ARBE_SKIP_POSTGRES is set");
        return None;
    }
    let agents = Agents::install().unwrap()?;
    let mut kept = TOOLS.lock();
    Some(kept.upgrade().unwrap_or_else(|| {
        let made = Arc::new(agents.tools().unwrap());
        *kept = Arc::downgrade(&made);
        made
    }))
}

impl Scene {
    pub fn shared() -> Option<Arc<Self>> {
        let mut kept = SHARED.lock();
        if let Some(scene) = kept.upgrade() {
            return Some(scene);
        }
        let scene = Arc::new(Self::start(&[])?);
        *kept = Arc::downgrade(&scene);
        Some(scene)
    }

    pub fn start(more: &[&str]) -> Option<Self> {
        let (tools, model) = (tools()?, Model::start().unwrap());
        let machines = tempfile::tempdir().unwrap();
        fs::set_permissions(machines.path(), Permissions::from_mode(0o755)).unwrap();
        let (url, places) = (format!("{}/v1", model.url()), [machines.path(), tools.path()].map(|it| it.to_str().unwrap()));
        let mut flags = vec!["--machines-dir", places[0], "--tools", places[1], "--model-url", &url, "--model", "scripted-1"];
        flags.extend(["--model-api", "openai", "--watch-every", "1s"]);
        if !more.contains(&"--orphan-after") {
            flags.extend(["--orphan-after", "3s"]);
        }
        flags.extend(more);
        let server = ArbeServer::platform(&flags).unwrap();
        let token = server.data("owner-token").unwrap();
        let flags = flags.into_iter().map(str::to_owned).collect();
        Some(Self { server: RwLock::new(server), model, token, flags, machines, _tools: tools })
    }

    /// With kill -9.
    pub fn kill(&self) {
        self.server.write().kill9().unwrap();
    }

    /// On what the last one left.
    pub fn start_again(&self, more: &[&str]) {
        let flags: Vec<_> = self.flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.server.write().restart_with(&flags).unwrap();
    }

    /// Standard error of the server, in all its lives.
    pub fn log(&self) -> String {
        self.server.read().log()
    }

    pub fn data(&self) -> PathBuf {
        self.server.read().data_dir()
    }

    pub fn url(&self) -> String {
        self.server.read().url().to_owned()
    }

    pub fn machine(&self, sandbox: &str) -> Machine {
        Machine { sandbox: sandbox.to_owned(), directory: self.machines.path().join(sandbox) }
    }

    pub fn send_as(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut headers = vec![("Authorization", format!("Bearer {token}"))];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        headers.extend((!body.is_empty()).then(|| ("Content-Type", "application/json".to_owned())));
        let reply = request(&self.url(), method, path, &headers, body.as_bytes()).unwrap();
        (reply.status, serde_json::from_slice(&reply.body).unwrap_or_default())
    }

    /// As the owner; it succeeds.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.send_as(&self.token, method, path, body);
        assert!((200..300).contains(&status), "{method} {path} {body}: {status} {answer}");
        answer
    }

    pub fn get(&self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null)
    }

    /// As the owner; waits for it to be there, and for the rows to have come so far.
    pub fn seen(&self, path: &str) -> Value {
        until(path, || {
            let (status, answer) = self.send_as(&self.token, "GET", path, &Value::Null);
            (status == 200).then_some(answer)
        })
    }

    /// Something new, by the name of its id.
    pub fn make(&self, path: &str, body: &Value, id: &str) -> String {
        self.ask("POST", path, body)[id].as_str().unwrap().to_owned()
    }

    /// The last lines of the server's log.
    pub fn last_words(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }
}

impl Drop for Scene {
    /// What was launched outlives its server.
    fn drop(&mut self) {
        self.server.get_mut().stop().ok();
        let sandboxes = fs::read_dir(self.machines.path()).unwrap().flatten().map(|entry| entry.file_name());
        for machine in sandboxes.filter_map(|name| Some(self.machine(name.to_str()?))) {
            machine.processes().iter().for_each(Process::kill);
            within(GONE, || machine.processes().is_empty().then_some(()));
        }
    }
}

pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, look).unwrap_or_else(|| panic!("not within {PATIENCE:?}: {what}"))
}

pub fn within<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + patience;
    loop {
        match look() {
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            found => return found,
        }
    }
}
