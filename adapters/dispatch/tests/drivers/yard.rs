//! Machines as directories: what is launched there are processes of this computer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use commands::ports::{
    Created, Execute, Exit, Launch, Listed, Machine, MachineError, Machines, OutputSink, Plain, ProcessState, Verdict, Wanted,
};
use events::{HouseId, OutputStream, SandboxId};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::Notify;

#[derive(Debug, Default)]
struct State {
    children: BTreeMap<String, Child>,
    /// What each began and does not end with it.
    tools: BTreeMap<String, Child>,
    /// Whoever asks for a stop is told this, and nothing is done.
    unstoppable: Option<MachineError>,
    /// The machine of each.
    on: BTreeMap<String, String>,
    /// Those whose sandboxes were killed with them.
    torn: BTreeSet<String>,
    /// How often each name was launched.
    launches: BTreeMap<String, u32>,
    /// How often each machine was made.
    made: BTreeMap<String, u32>,
    verdicts: BTreeMap<String, Verdict>,
    alive: BTreeSet<String>,
    fails: Option<(&'static str, MachineError)>,
    gate: Option<&'static str>,
    listed: BTreeMap<String, Listed>,
    probes: u32,
    snapshots: u32,
}

#[derive(Debug)]
pub struct Yard {
    root: TempDir,
    state: Mutex<State>,
    reached: Notify,
    released: Notify,
}

impl Yard {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            root: tempfile::tempdir().unwrap(),
            state: Mutex::default(),
            reached: Notify::new(),
            released: Notify::new(),
        })
    }

    pub fn home(&self, machine: &str) -> PathBuf {
        self.root.path().join(machine).join("home")
    }

    pub fn work(&self, machine: &str) -> PathBuf {
        self.root.path().join(machine).join("work")
    }

    /// The next time a driver comes to this place it stays there, for ever or until it is let go.
    pub fn hold(&self, place: &'static str) {
        self.state.lock().gate = Some(place);
    }

    pub async fn is_held(&self) {
        self.reached.notified().await;
    }

    pub fn let_go(&self) {
        self.released.notify_one();
    }

    /// The next call of this name fails so, once, after it did its work.
    pub fn fail(&self, call: &'static str, error: MachineError) {
        self.state.lock().fails = Some((call, error));
    }

    pub fn says(&self, machine: &str, verdict: Option<Verdict>) {
        match verdict {
            Some(verdict) => drop(self.state.lock().verdicts.insert(machine.to_owned(), verdict)),
            None => drop(self.state.lock().verdicts.remove(machine)),
        }
    }

    pub fn launches(&self) -> Vec<u32> {
        self.state.lock().launches.values().copied().collect()
    }

    pub fn made(&self) -> Vec<u32> {
        self.state.lock().made.values().copied().collect()
    }

    /// A machine that carries such labels, and that nobody asked for.
    pub fn stray(&self, machine: &str, house: &HouseId, sandbox: Option<&SandboxId>) {
        fs::create_dir_all(self.work(machine)).unwrap();
        let listed = Listed {
            provider_ref: machine.to_owned(),
            house: Some(house.clone()),
            sandbox: sandbox.cloned(),
            thread: None,
            environment: None,
            state: "idle".to_owned(),
        };
        self.state.lock().listed.insert(machine.to_owned(), listed);
    }

    /// How often machines were asked whether they live.
    pub fn probes(&self) -> u32 {
        self.state.lock().probes
    }

    /// How often trees were taken.
    pub fn snapshots(&self) -> u32 {
        self.state.lock().snapshots
    }

    pub fn kept_alive(&self) -> bool {
        !self.state.lock().alive.is_empty()
    }

    /// What the launched process waits for; it then ends with this code.
    pub fn let_end(&self, machine: &str, run: &str, code: i32) {
        fs::write(self.home(machine).join(format!("end-{run}")), code.to_string()).unwrap();
    }

    pub fn runs(&self, run: &str) -> bool {
        self.state.lock().children.get_mut(run).is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// A process that a run has begun, and that goes on when the run is gone.
    pub fn begin_tool(&self, run: &str) {
        let tool = Command::new("sleep").arg("600").spawn().unwrap();
        self.state.lock().tools.insert(run.to_owned(), tool);
    }

    pub fn tool_runs(&self, run: &str) -> bool {
        self.state.lock().tools.get_mut(run).is_some_and(|tool| tool.try_wait().unwrap().is_none())
    }

    pub fn cannot_stop(&self, why: Option<MachineError>) {
        self.state.lock().unstoppable = why;
    }

    /// Kills a process together with all that is around it.
    pub fn tear(&self, run: &str) {
        let mut state = self.state.lock();
        state.torn.insert(run.to_owned());
        state.children.get_mut(run).unwrap().kill().unwrap();
    }

    /// As if the computer had been turned off.
    pub fn lose(&self, machine: &str) {
        self.kill_all();
        fs::remove_dir_all(self.root.path().join(machine)).unwrap();
    }

    /// Kills every process, and forgets that it was ever there.
    pub fn kill_all(&self) {
        for (_, mut child) in std::mem::take(&mut self.state.lock().children) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    async fn gate(&self, place: &'static str) {
        let held = self.state.lock().gate.take_if(|gate| *gate == place).is_some();
        if held {
            self.reached.notify_one();
            self.released.notified().await;
        }
    }

    fn failing(&self, call: &'static str) -> Result<(), MachineError> {
        match self.state.lock().fails.take_if(|(name, _)| *name == call) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    fn there(&self, machine: &str) -> Result<(), MachineError> {
        if self.work(machine).is_dir() { Ok(()) } else { Err(MachineError::Gone(machine.to_owned())) }
    }

    fn shell(
        &self,
        machine: &str,
        env: &BTreeMap<String, String>,
        secrets: &BTreeMap<String, Plain>,
        argv: &[String],
    ) -> Command {
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).current_dir(self.work(machine)).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", self.home(machine)).envs(env);
        let secrets = secrets.iter().map(|(name, value)| (name, String::from_utf8(value.expose().to_vec()).unwrap()));
        command.envs(secrets).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        self.kill_all();
        for (_, mut tool) in std::mem::take(&mut self.state.lock().tools) {
            tool.kill().unwrap();
            tool.wait().unwrap();
        }
    }
}

/// As providers read it: a code above 128 is taken for a signal.
fn exit(status: ExitStatus) -> Exit {
    match status.code() {
        Some(code @ 129..=192) => Exit::Signal(code - 128),
        Some(code) => Exit::Code(code),
        None => Exit::Signal(status.signal().unwrap()),
    }
}

#[async_trait]
impl Machines for Yard {
    fn provider(&self) -> &'static str {
        "yard"
    }

    async fn create(&self, wanted: &Wanted) -> Result<Created, MachineError> {
        self.gate("before create").await;
        let machine = wanted.sandbox.to_string();
        if !self.work(&machine).is_dir() {
            if wanted.recipe.setup.as_deref() == Some("fail") {
                return Err(MachineError::Setup("the setup ended with 1".to_owned()));
            }
            fs::create_dir_all(self.home(&machine)).unwrap();
            fs::create_dir_all(self.work(&machine)).unwrap();
            if let Some(tree) = &wanted.tree {
                let files: BTreeMap<String, String> = serde_json::from_slice(tree).unwrap();
                files.iter().for_each(|(name, text)| fs::write(self.work(&machine).join(name), text).unwrap());
            }
            let listed = Listed {
                provider_ref: machine.clone(),
                house: Some(wanted.house.clone()),
                sandbox: Some(wanted.sandbox.clone()),
                thread: wanted.thread.clone(),
                environment: Some(wanted.environment.clone()),
                state: "idle".to_owned(),
            };
            let mut state = self.state.lock();
            state.listed.insert(machine.clone(), listed);
            *state.made.entry(machine.clone()).or_default() += 1;
        }
        self.failing("create")?;
        self.gate("after create").await;
        Ok(Created { provider_ref: machine, printed: String::new() })
    }

    async fn probe(&self, machine: &Machine) -> Verdict {
        let said = {
            let mut state = self.state.lock();
            state.probes += 1;
            state.verdicts.get(machine).cloned()
        };
        if let Some(verdict) = said {
            return verdict;
        }
        if self.work(machine).is_dir() { Verdict::Live } else { Verdict::Dead { why: "the directory is gone".to_owned() } }
    }

    async fn wake(&self, machine: &Machine) -> Result<(), MachineError> {
        self.says(machine, None);
        Ok(())
    }

    async fn tree(&self, machine: &Machine) -> Result<String, MachineError> {
        self.there(machine)?;
        Ok(self.work(machine).to_str().unwrap().to_owned())
    }

    async fn keep_alive(&self, machine: &Machine) -> Result<(), MachineError> {
        self.state.lock().alive.insert(machine.to_owned());
        Ok(())
    }

    async fn execute(&self, machine: &Machine, execute: &Execute, output: OutputSink<'_>) -> Result<Exit, MachineError> {
        self.there(machine)?;
        let argv = ["sh".to_owned(), "-c".to_owned(), execute.command.clone()];
        let mut command = self.shell(machine, &execute.env, &execute.secrets, &argv);
        command.current_dir(self.work(machine).join(execute.cwd.as_deref().unwrap_or(".")));
        let mut child = command.spawn().map_err(|error| MachineError::Refused(format!("{:?}: {error}", execute.cwd)))?;
        self.gate("in execute").await;
        let deadline = tokio::time::Instant::now() + execute.timeout;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if tokio::time::Instant::now() > deadline {
                child.kill().unwrap();
                child.wait().unwrap();
                return Ok(Exit::TimedOut);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let mut printed = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut printed).unwrap();
        output(OutputStream::Stdout, &printed);
        printed.clear();
        child.stderr.take().unwrap().read_to_end(&mut printed).unwrap();
        output(OutputStream::Stderr, &printed);
        self.failing("execute")?;
        Ok(exit(status))
    }

    async fn launch(&self, machine: &Machine, launch: &Launch) -> Result<(), MachineError> {
        self.gate("before launch").await;
        self.there(machine)?;
        {
            let mut state = self.state.lock();
            if state.children.contains_key(&launch.name) {
                return Err(MachineError::Refused("there is one of this name".to_owned()));
            }
            let child = self.shell(machine, &launch.env, &launch.secrets, &launch.argv).spawn().unwrap();
            state.children.insert(launch.name.clone(), child);
            state.on.insert(launch.name.clone(), machine.to_owned());
            *state.launches.entry(launch.name.clone()).or_default() += 1;
        }
        self.failing("launch")?;
        self.gate("after launch").await;
        Ok(())
    }

    async fn process(&self, machine: &Machine, name: &str) -> Result<ProcessState, MachineError> {
        self.failing("process")?;
        self.there(machine)?;
        let mut state = self.state.lock();
        let torn = state.torn.contains(name);
        let Some(child) = state.children.get_mut(name) else { return Ok(ProcessState::Absent) };
        Ok(match child.try_wait().unwrap() {
            None => ProcessState::Running,
            Some(status) if torn => ProcessState::Exited(Exit::Sandbox(status.signal().unwrap())),
            Some(status) => ProcessState::Exited(exit(status)),
        })
    }

    async fn stop(&self, _: &Machine, name: &str, _: Duration) -> Result<(), MachineError> {
        let mut state = self.state.lock();
        if let Some(error) = state.unstoppable.clone() {
            return Err(error);
        }
        let State { children, tools, .. } = &mut *state;
        for process in children.get_mut(name).into_iter().chain(tools.get_mut(name)) {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        Ok(())
    }

    async fn write(&self, machine: &Machine, path: &str, contents: Bytes) -> Result<(), MachineError> {
        self.gate("before write").await;
        self.there(machine)?;
        let path = self.home(machine).join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // By another process: a child of one of the other tests may hold what this one has open, and then nobody can start it.
        let (draft, copy) = (path.with_extension("draft"), path.with_extension("copy"));
        fs::write(&draft, contents).unwrap();
        assert!(Command::new("cp").args([&draft, &copy]).status().unwrap().success());
        fs::rename(copy, path).unwrap();
        self.gate("after write").await;
        Ok(())
    }

    async fn read(&self, machine: &Machine, path: &str) -> Result<Bytes, MachineError> {
        let read = fs::read(self.home(machine).join(path));
        read.map(Bytes::from).map_err(|error| MachineError::Gone(error.to_string()))
    }

    async fn snapshot(&self, machine: &Machine) -> Result<Bytes, MachineError> {
        self.failing("snapshot")?;
        self.there(machine)?;
        self.state.lock().snapshots += 1;
        let files: BTreeMap<String, String> = fs::read_dir(self.work(machine))
            .unwrap()
            .map(|file| file.unwrap().path())
            .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap()))
            .collect();
        Ok(serde_json::to_vec(&files).unwrap().into())
    }

    async fn destroy(&self, machine: &Machine) -> Result<(), MachineError> {
        self.gate("before destroy").await;
        self.failing("destroy")?;
        let mut state = self.state.lock();
        let State { children, on, listed, .. } = &mut *state;
        for (run, child) in children.iter_mut().filter(|(run, _)| on.get(*run).is_some_and(|it| it == machine)) {
            child.kill().unwrap_or_else(|error| panic!("{run}: {error}"));
            child.wait().unwrap();
        }
        listed.remove(machine);
        let _ = fs::remove_dir_all(self.root.path().join(machine));
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Listed>, MachineError> {
        self.failing("list")?;
        Ok(self.state.lock().listed.values().cloned().collect())
    }
}
