//! A directory of machines that is gone when the test is.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use commands::ports::{Execute, Exit, Launch, Machines, Plain, ProcessState, Recipe, Wanted};
use events::dispatch::OutputStream;
use events::{EnvironmentId, HouseId, SandboxId, ThreadId};
use sandboxes::local::{Local, Options};
use tempfile::TempDir;

pub struct Scene {
    pub local: Arc<Local>,
    pub directory: TempDir,
}

pub struct Ran {
    pub exit: Exit,
    pub stdout: String,
    pub stderr: String,
}

pub fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    directory
}

/// The helper is copied to where every user can reach it; by another process, because what another test forks meanwhile would have the file
/// open for writing, and nobody could run it.
pub fn options(directory: &Path) -> Options {
    let helper = directory.join("arbe-supervisor");
    if !helper.exists() {
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_arbe-supervisor")).arg(&helper).status().unwrap();
        assert!(copied.success());
    }
    let mut options = Options::new(directory.join("machines"), helper);
    options.ways.inner.0.insert("127.0.0.1:*".to_owned());
    options
}

pub fn wanted(id: &str) -> Wanted {
    Wanted {
        house: HouseId::new("house_1").unwrap(),
        sandbox: SandboxId::new(id).unwrap(),
        environment: EnvironmentId::new("env_1").unwrap(),
        thread: Some(ThreadId::new("thread_1").unwrap()),
        recipe: Recipe::default(),
        relays: Vec::new(),
        tree: None,
        secrets: [].into(),
    }
}

pub fn execute(command: &str) -> Execute {
    Execute { command: command.to_owned(), cwd: None, secrets: [].into(), env: [].into(), timeout: Duration::from_secs(60) }
}

pub fn launch(name: &str, script: &str) -> Launch {
    let argv = ["sh", "-c", script].map(str::to_owned).into();
    Launch { name: name.to_owned(), argv, env: [].into(), secrets: [].into() }
}

pub fn secret(name: &str, value: &str) -> (String, Plain) {
    (name.to_owned(), Plain::new(value.into()))
}

impl Scene {
    pub async fn open() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Options)) -> Self {
        let directory = directory();
        let mut options = options(directory.path());
        change(&mut options);
        Self { local: Arc::new(Local::open(options).await.unwrap()), directory }
    }

    pub fn machines(&self) -> PathBuf {
        self.directory.path().join("machines")
    }

    pub async fn machine(&self, id: &str) -> String {
        self.local.create(&wanted(id)).await.unwrap().provider_ref
    }

    pub async fn run(&self, id: &str, command: &str) -> Ran {
        self.execute(id, &execute(command)).await
    }

    pub async fn execute(&self, id: &str, execute: &Execute) -> Ran {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut sink = |stream, bytes: &[u8]| match stream {
            OutputStream::Stdout => stdout.extend_from_slice(bytes),
            OutputStream::Stderr => stderr.extend_from_slice(bytes),
        };
        let exit = self.local.execute(id, execute, &mut sink).await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ran { exit, stdout: text(stdout), stderr: text(stderr) }
    }

    pub async fn ended(&self, id: &str, name: &str) -> Exit {
        ended(&self.local, id, name).await
    }
}

pub async fn ended(local: &Local, id: &str, name: &str) -> Exit {
    for _ in 0..1500 {
        match local.process(id, name).await.unwrap() {
            ProcessState::Exited(exit) => return exit,
            ProcessState::Running => tokio::time::sleep(Duration::from_millis(20)).await,
            ProcessState::Absent => panic!("nobody knows {name}"),
        }
    }
    panic!("{name} does not end");
}

/// A number of seconds that no other process of this host sleeps for.
pub fn word(n: u32) -> String {
    word_of(n, std::process::id())
}

pub fn word_of(n: u32, process: u32) -> String {
    format!("{n}{process}")
}

/// Processes of the host that have a word in their command line.
pub fn with_word(word: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within ten seconds: {what}");
}

pub fn kill(pid: i32) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
}

/// A test that fails leaves no process behind either.
impl Drop for Scene {
    fn drop(&mut self) {
        let local = Arc::clone(&self.local);
        let clean = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for listed in local.list().await.unwrap() {
                    local.destroy(&listed.provider_ref).await.unwrap();
                }
            });
        });
        clean.join().unwrap();
    }
}
