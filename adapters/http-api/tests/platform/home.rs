//! A house of Ada's with a bot, a recipe and a chat; and looks at the log and the rows beside the API.

use std::collections::BTreeSet;

use event_log::{Cursor, From};
use events::HouseId;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use crate::town::{Person, Reply, Setup, Town};

pub struct Home {
    pub town: Town,
    pub ada: Person,
    pub bob: Person,
    pub bot: Person,
    pub house: String,
    pub environment: String,
    pub chat: String,
}

impl Home {
    pub async fn start() -> Option<Self> {
        Self::with(Setup::default()).await
    }

    pub async fn with(setup: Setup) -> Option<Self> {
        let town = Town::with(setup).await?;
        let (ada, bob) = (town.ada.clone(), town.bob.clone());
        let house = town.make(&ada, "/api/houses", &json!({ "name": "home" }), "house_id").await;
        let bot = town.make(&ada, "/api/agents", &json!({ "kind": "bot", "runtime": "pi" }), "agent_id").await;
        let key = town.make(&ada, &format!("/api/agents/{bot}/keys"), &json!({}), "key").await;
        let bot = Person { id: bot.parse().unwrap(), key };
        let recipe = json!({ "house_id": house, "name": "rust", "config": { "image": "debian" } });
        let environment = town.make(&ada, "/api/environments", &recipe, "environment_id").await;
        let chat = town.make(&ada, "/api/threads", &json!({ "house_id": house }), "thread_id").await;
        let home = Self { town, ada, bob, bot: bot.clone(), house, environment, chat };
        home.join(&bot).await;
        Some(home)
    }

    pub async fn end(self) {
        self.town.end().await;
    }

    /// What is asked for succeeds.
    pub async fn ask(&self, who: &Person, method: &str, path: &str, body: Value) -> Value {
        let body = (!body.is_null()).then(|| body.to_string());
        let reply = self.town.send(&who.key, method, path, body.as_deref(), &[]).await;
        assert!((200..300).contains(&reply.status), "{method} {path}: {reply:?}");
        reply.json()
    }

    pub async fn post(&self, who: &Person, path: &str, body: Value) -> Value {
        self.ask(who, "POST", path, body).await
    }

    /// What is asked for is refused with this code, and nothing is appended to any stream.
    pub async fn refused(&self, who: &Person, method: &str, path: &str, body: Value) -> String {
        let (before, body) = (self.town.log.position(), (!body.is_null()).then(|| body.to_string()));
        let reply = self.town.send(&who.key, method, path, body.as_deref(), &[]).await;
        assert!((400..500).contains(&reply.status), "{method} {path}: {reply:?}");
        assert_eq!(self.town.log.position(), before, "{method} {path}");
        reply.code().1
    }

    /// An answer that includes everything there is.
    pub async fn get(&self, who: &Person, path: &str) -> Reply {
        let mark = if path.contains('?') { '&' } else { '?' };
        self.town.get(who, &format!("{path}{mark}min_position={}", self.town.log.position())).await
    }

    pub async fn see(&self, path: &str) -> Value {
        let reply = self.get(&self.ada, path).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply.json()
    }

    pub async fn join(&self, who: &Person) {
        let member = json!({ "agent_id": who.id.to_string(), "role": "member" });
        self.post(&self.ada, &format!("/api/houses/{}/members", self.house), member).await;
    }

    pub async fn set_default(&self, environment: &str) {
        let default = json!({ "default_environment_id": environment });
        self.ask(&self.ada, "PATCH", &format!("/api/houses/{}", self.house), default).await;
    }

    pub async fn thread(&self, mut body: Value) -> String {
        body["house_id"] = json!(self.house);
        self.town.make(&self.ada, "/api/threads", &body, "thread_id").await
    }

    /// A thread that the bot drives.
    pub async fn driven(&self) -> String {
        self.thread(json!({ "agent_id": self.bot.id.to_string() })).await
    }

    pub async fn delegate(&self, mut task: Value) -> String {
        task["agent_id"] = json!(self.bot.id.to_string());
        self.town.make(&self.ada, &format!("/api/threads/{}/delegate", self.chat), &task, "thread_id").await
    }

    pub async fn sandbox(&self, mut body: Value) -> String {
        (body["house_id"], body["provider"]) = (json!(self.house), json!("local"));
        self.town.make(&self.ada, "/api/sandboxes", &body, "sandbox_id").await
    }

    pub async fn mark(&self, sandbox: &str, what: &str, body: Value) {
        self.post(&self.ada, &format!("/api/sandboxes/{sandbox}/{what}"), body).await;
    }

    pub async fn say(&self, who: &Person, thread: &str, text: &str) {
        self.post(who, &format!("/api/threads/{thread}/entries"), json!({ "text": text })).await;
    }

    pub async fn tell(&self, who: &Person, thread: &str, kind: &str, payload: Value) {
        self.post(who, &format!("/api/threads/{thread}/entries"), json!({ "type": kind, "payload": payload })).await;
    }

    pub async fn start_run(&self, who: &Person, thread: &str) -> String {
        let run = self.post(who, &format!("/api/threads/{thread}/runs"), Value::Null).await;
        run["run_id"].as_str().unwrap().to_owned()
    }

    pub async fn finish_run(&self, thread: &str, run: &str, how: Value) {
        self.post(&self.bot, &format!("/api/threads/{thread}/runs/{run}/finish"), how).await;
    }

    /// Straight from the log.
    pub async fn entries(&self, thread: &str) -> Vec<Value> {
        self.stream(&format!("arbe-thread-{thread}")).await
    }

    pub async fn stream(&self, name: &str) -> Vec<Value> {
        let page = self.town.log.read(name, From::Start, usize::MAX).await.unwrap();
        serde_json::from_slice(&[b"[".as_slice(), &page.chunks.join(&b','), b"]"].concat()).unwrap()
    }

    pub async fn kinds(&self, thread: &str) -> Vec<String> {
        self.entries(thread).await.iter().map(|entry| entry["type"].as_str().unwrap().to_owned()).collect()
    }

    /// The streams of the commit in which a stream begins.
    pub async fn commit_of(&self, stream: &str) -> BTreeSet<String> {
        let mut follower = self.town.log.follow(Cursor::default()).await.unwrap();
        while let Some(commit) = follower.try_next().await.unwrap() {
            let streams: BTreeSet<_> = commit.records().iter().map(|record| record.stream.to_string()).collect();
            if streams.contains(stream) {
                return streams;
            }
        }
        panic!("{stream} is not in the log");
    }

    /// Straight from the rows, as a reader of this house.
    pub async fn rows(&self, query: &str) -> Vec<Value> {
        self.rows_of(&self.house, query).await
    }

    pub async fn rows_of(&self, house: &str, query: &str) -> Vec<Value> {
        self.see("/api/projections").await;
        let mut tx = self.town.rows.read(&HouseId::new(house).unwrap()).await.unwrap();
        let query = AssertSqlSafe(format!("select to_jsonb(t)::text from ({query}) t"));
        let rows: Vec<String> = sqlx::query_scalar(query).fetch_all(&mut *tx).await.unwrap();
        rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect()
    }

    /// The row of a thread, which the API shows too.
    pub async fn row(&self, thread: &str) -> Value {
        let row = self.rows(&format!("select * from threads where id = '{thread}'")).await.remove(0);
        let shown = self.see(&format!("/api/threads/{thread}")).await;
        for column in ["status", "environment_id", "sandbox_id", "agent_id", "parent_thread_id", "tags", "name", "stream_id"] {
            assert_eq!(row[column], shown[column], "{column}");
        }
        row
    }

    /// How a thread stands, by its row, by the API and by the last word of its stream.
    pub async fn status(&self, thread: &str) -> String {
        let row = self.row(thread).await;
        let entries = self.entries(thread).await;
        let told = entries.iter().rev().find(|entry| entry["type"] == "signal.thread.status_changed");
        let born = if row["agent_id"].is_null() { json!("open") } else { json!("idle") };
        assert_eq!(told.map_or(&born, |entry| &entry["payload"]["status"]), &row["status"]);
        row["status"].as_str().unwrap().to_owned()
    }

    /// What drivers have to do, as `kind subject`.
    pub async fn pending(&self) -> Vec<String> {
        let rows = self.rows("select kind || ' ' || subject as work from pending order by 1").await;
        rows.iter().map(|row| row["work"].as_str().unwrap().to_owned()).collect()
    }
}
