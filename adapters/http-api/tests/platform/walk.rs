//! From nothing to a conversation.

use serde_json::json;

use crate::town::Town;

#[tokio::test(flavor = "multi_thread")]
async fn a_house_an_environment_a_thread_and_a_word_in_it() {
    let Some(town) = Town::start().await else { return };
    let ada = town.ada.clone();
    let house = town.make(&ada, "/api/houses", &json!({ "name": "home" }), "house_id").await;
    let environment = json!({ "house_id": house, "name": "rust", "config": { "image": "debian" } });
    let environment = town.make(&ada, "/api/environments", &environment, "environment_id").await;
    let body = json!({ "house_id": house, "name": "plans", "tags": ["b", "a"], "environment_id": environment });
    let thread = town.make(&ada, "/api/threads", &body, "thread_id").await;

    let said = town.post(&ada, &format!("/api/threads/{thread}/entries"), &json!({ "text": "hello" })).await;
    assert_eq!(said.status, 201, "{said:?}");
    let position = said.json()["position"].as_u64().unwrap();
    let seq = said.json()["entries"][0]["seq"].as_u64().unwrap();

    let entries = town.get(&ada, &format!("/api/threads/{thread}/entries?min_position={position}")).await;
    let items = entries.json()["items"].as_array().unwrap().clone();
    let last = items.last().unwrap();
    assert_eq!((&last["type"], &last["payload"]["text"], last["seq"].as_u64()), (&json!("chat"), &json!("hello"), Some(seq)));
    assert_eq!(last["author_agent_id"], json!(ada.id.to_string()));
    let rest = town.get(&ada, &format!("/api/threads/{thread}/entries?after={seq}")).await.json();
    assert_eq!((&rest["items"], &rest["next"]), (&json!([]), &json!(null)));
    let first = town.get(&ada, &format!("/api/threads/{thread}/entries?limit=1")).await.json();
    assert_eq!((first["items"].as_array().unwrap().len(), &first["next"]), (1, &json!("0")));

    let row = town.get(&ada, &format!("/api/threads/{thread}?min_position={position}")).await;
    assert_eq!(row.json()["tags"], json!(["a", "b"]));
    assert_eq!(row.json()["stream_id"], json!(format!("arbe-thread-{thread}")));
    let again =
        town.send(&ada.key, "GET", &format!("/api/threads/{thread}"), None, &[("if-none-match", row.header("etag"))]).await;
    assert_eq!((again.status, again.text.as_str()), (304, ""));

    for path in [format!("/api/threads?house={house}&tag=a&status=open&pinned=false"), "/api/threads".to_owned()] {
        let list = town.get(&ada, &path).await.json();
        assert_eq!(list["items"][0]["thread_id"], json!(thread), "{list}");
    }
    let found = town.get(&ada, &format!("/api/environments/{environment}")).await.json();
    assert_eq!((&found["config"], &found["secret_bindings"]), (&json!({ "image": "debian" }), &json!([])));
    let me = town.get(&ada, "/api/me").await.json();
    assert_eq!(me["houses"], json!([{ "house_id": house, "name": "home", "role": "owner" }]));
    let members = town.get(&ada, &format!("/api/houses/{house}/members")).await.json();
    assert_eq!(members["items"][0]["agent_id"], json!(ada.id.to_string()));
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_walked_page_by_page() {
    let Some(town) = Town::start().await else { return };
    let ada = town.ada.clone();
    let house = town.make(&ada, "/api/houses", &json!({ "name": "home" }), "house_id").await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(town.make(&ada, "/api/threads", &json!({ "house_id": house }), "thread_id").await);
    }
    let position = town.post(&ada, "/api/threads", &json!({ "house_id": house })).await.json()["position"].clone();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = town.get(&ada, &format!("/api/threads?limit=2&min_position={position}{cursor}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        let page = page.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["thread_id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen.len(), 6);
    let unique: std::collections::BTreeSet<_> = seen.iter().collect();
    assert_eq!(unique.len(), 6);
    assert!(made.iter().all(|id| seen.contains(id)));
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_command_is_answered_as_the_first_time() {
    let Some(town) = Town::start().await else { return };
    let ada = town.ada.clone();
    let once = [("idempotency-key", "first house")];
    let house = json!({ "name": "home" }).to_string();
    let (a, b) = (
        town.send(&ada.key, "POST", "/api/houses", Some(&house), &once).await,
        town.send(&ada.key, "POST", "/api/houses", Some(&house), &once).await,
    );
    assert_eq!((a.status, &a.text), (201, &b.text));
    let other = town.send(&ada.key, "POST", "/api/houses", Some(r#"{"name":"other"}"#), &once).await;
    assert_eq!(other.code(), (409, "idempotency_key_reused".into()));
    let keys = format!("/api/agents/{}/keys", ada.id);
    let (a, b) = (
        town.send(&ada.key, "POST", &keys, None, &[("idempotency-key", "k")]).await,
        town.send(&ada.key, "POST", &keys, None, &[("idempotency-key", "k")]).await,
    );
    assert_eq!((a.status, &a.text), (201, &b.text), "{a:?}");
    let fresh = a.json()["key"].as_str().unwrap().to_owned();
    assert_eq!(town.send(&fresh, "GET", "/api/me", None, &[]).await.status, 200);
    let one = format!("{keys}/{}", a.json()["key_id"].as_str().unwrap());
    assert_eq!(town.send(&ada.key, "DELETE", &one, None, &[]).await.status, 200);
    assert_eq!(town.send(&fresh, "GET", "/api/me", None, &[]).await.code(), (401, "unauthenticated".into()));
    town.end().await;
}
