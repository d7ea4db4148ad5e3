//! The ways to a thread's stream.

use event_log::{Log, StoreUrl};
use serde_json::{Value, json};

use crate::town::{Setup, Town, serve};

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_tailed_live_and_its_token_is_for_it_alone() {
    let Some(town) = Town::start().await else { return };
    let ada = town.ada.clone();
    let house = town.make(&ada, "/api/houses", &json!({ "name": "home" }), "house_id").await;
    let thread = town.make(&ada, "/api/threads", &json!({ "house_id": house }), "thread_id").await;
    let other = town.make(&ada, "/api/threads", &json!({ "house_id": house }), "thread_id").await;

    let door = format!("/api/threads/{thread}/stream");
    let caught_up = town.get(&ada, &door).await;
    assert_eq!((caught_up.status, caught_up.header("stream-up-to-date")), (200, "true"));
    assert!(caught_up.header("cache-control").starts_with("private"), "{caught_up:?}");
    let next = caught_up.header("stream-next-offset").to_owned();
    let path = format!("{door}?offset={next}&live=long-poll");
    let tail = town.get(&ada, &path);
    let say = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        town.post(&ada, &format!("/api/threads/{thread}/entries"), &json!({ "text": "live" })).await
    };
    let (tail, said) = tokio::join!(tail, say);
    assert_eq!((tail.status, said.status), (200, 201));
    assert_eq!(tail.json()[0]["payload"], json!({ "text": "live" }));

    let token = town.send(&ada.key, "POST", &format!("/api/threads/{thread}/token"), None, &[]).await;
    assert_eq!(token.status, 201, "{token:?}");
    let token = token.json();
    assert_eq!(token["url"], json!(format!("{}/api/stream/arbe-thread-{thread}", town.url)));
    let token = token["token"].as_str().unwrap();
    let read = town.send(token, "GET", &format!("/api/stream/arbe-thread-{thread}"), None, &[]).await;
    assert_eq!((read.status, read.json().as_array().unwrap().len()), (200, 2));
    let head = town.send(token, "HEAD", &format!("/api/stream/arbe-thread-{thread}"), None, &[]).await;
    assert_eq!((head.status, head.header("stream-next-offset").is_empty()), (200, false));
    let words = Some(r#"[{"text":"one"},{"type":"chat","payload":{"text":"two"}}]"#);
    for path in [format!("/api/stream/arbe-thread-{thread}"), format!("/api/threads/{thread}/entries")] {
        let said = town.send(token, "POST", &path, words, &[]).await;
        assert_eq!((said.status, said.json()["entries"].as_array().map(Vec::len)), (201, Some(2)), "{said:?}");
    }
    for (method, path) in [
        ("GET", format!("/api/stream/arbe-thread-{other}")),
        ("POST", format!("/api/stream/arbe-thread-{other}")),
        ("POST", format!("/api/threads/{other}/entries")),
        ("POST", "/api/threads/nowhere/entries".to_owned()),
    ] {
        let body = if method == "POST" { words } else { None };
        let refused = town.send(token, method, &path, body, &[]).await;
        assert_eq!(refused.code(), (403, "wrong_thread".into()), "{path}");
    }
    for path in ["/api/me".to_owned(), format!("/api/threads/{thread}"), format!("/api/threads/{thread}/entries")] {
        assert_eq!(town.send(token, "GET", &path, None, &[]).await.code(), (403, "forbidden".into()), "{path}");
    }
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_low_level_door_knows_no_platform_stream() {
    let Some(town) = Town::start().await else { return };
    let ada = town.ada.clone();
    let house = town.make(&ada, "/api/houses", &json!({ "name": "home" }), "house_id").await;
    let thread = town.make(&ada, "/api/threads", &json!({ "house_id": house }), "thread_id").await;
    let names = [format!("arbe-thread-{thread}"), format!("arbe-house-{house}"), "arbe-agents".into(), "arbe%2Dagents".into()];
    let missing = town.send("", "GET", "/v1/stream/arbe-nothing", None, &[]).await;
    for name in &names {
        for method in ["GET", "HEAD", "PUT", "POST", "DELETE"] {
            let reply = town.send("", method, &format!("/v1/stream/{name}"), Some("[1]"), &[]).await;
            assert_eq!(reply.status, 404, "{method} {name}");
            assert!(method == "HEAD" || reply.text == missing.text, "{method} {name}: {}", reply.text);
        }
        let from = format!("/v1/stream/{name}");
        let fork = town.send("", "PUT", "/v1/stream/mine", None, &[("stream-forked-from", &from)]).await;
        assert_eq!(fork.status, 404, "{fork:?}");
    }
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_secret_reads_platform_streams_and_writes_none() {
    let Some(town) = Town::with(Setup { secret: Some("s3cret"), ..Setup::default() }).await else { return };
    let ada = town.ada.clone();
    let house = town.make(&ada, "/api/houses", &json!({ "name": "home" }), "house_id").await;
    let thread = town.make(&ada, "/api/threads", &json!({ "house_id": house }), "thread_id").await;
    let make = town.send("s3cret", "PUT", "/v1/stream/notes", Some(r#"["mine"]"#), &[]).await;
    assert_eq!(make.status, 201, "{make:?}");
    let before = town.log.position();
    let names =
        [format!("arbe-thread-{thread}"), format!("arbe-house-{house}"), "arbe%2Dagents".into(), "arbe-thread-new".into()];
    for name in &names {
        let path = format!("/v1/stream/{name}");
        for (method, headers) in [
            ("POST", vec![]),
            ("POST", vec![("stream-closed", "true")]),
            ("PUT", vec![]),
            ("PUT", vec![("stream-forked-from", "/v1/stream/notes")]),
            ("DELETE", vec![]),
        ] {
            let body = if headers.is_empty() { Some("[1]") } else { None };
            let refused = town.send("s3cret", method, &path, body, &headers).await;
            assert_eq!(refused.code(), (403, "PLATFORM_STREAM".into()), "{method} {name}");
            assert_eq!(town.send("wrong", method, &path, body, &headers).await.status, 401);
        }
    }
    assert_eq!(town.log.position(), before);
    for name in &names[..3] {
        let path = format!("/v1/stream/{name}");
        assert_eq!(town.send("s3cret", "GET", &path, None, &[]).await.status, 200, "{name}");
        assert_eq!(town.send("s3cret", "HEAD", &path, None, &[]).await.status, 200, "{name}");
    }
    let copy = [("stream-forked-from", format!("/v1/stream/{}", names[0]))];
    let copy = town.send("s3cret", "PUT", "/v1/stream/copy", None, &[(copy[0].0, &copy[0].1)]).await;
    assert_eq!(copy.status, 201, "{copy:?}");
    assert_eq!(town.post(&ada, &format!("/api/threads/{thread}/entries"), &json!({ "text": "goes on" })).await.status, 201);
    town.end().await;
}

#[tokio::test]
async fn without_the_platform_the_api_is_unavailable_and_described() {
    let log = Log::open(StoreUrl::Memory.open(&[], true).unwrap(), event_log::Options::default()).await.unwrap();
    let (url, _stop) = serve(log, None).await;
    let text = reqwest::get(format!("{url}/openapi.json")).await.unwrap().text().await.unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["openapi"], json!("3.1.0"));
    let reply = reqwest::get(format!("{url}/api/me")).await.unwrap();
    assert_eq!(reply.status().as_u16(), 503);
    assert!(reply.text().await.unwrap().contains(r#""code":"unavailable""#));
}
