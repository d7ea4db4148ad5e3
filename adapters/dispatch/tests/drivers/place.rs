//! A house with Ada, the bots Pia and Rex, an environment and a chat; and a dispatcher that can be killed and started again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use commands::command::{
    AddMember, AppendEntry, BindSecret, CreateEnvironment, CreateHouse, CreateThread, Delegate, FinishRun, MarkSandboxDead,
    Outcome, RegisterAgent, SetDefaultEnvironment, SetSecret,
};
use commands::ports::{Plain, Reach, Vault, VaultError};
use commands::{Actor, Command, Commands, Done, RealSource, Thread};
use dispatch::{Dispatcher, Door, Manners, ObjectTrees, Options, Outside, Patience, Rebuild, RebuildError, Runner, Tokens};
use event_log::{Append, Change, From, Log, Payload, StoreUrl};
use events::house::{EnvironmentUpdated, SandboxDead};
use events::{
    AgentId, AgentKind, Entry, EnvironmentId, Event, EventId, HouseId, Json, JsonObject, Role, RunId, Runtime, SandboxId,
    SecretId, StreamName, ThreadId, ThreadStatus, Ulid, Uuid,
};
use object_store::ObjectStoreExt;
use object_store::path::Path;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::yard::Yard;

pub const ADA: AgentId = AgentId(Uuid::from_u128(1));
pub const PIA: AgentId = AgentId(Uuid::from_u128(2));
pub const REX: AgentId = AgentId(Uuid::from_u128(3));
pub const PATIENCE: Duration = Duration::from_secs(20);

/// It waits for its end in a file, and shows what it was given.
const RUNNER: &str = "#!/bin/sh
env > \"$HOME/env-$ARBE_RUN_ID\"
pwd -P > \"$HOME/pwd-$ARBE_RUN_ID\"
cat \"$ARBE_PROMPT_FILE\" > \"$HOME/task-$ARBE_RUN_ID\"
[ -n \"$ARBE_SESSION_FILE\" ] && cp \"$ARBE_SESSION_FILE\" \"$HOME/session-$ARBE_RUN_ID\"
while [ ! -s \"$HOME/end-$ARBE_RUN_ID\" ]; do sleep 0.02; done
exit \"$(cat \"$HOME/end-$ARBE_RUN_ID\")\"
";

#[derive(Debug, Default)]
pub struct Values {
    kept: Mutex<BTreeMap<Uuid, Plain>>,
    opened: AtomicU32,
}

impl Values {
    /// How many values were looked at.
    pub fn opened(&self) -> u32 {
        self.opened.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Vault for Values {
    async fn keep(&self, _: &HouseId, _: &SecretId, at: Uuid, value: &Plain) -> Result<(), VaultError> {
        self.kept.lock().insert(at, value.clone());
        Ok(())
    }

    async fn reveal(&self, _: &HouseId, _: &SecretId, at: Uuid) -> Result<Plain, VaultError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.kept.lock().get(&at).cloned().ok_or(VaultError::Gone)
    }

    async fn forget(&self, _: &HouseId, at: Uuid) -> Result<(), VaultError> {
        self.kept.lock().remove(&at);
        Ok(())
    }
}

#[derive(Debug)]
struct Signer;

impl Tokens for Signer {
    fn thread_token(&self, agent: AgentId, thread: &ThreadId) -> Option<String> {
        Some(format!("token of {agent} for {thread}"))
    }
}

/// Makes a session of the words that the thread holds.
#[derive(Debug)]
struct Sessions(Log);

#[async_trait]
impl Rebuild for Sessions {
    async fn session(&self, thread: &ThreadId, _: &str, cwd: &str) -> Result<Option<Bytes>, RebuildError> {
        let kinds: Vec<_> = entries(&self.0, thread).await.into_iter().map(|entry| entry.kind).collect();
        Ok(Some(format!("{cwd}: {}", kinds.join(" ")).into()))
    }
}

pub struct Place {
    pub log: Log,
    pub commands: Commands,
    pub yard: Arc<Yard>,
    pub vault: Arc<Values>,
    pub house: HouseId,
    pub environment: EnvironmentId,
    pub chat: ThreadId,
    pub options: Options,
    pub running: Option<(Dispatcher, watch::Sender<bool>, JoinHandle<()>)>,
}

pub async fn entries(log: &Log, thread: &ThreadId) -> Vec<Entry> {
    let page = log.read(&StreamName::Thread(thread.clone()).to_string(), From::Start, usize::MAX).await.unwrap();
    serde_json::from_slice(&[b"[".as_slice(), &page.chunks.join(&b','), b"]"].concat()).unwrap()
}

pub fn options(server: &str) -> Options {
    Options {
        server: server.to_owned(),
        provider: "yard".to_owned(),
        relayed: BTreeSet::new(),
        door: Door { url: "http://door".to_owned(), address: "127.0.0.1:1".to_owned() },
        harnesses: ["pi".to_owned()].into(),
        runners: [("yard".to_owned(), Runner::Upload(Bytes::from_static(RUNNER.as_bytes())))].into(),
        model: None,
        reach: Reach(["127.0.0.1:*".to_owned()].into()),
        patience: Patience {
            lease: Duration::from_secs(2),
            orphan: Duration::from_secs(30),
            settle: Duration::from_millis(300),
            watch: Duration::from_millis(50),
            cancel: Duration::from_millis(300),
            machine: Duration::from_secs(20),
            unreachable: Duration::from_secs(3_600),
            reap: Duration::from_secs(3_600),
            keep: Duration::from_millis(50),
            command: Duration::from_secs(10),
            command_max: Duration::from_secs(20),
            model: Duration::from_secs(10),
            permission: Duration::from_secs(60),
        },
        manners: Manners { cooldown: Duration::from_millis(50), ..Manners::default() },
    }
}

impl Place {
    pub async fn open(config: Value) -> Self {
        let store = "memory:".parse::<StoreUrl>().unwrap().open(&[], true).unwrap();
        let log = Log::open(store, event_log::Options { keep: false, ..event_log::Options::default() }).await.unwrap();
        let commands = Commands::start(log.clone(), Arc::new(RealSource));
        let make = |command: Command, actor| {
            let commands = commands.clone();
            async move { commands.execute(actor, command, None).await.unwrap() }
        };
        for (id, name, kind) in [(ADA, "Ada", AgentKind::Human), (PIA, "Pia", AgentKind::Bot), (REX, "Rex", AgentKind::Bot)] {
            let runtime = (kind == AgentKind::Bot).then(|| Runtime::new("pi").unwrap());
            let agent = RegisterAgent { agent_id: Some(id), kind, runtime, name: Some(name.to_owned()) };
            make(agent.into(), Actor::System).await;
        }
        let house = CreateHouse { house_id: None, name: "home".to_owned(), owner: None };
        let house = make(house.into(), Actor::Agent(ADA)).await.made.house_id.unwrap();
        for agent_id in [PIA, REX] {
            let member = AddMember { house_id: house.clone(), agent_id, role: Role::Member };
            make(member.into(), Actor::Agent(ADA)).await;
        }
        let config = JsonObject::parse(&config.to_string()).unwrap();
        let recipe = CreateEnvironment { house_id: house.clone(), environment_id: None, name: "box".to_owned(), config };
        let environment = make(recipe.into(), Actor::Agent(ADA)).await.made.environment_id.unwrap();
        let default = SetDefaultEnvironment { house_id: house.clone(), environment_id: Some(environment.clone()) };
        make(default.into(), Actor::Agent(ADA)).await;
        let mut place = Self {
            log,
            commands,
            yard: Yard::new(),
            vault: Arc::default(),
            chat: ThreadId::new("unset").unwrap(),
            house,
            environment,
            options: options("one"),
            running: None,
        };
        place.chat = place.thread().await;
        place
    }

    /// Another chat.
    pub async fn thread(&self) -> ThreadId {
        let create = CreateThread {
            house_id: self.house.clone(),
            thread_id: None,
            name: None,
            parent_thread_id: None,
            parent_agent_id: None,
            environment_id: None,
            sandbox_id: None,
            agent_id: None,
            tags: Vec::new(),
            pinned: false,
        };
        self.ask(ADA, create).await.made.thread_id.unwrap()
    }

    pub fn dispatcher(&self, options: Options) -> Dispatcher {
        let outside = Outside {
            log: self.log.clone(),
            commands: self.commands.clone(),
            machines: BTreeMap::from([("yard".to_owned(), self.yard.clone() as Arc<dyn commands::ports::Machines>)]),
            vault: self.vault.clone(),
            tokens: Arc::new(Signer),
            rebuild: Arc::new(Sessions(self.log.clone())),
            trees: Arc::new(ObjectTrees::new(self.log.store().objects.clone())),
        };
        Dispatcher::new(outside, options)
    }

    /// A server that was killed is only gone; a new one starts from the log.
    pub fn start(&mut self) -> Dispatcher {
        let dispatcher = self.dispatcher(self.options.clone());
        let (stop, stopped) = watch::channel(false);
        let running = dispatcher.clone();
        let task = tokio::spawn(async move { running.run(stopped).await });
        self.running = Some((dispatcher.clone(), stop, task));
        dispatcher
    }

    pub async fn kill(&mut self) {
        if let Some((_, _, task)) = self.running.take() {
            task.abort();
            let _ = task.await;
        }
    }

    pub async fn ask(&self, who: AgentId, command: impl Into<Command>) -> Done {
        let done = self.commands.execute(Actor::Agent(who), command, None).await.unwrap();
        self.commands.wait(done.position).await.unwrap();
        done
    }

    /// As a log from before has it: nobody looks at it.
    pub async fn had_recipe(&self, config: &Value) {
        let config = JsonObject::parse(&config.to_string()).unwrap();
        let updated = EnvironmentUpdated { environment_id: self.environment.clone(), name: "box".to_owned(), config };
        self.had(&updated.into()).await;
    }

    /// The same of a member's word that a machine is dead which drivers made.
    pub async fn was_called_dead(&self, sandbox_id: &SandboxId) {
        self.had(&SandboxDead { sandbox_id: sandbox_id.clone(), reason: None }.into()).await;
    }

    async fn had(&self, event: &Event) {
        let entry = Entry::of(EventId(Ulid(7)), self.log.now_ms(), Some(ADA), event).to_json();
        let (content_type, payload) = (Some("application/json".into()), Ok(Payload::messages([entry.as_str()])));
        let append = Append { content_type, payload, producer: None, stream_seq: None, close: false };
        let stream = StreamName::House(self.house.clone()).to_string();
        let told = self.log.submit(event_log::Command::one(stream, Change::Append(append))).await.unwrap();
        self.commands.wait(told.position).await.unwrap();
    }

    /// As a driver does whom a provider has told that a machine is dead.
    pub async fn bury(&self, sandbox_id: &SandboxId) {
        let dead = MarkSandboxDead { sandbox_id: sandbox_id.clone(), reason: None };
        let done = self.commands.execute(Actor::System, dead, None).await.unwrap();
        self.commands.wait(done.position).await.unwrap();
    }

    pub async fn say(&self, who: AgentId, thread: &ThreadId, text: &str) {
        self.tell(who, thread, "chat", json!({ "text": text })).await;
    }

    pub async fn tell(&self, who: AgentId, thread: &ThreadId, kind: &str, payload: Value) {
        let payload = Json::of(&payload).unwrap();
        self.ask(who, AppendEntry { thread_id: thread.clone(), author_agent_id: None, kind: kind.to_owned(), v: 1, payload })
            .await;
    }

    pub async fn delegate(&self, task: &str, sandbox_id: Option<SandboxId>) -> (ThreadId, RunId) {
        let delegate = Delegate {
            thread_id: self.chat.clone(),
            child_thread_id: None,
            agent_id: PIA,
            name: None,
            environment_id: None,
            sandbox_id,
            tags: Vec::new(),
            prompt: Some(task.to_owned()),
            run_id: None,
        };
        let made = self.ask(ADA, delegate).await.made;
        (made.thread_id.unwrap(), made.run_id.unwrap())
    }

    pub async fn secret(&self, name: &str, value: Option<&str>, required: bool) {
        let bind = BindSecret { environment_id: self.environment.clone(), name: name.to_owned(), required };
        self.ask(ADA, bind).await;
        let Some(value) = value else { return };
        let at = Uuid::from_u128(name.len() as u128);
        let set = SetSecret { house_id: self.house.clone(), secret_id: None, name: name.to_owned(), vault_secret_id: at };
        let secret = self.ask(ADA, set).await.made.secret_id.unwrap();
        self.vault.keep(&self.house, &secret, at, &Plain::new(value.as_bytes().to_vec())).await.unwrap();
    }

    /// The bot says how its run ended, as the runner would.
    pub async fn finish(&self, thread: &ThreadId, words: &str) {
        let said = json!({ "role": "assistant", "content": [{ "type": "text", "text": words }], "stopReason": "stop" });
        self.tell(PIA, thread, "pi.assistant", said).await;
        let outcome = Outcome::Completed;
        self.ask(PIA, FinishRun { thread_id: thread.clone(), run_id: None, outcome, reason: None, failure: None }).await;
    }

    /// What the runner leaves in the machine when it cannot say how its run ended.
    pub fn leave(&self, thread: &ThreadId, run: &RunId, mut left: Value) {
        let directory = self.yard.home(&self.machine(thread)).join(format!(".arbe/sessions/{thread}/run"));
        std::fs::create_dir_all(&directory).unwrap();
        (left["run_id"], left["unsaid"]) = (json!(run), json!("503 down"));
        std::fs::write(directory.join(format!("{run}.json")), left.to_string()).unwrap();
    }

    /// A task that left these words in a file `kept`, and the machine whose tree is kept since.
    pub async fn written(&self, words: &str) -> (ThreadId, String) {
        let (child, run) = self.delegate("write", None).await;
        self.launched(&child, 1).await;
        let machine = self.machine(&child);
        std::fs::write(self.yard.work(&machine).join("kept"), words).unwrap();
        self.finish(&child, "written").await;
        self.yard.let_end(&machine, run.as_str(), 0);
        let tree = Path::from_iter(["trees", self.house.as_str(), machine.as_str()]);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while self.log.store().objects.head(&tree).await.is_err() {
            assert!(tokio::time::Instant::now() < deadline, "the tree is not kept");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        (child, machine)
    }

    /// The sandboxes of which a tree is kept.
    pub async fn trees(&self) -> Vec<String> {
        let listed = self.log.store().objects.list_with_delimiter(Some(&Path::from_iter(["trees", self.house.as_str()]))).await;
        listed.unwrap().objects.iter().map(|it| it.location.filename().unwrap().to_owned()).collect()
    }

    pub fn look(&self, thread: &ThreadId) -> Thread {
        self.commands.with_world(|world| world.thread(thread).unwrap().clone())
    }

    pub fn machine(&self, thread: &ThreadId) -> String {
        self.look(thread).sandbox_id.unwrap().to_string()
    }

    pub async fn entries(&self, thread: &ThreadId) -> Vec<Entry> {
        entries(&self.log, thread).await
    }

    pub async fn payloads(&self, thread: &ThreadId, kind: &str) -> Vec<Value> {
        let of_kind = self.entries(thread).await.into_iter().filter(|entry| entry.kind == kind);
        of_kind.map(|entry| serde_json::from_str(entry.payload.get()).unwrap()).collect()
    }

    /// Waits until the thread holds so many entries of a kind.
    #[track_caller]
    pub fn see(&self, thread: &ThreadId, kind: &'static str, count: usize) -> impl Future<Output = Vec<Value>> {
        let at = std::panic::Location::caller();
        async move {
            let deadline = tokio::time::Instant::now() + PATIENCE;
            loop {
                let found = self.payloads(thread, kind).await;
                if found.len() >= count {
                    return found;
                }
                if tokio::time::Instant::now() > deadline {
                    let entries = self.entries(thread).await;
                    let told: Vec<_> = entries.iter().map(|entry| format!("{} {}", entry.kind, entry.payload.get())).collect();
                    panic!("{at}: no {count} {kind} in\n{}", told.join("\n"));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    #[track_caller]
    pub fn rests(&self, thread: &ThreadId) -> impl Future<Output = ThreadStatus> {
        let at = std::panic::Location::caller();
        async move {
            let deadline = tokio::time::Instant::now() + PATIENCE;
            loop {
                let status = self.look(thread).status;
                if status != ThreadStatus::Running && status != ThreadStatus::Idle {
                    return status;
                }
                assert!(tokio::time::Instant::now() < deadline, "{at}: still {status}: {:?}", self.entries(thread).await);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    #[track_caller]
    pub fn until(&self, what: &str, is: impl Fn() -> bool) -> impl Future<Output = ()> {
        let at = std::panic::Location::caller();
        async move {
            let deadline = tokio::time::Instant::now() + PATIENCE;
            while !is() {
                assert!(tokio::time::Instant::now() < deadline, "{at}: {what}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    pub async fn launched(&self, thread: &ThreadId, times: usize) {
        self.see(thread, "signal.dispatch.session_started", times).await;
    }

    /// A file that the launched process has written whole.
    pub async fn file(&self, machine: &str, name: &str) -> String {
        for _ in 0..500 {
            let text = std::fs::read_to_string(self.yard.home(machine).join(name)).unwrap_or_default();
            if !text.is_empty() {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{name} was not written");
    }
}
