//! Real servers on one store, killed at random while clients write: nothing acknowledged may be lost, doubled or moved.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub mod http;

use self::http::request;
use crate::s3::{Faults, S3Server};
use crate::servers::ArbeServer;
use crate::sim::rng::Rng;

const SERVERS: usize = 2;
const WRITERS: u64 = 16;
const SHARED: &str = "/v1/stream/soak/shared";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    File,
    S3,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub duration: Duration,
    pub store: StoreKind,
    pub seed: u64,
}

#[derive(Debug, Default)]
pub struct Outcome {
    pub acknowledged: u64,
    pub unknown: u64,
    pub kills: u64,
    pub problems: Vec<String>,
}

/// What a writer writes, and finds again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Message {
    writer: u64,
    number: u64,
}

struct Soak {
    servers: Vec<Mutex<ArbeServer>>,
    urls: Mutex<Vec<Option<String>>>,
    stop: AtomicBool,
    unknown: AtomicU64,
}

pub fn run(options: Options) -> Result<Outcome> {
    let directory = tempfile::tempdir()?;
    let s3 = (options.store == StoreKind::S3).then(|| S3Server::start(faults(options.seed))).transpose()?;
    let (store, env) = match &s3 {
        Some(s3) => (s3.store_url("soak"), s3.env()),
        None => (format!("file://{}", PathBuf::from(directory.path()).join("store").display()), Vec::new()),
    };
    let servers: Result<Vec<_>> = (0..SERVERS).map(|_| ArbeServer::start(&store, &env, &[]).map(Mutex::new)).collect();
    let servers = servers?;
    let urls = servers.iter().map(|server| Some(server.lock().url().to_owned())).collect();
    let soak = Soak { servers, urls: Mutex::new(urls), stop: AtomicBool::new(false), unknown: AtomicU64::new(0) };
    let mut outcome = Outcome::default();
    let told = std::thread::scope(|scope| -> Result<Vec<Vec<Told>>> {
        let killer = scope.spawn(|| soak.kill_at_random(options));
        let writers: Vec<_> = (0..WRITERS).map(|writer| (writer, &soak)).collect();
        let writers: Vec<_> = writers.into_iter().map(|(writer, soak)| scope.spawn(move || soak.write(writer))).collect();
        let told = writers.into_iter().map(|writer| writer.join().expect("a writer does not panic")).collect();
        outcome.kills = killer.join().expect("the killer does not panic")?;
        told
    })?;
    outcome.acknowledged = told.iter().flatten().filter(|told| told.acknowledged).count() as u64;
    outcome.unknown = soak.unknown.load(Ordering::Relaxed);
    for server in 0..SERVERS {
        let problems = soak.verify(server, &told)?;
        outcome.problems.extend(problems.into_iter().map(|problem| format!("server {server}: {problem}")));
    }
    Ok(outcome)
}

fn faults(seed: u64) -> Faults {
    let latency = Duration::from_millis(5);
    Faults {
        seed,
        conflict: 0.02,
        unavailable: 0.02,
        lost_reply: 0.02,
        dropped: 0.02,
        put_latency: latency,
        get_latency: latency,
        ..Faults::default()
    }
}

#[derive(Clone, Copy, Debug)]
struct Told {
    message: Message,
    acknowledged: bool,
}

fn own(writer: u64) -> String {
    format!("/v1/stream/soak/{writer}")
}

/// Every fourth writer shares a stream with the others; the rest have one each.
fn path(writer: u64) -> String {
    if writer.is_multiple_of(4) { SHARED.to_owned() } else { own(writer) }
}

impl Soak {
    fn kill_at_random(&self, options: Options) -> Result<u64> {
        let mut rng = Rng::new(options.seed);
        let deadline = Instant::now() + options.duration;
        let mut kills = 0;
        while Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(rng.within(300, 1_500)));
            let victim = rng.below(SERVERS as u64) as usize;
            let mut server = self.servers[victim].lock();
            server.kill9()?;
            self.urls.lock()[victim] = None;
            std::thread::sleep(Duration::from_millis(rng.below(600)));
            server.restart()?;
            self.urls.lock()[victim] = Some(server.url().to_owned());
            kills += 1;
        }
        self.stop.store(true, Ordering::Relaxed);
        Ok(kills)
    }

    fn url(&self, preferred: u64) -> String {
        loop {
            let urls = self.urls.lock().clone();
            let up = (0..SERVERS).map(|i| (preferred as usize + i) % SERVERS).find_map(|i| urls[i].clone());
            if let Some(url) = up {
                return url;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Writers with an odd number are idempotent producers and insist; the others ask once.
    fn write(&self, writer: u64) -> Result<Vec<Told>> {
        let (path, json) = (path(writer), ("Content-Type", "application/json".to_owned()));
        while !matches!(request(&self.url(writer), "PUT", &path, std::slice::from_ref(&json), b""), Ok(r) if r.status < 300) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut told = Vec::new();
        let mut attempts = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let message = Message { writer, number: told.len() as u64 };
            let insists = writer % 2 == 1;
            let mut headers = vec![json.clone()];
            if insists {
                headers.push(("Producer-Id", format!("writer-{writer}")));
                headers.push(("Producer-Epoch", "0".to_owned()));
                headers.push(("Producer-Seq", message.number.to_string()));
            }
            let acknowledged = loop {
                attempts += 1;
                let answer = request(&self.url(writer + attempts / 64), "POST", &path, &headers, &serde_json::to_vec(&message)?);
                match answer {
                    Ok(response) if response.status == 200 || response.status == 204 => break true,
                    Ok(response) if response.status < 500 => {
                        bail!("{message:?} was refused with {}: {}", response.status, String::from_utf8_lossy(&response.body))
                    }
                    Ok(_) | Err(_) => {
                        self.unknown.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(10));
                        if !insists {
                            break false;
                        }
                    }
                }
            };
            told.push(Told { message, acknowledged });
        }
        Ok(told)
    }

    fn verify(&self, server: usize, told: &[Vec<Told>]) -> Result<Vec<String>> {
        let url = self.urls.lock()[server].clone().context("every server is up at the end")?;
        let mut problems = Vec::new();
        let shared = read(&url, SHARED)?;
        for (writer, told) in (0..).zip(told) {
            let path = path(writer);
            let all = if path == SHARED { shared.clone() } else { read(&url, &path)? };
            let found: Vec<u64> = all.iter().filter(|message| message.writer == writer).map(|message| message.number).collect();
            if !found.is_sorted_by(|a, b| a < b) {
                problems.push(format!("{path} holds messages of {writer} twice or out of order"));
            }
            let missing = told.iter().filter(|t| t.acknowledged && found.binary_search(&t.message.number).is_err()).count();
            if missing > 0 {
                problems.push(format!("{path} lacks {missing} acknowledged messages of {writer}"));
            }
        }
        Ok(problems)
    }
}

fn read(url: &str, path: &str) -> Result<Vec<Message>> {
    let mut all = Vec::new();
    let mut offset = "-1".to_owned();
    loop {
        let page = request(url, "GET", &format!("{path}?offset={offset}"), &[], b"")?;
        if page.status != 200 {
            bail!("{path} at {offset} gives {}", page.status);
        }
        all.extend(serde_json::from_slice::<Vec<Message>>(&page.body)?);
        if page.header("stream-up-to-date").is_some() {
            return Ok(all);
        }
        offset = page.header("stream-next-offset").context("a page says where the next begins")?.to_owned();
    }
}
