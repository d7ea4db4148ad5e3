//! Live threads of a real log as sessions of other clients.

use commands::command::{AddMember, AppendEntry, CreateThread, RegisterAgent};
use commands::{Actor, Commands, RealSource};
use event_log::{Log, Options, StoreUrl};
use events::{AgentId, AgentKind, HouseId, Json, Role, Runtime, ThreadId};
use serde_json::json;

use super::{Library, again};

const SAID: &str = "what does app.py do?";
const ANSWERED: &str = "It prints a line.";
const DELEGATED: &str = "look at the tests as well";

/// A thread between the owner and a bot, and one that was delegated from it.
struct Talk {
    commands: Commands,
    house: HouseId,
    owner: AgentId,
    bot: AgentId,
}

impl Talk {
    async fn on(log: &Log) -> Self {
        let commands = Commands::start(log.clone(), std::sync::Arc::new(RealSource));
        commands.caught_up().await.unwrap();
        let house = commands.with_world(|world| world.houses().next().unwrap().0.clone());
        let owner = commands.with_world(|world| *world.agents().next().unwrap().0);
        let register = RegisterAgent {
            agent_id: None,
            kind: AgentKind::Bot,
            runtime: Some(Runtime::new("pi").unwrap()),
            name: Some("bot".into()),
        };
        let bot = commands.execute(Actor::System, register, None).await.unwrap().made.agent_id.unwrap();
        let add = AddMember { house_id: house.clone(), agent_id: bot, role: Role::Member };
        commands.execute(Actor::System, add, None).await.unwrap();
        Self { commands, house, owner, bot }
    }

    async fn thread(&self, parent: Option<ThreadId>) -> ThreadId {
        let create = CreateThread {
            house_id: self.house.clone(),
            thread_id: None,
            name: None,
            parent_thread_id: parent,
            parent_agent_id: None,
            environment_id: None,
            sandbox_id: None,
            agent_id: None,
            tags: Vec::new(),
            pinned: false,
        };
        self.commands.execute(Actor::System, create, None).await.unwrap().made.thread_id.unwrap()
    }

    async fn say(&self, thread: &ThreadId, author: AgentId, text: &str) {
        let payload = Json::of(&json!({ "text": text })).unwrap();
        let entry = AppendEntry { thread_id: thread.clone(), author_agent_id: Some(author), kind: "chat".into(), v: 1, payload };
        self.commands.execute(Actor::System, entry, None).await.unwrap();
    }
}

fn talk(library: &Library) -> [ThreadId; 2] {
    library.write(".claude/projects/-srv-demo/7acd37a8-2745-4b58-a8a9-46164b22ad9e.jsonl", again::said("u1", "/srv/demo", "one"));
    library.sync("claude-code");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = StoreUrl::File(library.directory.path().join("data/log")).open(&[], true).unwrap();
        let log = Log::open(store, Options::default()).await.unwrap();
        let talk = Talk::on(&log).await;
        let thread = talk.thread(None).await;
        talk.say(&thread, talk.owner, SAID).await;
        talk.say(&thread, talk.bot, ANSWERED).await;
        let delegated = talk.thread(Some(thread.clone())).await;
        talk.say(&delegated, talk.owner, DELEGATED).await;
        drop(talk);
        log.close().await;
        [thread, delegated]
    })
}

#[test]
fn a_live_thread_goes_on_in_every_client_with_those_delegated_from_it() {
    let library = Library::new();
    let [thread, _] = talk(&library);
    let home = library.directory.path().join("elsewhere");
    for client in ["claude-code", "codex", "opencode", "pi"] {
        let resumed = &library.json(&["resume", thread.as_str(), "--with", client, "--home", home.to_str().unwrap()])[0];
        assert_eq!(resumed["native"], false, "{resumed}");
        assert!(resumed["command"].as_str().is_some_and(|command| !command.is_empty()));
        let files = resumed["files"].as_array().unwrap();
        let read = |file: &serde_json::Value| std::fs::read_to_string(file.as_str().unwrap()).unwrap();
        let text: String = files.iter().map(read).collect();
        for said in [SAID, ANSWERED, DELEGATED] {
            assert!(text.contains(said), "{client}: {said}: {text}");
        }
    }
}

#[test]
fn a_live_thread_is_restored_by_what_the_log_holds_now() {
    let library = Library::new();
    let [_, delegated] = talk(&library);
    let out = library.directory.path().join("out");
    let restored = &library.json(&["restore", delegated.as_str(), "--to", "pi", "--dir", out.to_str().unwrap()])[0];
    let text = std::fs::read_to_string(restored["files"][0].as_str().unwrap()).unwrap();
    assert!(text.contains(DELEGATED) && !text.contains(SAID), "{text}");
    let nobody = library.arbe(&["restore", "t-nobody", "--to", "pi"]);
    assert_eq!(nobody.status.code(), Some(3));
}
