//! Wrong input of every kind gets its documented status and changes nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use event_log::{Log, Options, StoreUrl};
use futures::StreamExt;
use http_api::{App, Server};
use reqwest::{Client, Method, RequestBuilder, Response};
use tokio::net::TcpListener;
use tokio::sync::watch;

struct Running {
    url: String,
    log: Log,
    client: Client,
    _stop: watch::Sender<bool>,
}

async fn start(options: http_api::Options) -> Running {
    let store = StoreUrl::Memory.open(&[], true).unwrap();
    let log = Log::open(store, Options::default()).await.unwrap();
    let app: Arc<App> = App::open(log.clone(), None, options).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(http_api::serve(Server::new(listener, address, app), stopped));
    Running { url: format!("http://{address}/v1/stream/"), log, client: Client::new(), _stop: stop }
}

async fn quick() -> Running {
    start(http_api::Options { long_poll_timeout: Duration::from_millis(200), ..http_api::Options::default() }).await
}

impl Running {
    fn ask(&self, method: &str, path: &str) -> RequestBuilder {
        self.client.request(Method::from_bytes(method.as_bytes()).unwrap(), format!("{}{path}", self.url))
    }

    async fn make(&self, path: &str, content_type: &str, body: &'static str) {
        let response = self.ask("PUT", path).header("content-type", content_type).body(body).send().await.unwrap();
        assert_eq!(response.status(), 201);
    }

    async fn text(&self, path: &str) -> String {
        self.ask("GET", path).send().await.unwrap().text().await.unwrap()
    }
}

async fn code(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let body: serde_json::Value = response.json().await.unwrap_or_default();
    (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_wrong_append_is_refused_and_changes_nothing() {
    let server = quick().await;
    server.make("text", "text/plain", "x").await;
    server.make("json", "application/json", "[1]").await;
    server.make("closed", "text/plain", "x").await;
    server.ask("POST", "closed").header("stream-closed", "true").send().await.unwrap();
    let before = server.log.position();

    let plain = |path| server.ask("POST", path).header("content-type", "text/plain");
    let json = |path| server.ask("POST", path).header("content-type", "application/json");
    let cases = [
        ("no such stream", plain("nope").body("x"), 404),
        ("no such stream, empty body", plain("nope"), 404),
        ("empty body", plain("text"), 400),
        ("no content type", server.ask("POST", "text").body("x"), 400),
        ("another content type", json("text").body("{}"), 409),
        ("closed", plain("closed").body("x"), 409),
        ("closed beats content type", json("closed").body("x"), 409),
        ("bad JSON", json("json").body("{bad"), 400),
        ("two JSON values", json("json").body("1 2"), 400),
        ("empty array", json("json").body("[]"), 400),
        ("producer id alone", plain("text").header("producer-id", "p").body("x"), 400),
        ("producer without id", plain("text").header("producer-epoch", "0").header("producer-seq", "0").body("x"), 400),
        ("empty producer id", stamped(plain("text"), "", "0", "0").body("x"), 400),
        ("epoch not a number", stamped(plain("text"), "p", "a", "0").body("x"), 400),
        ("negative seq", stamped(plain("text"), "p", "0", "-1").body("x"), 400),
        ("seq beyond 2^53", stamped(plain("text"), "p", "0", "9007199254740992").body("x"), 400),
        ("unknown producer not at 0", stamped(plain("text"), "p", "0", "3").body("x"), 409),
        ("If-Match not an offset", plain("text").header("if-match", "x").body("x"), 400),
        ("If-Match elsewhere", plain("text").header("if-match", "\"0000000000000000_0000000000000009\"").body("x"), 412),
        ("control character in the path", plain("a%00b").body("x"), 400),
        ("path not UTF-8", plain("%ff").body("x"), 400),
        ("reserved path in disguise", plain("%5F_ds/subscriptions").body("x"), 404),
        ("unknown method", server.ask("PATCH", "text").body("x"), 405),
    ];
    for (what, request, status) in cases {
        let (got, code) = code(request.send().await.unwrap()).await;
        assert_eq!(got, status, "{what}: {code}");
        assert!(!code.is_empty(), "{what} has no code");
    }
    let large = plain("closed").body("x".repeat(2 << 20)).send().await.unwrap();
    assert_eq!(large.status(), 409);
    let objects = &server.log.store().objects;
    let blobs: Vec<_> = objects.list(Some(&"blobs".into())).collect().await;
    assert!(blobs.is_empty(), "a refused payload is not kept");
    assert_eq!(server.log.position(), before, "nothing was written");
    assert_eq!(server.text("text").await, "x");
}

fn stamped(request: RequestBuilder, id: &str, epoch: &str, seq: &str) -> RequestBuilder {
    request.header("producer-id", id).header("producer-epoch", epoch).header("producer-seq", seq)
}

#[tokio::test]
async fn a_wrong_creation_is_refused_and_creates_nothing() {
    let server = quick().await;
    server.make("source", "text/plain", "hello").await;
    let before = server.log.position();
    let put = |name: &str| server.ask("PUT", name).header("content-type", "text/plain");
    let fork = || put("new").header("stream-forked-from", "/v1/stream/source");
    let mut cases = vec![
        ("both lifetimes", put("new").header("stream-ttl", "5").header("stream-expires-at", "2099-01-01T00:00:00Z"), 400),
        ("expiry not a time", put("new").header("stream-expires-at", "soon"), 400),
        ("bad JSON", server.ask("PUT", "new").header("content-type", "application/json").body("{"), 400),
        ("another configuration", server.ask("PUT", "source").header("content-type", "application/json"), 409),
        ("another TTL", put("source").header("stream-ttl", "9"), 409),
        ("closed differs", put("source").header("stream-closed", "true"), 409),
        ("fork of nothing", put("new").header("stream-forked-from", "/v1/stream/nope"), 404),
        ("fork of no path", put("new").header("stream-forked-from", "source"), 400),
        ("fork offset malformed", fork().header("stream-fork-offset", "x"), 400),
        ("fork beyond the end", fork().header("stream-fork-offset", "9999999999999999_9999999999999999"), 400),
        ("sub-offset malformed", fork().header("stream-fork-sub-offset", "01"), 400),
        ("sub-offset at the tail", fork().header("stream-fork-sub-offset", "1"), 400),
        ("sub-offset too far", fork().header("stream-fork-offset", "0_0").header("stream-fork-sub-offset", "6"), 400),
        ("sub-offset without fork", put("new").header("stream-fork-sub-offset", "0"), 400),
        (
            "fork with another type",
            server.ask("PUT", "new").header("content-type", "a/b").header("stream-forked-from", "/v1/stream/source"),
            409,
        ),
    ];
    for ttl in ["abc", "-1", "00060", "+60", "60.5", "1e3", ""] {
        cases.push(("TTL syntax", put("new").header("stream-ttl", ttl), 400));
    }
    for (what, request, status) in cases {
        assert_eq!(code(request.send().await.unwrap()).await.0, status, "{what}");
    }
    assert_eq!(server.log.position(), before, "nothing was written");
    assert_eq!(server.ask("HEAD", "new").send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_wrong_read_is_refused() {
    let server = quick().await;
    server.make("s", "text/plain", "hello").await;
    for query in
        ["offset=", "offset=a", "offset=0_0&offset=0_0", "live=sse", "live=long-poll", "offset=-1&live=bogus", "offset=1,2"]
    {
        let (status, code) = code(server.ask("GET", &format!("s?{query}")).send().await.unwrap()).await;
        assert_eq!((status, code.as_str()), (400, "BAD_REQUEST"), "{query}");
    }
    assert_eq!(server.ask("GET", "nope").send().await.unwrap().status(), 404);
    assert_eq!(server.ask("GET", "nope?offset=now&live=sse").send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_with_and_without_a_declared_length() {
    let server = start(http_api::Options { body_limit: 1_000, ..http_api::Options::default() }).await;
    server.make("s", "text/plain", "x").await;
    let post = || server.ask("POST", "s").header("content-type", "text/plain");
    assert_eq!(post().body("y".repeat(1_000)).send().await.unwrap().status(), 204);
    assert_eq!(post().body("y".repeat(1_001)).send().await.unwrap().status(), 413);
    let chunks = futures::stream::iter((0..20).map(|_| Ok::<_, std::io::Error>("z".repeat(100))));
    assert_eq!(post().body(reqwest::Body::wrap_stream(chunks)).send().await.unwrap().status(), 413);
    assert_eq!(server.text("s").await.len(), 1_001);
}

#[tokio::test]
async fn the_service_secret_guards_every_verb() {
    let secret = Some("s3cret".to_owned());
    let server = start(http_api::Options { secret, ..http_api::Options::default() }).await;
    for method in ["PUT", "POST", "GET", "HEAD", "DELETE"] {
        assert_eq!(server.ask(method, "s").send().await.unwrap().status(), 401, "{method}");
        assert_eq!(server.ask(method, "s").bearer_auth("s3cre").send().await.unwrap().status(), 401, "{method}");
    }
    assert_eq!(server.ask("PUT", "s").bearer_auth("s3cret").send().await.unwrap().status(), 201);
    for path in ["__ds/subscriptions/x", "__ds/subscriptions/callback", "__ds/subscriptions/x/streams/y/callback"] {
        for method in ["PUT", "GET", "DELETE"] {
            assert_eq!(server.ask(method, path).send().await.unwrap().status(), 401, "{method} {path}");
        }
    }
    assert_eq!(server.ask("GET", "__ds/jwks.json").send().await.unwrap().status(), 200);
    assert_eq!(server.ask("OPTIONS", "s").send().await.unwrap().status(), 204);
}

#[tokio::test]
async fn a_token_of_a_deleted_stream_is_not_taken_for_its_successors() {
    let server = quick().await;
    server.make("s", "text/plain", "old old old").await;
    let first = server.ask("GET", "s").send().await.unwrap();
    let (tag, next) = (first.headers()["etag"].clone(), first.headers()["stream-next-offset"].clone());
    server.ask("DELETE", "s").send().await.unwrap();
    server.make("s", "text/plain", "new new new").await;
    let stale = server.ask("GET", &format!("s?offset={}", next.to_str().unwrap())).send().await.unwrap();
    assert_eq!(code(stale).await, (410, "STALE_OFFSET".to_owned()));
    let again = server.ask("GET", "s").header("if-none-match", tag).send().await.unwrap();
    assert_eq!(again.status(), 200, "an ETag is of one incarnation");
}

#[tokio::test]
async fn full_pages_are_immutable_bounded_and_cut_at_messages() {
    let server = start(http_api::Options { page_limit: 50, ..http_api::Options::default() }).await;
    server.make("s", "application/json", "").await;
    for n in 0..30 {
        let body = format!("[{{\"n\":{n}}},\"ü\"]");
        server.ask("POST", "s").header("content-type", "application/json").body(body).send().await.unwrap();
    }
    let (mut offset, mut all) = ("0_0".to_owned(), Vec::new());
    loop {
        let page = server.ask("GET", &format!("s?offset={offset}")).send().await.unwrap();
        offset = page.headers()["stream-next-offset"].to_str().unwrap().to_owned();
        let done = page.headers().contains_key("stream-up-to-date");
        let caching = page.headers()["cache-control"].to_str().unwrap().to_owned();
        let body = page.text().await.unwrap();
        assert!(body.len() <= 52, "{body}");
        assert!(all.is_empty() || done || caching.contains("immutable"), "{caching}");
        all.extend(serde_json::from_str::<Vec<serde_json::Value>>(&body).unwrap());
        if done {
            break;
        }
    }
    assert_eq!(all.len(), 60);
    let oversized = "\"".to_owned() + &"x".repeat(200) + "\"";
    server.ask("POST", "s").header("content-type", "application/json").body(oversized.clone()).send().await.unwrap();
    assert_eq!(server.text(&format!("s?offset={offset}")).await, format!("[{oversized}]"), "a message is never cut");
}

#[tokio::test]
async fn an_append_with_an_idempotency_key_happens_once() {
    let server = quick().await;
    server.make("s", "text/plain", "").await;
    for _ in 0..3 {
        let post = server.ask("POST", "s").header("content-type", "text/plain").header("idempotency-key", "k1").body("once ");
        let response = post.send().await.unwrap();
        assert_eq!(response.headers()["stream-next-offset"].to_str().unwrap().split_once('_').unwrap().1, "0000000000000005");
    }
    assert_eq!(server.text("s").await, "once ");
}

#[tokio::test]
async fn an_idempotency_key_is_of_one_incarnation() {
    let server = quick().await;
    for round in ["first", "second"] {
        server.make("s", "text/plain", "").await;
        let post = server.ask("POST", "s").header("content-type", "text/plain").header("idempotency-key", "k").body(round);
        assert_eq!(post.send().await.unwrap().status(), 204);
        assert_eq!(server.text("s").await, round);
        server.ask("DELETE", "s").send().await.unwrap();
    }
}

#[tokio::test]
async fn too_many_messages_in_one_append_are_413() {
    let server = quick().await;
    server.make("s", "application/json", "").await;
    let many = format!("[{}1]", "1,".repeat(1 << 20));
    let post = server.ask("POST", "s").header("content-type", "application/json").body(many);
    assert_eq!(code(post.send().await.unwrap()).await, (413, "PAYLOAD_TOO_LARGE".to_owned()));
    assert_eq!(server.text("s").await, "[]");
}

#[tokio::test]
async fn readers_that_never_read_block_no_commit_and_hold_no_memory() {
    use tokio::io::AsyncWriteExt;
    let server = quick().await;
    server.make("s", "text/plain", "").await;
    let address = server.url.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let mut stuck = Vec::new();
    for _ in 0..20 {
        let mut socket = tokio::net::TcpStream::connect(&address).await.unwrap();
        socket.write_all(b"GET /v1/stream/s?offset=-1&live=sse HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        stuck.push(socket);
    }
    let before = resident_bytes();
    let body = "x".repeat(100_000);
    let appends = async {
        for _ in 0..100 {
            let post = server.ask("POST", "s").header("content-type", "text/plain").body(body.clone());
            assert_eq!(post.send().await.unwrap().status(), 204);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), appends).await.expect("commits go on");
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 120 << 20, "20 stuck readers of 10 MB hold {grown} bytes");
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}
