//! What every distant machine must do, whoever provides it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use commands::ports::{Execute, Launch, MachineError, Machines, Plain, Recipe, Relay, Wanted};
pub use commands::ports::{Exit, ProcessState as Process};
use events::dispatch::OutputStream;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

pub const PLANTED: &str = "planted-5ecret-it's";
const PATIENCE: Duration = Duration::from_secs(20);

pub fn plain(text: &str) -> Plain {
    Plain::new(text.into())
}

pub fn wanted(sandbox: &str) -> Wanted {
    Wanted {
        house: "house1".parse().unwrap(),
        sandbox: sandbox.parse().unwrap(),
        environment: "environment1".parse().unwrap(),
        thread: Some("thread1".parse().unwrap()),
        recipe: Recipe { env: BTreeMap::from([("PLAIN".to_owned(), "as is".to_owned())]), ..Recipe::default() },
        relays: Vec::new(),
        tree: None,
        secrets: BTreeMap::new(),
    }
}

#[derive(Debug)]
pub struct Ran {
    pub exit: Exit,
    pub stdout: String,
    pub stderr: String,
}

pub struct Case<M> {
    pub provider: M,
    pub machine: String,
}

impl<M: Machines> Case<M> {
    pub async fn new(provider: M) -> Self {
        let machine = provider.create(&wanted("sandbox1")).await.unwrap().provider_ref;
        Self { provider, machine }
    }

    pub async fn run(&self, command: &str) -> Result<Ran, MachineError> {
        self.run_in(command, None, BTreeMap::new(), PATIENCE).await
    }

    async fn run_in(
        &self,
        command: &str,
        cwd: Option<&str>,
        secrets: BTreeMap<String, Plain>,
        timeout: Duration,
    ) -> Result<Ran, MachineError> {
        let env = BTreeMap::from([("GIVEN".to_owned(), "with this".to_owned())]);
        let execute = Execute { command: command.to_owned(), cwd: cwd.map(str::to_owned), secrets, env, timeout };
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut sort = |stream, bytes: &[u8]| match stream {
            OutputStream::Stdout => stdout.extend_from_slice(bytes),
            OutputStream::Stderr => stderr.extend_from_slice(bytes),
        };
        let exit = self.provider.execute(&self.machine, &execute, &mut sort).await?;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ok(Ran { exit, stdout: text(stdout), stderr: text(stderr) })
    }

    pub async fn launch(&self, name: &str, argv: &[&str]) -> Result<(), MachineError> {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        let secrets = BTreeMap::from([("TOKEN".to_owned(), plain(PLANTED))]);
        let launch = Launch { name: name.to_owned(), argv, env: BTreeMap::new(), secrets };
        self.provider.launch(&self.machine, &launch).await
    }

    /// `run1`, which makes this file, was begun, and that was written down.
    pub async fn begun(&self) {
        self.until_there("/work/begun").await;
        self.until_there(".arbe/jobs/run1/pid").await;
    }

    async fn until_there(&self, path: &str) {
        let there = async {
            while self.provider.read(&self.machine, path).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, there).await.unwrap_or_else(|_| panic!("there is no {path}"));
    }

    pub async fn ended(&self, name: &str) -> Exit {
        for _ in 0..200 {
            match self.provider.process(&self.machine, name).await.unwrap() {
                Process::Exited(exit) => return exit,
                Process::Running => tokio::time::sleep(Duration::from_millis(50)).await,
                Process::Absent => panic!("{name} is absent"),
            }
        }
        panic!("{name} does not end");
    }

    pub async fn works_as_every_machine_does(&self) {
        let ran = self.run("echo out; echo err >&2; echo \"$PLAIN, $GIVEN\"; pwd; exit 7").await.unwrap();
        assert_eq!((ran.exit, ran.stderr.as_str()), (Exit::Code(7), "err\n"));
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(lines[..2], ["out", "as is, with this"]);
        assert!(lines[2].ends_with("/work"), "{lines:?}");
        assert_eq!(self.run("kill -KILL $$").await.unwrap().exit, Exit::Signal(9));
        assert_eq!(self.run("head -c 300000 /dev/zero | tr '\\0' x").await.unwrap().stdout.len(), 300_000);

        let (provider, machine) = (&self.provider, self.machine.as_str());
        provider.write(machine, "/work/sub/file", "of the tree".into()).await.unwrap();
        provider.write(machine, "beside/tool", "#!/bin/sh\necho ran".into()).await.unwrap();
        assert_eq!(provider.read(machine, "/work/sub/file").await.unwrap(), "of the tree");
        let ran = self.run_in("cat file; ~/beside/tool", Some("sub"), BTreeMap::new(), PATIENCE).await.unwrap();
        assert_eq!((ran.exit, ran.stdout.as_str()), (Exit::Code(0), "of the treeran\n"));
        assert!(matches!(provider.read(machine, "/work/none").await, Err(MachineError::Gone(_))));
        for path in ["../x", "/etc/passwd", "/work/../../x"] {
            assert!(matches!(provider.write(machine, path, "x".into()).await, Err(MachineError::Refused(_))), "{path}");
            assert!(matches!(provider.read(machine, path).await, Err(MachineError::Refused(_))), "{path}");
        }
    }

    /// As a driver and a runner do it: the session says where it goes on, and that must be there.
    pub async fn a_session_that_is_made_again_goes_on_in_the_machines_own_tree(&self) {
        let (provider, machine) = (&self.provider, self.machine.as_str());
        let tree = provider.tree(machine).await.unwrap();
        assert!(tree.starts_with('/') && tree != "/work", "{tree}");
        let session = format!("{{\"type\":\"session\",\"cwd\":\"{tree}\"}}\n");
        provider.write(machine, ".arbe/runs/r1/session.jsonl", session.clone().into()).await.unwrap();
        assert_eq!(provider.read(machine, ".arbe/runs/r1/session.jsonl").await.unwrap(), session);
        provider.write(machine, "/work/of-the-tree", "x".into()).await.unwrap();
        let script = "cwd=$(sed 's/.*\"cwd\":\"//; s/\".*//' \"$HOME/.arbe/runs/r1/session.jsonl\") \
            && cd -- \"$cwd\" && [ \"$(pwd -P)\" = \"$(cd -- \"$OLDPWD\" && pwd -P)\" ] && cat of-the-tree >\"$HOME/found\"";
        self.launch("hydrated", &["sh", "-c", script]).await.unwrap();
        assert_eq!(self.ended("hydrated").await, Exit::Code(0));
        assert_eq!(provider.read(machine, "found").await.unwrap(), "x");
        let ran = self.run("pwd -P").await.unwrap();
        assert_eq!(PathBuf::from(ran.stdout.trim()), fs::canonicalize(&tree).unwrap());
    }

    pub async fn a_process_goes_on_by_itself_and_runs_once(&self) {
        let (provider, machine) = (&self.provider, self.machine.as_str());
        assert_eq!(provider.process(machine, "run1").await.unwrap(), Process::Absent);
        assert!(matches!(provider.stop(machine, "run1", PATIENCE).await, Err(MachineError::Gone(_))));
        self.launch(
            "run1",
            &["sh", "-c", "echo \"$TOKEN\" >token; until [ -e go ]; do sleep 0.05; done; echo done >>~/count; exit 5"],
        )
        .await
        .unwrap();
        assert_eq!(provider.process(machine, "run1").await.unwrap(), Process::Running);
        assert!(matches!(self.launch("run1", &["true"]).await, Err(MachineError::Refused(_))));
        provider.write(machine, "/work/go", "".into()).await.unwrap();
        assert_eq!(self.ended("run1").await, Exit::Code(5));
        assert!(matches!(self.launch("run1", &["true"]).await, Err(MachineError::Refused(_))));
        assert_eq!(provider.read(machine, "count").await.unwrap(), "done\n");
        assert_eq!(provider.read(machine, "/work/token").await.unwrap(), format!("{PLANTED}\n"));
        self.launch("run2", &["/work/no-such-program"]).await.unwrap();
        assert_eq!(self.ended("run2").await, Exit::Code(127));
    }

    pub async fn a_process_that_is_stopped_takes_all_its_children_with_it(&self, processes: impl Fn() -> Vec<i32>) {
        let (provider, machine) = (&self.provider, self.machine.as_str());
        self.launch(
            "polite",
            &["sh", "-c", "trap 'echo bye >~/bye; exit 3' TERM; : >~/hears; setsid sleep 600 & sleep 600 & wait"],
        )
        .await
        .unwrap();
        self.launch("deaf", &["sh", "-c", "trap '' TERM; : >~/deaf; while :; do sleep 0.2; done"]).await.unwrap();
        self.until_there("hears").await;
        self.until_there("deaf").await;
        provider.stop(machine, "polite", Duration::from_secs(5)).await.unwrap();
        assert_eq!(self.ended("polite").await, Exit::Code(3));
        assert_eq!(provider.read(machine, "bye").await.unwrap(), "bye\n");
        assert_eq!(provider.process(machine, "deaf").await.unwrap(), Process::Running);
        provider.stop(machine, "deaf", Duration::from_millis(300)).await.unwrap();
        assert_eq!(self.ended("deaf").await, Exit::Signal(9));
        provider.stop(machine, "deaf", Duration::ZERO).await.unwrap();
        nothing_left(processes).await;
    }

    /// As when a tool cleans up too much, or the runner of tools was killed before them.
    pub async fn a_process_is_stopped_whatever_is_left_of_it(&self, processes: impl Fn() -> Vec<i32>) {
        let (provider, machine) = (&self.provider, self.machine.as_str());
        self.launch("run1", &["sh", "-c", "setsid sleep 600 & : >begun; wait"]).await.unwrap();
        self.begun().await;
        self.run("read -r s sb p rest <~/.arbe/jobs/run1/pid; kill -KILL $p").await.unwrap();
        assert_eq!(self.ended("run1").await, Exit::Signal(9));
        provider.stop(machine, "run1", Duration::ZERO).await.unwrap();
        nothing_left(&processes).await;
        self.launch("run2", &["sh", "-c", "setsid sleep 600 & : >~/begun2; wait"]).await.unwrap();
        self.until_there("begun2").await;
        self.run("rm -rf ~/.arbe/jobs/run2").await.unwrap();
        assert!(matches!(provider.stop(machine, "run2", Duration::ZERO).await, Err(MachineError::Gone(_))));
        nothing_left(&processes).await;
        assert_ne!(provider.process(machine, "run2").await.unwrap(), Process::Running);
    }

    /// Its runner hides the token as ours does: it begins anew without it.
    pub async fn a_tool_finds_no_secret_in_what_runs_beside_it(&self) {
        let (provider, machine) = (&self.provider, self.machine.as_str());
        // No other test's processes have this one.
        let token = format!("of-{}-{}", provider.provider(), std::process::id());
        let look = "for n in 1 2 3 4 5 6; do cat /proc/[0-9]*/environ; sleep 0.1; done 2>/dev/null | tr '\\0' '\\n' >~/seen; : >~/looked";
        let argv = ["sh", "-c", "exec env -u TOKEN sh -c \"$1\"", "runner", look].map(str::to_owned).to_vec();
        let secrets = BTreeMap::from([("TOKEN".to_owned(), plain(&token))]);
        let env = BTreeMap::from([("GIVEN".to_owned(), token.to_uppercase())]);
        provider.launch(machine, &Launch { name: "run1".to_owned(), argv, env, secrets }).await.unwrap();
        self.until_there("looked").await;
        let seen = String::from_utf8_lossy(&provider.read(machine, "seen").await.unwrap()).into_owned();
        assert!(seen.lines().any(|line| line == format!("GIVEN={}", token.to_uppercase())), "it has looked: {seen}");
        assert!(!seen.contains(&token), "a secret is shown");
    }

    pub async fn a_command_that_takes_too_long_or_is_given_up_leaves_nothing(&self, processes: impl Fn() -> Vec<i32>) {
        let command = "echo begun; : >~/given; setsid sleep 600 & sleep 600";
        let ran = self.run_in(command, None, BTreeMap::new(), Duration::from_secs(3)).await.unwrap();
        assert_eq!((ran.exit, ran.stdout.as_str()), (Exit::TimedOut, "begun\n"));
        nothing_left(&processes).await;
        self.run("rm ~/given").await.unwrap();
        tokio::select! {
            ran = self.run(command) => panic!("it is given up: {ran:?}"),
            () = self.until_there("given") => {}
        }
        nothing_left(&processes).await;
        assert_eq!(self.run("sleep 600 & echo left alone").await.unwrap().exit, Exit::Code(0));
        nothing_left(&processes).await;
    }

    pub async fn a_secret_reaches_the_command_and_nothing_else(&self, home: &Path) {
        let secrets = BTreeMap::from([("TOKEN".to_owned(), plain(PLANTED))]);
        let command = "echo \"got $TOKEN\"; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c 'planted-5ecre[t]'";
        let ran = self.run_in(command, None, secrets, PATIENCE).await.unwrap();
        assert_eq!(ran.stdout, "got [TOKEN]\n0\n", "a secret stands in an argument");
        self.launch("run1", &["sh", "-c", ": >begun; sleep 600"]).await.unwrap();
        self.begun().await;
        for path in files(home) {
            let contents = fs::read(&path).unwrap_or_default();
            assert!(
                !contents.windows(PLANTED.len()).any(|part| part == PLANTED.as_bytes()),
                "a secret lies in {}",
                path.display()
            );
        }
        let known = format!("{:?}", self.provider);
        assert!(!known.contains(PLANTED) && !known.contains("stand_in") && !known.contains("stand-in"), "{known}");
    }

    async fn look(&self, machine: &str) -> String {
        let command = "ls -lR --time-style=+ . && cat a/b/one bin | od -c".to_owned();
        let execute = Execute { command, cwd: None, secrets: BTreeMap::new(), env: BTreeMap::new(), timeout: PATIENCE };
        let mut seen = Vec::new();
        let exit = self.provider.execute(machine, &execute, &mut |_, bytes| seen.extend_from_slice(bytes)).await.unwrap();
        assert_eq!(exit, Exit::Code(0));
        String::from_utf8(seen).unwrap()
    }

    pub async fn a_working_tree_moves_to_another_machine(&self) {
        self.run("mkdir -p a/b && echo one >a/b/one && ln -s b/one a/link && printf '\\0\\1' >bin && chmod 755 bin")
            .await
            .unwrap();
        let tree = self.provider.snapshot(&self.machine).await.unwrap();
        assert!(tree.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]), "it is not compressed");
        let mut second = wanted("sandbox2");
        second.tree = Some(tree);
        second.recipe.repo = Some("/nowhere/to/be/cloned".to_owned());
        let other = self.provider.create(&second).await.unwrap().provider_ref;
        let (here, moved) = (self.look(&self.machine).await, self.look(&other).await);
        assert_eq!(moved, here);
        assert!(moved.contains("link -> b/one"), "{moved}");
        second.sandbox = "sandbox3".parse().unwrap();
        second.recipe.setup = Some("cat a/b/one | tee ~/beside".to_owned());
        let created = self.provider.create(&second).await.unwrap();
        assert_eq!(created.printed, "one\n", "it is set up again, and not cloned");
        assert_eq!(self.provider.read(&created.provider_ref, "beside").await.unwrap(), "one\n");
        let left = self.run("ls ~/.arbe/in").await.unwrap();
        assert_eq!(left.stdout.lines().count(), 0, "nothing of it is left: {}", left.stdout);
        second.sandbox = "sandbox4".parse().unwrap();
        second.tree = Some("no archive".into());
        assert!(matches!(self.provider.create(&second).await, Err(MachineError::Setup(_))));
    }
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

async fn nothing_left(processes: impl Fn() -> Vec<i32>) {
    for _ in 0..100 {
        let left = processes();
        // What keeps a hold sleeps once more before it sees that it is alone.
        if left
            .iter()
            .all(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().starts_with("sleep\x000."))
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("left: {:?}", processes().iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline"))).collect::<Vec<_>>());
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

pub async fn a_repository_is_cloned_and_set_up(provider: &impl Machines) {
    let repository = TempDir::new().unwrap();
    let make =
        "git init -q -b main . && echo hello >file && git add . && git -c user.name=a -c user.email=a@example.org commit -qm one";
    let made = std::process::Command::new("sh").args(["-c", make]).current_dir(repository.path()).status().unwrap();
    assert!(made.success());
    let mut cloned = wanted("cloned1");
    cloned.recipe.repo = Some(repository.path().to_str().unwrap().to_owned());
    cloned.recipe.branch = Some("main".to_owned());
    cloned.recipe.setup = Some("cat file; echo \"token $TOKEN\"; echo x >>times".to_owned());
    cloned.secrets.insert("TOKEN".to_owned(), plain(PLANTED));
    let created = provider.create(&cloned).await.unwrap();
    assert!(created.printed.contains("hello\ntoken [TOKEN]\n"), "{}", created.printed);
    assert!(!created.printed.contains(PLANTED));
    provider.create(&cloned).await.unwrap();
    assert_eq!(provider.read(&created.provider_ref, "/work/times").await.unwrap(), "x\n");
}

pub async fn a_failing_setup_leaves_nothing_behind(provider: &impl Machines) {
    let mut failing = wanted("failing1");
    failing.recipe.setup = Some("echo before; echo \"$TOKEN\" >&2; exit 9".to_owned());
    failing.secrets.insert("TOKEN".to_owned(), plain(PLANTED));
    let error = provider.create(&failing).await.unwrap_err();
    let MachineError::Setup(why) = &error else { panic!("{error:?}") };
    assert!(why.contains("ended with 9") && why.contains("before") && why.contains("[TOKEN]"), "{why}");
    assert!(!why.contains(PLANTED));
}

/// Whose recipe gives what is not a recipe's to give.
pub fn with_reserved_names(sandbox: &str) -> Wanted {
    let mut wanted = wanted(sandbox);
    for name in ["PATH", "LD_PRELOAD", "ARBE_STREAM_TOKEN"] {
        wanted.recipe.env.insert(name.to_owned(), "of a recipe".to_owned());
    }
    wanted
}

pub async fn relays_are_refused(provider: &impl Machines) {
    let mut related = wanted("related1");
    related.relays = vec![Relay { port: 8080, to: "127.0.0.1:80".to_owned() }];
    assert!(matches!(provider.create(&related).await, Err(MachineError::Refused(_))));
}

pub async fn all_pages_are_listed(provider: &impl Machines) {
    let mut expected = Vec::new();
    for at in 1..=5 {
        let mut one = wanted(&format!("listed{at}"));
        one.thread = (at != 3).then(|| "thread1".parse().unwrap());
        expected.push((one.sandbox.clone(), one.thread.clone(), provider.create(&one).await.unwrap().provider_ref));
    }
    let mut listed = provider.list().await.unwrap();
    listed.sort_by(|one, other| one.sandbox.cmp(&other.sandbox));
    assert!(listed.iter().all(|one| one.house == "house1".parse().ok() && one.environment == "environment1".parse().ok()));
    let found: Vec<_> = listed.into_iter().map(|one| (one.sandbox.unwrap(), one.thread, one.provider_ref)).collect();
    assert_eq!(found, expected);
}

/// A stand-in that let everything pass would prove nothing.
pub async fn are_refused(token: &str, requests: &[(&str, String, Value)]) {
    for (verb, url, body) in requests {
        let request = reqwest::Client::new().request(verb.parse().unwrap(), url).bearer_auth(token);
        let request = if body.is_null() { request } else { request.json(body) };
        assert_eq!(request.send().await.unwrap().status(), 400, "{verb} {url} {body}");
    }
}

/// Of a vendor's SDK. Where it is not installed, its test has nothing to say.
#[expect(clippy::disallowed_methods, reason = "whoever runs the tests says where the SDK is")]
pub fn interpreter(variable: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from);
    if found.is_none() {
        println!("skipped: {variable} names no interpreter with the vendor's SDK");
    }
    found
}

pub async fn passes(script: &mut Command) {
    let output = script.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(Duration::from_secs(120), output).await.expect("the SDK ends").unwrap();
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    println!("{printed}");
    assert!(output.status.success() && printed.contains("passed"), "{printed}");
}
