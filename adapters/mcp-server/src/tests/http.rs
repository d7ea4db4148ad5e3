use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};

use super::fake::FakePond;
use super::lines::greeting;
use crate::{Asker, HttpDoor};

fn request(method: &str, params: &Value) -> Request<Body> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    Request::post("/mcp")
        .header(header::HOST, "sessions.example.org")
        .header(header::ORIGIN, "https://elsewhere.example")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-06-18")
        .body(Body::from(body.to_string()))
        .unwrap()
}

fn by(mut request: Request<Body>, pond: &Arc<FakePond>) -> Request<Body> {
    request.extensions_mut().insert(Asker(pond.clone()));
    request
}

async fn json_of(response: Response<Body>) -> Value {
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    assert!(!response.headers().contains_key("mcp-session-id"));
    serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await.unwrap()).unwrap()
}

#[tokio::test]
async fn the_door_opens_under_any_name_and_makes_no_session() {
    let answer = HttpDoor::new().handle(by(request("initialize", &greeting()), &FakePond::named("s1"))).await;
    let answer = json_of(answer).await;
    assert_eq!(answer["result"]["serverInfo"]["name"], "arbe");
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
}

#[tokio::test]
async fn a_tool_is_called_without_anything_before_it() {
    let call = json!({ "name": "pond_get", "arguments": { "session_id": "s1" } });
    let answer = HttpDoor::new().handle(by(request("tools/call", &call), &FakePond::named("s1"))).await;
    let answer = json_of(answer).await;
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().starts_with("session=s1 "), "{answer}");
}

#[tokio::test]
async fn whoever_is_nobody_is_told_nothing() {
    let door = HttpDoor::new();
    for (method, params) in
        [("initialize", greeting()), ("tools/list", json!({})), ("resources/read", json!({ "uri": "schema://pond" }))]
    {
        let response = door.handle(request(method, &params)).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(response.headers()[header::WWW_AUTHENTICATE], "Bearer");
    }
}

#[tokio::test]
async fn each_asker_sees_their_own_pond_whoever_asked_before() {
    let door = HttpDoor::new();
    let (one, other) = (FakePond::named("one"), FakePond::named("other"));
    let call = json!({ "name": "pond_search", "arguments": { "query": "pool" } });
    for pond in [&one, &other, &one] {
        let answer = json_of(door.handle(by(request("tools/call", &call), pond)).await).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(&format!("session={} ", pond.name)), "{text}");
    }
    assert_eq!((one.asked.lock().unwrap().len(), other.asked.lock().unwrap().len()), (2, 1));
}

#[tokio::test]
async fn a_session_id_of_somebody_else_changes_nothing() {
    let mut request = request("tools/call", &json!({ "name": "pond_search", "arguments": { "query": "pool" } }));
    request.headers_mut().insert("mcp-session-id", "stolen".parse().unwrap());
    let answer = json_of(HttpDoor::new().handle(by(request, &FakePond::named("mine"))).await).await;
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("session=mine "));
}

#[tokio::test]
async fn there_is_no_stream_to_listen_to_and_no_session_to_end() {
    for method in [Method::GET, Method::DELETE] {
        let mut request = request("ping", &json!({}));
        *request.method_mut() = method;
        let response = HttpDoor::new().handle(by(request, &FakePond::named("s1"))).await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}

#[tokio::test]
async fn a_request_that_is_too_large_is_not_read() {
    let call = json!({ "name": "pond_search", "arguments": { "query": "x".repeat(2 << 20) } });
    let response = HttpDoor::new().handle(by(request("tools/call", &call), &FakePond::named("s1"))).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}
