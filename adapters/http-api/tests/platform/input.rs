//! What is not expected is refused, precisely.

use serde_json::{Value, json};

use crate::town::Town;

#[tokio::test(flavor = "multi_thread")]
async fn wrong_input_gets_its_documented_status() {
    let Some(town) = Town::start().await else { return };
    let ada = town.ada.clone();
    let house = town.make(&ada, "/api/houses", &json!({ "name": "home" }), "house_id").await;
    let thread = town.make(&ada, "/api/threads", &json!({ "house_id": house }), "thread_id").await;
    let entries = format!("/api/threads/{thread}/entries");
    let bad = (400, "bad_request".to_owned());

    for (path, body) in [
        ("/api/houses", r#"{"name":"a","nmae":"b"}"#),
        ("/api/houses", r#"{"name":"a","name":"b"}"#),
        ("/api/houses", r#"{"name":1}"#),
        ("/api/houses", r#"{"name":"a","house_id":"not an id"}"#),
        ("/api/houses", "{"),
        ("/api/houses", "[]"),
        ("/api/houses", r#"["home"]"#),
        (entries.as_str(), r#"[["a"]]"#),
        (entries.as_str(), r#"{"type":"chat","v":1.5,"payload":{"text":"a"}}"#),
        (entries.as_str(), r#"{"text":"a","type":"chat"}"#),
        (entries.as_str(), r#"{"type":"chat"}"#),
        (entries.as_str(), "[]"),
        (entries.as_str(), r#"{"text":"a","author":"b"}"#),
    ] {
        let reply = town.send(&ada.key, "POST", path, Some(body), &[]).await;
        assert_eq!(reply.code(), bad, "{path} {body}");
    }
    for path in [
        "/api/threads?limit=0",
        "/api/threads?limit=201",
        "/api/threads?limit=x",
        "/api/threads?cursor=x",
        "/api/threads?nope=1",
        "/api/threads?status=stuck",
        "/api/threads?pinned=true&pinned=false",
        "/api/me?min_position=999999999",
        "/api/threads/a%20b",
        "/api/agents/x",
    ] {
        assert_eq!(town.get(&ada, path).await.code(), bad, "{path}");
    }
    let one = format!("/api/threads/{thread}");
    assert_eq!(town.send(&ada.key, "PATCH", &one, Some("[]"), &[]).await.code(), bad);
    let both = town.send(&ada.key, "PATCH", &one, Some(r#"{"tags":[],"add_tags":["a"]}"#), &[]).await;
    assert_eq!(both.code(), (422, "invalid".into()));
    let offset = format!("/api/threads/{thread}/stream?offset=x");
    assert_eq!(town.get(&ada, &offset).await.code(), bad);

    let client = reqwest::Client::new();
    let plain = client.post(format!("{}/api/houses", town.url)).header("authorization", format!("Bearer {}", ada.key));
    let plain = plain.header("content-type", "text/plain").body(r#"{"name":"a"}"#).send().await.unwrap();
    assert_eq!(plain.status().as_u16(), 415);
    let wrong = town.send(&ada.key, "DELETE", "/api/me", None, &[]).await;
    assert_eq!(wrong.code(), (405, "method_not_allowed".into()));
    assert_eq!(wrong.header("allow"), "GET,HEAD");
    assert_eq!(town.get(&ada, "/api/nothing").await.code(), (404, "not_found".into()));
    assert_eq!(town.post(&ada, &entries, &json!({ "text": "" })).await.code(), (422, "invalid".into()));
    let signal = json!({ "type": "signal.thread.pinned", "payload": {} });
    assert_eq!(town.post(&ada, &entries, &signal).await.code(), (403, "kind_not_allowed".into()));
    for key in ["", "x"] {
        let header = format!("arbe_{key}");
        assert_eq!(town.send(&header, "GET", "/api/me", None, &[]).await.code(), (401, "unauthenticated".into()));
    }
    let nobody = town.send("", "GET", "/api/me", None, &[]).await;
    assert_eq!((nobody.code().1.as_str(), nobody.header("www-authenticate")), ("unauthenticated", "Bearer"));
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_keeps_its_exact_text() {
    let Some(town) = Town::start().await else { return };
    let ada = town.ada.clone();
    let house = town.make(&ada, "/api/houses", &json!({ "name": "home" }), "house_id").await;
    let bot = json!({ "kind": "bot", "runtime": "pi" });
    let bot = town.make(&ada, "/api/agents", &bot, "agent_id").await;
    let member = json!({ "agent_id": bot, "role": "member" });
    town.make(&ada, &format!("/api/houses/{house}/members"), &member, "agent_id").await;
    let key = town.make(&ada, &format!("/api/agents/{bot}/keys"), &json!({ "label": "runner" }), "key").await;
    let thread = town.make(&ada, "/api/threads", &json!({ "house_id": house, "agent_id": bot }), "thread_id").await;
    let payload = r#"{"n": 1.10, "n": 12345678901234567890123, "e":"\u00e9"}"#;
    for (v, payload) in [("1.0", "null"), ("1", payload)] {
        let body = format!(r#"{{"type":"pi.entry","v":{v},"payload":{payload}}}"#);
        let said = town.send(&key, "POST", &format!("/api/threads/{thread}/entries"), Some(&body), &[]).await;
        assert_eq!(said.status, 201, "{said:?}");
    }
    for path in [format!("/api/threads/{thread}/entries"), format!("/api/threads/{thread}/stream")] {
        let read = town.get(&ada, &path).await;
        assert!(read.text.contains(&format!(r#""payload":{payload}"#)), "{}", read.text);
    }
    let run = town.send(&key, "POST", &format!("/api/threads/{thread}/runs"), None, &[]).await;
    assert_eq!(run.status, 201, "{run:?}");
    let run = run.json()["run_id"].as_str().unwrap().to_owned();
    let finish = format!("/api/threads/{thread}/runs/{run}/finish");
    let listed = r#"{"status":"failed","failure":["e","m",1]}"#;
    assert_eq!(town.send(&key, "POST", &finish, Some(listed), &[]).await.code(), (400, "bad_request".into()));
    let failed = r#"{"status":"failed","failure":{"error_class":"e","message":"m","exit_code":1.0}}"#;
    let done = town.send(&key, "POST", &finish, Some(failed), &[]).await;
    assert_eq!(done.status, 200, "{done:?}");
    let again = town.send(&key, "POST", &format!("/api/threads/{thread}/runs"), None, &[]).await;
    let position = again.json()["position"].clone();
    let row = town.get(&ada, &format!("/api/threads/{thread}?min_position={position}")).await;
    assert_eq!(row.json()["status"], json!("running"), "{row:?}");
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_changes_what_it_names() {
    let Some(town) = Town::start().await else { return };
    let ada = town.ada.clone();
    let house = town.make(&ada, "/api/houses", &json!({ "name": "home" }), "house_id").await;
    let made = json!({ "house_id": house, "name": "a", "tags": ["x", "y"] });
    let thread = town.make(&ada, "/api/threads", &made, "thread_id").await;
    let one = format!("/api/threads/{thread}");
    let patch = async |body: Value| {
        let patched = town.send(&ada.key, "PATCH", &one, Some(&body.to_string()), &[]).await;
        assert_eq!(patched.status, 200, "{patched:?}");
        let row = town.get(&ada, &format!("{one}?min_position={}", patched.json()["position"])).await.json();
        (row["name"].clone(), row["tags"].clone(), row["status"].clone(), row["pinned_at"].is_string())
    };
    let changed = patch(json!({ "name": null, "pinned": true, "tags": ["y", "z"], "status": "closed" })).await;
    assert_eq!(changed, (json!(null), json!(["y", "z"]), json!("closed"), true));
    let changed = patch(json!({ "add_tags": ["a"], "remove_tags": ["z"], "status": "open", "pinned": false })).await;
    assert_eq!(changed, (json!(null), json!(["a", "y"]), json!("open"), false));
    assert_eq!(patch(json!({})).await, changed);
    let half = json!({ "name": "half", "environment_id": "nowhere" }).to_string();
    let refused = town.send(&ada.key, "PATCH", &one, Some(&half), &[]).await;
    assert!(refused.status >= 400, "{refused:?}");
    assert_eq!(patch(json!({})).await, changed);
    let body = json!({ "tags": ["q"], "status": "closed", "name": "b" }).to_string();
    for _ in 0..2 {
        let once = town.send(&ada.key, "PATCH", &one, Some(&body), &[("idempotency-key", "p")]).await;
        assert_eq!(once.status, 200, "{once:?}");
    }
    town.end().await;
}
