//! A house with a bot, an environment and a chat, and what can be asked and seen there.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use replay_tests::model::{Conversation, Role};
use serde_json::{Value, json};

use crate::machine::Machine;
use crate::scene::{PATIENCE, Scene, until, within};
use crate::story::Story;

/// Whoever measures time is alone.
static TURN: RwLock<()> = RwLock::new(());

pub enum Turn {
    Shared(#[expect(dead_code, reason = "held")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'static, ()>),
}

pub struct House {
    pub scene: Arc<Scene>,
    pub id: String,
    pub bot: String,
    pub environment: String,
    pub chat: String,
    _turn: Turn,
}

/// What makes the model call pi's shell.
pub fn bash(command: &str) -> String {
    format!("TOOL: bash {}", json!({ "command": command }))
}

pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

impl House {
    /// On a server that other tests use too.
    pub fn start() -> Option<Self> {
        let turn = Turn::Shared(TURN.read());
        Some(Self::settle(Scene::shared()?, turn, &json!({})))
    }

    /// On a server that can be killed.
    pub fn apart(flags: &[&str], recipe: &Value) -> Option<Self> {
        let turn = Turn::Shared(TURN.read());
        Some(Self::settle(Arc::new(Scene::start(flags)?), turn, recipe))
    }

    /// While no other test runs.
    pub fn alone() -> Option<Self> {
        let turn = Turn::Alone(TURN.write());
        Some(Self::settle(Scene::shared()?, turn, &json!({})))
    }

    fn settle(scene: Arc<Scene>, turn: Turn, recipe: &Value) -> Self {
        let id = scene.make("/api/houses", &json!({ "name": "workshop" }), "house_id");
        let bot = scene.make("/api/agents", &json!({ "kind": "bot", "runtime": "pi", "name": "Pia" }), "agent_id");
        scene.ask("POST", &format!("/api/houses/{id}/members"), &json!({ "agent_id": bot, "role": "member" }));
        let config = json!({ "house_id": id, "name": "usual", "config": recipe });
        let environment = scene.make("/api/environments", &config, "environment_id");
        scene.ask("PATCH", &format!("/api/houses/{id}"), &json!({ "default_environment_id": environment }));
        let chat = scene.make("/api/threads", &json!({ "house_id": id }), "thread_id");
        Self { scene, id, bot, environment, chat, _turn: turn }
    }

    pub fn delegate(&self, prompt: &str) -> String {
        self.delegate_with(json!({ "prompt": prompt }))
    }

    pub fn delegate_with(&self, mut task: Value) -> String {
        task["agent_id"] = json!(self.bot);
        self.scene.make(&format!("/api/threads/{}/delegate", self.chat), &task, "thread_id")
    }

    pub fn say(&self, thread: &str, text: &str) {
        self.scene.ask("POST", &format!("/api/threads/{thread}/entries"), &json!({ "text": text }));
    }

    /// One command on the thread's own machine.
    pub fn command(&self, thread: &str, command: &str) -> Value {
        self.scene.ask("POST", &format!("/api/threads/{thread}/commands"), &json!({ "command": command, "timeout": 10 }))
    }

    /// The whole thread, and the position up to which it is whole.
    fn read(&self, thread: &str) -> (Story, u64) {
        let (mut entries, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.scene.get(&format!("/api/threads/{thread}/entries?limit=200{after}"));
            entries.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return (Story(entries), page["position"].as_u64().unwrap()),
            }
        }
    }

    pub fn story(&self, thread: &str) -> Story {
        self.read(thread).0
    }

    pub fn until<T>(&self, thread: &str, what: &str, mut look: impl FnMut(&Story) -> Option<T>) -> T {
        let found = within(PATIENCE, || look(&self.story(thread)));
        found.unwrap_or_else(|| {
            let (story, log) = (self.story(thread).told(), self.scene.last_words());
            panic!("it does not come about that {what}; the thread says\n{story}\nand the server\n{log}")
        })
    }

    /// Waits for the end of the thread's nth run. The row of the thread says the same as its stream.
    pub fn ended(&self, thread: &str, nth: usize) -> Story {
        self.until(thread, &format!("run {nth} has ended"), |story| (story.ends().len() >= nth).then_some(()));
        let (story, position) = self.read(thread);
        let row = self.scene.get(&format!("/api/threads/{thread}?min_position={position}"));
        assert_eq!(row["status"].as_str(), story.statuses().last().copied(), "{}", story.told());
        assert_eq!(row["sandbox_id"].as_str(), story.sandbox(), "{}", story.told());
        story
    }

    /// The same of one that is to complete its work.
    pub fn completed(&self, thread: &str, nth: usize) -> Story {
        let story = self.ended(thread, nth);
        assert_eq!(story.ends().last(), Some(&"completed"), "{}\n{}", story.told(), self.scene.last_words());
        story
    }

    /// Why the thread's nth run failed, as the class and the words of its cause.
    pub fn failed(&self, thread: &str, nth: usize) -> (String, String) {
        let story = self.ended(thread, nth);
        assert_eq!(story.ends().last(), Some(&"failed"), "{}", story.told());
        let cause = story.causes().pop().unwrap_or_else(|| panic!("no cause is told:\n{}", story.told()));
        assert_eq!(cause["run_id"], story.run(), "{}", story.told());
        (cause["error_class"].as_str().unwrap().to_owned(), cause["message"].as_str().unwrap().to_owned())
    }

    /// The machine that a thread stands on.
    pub fn machine(&self, thread: &str) -> Machine {
        self.scene.machine(&self.until(thread, "it has a sandbox", |story| story.sandbox().map(str::to_owned)))
    }

    /// Waits until a file with a line in it is in the thread's tree, as a sign of its tool.
    pub fn in_a_tool(&self, thread: &str, file: &str) -> Machine {
        let machine = self.machine(thread);
        until(&format!("{file} is written"), || machine.file(file).filter(|text| text.ends_with('\n')));
        machine
    }

    /// The last request to the model in which these words are the last that a person said.
    pub fn asked(&self, words: &str) -> Conversation {
        let last = |it: &Conversation| it.texts(Role::User).last().is_some_and(|text| text.contains(words));
        self.scene.model.requests().into_iter().rfind(last).unwrap_or_else(|| panic!("the model was not asked {words:?}"))
    }
}

/// An ERROR in the server's log is a failure, whoever caused it.
impl Drop for House {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let log = self.scene.log();
            let errors: Vec<_> = log.lines().filter(|line| line.contains("ERROR")).collect();
            assert!(errors.is_empty(), "{errors:#?}");
        }
    }
}
