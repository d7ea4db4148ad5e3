//! Secrets: names for everybody in the house, values for sandboxes alone.

use std::io::Write;
use std::sync::{Arc, Mutex};

use futures::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};
use tracing_subscriber::filter::LevelFilter;

use crate::home::Home;
use crate::town::{Reply, Setup, Town};

const DOOR: &str = "/api/secrets/resolve";
const TOKEN: &str = "the-resolve-token";

/// The names of what the vault keeps, as `house/version`.
async fn kept(town: &Town) -> Vec<String> {
    let all: Vec<String> = town.values.list(None).map_ok(|meta| meta.location.to_string()).try_collect().await.unwrap();
    all.into_iter().map(|path| path.strip_prefix("vault/").unwrap().to_owned()).collect()
}

async fn set(home: &Home, name: &str, value: &str) -> String {
    let body = json!({ "house_id": home.house, "name": name, "value": value });
    home.town.make(&home.ada, "/api/secrets", &body, "secret_id").await
}

async fn resolve(town: &Town, body: Value) -> Reply {
    town.send(TOKEN, "POST", DOOR, Some(&body.to_string()), &[]).await
}

async fn opened() -> Option<Home> {
    Home::with(Setup { resolve: Some(TOKEN), ..Setup::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_kept_listed_rotated_and_deleted_and_its_value_is_never_shown() {
    let Some(home) = opened().await else { return };
    let id = set(&home, "GITHUB_TOKEN", "ghp-one").await;
    let one = format!("/api/secrets/{id}");
    let row = home.see(&one).await;
    assert_eq!((&row["name"], &row["house_id"], &row["bound_by"]), (&json!("GITHUB_TOKEN"), &json!(home.house), &json!([])));
    let environment = format!("/api/environments/{}", home.environment);
    home.ask(&home.ada, "PUT", &format!("{environment}/secrets/GITHUB_TOKEN"), json!({ "required": true })).await;
    assert_eq!(home.see(&one).await["bound_by"], json!([home.environment]));
    let bound = home.see(&environment).await["secret_bindings"].clone();
    let whole = json!([{ "name": "GITHUB_TOKEN", "required": true, "exists": true, "rotated_at": row["rotated_at"] }]);
    assert_eq!(bound, whole);
    assert_eq!(home.see("/api/secrets?name=GITHUB_TOKEN").await["items"][0]["secret_id"], json!(id));
    assert_eq!(home.see("/api/secrets?name=OTHER").await["items"], json!([]));

    let asked = json!({ "house_id": home.house, "environment_id": home.environment });
    let first = kept(&home.town).await;
    let values = resolve(&home.town, asked.clone()).await;
    assert_eq!((values.status, values.header("cache-control")), (200, "no-store"));
    assert_eq!(values.json(), json!({ "values": { "GITHUB_TOKEN": "ghp-one" }, "missing_optional": [], "stripped": [] }));

    let put = home.ask(&home.ada, "PUT", &format!("{one}/value"), json!({ "value": "ghp-two" })).await;
    assert_eq!((&put["secret_id"], &put["name"]), (&json!(id), &json!("GITHUB_TOKEN")));
    let second = kept(&home.town).await;
    assert!(first.len() == 1 && second.len() == 1 && first != second, "the old value is gone: {first:?} {second:?}");
    assert_eq!(resolve(&home.town, asked.clone()).await.json()["values"], json!({ "GITHUB_TOKEN": "ghp-two" }));

    let gone = home.ask(&home.ada, "DELETE", &one, Value::Null).await;
    assert_eq!(gone["secret_id"], json!(id));
    assert_eq!(kept(&home.town).await, [""; 0], "the value is gone for good");
    assert_eq!(home.get(&home.ada, &one).await.code(), (404, "not_found".into()));
    assert_eq!(home.see(&environment).await["secret_bindings"][0]["exists"], json!(false));
    let missing = resolve(&home.town, asked).await;
    assert_eq!(missing.code(), (422, "secret_missing".into()));
    assert!(missing.text.contains("GITHUB_TOKEN"), "{missing:?}");
    let told = serde_json::to_string(&home.stream(&format!("arbe-house-{}", home.house)).await).unwrap();
    assert!(told.contains("GITHUB_TOKEN") && !told.contains("ghp-"), "{told}");
    home.end().await;
}

/// What the log says of the secrets of the house: kinds and times as the API writes them.
async fn told(home: &Home) -> Vec<(String, String)> {
    let entries = home.stream(&format!("arbe-house-{}", home.house)).await;
    let of_secrets = entries.iter().filter(|entry| entry["type"].as_str().unwrap().starts_with("signal.secret."));
    let told = of_secrets.map(|entry| {
        let moment = jiff::Timestamp::from_millisecond(entry["ts"].as_i64().unwrap()).unwrap();
        (entry["type"].as_str().unwrap().to_owned(), format!("{moment:.3}"))
    });
    told.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_says_who_made_it_and_since_when_it_has_its_value() {
    let Some(home) = Home::start().await else { return };
    home.join(&home.bob).await;
    let id = set(&home, "TOKEN", "one").await;
    let one = format!("/api/secrets/{id}");
    let made = home.see(&one).await;
    assert_eq!(made["author_id"], json!(home.ada.id.to_string()));
    assert_eq!((&made["created_at"], &made["created_at"]), (&made["rotated_at"], &json!(told(&home).await[0].1)));
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    home.ask(&home.bob, "PUT", &format!("{one}/value"), json!({ "value": "two" })).await;
    let rotated = home.see("/api/secrets").await["items"][0].clone();
    assert_eq!((&rotated["author_id"], &rotated["created_at"]), (&made["author_id"], &made["created_at"]));
    assert_eq!(rotated["rotated_at"], json!(told(&home).await[1].1));
    assert!(rotated["rotated_at"].as_str() > made["rotated_at"].as_str(), "{rotated}");

    home.ask(&home.bob, "DELETE", &one, Value::Null).await;
    let kept = home.rows(&format!("select name, deleted_at is not null as deleted from secrets where id = '{id}'")).await;
    assert_eq!(kept, [json!({ "name": "TOKEN", "deleted": true })], "what was known of it is kept");
    assert_eq!(home.see("/api/secrets").await["items"], json!([]));
    assert_eq!(home.see("/api/secrets?name=TOKEN").await["items"], json!([]));
    let again = set(&home, "TOKEN", "three").await;
    assert_ne!(again, id);
    assert_eq!(home.see("/api/secrets").await["items"][0]["secret_id"], json!(again));
    home.end().await;
}

/// As a server of this version meets them at its first start, before it has built its own.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_version_1_are_read_until_they_are_replaced() {
    let Some(home) = Home::start().await else { return };
    let id = set(&home, "TOKEN", "one").await;
    home.ask(&home.ada, "PUT", &format!("/api/environments/{}/secrets/TOKEN", home.environment), json!({ "required": true }))
        .await;
    let (before, environment) =
        (home.see(&format!("/api/secrets/{id}")).await, format!("/api/environments/{}", home.environment));
    let bound = home.see(&environment).await;
    let mut tx = home.town.rows.read_all().await.unwrap();
    let older = "set local role none; alter table secrets drop column author_id, drop column rotated_at, drop column deleted_at";
    sqlx::raw_sql(older).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let now = home.see("/api/secrets").await["items"][0].clone();
    assert_eq!((&now["secret_id"], &now["rotated_at"]), (&before["secret_id"], &before["created_at"]));
    assert_eq!((&now["author_id"], home.see(&environment).await), (&json!(null), bound));
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_is_made_with_what_it_binds_or_not_at_all() {
    let Some(home) = Home::start().await else { return };
    set(&home, "TOKEN", "one").await;
    let new = |bindings: Value| json!({ "house_id": home.house, "name": "e", "config": {}, "secret_bindings": bindings });
    let made =
        home.post(&home.ada, "/api/environments", new(json!([{ "name": "TOKEN" }, { "name": "NICE", "required": false }])));
    let made = made.await;
    let environment = home.see(&format!("/api/environments/{}", made["environment_id"].as_str().unwrap())).await;
    let bound = environment["secret_bindings"].as_array().unwrap().iter().map(|it| [&it["name"], &it["required"], &it["exists"]]);
    let told = [[json!("NICE"), json!(false), json!(false)], [json!("TOKEN"), json!(true), json!(true)]];
    assert_eq!(bound.collect::<Vec<_>>(), told.iter().map(|it| it.each_ref()).collect::<Vec<_>>());
    for (bindings, code) in [
        (json!([{ "name": "TOKEN" }, { "name": "no-name" }]), "invalid"),
        (json!([{ "name": "TOKEN" }, { "name": "TOKEN", "required": false }]), "invalid"),
        (json!((0..257).map(|n| json!({ "name": format!("N{n}") })).collect::<Vec<_>>()), "invalid"),
        (json!([{ "name": "TOKEN", "value": "x" }]), "bad_request"),
        (json!({ "TOKEN": true }), "bad_request"),
    ] {
        assert_eq!(home.refused(&home.ada, "POST", "/api/environments", new(bindings)).await, code);
    }
    assert_eq!(home.refused(&home.bob, "POST", "/api/environments", new(json!([{ "name": "TOKEN" }]))).await, "not_found");
    let (body, key) = (new(json!([{ "name": "TOKEN" }])).to_string(), [("idempotency-key", "k")]);
    let first = home.town.send(&home.ada.key, "POST", "/api/environments", Some(&body), &key).await;
    let again = home.town.send(&home.ada.key, "POST", "/api/environments", Some(&body), &key).await;
    assert_eq!((first.status, &first.text), (201, &again.text));
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_name_a_bad_value_and_a_bad_name_are_refused_and_nothing_is_kept() {
    let Some(home) = Home::start().await else { return };
    let id = set(&home, "TOKEN", "one").await;
    let before = kept(&home.town).await;
    let new = |name: &str, value: &str| json!({ "house_id": home.house, "name": name, "value": value });
    for (body, code) in [
        (new("TOKEN", "two"), "name_taken"),
        (new("A-B", "two"), "invalid"),
        (new("A", ""), "invalid"),
        (new("A", "a\0b"), "invalid"),
        (new("A", &"x".repeat((64 << 10) + 1)), "too_large"),
        (new("A", &"x".repeat(500 << 10)), "too_large"),
        (json!({ "house_id": home.house, "name": "A" }), "bad_request"),
        (json!({ "house_id": home.house, "name": "A", "value": "v", "secret_id": "mine" }), "bad_request"),
        (json!({ "house_id": home.house, "name": "A", "value": "v", "vault_secret_id": home.bob.id.to_string() }), "bad_request"),
    ] {
        assert_eq!(home.refused(&home.ada, "POST", "/api/secrets", body).await, code);
        let (keyed, key) = (new("TOKEN", "two").to_string(), [("idempotency-key", code)]);
        let reply = home.town.send(&home.ada.key, "POST", "/api/secrets", Some(&keyed), &key).await;
        assert_eq!(reply.code(), (409, "name_taken".into()));
        assert_eq!(kept(&home.town).await, before, "{code}");
    }
    let value = format!("/api/secrets/{id}/value");
    assert_eq!(home.refused(&home.ada, "PUT", &value, json!({ "value": "" })).await, "invalid");
    assert_eq!(
        home.refused(&home.ada, "PATCH", &format!("/api/secrets/{id}"), json!({ "name": "B" })).await,
        "method_not_allowed"
    );
    set(&home, "LARGE", &"\u{1}".repeat(64 << 10)).await;
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_is_answered_as_the_first_time_and_keeps_one_value() {
    let Some(home) = opened().await else { return };
    let body = |value: &str| json!({ "house_id": home.house, "name": "TOKEN", "value": value }).to_string();
    let send = async |method: &str, path: &str, body: &str, key: &str| {
        home.town.send(&home.ada.key, method, path, Some(body), &[("idempotency-key", key)]).await
    };
    let first = send("POST", "/api/secrets", &body("one"), "k1").await;
    let again = send("POST", "/api/secrets", &body("one"), "k1").await;
    assert_eq!((first.status, &first.text), (201, &again.text));
    assert_eq!(send("POST", "/api/secrets", &body("two"), "k1").await.code(), (409, "idempotency_key_reused".into()));
    assert_eq!(kept(&home.town).await.len(), 1);

    let one = format!("/api/secrets/{}", first.json()["secret_id"].as_str().unwrap());
    let value = format!("{one}/value");
    let (put, again) =
        (send("PUT", &value, r#"{"value":"two"}"#, "k2").await, send("PUT", &value, r#"{"value":"two"}"#, "k2").await);
    assert_eq!((put.status, &put.text), (200, &again.text));
    assert_eq!(kept(&home.town).await.len(), 1);
    let late = send("POST", "/api/secrets", &body("one"), "k1").await;
    assert_eq!((late.status, kept(&home.town).await.len()), (201, 1), "an old request brings no old value back");
    let asked = json!({ "house_id": home.house, "names": ["TOKEN"] });
    assert_eq!(resolve(&home.town, asked).await.json()["values"], json!({ "TOKEN": "two" }));

    let (gone, again) = (send("DELETE", &one, "", "k3").await, send("DELETE", &one, "", "k3").await);
    assert_eq!((gone.status, &gone.text), (200, &again.text));
    assert_eq!(kept(&home.town).await, [""; 0]);
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_that_is_repeated_late_leaves_the_newer_value_alone() {
    let Some(home) = opened().await else { return };
    let value = format!("/api/secrets/{}/value", set(&home, "TOKEN", "zero").await);
    for (new, key) in [("one", "k1"), ("two", "k2"), ("one", "k1")] {
        let body = json!({ "value": new }).to_string();
        let put = home.town.send(&home.ada.key, "PUT", &value, Some(&body), &[("idempotency-key", key)]).await;
        assert_eq!((put.status, kept(&home.town).await.len()), (200, 1), "{new}: {put:?}");
    }
    let asked = json!({ "house_id": home.house, "names": ["TOKEN"] });
    assert_eq!(resolve(&home.town, asked).await.json()["values"], json!({ "TOKEN": "two" }));
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_sets_a_secret_is_told_its_row_and_whoever_deletes_it_its_id() {
    let Some(home) = Home::start().await else { return };
    let bare = |mut row: Value| {
        row.as_object_mut().unwrap().remove("position");
        row
    };
    let new = json!({ "house_id": home.house, "name": "TOKEN", "value": "one" });
    let made = home.post(&home.ada, "/api/secrets", new).await;
    let id = made["secret_id"].as_str().unwrap().to_owned();
    let one = format!("/api/secrets/{id}");
    assert!(made["rotated_at"].is_string() && made["position"].is_u64(), "{made}");
    assert_eq!(bare(made), bare(home.see(&one).await));
    let put = home.ask(&home.ada, "PUT", &format!("{one}/value"), json!({ "value": "two" })).await;
    assert_eq!(bare(put), bare(home.see(&one).await));
    let gone = home.ask(&home.ada, "DELETE", &one, Value::Null).await;
    assert_eq!(bare(gone), json!({ "id": id, "secret_id": id }));
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_cannot_be_opened_is_not_worth_another_try_and_its_place_is_not_told() {
    let Some(home) = opened().await else { return };
    set(&home, "TOKEN", "one").await;
    let place = format!("vault/{}", kept(&home.town).await.remove(0));
    home.town.values.put(&place.as_str().into(), b"damaged".to_vec().into()).await.unwrap();
    let reply = resolve(&home.town, json!({ "house_id": home.house })).await;
    assert_eq!((reply.code(), reply.header("retry-after")), ((500, "internal".into()), ""));
    assert!(reply.text.contains("TOKEN") && !reply.text.contains("vault/"), "{reply:?}");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_house_a_threads_token_and_a_stranger_get_nowhere() {
    let Some(home) = opened().await else { return };
    let id = set(&home, "TOKEN", "mine").await;
    let theirs = home.town.make(&home.bob, "/api/houses", &json!({ "name": "theirs" }), "house_id").await;
    let same = json!({ "house_id": theirs, "name": "TOKEN", "value": "theirs" });
    home.town.make(&home.bob, "/api/secrets", &same, "secret_id").await;
    let listed = home.get(&home.bob, "/api/secrets").await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["items"][0]["house_id"], json!(theirs));

    let token = home.post(&home.ada, &format!("/api/threads/{}/token", home.chat), Value::Null).await["token"].clone();
    let token = token.as_str().unwrap().to_owned();
    let one = format!("/api/secrets/{id}");
    let new = json!({ "house_id": home.house, "name": "MORE", "value": "x" }).to_string();
    let before = (kept(&home.town).await, home.town.log.position());
    for (method, path, body) in [
        ("GET", format!("/api/secrets?house={}", home.house), None),
        ("POST", "/api/secrets".to_owned(), Some(new.as_str())),
        ("GET", one.clone(), None),
        ("DELETE", one.clone(), None),
        ("PUT", format!("{one}/value"), Some(r#"{"value":"x"}"#)),
    ] {
        assert_eq!(
            home.town.send(&home.bob.key, method, &path, body, &[]).await.code(),
            (404, "not_found".into()),
            "{method} {path}"
        );
        assert_eq!(home.town.send(&token, method, &path, body, &[]).await.code(), (403, "forbidden".into()), "{method} {path}");
        assert_eq!(home.town.send("", method, &path, body, &[]).await.status, 401, "{method} {path}");
        assert_eq!(home.town.send(TOKEN, method, &path, body, &[]).await.status, 401, "{method} {path}");
    }
    let asked = json!({ "house_id": home.house }).to_string();
    for wrong in [home.ada.key.as_str(), token.as_str(), "", "the-resolve-tokem", "the-resolve-token2", "the"] {
        let reply = home.town.send(wrong, "POST", DOOR, Some(&asked), &[]).await;
        assert_eq!(reply.code(), (401, "unauthenticated".into()), "{wrong}");
    }
    let elsewhere = json!({ "house_id": theirs, "environment_id": home.environment });
    assert_eq!(resolve(&home.town, elsewhere).await.code(), (404, "not_found".into()));
    assert_eq!((kept(&home.town).await, home.town.log.position()), before);
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_door_to_values_is_there_only_where_it_is_configured_and_nobody_describes_it() {
    let Some(home) = Home::start().await else { return };
    let asked = json!({ "house_id": home.house }).to_string();
    for token in [TOKEN, home.ada.key.as_str(), ""] {
        assert_eq!(home.town.send(token, "POST", DOOR, Some(&asked), &[]).await.code(), (404, "not_found".into()));
        for method in ["GET", "PUT", "PATCH", "DELETE"] {
            assert_eq!(home.town.send(token, method, DOOR, None, &[]).await.code(), (404, "not_found".into()), "{method}");
        }
    }
    let document = home.town.send("", "GET", "/openapi.json", None, &[]).await;
    assert!(document.json()["paths"]["/api/secrets"].is_object() && !document.text.contains("secrets/resolve"), "{document:?}");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_door_gives_what_is_bound_what_is_named_or_all_and_never_what_is_reserved() {
    let Some(home) = opened().await else { return };
    for (name, value) in [("A", "a"), ("B", "b"), ("PATH", "/evil"), ("ARBE_TOKEN", "x"), ("SPRITES_TOKEN", "s")] {
        set(&home, name, value).await;
    }
    for (name, required) in [("A", true), ("PATH", true), ("LATER", false)] {
        let path = format!("/api/environments/{}/secrets/{name}", home.environment);
        home.ask(&home.ada, "PUT", &path, json!({ "required": required })).await;
    }
    let bound = resolve(&home.town, json!({ "house_id": home.house, "environment_id": home.environment })).await.json();
    assert_eq!(bound, json!({ "values": { "A": "a" }, "missing_optional": ["LATER"], "stripped": ["PATH"] }));
    let named = resolve(&home.town, json!({ "house_id": home.house, "names": ["B"] })).await.json();
    assert_eq!(named["values"], json!({ "B": "b" }));
    let all = resolve(&home.town, json!({ "house_id": home.house })).await.json();
    assert_eq!(all["values"], json!({ "A": "a", "B": "b" }));
    assert_eq!(all["stripped"], json!(["ARBE_TOKEN", "PATH", "SPRITES_TOKEN"]));
    let missing = resolve(&home.town, json!({ "house_id": home.house, "names": ["B", "C"] })).await;
    assert_eq!(missing.code(), (422, "secret_missing".into()));
    for body in [
        json!({}),
        json!({ "house_id": home.house, "names": ["A"], "environment_id": home.environment }),
        json!({ "house_id": home.house, "name": "A" }),
    ] {
        assert_eq!(resolve(&home.town, body).await.code(), (400, "bad_request".into()));
    }
    home.end().await;
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// For the whole process: a logger of one thread misses whatever another thread logged first.
#[tokio::test]
async fn no_value_is_in_a_line_of_the_server_an_error_an_entry_or_a_row() {
    let lines = Lines::default();
    let written = lines.clone();
    let logger =
        tracing_subscriber::fmt().with_ansi(false).with_max_level(LevelFilter::DEBUG).with_writer(move || written.clone());
    tracing::subscriber::set_global_default(logger.finish()).expect("nobody else here sets one");
    let Some(home) = opened().await else { return };
    let id = set(&home, "TOKEN", "planted-1").await;
    let value = format!("/api/secrets/{id}/value");
    home.ask(&home.ada, "PUT", &value, json!({ "value": "planted-2" })).await;
    let mut told = String::new();
    for body in [
        r#"{"value":"planted-3","planted":1}"#,
        r#"{"value":["planted-4"]}"#,
        r#"{"value":"planted-5"#,
        r#"["planted-6"]"#,
        r#""planted-7""#,
        r#"{"value":"planted-8\u0000"}"#,
        r#"{"planted-9":"x"}"#,
        r#"{"value":"planted","value":"planted"}"#,
    ] {
        let reply = home.town.send(&home.ada.key, "PUT", &value, Some(body), &[]).await;
        assert!((400..500).contains(&reply.status), "{body}: {reply:?}");
        told += &reply.text;
    }
    let named = r#"{"house_id":"planted house","name":"planted","value":"planted-10"}"#;
    told += &home.town.send(&home.ada.key, "POST", "/api/secrets", Some(named), &[]).await.text;
    assert_eq!(resolve(&home.town, json!({ "house_id": home.house })).await.json()["values"]["TOKEN"], json!("planted-2"));
    told += &serde_json::to_string(&home.stream(&format!("arbe-house-{}", home.house)).await).unwrap();
    told += &serde_json::to_string(&home.rows("select * from secrets").await).unwrap();
    told += &home.town.send("", "GET", "/metrics", None, &[]).await.text;
    told += &String::from_utf8_lossy(&lines.0.lock().unwrap());
    assert!(told.contains("arbe_api_requests_total") && told.contains("DEBUG"), "the lines were caught");
    assert!(!told.contains("planted"), "{told}");
    home.end().await;
}
