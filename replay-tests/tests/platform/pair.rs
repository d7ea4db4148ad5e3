//! Two real servers on one store and one Postgres, and clients that insist.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use replay_tests::servers::{ArbeServer, arbe_binary};
use replay_tests::soak::http::{Response, request};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::postgres::{Ground, ground};

const PATIENCE: Duration = Duration::from_secs(60);

pub struct Pair {
    pub servers: [Mutex<ArbeServer>; 2],
    urls: RwLock<[Option<String>; 2]>,
    token: String,
    pub house: String,
    database: String,
    store: String,
    pub stop: AtomicBool,
    asked: AtomicU64,
    _ground: Ground,
    _directory: TempDir,
}

/// What a writer was told is so.
#[derive(Debug, Default)]
pub struct Told {
    pub threads: Vec<(String, String)>,
    pub said: Vec<(String, String)>,
    pub position: u64,
}

impl Pair {
    /// `None` if tests without Postgres are to be skipped.
    pub fn start() -> Option<Self> {
        let ground = Runtime::new().unwrap().block_on(ground())?;
        let (socket, name) = (ground.options.get_socket().unwrap(), ground.options.get_database().unwrap());
        let database = format!("postgres://arbe@localhost/{name}?host={}", socket.display());
        let directory = tempfile::tempdir().unwrap();
        let store = format!("file://{}", directory.path().join("store").display());
        let env = [("ARBE_DATABASE_URL".to_owned(), database.clone())];
        let servers = [(); 2].map(|()| ArbeServer::start(&store, &env, &[]).unwrap());
        let token = std::fs::read_to_string(servers[0].data_dir().join("owner-token")).unwrap().trim().to_owned();
        let urls = RwLock::new(servers.each_ref().map(|server| Some(server.url().to_owned())));
        let mut pair = Self {
            servers: servers.map(Mutex::new),
            urls,
            token,
            house: String::new(),
            database,
            store,
            stop: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            _ground: ground,
            _directory: directory,
        };
        let me = pair.get(0, "/api/me").unwrap();
        pair.house = me["houses"][0]["house_id"].as_str().unwrap().to_owned();
        Some(pair)
    }

    fn send(&self, server: usize, method: &str, path: &str, key: Option<&str>, body: &str) -> Option<Response> {
        let url = self.urls.read()[server].clone()?;
        let mut headers = vec![("Authorization", format!("Bearer {}", self.token))];
        headers.extend(key.map(|key| ("Idempotency-Key", key.to_owned())));
        headers.extend((!body.is_empty()).then(|| ("Content-Type", "application/json".to_owned())));
        request(&url, method, path, &headers, body.as_bytes()).ok()
    }

    /// `None` if the server is not there or not well.
    pub fn get(&self, server: usize, path: &str) -> Option<Value> {
        let response = self.send(server, "GET", path, None, "")?;
        (response.status == 200).then(|| serde_json::from_slice(&response.body).unwrap())
    }

    /// Asks either server until one says yes. A no is a failure of the test.
    pub fn insist(&self, path: &str, key: &str, body: &Value) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let mut last = String::new();
        while Instant::now() < deadline {
            let server = self.asked.fetch_add(1, Ordering::Relaxed) as usize % 2;
            match self.send(server, "POST", path, Some(key), &body.to_string()) {
                Some(response) if response.status < 300 => return serde_json::from_slice(&response.body).unwrap(),
                Some(response) if response.status < 500 => {
                    panic!("{path} {body}: {} {}", response.status, String::from_utf8_lossy(&response.body))
                }
                Some(response) => last = format!("{} {}", response.status, String::from_utf8_lossy(&response.body)),
                None => {}
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{path} {body}: nobody answers; last: {last}")
    }

    /// Makes threads and talks in them until told to stop.
    pub fn write(&self, writer: usize) -> Told {
        let mut told = Told::default();
        for number in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let text = format!("{writer}/{number}");
            let done = if number % 8 == 0 {
                let done = self.insist("/api/threads", &text, &json!({ "house_id": self.house, "name": text, "tags": ["t"] }));
                told.threads.push((done["thread_id"].as_str().unwrap().to_owned(), text));
                done
            } else {
                let thread = told.threads.last().unwrap().0.clone();
                let done = self.insist(&format!("/api/threads/{thread}/entries"), &text, &json!({ "text": text }));
                told.said.push((thread, text));
                done
            };
            told.position = told.position.max(done["position"].as_u64().unwrap());
        }
        told
    }

    pub fn state(&self, server: usize) -> Option<String> {
        let found = self.get(server, "/api/projections")?;
        Some(found["items"][0]["state"].as_str().unwrap().to_owned())
    }

    pub fn active(&self) -> Option<usize> {
        (0..2).find(|server| self.state(*server).as_deref() == Some("active"))
    }

    pub fn kill_and_restart(&self, victim: usize, pause: Duration) {
        let mut server = self.servers[victim].lock();
        self.urls.write()[victim] = None;
        server.kill9().unwrap();
        std::thread::sleep(pause);
        server.restart().unwrap();
        self.urls.write()[victim] = Some(server.url().to_owned());
    }

    /// All threads that a server lists, each as its row.
    pub fn threads(&self, server: usize, position: u64) -> Vec<Value> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(server, &format!("/api/threads?limit=200&min_position={position}{cursor}")).unwrap();
            all.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }

    /// What was said in a thread, as one server tells it.
    pub fn said(&self, server: usize, thread: &str, position: u64) -> Vec<String> {
        let page = self.get(server, &format!("/api/threads/{thread}/entries?limit=200&min_position={position}")).unwrap();
        assert!(page["next"].is_null());
        let items = page["items"].as_array().unwrap();
        items.iter().filter_map(|item| item["payload"]["text"].as_str().map(str::to_owned)).collect()
    }

    /// A verb on the same store and rows, in a process of its own.
    pub fn verb(&self, verb: &str) -> Value {
        let mut command = Command::new(arbe_binary().unwrap());
        command.args([verb, "rows", "--json", "--store", &self.store, "--database-url", &self.database]);
        let done = command.stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{verb}: {}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice(&done.stdout).unwrap()
    }

    /// Nothing that was told is missing or there twice, on either server.
    pub fn holds(&self, told: &[Told]) {
        let position = told.iter().map(|one| one.position).max().unwrap();
        let [one, other] = [0, 1].map(|server| self.threads(server, position));
        assert_eq!(one, other, "both servers show the same rows");
        let mut names: Vec<_> = one.iter().map(|thread| thread["name"].as_str().unwrap()).collect();
        let mut expected: Vec<_> = told.iter().flat_map(|one| one.threads.iter().map(|(_, name)| name.as_str())).collect();
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected);
        for (thread, _) in told.iter().flat_map(|one| &one.threads) {
            let said = told.iter().flat_map(|one| &one.said).filter(|(there, _)| there == thread);
            let said: Vec<_> = said.map(|(_, text)| text.clone()).collect();
            assert_eq!(self.said(0, thread, position), said);
            assert_eq!(self.said(1, thread, position), said);
        }
    }
}
