//! Everything of another house is as if it did not exist, through every route there is.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::town::{Reply, Town};

/// Bodies that would be good if the house were one's own.
fn body(operation: &str, ids: &Ids) -> Option<Value> {
    let body = match operation {
        "update_house" => json!({ "name": "mine now" }),
        "add_member" => json!({ "agent_id": ids["own_agent"], "role": "member" }),
        "set_member_role" => json!({ "role": "member" }),
        "rename_agent" => json!({ "name": "x" }),
        "create_environment" => json!({ "house_id": ids["house_id"], "name": "x", "config": {} }),
        "update_environment" => json!({ "name": "x", "config": {} }),
        "bind_secret" => json!({ "required": true }),
        "create_secret" => json!({ "house_id": ids["house_id"], "name": "OTHER", "value": "x" }),
        "rotate_secret" => json!({ "value": "x" }),
        "create_thread" => json!({ "house_id": ids["house_id"] }),
        "update_thread" => json!({ "name": "x" }),
        "append_entries" | "append_stream" => json!({ "text": "x" }),
        "finish_run" | "finish_stream_run" => json!({ "status": "completed" }),
        "delegate" => json!({ "agent_id": ids["own_agent"] }),
        "run_command" => json!({ "command": "true" }),
        "reconcile_sandboxes" => json!({ "house_id": ids["house_id"] }),
        "request_sandbox" => json!({ "house_id": ids["house_id"], "environment_id": ids["environment_id"], "provider": "x" }),
        "mark_sandbox_live" => json!({ "provider_ref": "x" }),
        "pond_search" => json!({ "protocol_version": 1, "namespace": ids["house_id"], "query": "x" }),
        "pond_get" => json!({ "protocol_version": 1, "namespace": ids["house_id"], "session_id": ids["thread_id"] }),
        "pond_ingest" => json!({ "protocol_version": 1, "namespace": ids["house_id"], "events": [] }),
        _ => return None,
    };
    Some(body)
}

/// About nothing of a house.
const OWN: [&str; 6] = ["get_me", "list_projections", "list_houses", "create_house", "register_agent", "openapi"];

fn fill(path: &str, ids: &Ids) -> String {
    ids.iter().fold(path.to_owned(), |path, (name, id)| path.replace(&format!("{{{name}}}"), id))
}

type Ids = BTreeMap<&'static str, String>;

/// Two houses whose people do not know each other.
struct Neighbours {
    town: Town,
    /// What is in the other house.
    there: Ids,
    /// The same of what is nowhere.
    nowhere: Ids,
    document: Value,
}

impl Neighbours {
    async fn start() -> Option<Self> {
        let town = Town::start().await?;
        let (ada, bob) = (town.ada.clone(), town.bob.clone());
        let house = town.make(&ada, "/api/houses", &json!({ "name": "home" }), "house_id").await;
        let environment = json!({ "house_id": house, "name": "e", "config": {} });
        let environment = town.make(&ada, "/api/environments", &environment, "environment_id").await;
        let bound = format!("/api/environments/{environment}/secrets/TOKEN");
        town.send(&ada.key, "PUT", &bound, Some(r#"{"required":true}"#), &[]).await;
        let secret = json!({ "house_id": house, "name": "TOKEN", "value": "v" });
        let secret = town.make(&ada, "/api/secrets", &secret, "secret_id").await;
        let bot = town.make(&ada, "/api/agents", &json!({ "kind": "bot", "runtime": "pi" }), "agent_id").await;
        let member = json!({ "agent_id": bot, "role": "member" });
        town.make(&ada, &format!("/api/houses/{house}/members"), &member, "agent_id").await;
        let key = town.make(&ada, &format!("/api/agents/{bot}/keys"), &json!({}), "key").await;
        let thread = town.make(&ada, "/api/threads", &json!({ "house_id": house, "agent_id": bot }), "thread_id").await;
        let run = town.send(&key, "POST", &format!("/api/threads/{thread}/runs"), None, &[]).await.json();
        let sandbox = json!({ "house_id": house, "environment_id": environment, "provider": "local" });
        let sandbox = town.make(&ada, "/api/sandboxes", &sandbox, "sandbox_id").await;
        let keys = town.get(&ada, &format!("/api/agents/{}/keys", ada.id)).await.json();
        let settled = town.get(&ada, &format!("/api/sandboxes/{sandbox}?min_position={}", keys["position"])).await;
        assert_eq!(settled.status, 200, "{settled:?}");

        let own_house = town.make(&bob, "/api/houses", &json!({ "name": "elsewhere" }), "house_id").await;
        let own_thread = town.make(&bob, "/api/threads", &json!({ "house_id": own_house }), "thread_id").await;
        let settled = town.get(&bob, &format!("/api/threads?min_position={}", town.log.position())).await;
        assert_eq!(settled.status, 200, "the rows stand still from here on: {settled:?}");
        let own = [("own_agent", bob.id.to_string()), ("own_house", own_house), ("own_thread", own_thread)];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut there = Ids::from([
            ("house_id", house),
            ("agent_id", ada.id.to_string()),
            ("environment_id", environment),
            ("thread_id", thread),
            ("sandbox_id", sandbox),
            ("secret_id", secret),
            ("key_id", text(&keys["items"][0]["key_id"])),
            ("run_id", text(&run["run_id"])),
            ("name", "TOKEN".to_owned()),
        ]);
        let mut nowhere: Ids = there.iter().map(|(name, id)| (*name, "z".repeat(id.len()))).collect();
        nowhere.insert("agent_id", "00000000-0000-4000-8000-000000000000".to_owned());
        nowhere.insert("name", "TOKEN".to_owned());
        there.extend(own.clone());
        nowhere.extend(own);
        let document = town.send("", "GET", "/openapi.json", None, &[]).await.json();
        Some(Self { town, there, nowhere, document })
    }

    /// Every operation that is about something of a house, with its path and method.
    fn operations(&self) -> impl Iterator<Item = (&str, String, &Value)> {
        let paths = self.document["paths"].as_object().unwrap().iter();
        let all = paths.flat_map(|(path, item)| item.as_object().unwrap().iter().map(move |(method, it)| (path, method, it)));
        let foreign = all.filter(|(_, _, it)| !OWN.contains(&it["operationId"].as_str().unwrap()));
        foreign.map(|(path, method, it)| (path.as_str(), method.to_ascii_uppercase(), it))
    }

    async fn ask(&self, ask: &Ask<'_>, ids: &Ids) -> Reply {
        let body = match ask.body {
            Sent::Good => body(ask.operation["operationId"].as_str().unwrap_or_default(), ids).map(|body| body.to_string()),
            Sent::Text(text) => Some(text.to_owned()),
        };
        let parameters = ask.operation["parameters"].as_array();
        let listed = parameters.is_some_and(|all| all.iter().any(|parameter| parameter["name"] == "house"));
        let query = if listed { format!("?house={}", ids["house_id"]) } else { String::new() };
        let path = format!("{}{query}", fill(ask.path, ids));
        self.town.send(ask.token, ask.method, &path, body.as_deref(), ask.headers).await
    }

    /// Asks for what is there and for what is not, and gives the status of both, which do not differ in anything.
    async fn same(&self, ask: Ask<'_>) -> u16 {
        let (real, unreal) = (self.ask(&ask, &self.there).await, self.ask(&ask, &self.nowhere).await);
        let seen = |reply: &Reply| {
            let mut headers = reply.headers.clone();
            headers.remove("date");
            headers.remove("x-pond-request-id");
            (reply.status, reply.text.clone(), headers)
        };
        assert_eq!(seen(&real), seen(&unreal), "{} {} {:?}", ask.method, ask.path, ask.body);
        real.status
    }
}

#[derive(Clone, Copy)]
struct Ask<'a> {
    token: &'a str,
    method: &'a str,
    path: &'a str,
    operation: &'a Value,
    body: Sent,
    headers: &'a [(&'a str, &'a str)],
}

#[derive(Clone, Copy, Debug)]
enum Sent {
    /// What the operation wants, if anything.
    Good,
    Text(&'static str),
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_from_another_house_cannot_tell_what_there_is() {
    let Some(neighbours) = Neighbours::start().await else { return };
    let Neighbours { town, there, .. } = &neighbours;
    let bob = town.bob.clone();
    let scoped = town.send(&bob.key, "POST", &format!("/api/threads/{}/token", there["own_thread"]), None, &[]).await;
    let scoped = scoped.json()["token"].as_str().unwrap().to_owned();
    let mut asked = 0;
    for (path, method, operation) in neighbours.operations() {
        let ask = Ask { token: &bob.key, method: &method, path, operation, body: Sent::Good, headers: &[] };
        // `wire-namespace-resolution`: there it is a namespace that one may not name.
        let hidden = if path.starts_with("/v1/") { 403 } else { 404 };
        assert_eq!(neighbours.same(ask).await, hidden, "{method} {path}");
        let headers: &[_] = if method == "GET" { &[("if-none-match", "*")] } else { &[("idempotency-key", path)] };
        assert_eq!(neighbours.same(Ask { headers, ..ask }).await, hidden, "{method} {path}");
        for body in [Sent::Text(""), Sent::Text("{}"), Sent::Text("["), Sent::Text(r#"{"no":1}"#)] {
            assert!((400..500).contains(&neighbours.same(Ask { body, ..ask }).await), "{method} {path} {body:?}");
        }
        for token in ["", "arbe_x", scoped.as_str()] {
            assert!([401, 403].contains(&neighbours.same(Ask { token, ..ask }).await), "{method} {path}");
        }
        for method in ["HEAD", "OPTIONS", "TRACE", "DELETE"] {
            neighbours.same(Ask { method, ..ask }).await;
        }
        asked += 1;
    }
    let paths = neighbours.document["paths"].as_object().unwrap().values();
    let all: usize = paths.map(|item| item.as_object().unwrap().len()).sum();
    assert_eq!(asked, all - (OWN.len() - 1), "every operation but those about oneself; the document does not list itself");
    for path in ["/v1/stream/arbe-thread-{thread_id}", "/v1/stream/arbe-house-{house_id}"] {
        for method in ["GET", "HEAD", "PUT", "POST", "DELETE"] {
            let body = Sent::Text("[1]");
            let ask = Ask { token: &bob.key, method, path, operation: &Value::Null, body, headers: &[] };
            assert_eq!(neighbours.same(ask).await, 404, "{method} {path}");
        }
    }
    for path in ["/api/me", "/api/houses", "/api/threads", "/api/environments", "/api/sandboxes", "/api/secrets"] {
        let seen = town.get(&bob, path).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        for name in ["house_id", "environment_id", "thread_id", "sandbox_id", "secret_id", "run_id"] {
            assert!(!seen.text.contains(there[name].as_str()), "{path}");
        }
    }
    neighbours.town.end().await;
}

/// Commands and queries of one's own house that name something of another one.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_another_house_can_be_pointed_at() {
    let Some(neighbours) = Neighbours::start().await else { return };
    let (own, thread) = (&neighbours.there["own_house"], &neighbours.there["own_thread"]);
    let references = [
        ("POST", "/api/threads".to_owned(), "house_id", "parent_thread_id", "thread_id"),
        ("POST", "/api/threads".to_owned(), "house_id", "environment_id", "environment_id"),
        ("POST", "/api/threads".to_owned(), "house_id", "sandbox_id", "sandbox_id"),
        ("POST", "/api/threads".to_owned(), "house_id", "agent_id", "agent_id"),
        ("PATCH", format!("/api/threads/{thread}"), "", "environment_id", "environment_id"),
        ("PATCH", format!("/api/houses/{own}"), "", "default_environment_id", "environment_id"),
        ("POST", format!("/api/threads/{thread}/delegate"), "", "agent_id", "agent_id"),
        ("POST", "/api/sandboxes".to_owned(), "house_id", "environment_id", "environment_id"),
        ("POST", "/api/sandboxes".to_owned(), "house_id", "thread_id", "thread_id"),
        ("DELETE", format!("/api/houses/{own}/members/{{agent_id}}"), "", "", ""),
        ("GET", format!("/api/threads?house={own}&parent={{thread_id}}"), "", "", ""),
        ("GET", "/api/threads?parent={thread_id}".to_owned(), "", "", ""),
        ("GET", format!("/api/threads?house={own}&agent={{agent_id}}"), "", "", ""),
    ];
    for (method, path, house, field, id) in references {
        let mut seen = Vec::new();
        for ids in [&neighbours.there, &neighbours.nowhere] {
            let mut body = serde_json::Map::new();
            if path == "/api/sandboxes" {
                body.insert("provider".to_owned(), json!("local"));
            }
            for (field, value) in [(house, own.as_str()), (field, ids.get(id).map_or("", String::as_str))] {
                if !field.is_empty() {
                    body.insert(field.to_owned(), json!(value));
                }
            }
            let body = (!body.is_empty()).then(|| Value::Object(body).to_string());
            let reply = neighbours.town.send(&neighbours.town.bob.key, method, &fill(&path, ids), body.as_deref(), &[]).await;
            let empty = reply.status == 200 && reply.json()["items"] == json!([]);
            assert!(empty || [404, 422].contains(&reply.status), "{method} {path} {field}: {reply:?}");
            // How far the rows are is no secret, and moves.
            seen.push((reply.status, if empty { String::new() } else { reply.text }));
        }
        assert_eq!(seen[0], seen[1], "{method} {path} {field}");
    }
    neighbours.town.end().await;
}

/// How often each of the two is asked, in turns. A difference that is real is there every time; what the machine does besides is not.
const TURNS: usize = 25;
const ATTEMPTS: usize = 6;
/// An answer out of memory takes a fraction of a millisecond; a look into the rows or the store takes longer than this on top.
const CLASS: Duration = Duration::from_micros(300);

#[tokio::test(flavor = "multi_thread")]
async fn what_is_elsewhere_takes_as_long_as_what_is_not() {
    let Some(neighbours) = Neighbours::start().await else { return };
    for (path, method, operation) in neighbours.operations() {
        let key = neighbours.town.bob.key.as_str();
        let ask = Ask { token: key, method: &method, path, operation, body: Sent::Good, headers: &[] };
        let mut apart = Duration::MAX;
        for _ in 0..ATTEMPTS {
            let (mut real, mut unreal) = (Vec::new(), Vec::new());
            for _ in 0..TURNS {
                for (ids, took) in [(&neighbours.there, &mut real), (&neighbours.nowhere, &mut unreal)] {
                    let started = Instant::now();
                    neighbours.ask(&ask, ids).await;
                    took.push(started.elapsed());
                }
            }
            real.sort_unstable();
            unreal.sort_unstable();
            apart = apart.min(real[TURNS / 2].abs_diff(unreal[TURNS / 2]));
            if apart < CLASS {
                break;
            }
        }
        assert!(apart < CLASS, "{method} {path}: {apart:?} apart");
    }
    neighbours.town.end().await;
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
