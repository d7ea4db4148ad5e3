//! The whole of it, on a log in memory.

use std::time::Duration;

use axum::http::{StatusCode, header};
use event_log::{Append, Change, Command, Create, Payload, PeerError, PeerReply, Peers, Store, StoreUrl};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const BASE: &str = "http://127.0.0.1:4437";

fn memory() -> Store {
    StoreUrl::Memory.open(&[], true).unwrap()
}

/// Servers that reach each other without a network.
#[derive(Clone, Debug, Default)]
struct Neighbours(Arc<Mutex<Vec<(String, Log)>>>);

#[async_trait::async_trait]
impl Peers for Neighbours {
    async fn submit(&self, url: &str, command: &Command) -> Result<PeerReply, PeerError> {
        let log = self.0.lock().iter().find(|(known, _)| known == url).map(|(_, log)| log.clone());
        let log = log.ok_or_else(|| PeerError::Unreachable(url.to_owned()))?;
        Ok(log.submit_forwarded(command.clone()).await.into())
    }

    async fn is_alive(&self, url: &str) -> bool {
        self.0.lock().iter().any(|(known, _)| known == url)
    }
}

struct Server {
    log: Log,
    subscriptions: Subscriptions,
}

impl Server {
    async fn on(store: &Store) -> Self {
        Self::beside(store, "a", &Neighbours::default()).await
    }

    async fn beside(store: &Store, url: &str, neighbours: &Neighbours) -> Self {
        let peers = Arc::new(neighbours.clone());
        let log = Log::open(store.clone(), event_log::Options { url: url.into(), peers, ..Default::default() }).await.unwrap();
        neighbours.0.lock().push((url.into(), log.clone()));
        let subscriptions = Subscriptions::open(log.clone()).await.unwrap();
        Self { log, subscriptions }
    }

    async fn send(&self, method: Method, path: &str, body: Value, token: Option<&str>) -> (StatusCode, Value) {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        }
        let body = Bytes::from(body.to_string());
        let response = self.subscriptions.handle(&method, path, "", &headers, body, BASE).await;
        (response.status(), serde_json::from_slice(response.body()).unwrap_or(Value::Null))
    }

    async fn put(&self, id: &str, body: Value) -> StatusCode {
        self.send(Method::PUT, &format!("subscriptions/{id}"), body, None).await.0
    }

    async fn get(&self, id: &str) -> Value {
        self.send(Method::GET, &format!("subscriptions/{id}"), Value::Null, None).await.1
    }

    async fn claim(&self, id: &str, worker: &str) -> (StatusCode, Value) {
        self.send(Method::POST, &format!("subscriptions/{id}/claim"), json!({ "worker": worker }), None).await
    }

    /// Acknowledges everything a claim was told.
    async fn ack(&self, id: &str, claimed: &Value) -> (StatusCode, Value) {
        let streams = claimed["streams"].as_array().unwrap().iter();
        let acks: Vec<_> = streams.map(|s| json!({ "stream": s["path"], "offset": s["tail_offset"] })).collect();
        let body = json!({ "wake_id": claimed["wake_id"], "generation": claimed["generation"], "acks": acks, "done": true });
        self.send(Method::POST, &format!("subscriptions/{id}/ack"), body, claimed["token"].as_str()).await
    }

    async fn write(&self, stream: &str) {
        let payload = Ok(Payload::messages(["{}"]));
        let change = match self.log.head(stream) {
            Ok(_) => Change::Append(Append { content_type: None, payload, producer: None, stream_seq: None, close: false }),
            Err(_) => Change::Create(json_stream(Some(payload))),
        };
        self.log.submit(Command::one(stream, change)).await.unwrap();
    }

    async fn make(&self, stream: &str) {
        self.log.submit(Command::one(stream, Change::Create(json_stream(None)))).await.unwrap();
    }
}

fn json_stream(payload: Option<Result<Payload, event_log::BadBody>>) -> Create {
    Create { content_type: Some("application/json".into()), payload, ..Create::default() }
}

fn pull_wake() -> Value {
    json!({ "type": "pull-wake", "pattern": "e/*", "wake_stream": "wake", "lease_ttl_ms": 1_000 })
}

async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    for _ in 0..1_000 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never happened: {what}");
}

fn wakes(log: &Log) -> u64 {
    log.head("wake").map_or(0, |(head, _)| head.tail)
}

#[tokio::test]
async fn a_claim_finds_a_stream_that_was_made_a_moment_ago() {
    let server = Server::on(&memory()).await;
    server.make("wake").await;
    assert_eq!(server.put("s", pull_wake()).await, StatusCode::CREATED);
    assert_eq!(server.put("s", pull_wake()).await, StatusCode::OK);
    for round in 0..20 {
        server.write(&format!("e/{round}")).await;
        let (status, claimed) = server.claim("s", "w").await;
        assert_eq!(status, StatusCode::OK, "{claimed}");
        assert_eq!(server.claim("s", "x").await.1["error"]["code"], "ALREADY_CLAIMED");
        assert_eq!(server.ack("s", &claimed).await, (StatusCode::OK, json!({ "ok": true, "next_wake": false })));
        assert_eq!(server.ack("s", &claimed).await.1["error"]["code"], "FENCED");
        assert_eq!(server.claim("s", "w").await.1["error"]["code"], "NO_PENDING_WORK");
    }
}

#[tokio::test]
async fn a_claim_and_the_key_outlive_the_server() {
    let store = memory();
    let first = Server::on(&store).await;
    first.make("wake").await;
    first.put("s", pull_wake()).await;
    first.write("e/a").await;
    let (_, claimed) = first.claim("s", "w").await;
    let keys = first.send(Method::GET, "jwks.json", Value::Null, None).await;
    first.subscriptions.close().await;
    first.log.close().await;
    drop(first.subscriptions);

    let second = Server::on(&store).await;
    assert_eq!(second.send(Method::GET, "jwks.json", Value::Null, None).await, keys);
    assert_eq!(second.claim("s", "x").await.1["error"]["current_holder"], "w");
    assert_eq!(second.ack("s", &claimed).await.0, StatusCode::OK);
    assert_eq!(second.get("s").await["streams"][0]["acked_offset"], claimed["streams"][0]["tail_offset"]);
}

#[tokio::test]
async fn of_workers_at_two_servers_one_claims_each_wake() {
    let (store, neighbours) = (memory(), Neighbours::default());
    let (a, b) = (Server::beside(&store, "a", &neighbours).await, Server::beside(&store, "b", &neighbours).await);
    a.make("wake").await;
    a.put("s", pull_wake()).await;
    for round in 0..10 {
        let (writer, other) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        writer.write("e/a").await;
        let claims = tokio::join!(a.claim("s", "1"), b.claim("s", "2"), a.claim("s", "3"), b.claim("s", "4"));
        let claims = [claims.0, claims.1, claims.2, claims.3];
        let won: Vec<_> = claims.iter().filter(|(status, _)| *status == StatusCode::OK).collect();
        assert_eq!(won.len(), 1, "{claims:?}");
        assert_eq!(other.ack("s", &won[0].1).await.0, StatusCode::OK);
    }
    assert_eq!(a.get("s").await, b.get("s").await);
}

#[tokio::test]
async fn a_wake_waits_for_its_wake_stream_and_a_lease_that_runs_out_wakes_again() {
    let server = Server::on(&memory()).await;
    server.put("s", pull_wake()).await;
    server.write("e/a").await;
    eventually("the stream is linked", async || server.get("s").await["streams"][0]["path"] == "e/a").await;
    server.make("wake").await;
    eventually("the first wake", async || wakes(&server.log) == 1).await;
    let (status, claimed) = server.claim("s", "w").await;
    assert_eq!((status, &claimed["generation"]), (StatusCode::OK, &json!(1)));
    eventually("the second wake", async || wakes(&server.log) == 2).await;
    assert_eq!(server.ack("s", &claimed).await.1["error"]["code"], "FENCED");
}

#[tokio::test]
async fn streams_and_subscriptions_that_are_deleted_are_let_go() {
    let server = Server::on(&memory()).await;
    server.make("wake").await;
    server.put("s", pull_wake()).await;
    server.write("e/a").await;
    eventually("the wake", async || wakes(&server.log) == 1).await;
    server.log.submit(Command::one("e/a", Change::Delete)).await.unwrap();
    eventually("the link is gone", async || server.get("s").await["streams"] == json!([])).await;
    let delete = || server.send(Method::DELETE, "subscriptions/s", Value::Null, None);
    assert_eq!((delete().await.0, delete().await.0), (StatusCode::NO_CONTENT, StatusCode::NO_CONTENT));
    assert_eq!(server.claim("s", "w").await.1["error"]["code"], "SUBSCRIPTION_NOT_FOUND");
}

/// Answers one request after the other, with the next of `replies`; gives back what it was sent.
fn receiver(listener: TcpListener, replies: &'static [(&'static str, &'static str)]) -> mpsc::UnboundedReceiver<Value> {
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for (status, reply) in replies {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            let body = loop {
                stream.read_buf(&mut request).await.unwrap();
                let text = std::str::from_utf8(&request).unwrap();
                let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
                if let Some(body) = body.and_then(|body| serde_json::from_str::<Value>(body).ok()) {
                    break body;
                }
            };
            let response = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{reply}", reply.len());
            stream.write_all(response.as_bytes()).await.unwrap();
            sender.send(body).unwrap();
        }
    });
    received
}

#[tokio::test]
async fn a_webhook_is_retried_until_it_is_done() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let mut received = receiver(listener, &[("500 Oops", ""), ("302 Found", ""), ("200 OK", r#"{"done":true}"#)]);
    let server = Server::on(&memory()).await;
    let hook = json!({ "type": "webhook", "pattern": "e/*", "webhook": { "url": url } });
    assert_eq!(server.put("a/b", hook).await, StatusCode::NOT_FOUND, "an id with a slash is sent encoded");
    let hook = json!({ "type": "webhook", "pattern": "e/*", "webhook": { "url": url } });
    assert_eq!(server.put("a%2Fb", hook).await, StatusCode::CREATED);
    server.write("e/a").await;
    let first = received.recv().await.unwrap();
    eventually("failed", async || server.get("a%2Fb").await["status"] == "failed").await;
    assert_eq!(first["subscription_id"], "a/b");
    assert_eq!(first["callback_url"], format!("{BASE}/v1/stream/__ds/subscriptions/a%2Fb/callback"));
    assert_eq!(first["streams"][0]["has_pending"], true);
    for _ in 0..2 {
        assert_eq!(received.recv().await.unwrap(), first, "a retry is the same wake");
    }
    let tail = &first["streams"][0]["tail_offset"];
    eventually("acked", async || server.get("a%2Fb").await["streams"][0]["acked_offset"] == *tail).await;
    assert_eq!(server.get("a%2Fb").await["status"], "active");
}
