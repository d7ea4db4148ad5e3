//! Everything of another house is as if it did not exist, through every route there is.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::town::Town;

/// Bodies that would be good if the house were one's own.
fn body(operation: &str, ids: &BTreeMap<&str, String>) -> Option<Value> {
    let body = match operation {
        "update_house" => json!({ "name": "mine now" }),
        "add_member" => json!({ "agent_id": ids["own_agent"], "role": "member" }),
        "set_member_role" => json!({ "role": "member" }),
        "rename_agent" => json!({ "name": "x" }),
        "create_environment" => json!({ "house_id": ids["house_id"], "name": "x", "config": {} }),
        "update_environment" => json!({ "name": "x", "config": {} }),
        "bind_secret" => json!({ "required": true }),
        "create_thread" => json!({ "house_id": ids["house_id"] }),
        "update_thread" => json!({ "name": "x" }),
        "append_entries" | "append_stream" => json!({ "text": "x" }),
        "finish_run" => json!({ "status": "completed" }),
        "delegate" => json!({ "agent_id": ids["own_agent"] }),
        "request_sandbox" => json!({ "house_id": ids["house_id"], "environment_id": ids["environment_id"], "provider": "x" }),
        "mark_sandbox_live" => json!({ "provider_ref": "x" }),
        _ => return None,
    };
    Some(body)
}

/// About nothing of a house.
const OWN: [&str; 6] = ["get_me", "list_projections", "list_houses", "create_house", "register_agent", "openapi"];

fn fill(path: &str, ids: &BTreeMap<&str, String>) -> String {
    ids.iter().fold(path.to_owned(), |path, (name, id)| path.replace(&format!("{{{name}}}"), id))
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_from_another_house_cannot_tell_what_there_is() {
    let Some(town) = Town::start().await else { return };
    let (ada, bob) = (town.ada.clone(), town.bob.clone());
    let house = town.make(&ada, "/api/houses", &json!({ "name": "home" }), "house_id").await;
    town.make(&bob, "/api/houses", &json!({ "name": "elsewhere" }), "house_id").await;
    let environment = json!({ "house_id": house, "name": "e", "config": {} });
    let environment = town.make(&ada, "/api/environments", &environment, "environment_id").await;
    let bound = format!("/api/environments/{environment}/secrets/TOKEN");
    town.send(&ada.key, "PUT", &bound, Some(r#"{"required":true}"#), &[]).await;
    let thread = town.make(&ada, "/api/threads", &json!({ "house_id": house }), "thread_id").await;
    let sandbox = json!({ "house_id": house, "environment_id": environment, "provider": "local" });
    let sandbox = town.make(&ada, "/api/sandboxes", &sandbox, "sandbox_id").await;
    let keys = town.get(&ada, &format!("/api/agents/{}/keys", ada.id)).await.json();
    let settled = town.get(&ada, &format!("/api/sandboxes/{sandbox}?min_position={}", keys["position"])).await;
    assert_eq!(settled.status, 200, "{settled:?}");
    let there = BTreeMap::from([
        ("house_id", house.clone()),
        ("agent_id", ada.id.to_string()),
        ("environment_id", environment.clone()),
        ("thread_id", thread.clone()),
        ("sandbox_id", sandbox.clone()),
        ("key_id", keys["items"][0]["key_id"].as_str().unwrap().to_owned()),
        ("run_id", "r1".to_owned()),
        ("name", "TOKEN".to_owned()),
        ("own_agent", bob.id.to_string()),
    ]);
    let mut nowhere: BTreeMap<_, _> = there.keys().map(|name| (*name, "nothing-here".to_owned())).collect();
    nowhere.insert("agent_id", "00000000-0000-4000-8000-000000000000".to_owned());
    nowhere.insert("name", "TOKEN".to_owned());
    nowhere.insert("own_agent", bob.id.to_string());

    let document = town.send("", "GET", "/openapi.json", None, &[]).await.json();
    let mut asked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            if OWN.contains(&id) {
                continue;
            }
            let parameters = operation["parameters"].as_array().unwrap();
            let listed = parameters.iter().any(|parameter| parameter["name"] == "house");
            let ask = async |ids: &BTreeMap<&str, String>| {
                let query = if listed { format!("?house={}", ids["house_id"]) } else { String::new() };
                let body = body(id, ids).map(|body| body.to_string());
                let path = format!("{}{query}", fill(path, ids));
                town.send(&bob.key, &method.to_ascii_uppercase(), &path, body.as_deref(), &[]).await
            };
            let (real, unreal) = (ask(&there).await, ask(&nowhere).await);
            assert_eq!((real.status, &real.text), (404, &unreal.text), "{method} {path}: {real:?} {unreal:?}");
            assert_eq!(unreal.status, 404, "{method} {path}");
            let names = |reply: &crate::town::Reply| reply.headers.keys().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(names(&real), names(&unreal), "{method} {path}");
            asked += 1;
        }
    }
    assert!(asked > 35, "{asked}");
    for path in ["/api/me", "/api/houses", "/api/threads", "/api/environments", "/api/sandboxes"] {
        let seen = town.get(&bob, path).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        for id in [&house, &environment, &thread, &sandbox] {
            assert!(!seen.text.contains(id.as_str()), "{path}");
        }
    }
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reference_in_the_document_resolves() {
    let Some(town) = Town::start().await else { return };
    let reply = town.send("", "GET", "/openapi.json", None, &[]).await;
    let document = reply.json();
    for reference in reply.text.split("\"$ref\":\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        let pointer = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference}"));
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    let mut ids = std::collections::BTreeSet::new();
    for operation in document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values()) {
        assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{operation}");
        assert!(operation["responses"].as_object().unwrap().keys().any(|status| status.starts_with('2')));
    }
    town.end().await;
}
