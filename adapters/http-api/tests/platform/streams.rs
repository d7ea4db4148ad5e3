//! The contract of a thread's stream.

#![expect(clippy::disallowed_methods, reason = "the times of entries are held against the real clock")]

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::home::Home;

fn keys(entry: &Value) -> Vec<&str> {
    entry.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_id_ts_type_version_author_and_payload_wherever_it_is_read() {
    let Some(home) = Home::start().await else { return };
    let before = Timestamp::now().as_millisecond();
    home.say(&home.ada, &home.chat, "hello").await;
    let after = Timestamp::now().as_millisecond();
    let entries = home.entries(&home.chat).await;
    assert_eq!(home.town.get(&home.ada, &format!("/api/threads/{}/stream", home.chat)).await.json(), json!(entries));
    let said = &entries[1];
    let envelope = BTreeSet::from(["author_agent_id", "id", "payload", "ts", "type", "v"]);
    assert_eq!(keys(said).into_iter().collect::<BTreeSet<_>>(), envelope);
    assert!((before..=after).contains(&said["ts"].as_i64().unwrap()), "the server's time, in milliseconds");
    assert!(said["id"].as_str().unwrap().parse::<events::EventId>().is_ok(), "a ULID");
    let ids: BTreeSet<_> = entries.iter().map(|entry| entry["id"].to_string()).collect();
    assert_eq!(ids.len(), entries.len());

    let listed = home.see(&format!("/api/threads/{}/entries", home.chat)).await["items"][1].clone();
    let place = BTreeSet::from(["seq", "stream_id"]);
    assert_eq!(keys(&listed).into_iter().collect::<BTreeSet<_>>(), envelope.union(&place).copied().collect());
    assert_eq!((&listed["seq"], &listed["stream_id"]), (&json!(1), &json!(format!("arbe-thread-{}", home.chat))));
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_author_is_who_posts_and_cannot_be_named() {
    let Some(home) = Home::start().await else { return };
    let path = format!("/api/threads/{}/entries", home.chat);
    for field in ["author_agent_id", "authorId", "author", "id", "ts", "seq"] {
        let mut body = json!({ "type": "chat", "payload": { "text": "not me" } });
        body[field] = json!(home.bob.id.to_string());
        assert_eq!(home.refused(&home.ada, "POST", &path, body).await, "bad_request", "{field}");
    }
    home.say(&home.ada, &home.chat, "a").await;
    let token = home.post(&home.bot, &format!("/api/threads/{}/token", home.chat), Value::Null).await["token"].clone();
    let door = format!("/api/stream/arbe-thread-{}", home.chat);
    let scoped = home.town.send(token.as_str().unwrap(), "POST", &door, Some(r#"{"text":"b"}"#), &[]).await;
    assert_eq!(scoped.status, 201, "{scoped:?}");
    let authors: Vec<_> = home.entries(&home.chat).await[1..].iter().map(|entry| entry["author_agent_id"].clone()).collect();
    assert_eq!(authors, [json!(home.ada.id.to_string()), json!(home.bot.id.to_string())]);
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_are_of_three_groups_and_the_platforms_own_are_checked() {
    let Some(home) = Home::start().await else { return };
    let thread = home.driven().await;
    let path = format!("/api/threads/{thread}/entries");
    for kind in ["pi.chunk", "pi.assistant", "pi.tool_result", "pi.compaction", "pi.entry", "pi.newer_than_us"] {
        let payload = json!({ "anything": [1, { "goes": null }] });
        home.tell(&home.bot, &thread, kind, payload.clone()).await;
        let last = home.entries(&thread).await.pop().unwrap();
        assert_eq!((&last["type"], &last["payload"]), (&json!(kind), &payload), "kept whole");
        let posted = json!({ "type": kind, "payload": {} });
        assert_eq!(home.refused(&home.ada, "POST", &path, posted).await, "kind_not_allowed", "a human has no transcript");
    }
    for kind in ["user.message", "assistant.message", "span.started", "message", "pi.", "signal.", "signal.thread.exploded"] {
        let posted = json!({ "type": kind, "payload": {} });
        assert_eq!(home.refused(&home.bot, "POST", &path, posted).await, "unknown_kind", "{kind}");
    }
    for (kind, payload) in [
        ("signal.thread.pinned", json!({})),
        ("signal.thread.child_finished", json!({ "child_thread_id": thread, "status": "failed" })),
        ("signal.house.renamed", json!({ "name": "x" })),
        ("signal.environment.deleted", json!({ "environment_id": home.environment })),
        ("signal.sandbox.dead", json!({ "sandbox_id": "s" })),
        ("signal.agent.renamed", json!({ "agent_id": home.bot.id.to_string() })),
    ] {
        let posted = json!({ "type": kind, "payload": payload });
        assert_eq!(home.refused(&home.bot, "POST", &path, posted).await, "kind_not_allowed", "{kind} is not a client's to say");
    }
    for (kind, payload) in [
        ("chat", json!({ "text": "a", "colour": "red" })),
        ("chat", json!({})),
        ("signal.dispatch.heartbeat", json!({})),
        ("signal.permission.resolved", json!({ "request_id": "p", "allowed": "yes" })),
    ] {
        let posted = json!({ "type": kind, "payload": payload });
        assert_eq!(home.refused(&home.bot, "POST", &path, posted).await, "invalid", "{kind} {payload}");
    }
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_a_dedup_key_so_a_retried_entry_is_there_once() {
    let Some(home) = Home::start().await else { return };
    let path = format!("/api/threads/{}/entries", home.chat);
    let words = r#"[{"text":"one"},{"text":"two"}]"#;
    let say = async || home.town.send(&home.ada.key, "POST", &path, Some(words), &[("idempotency-key", "k")]).await;
    let (first, again) = (say().await, say().await);
    assert_eq!((first.status, &first.text), (201, &again.text));
    let entries = home.entries(&home.chat).await;
    let ids: Vec<_> = entries[1..].iter().map(|entry| entry["id"].clone()).collect();
    let receipt: Vec<_> = first.json()["entries"].as_array().unwrap().iter().map(|entry| entry["id"].clone()).collect();
    assert_eq!(ids, receipt);
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_are_stored_and_given_back_and_lead_on_exactly_where_one_was() {
    let Some(home) = Home::start().await else { return };
    let door = format!("/api/threads/{}/stream", home.chat);
    let read = async |offset: &str| home.town.get(&home.ada, &format!("{door}?offset={offset}")).await;
    let (mut offset, mut seen) = ("-1".to_owned(), Vec::new());
    for n in 0..5 {
        let page = read(&offset).await;
        assert_eq!((page.status, page.header("stream-up-to-date")), (200, "true"));
        seen.extend(page.json().as_array().unwrap().clone());
        offset = page.header("stream-next-offset").to_owned();
        home.say(&home.ada, &home.chat, &n.to_string()).await;
    }
    seen.extend(read(&offset).await.json().as_array().unwrap().clone());
    assert_eq!(seen, home.entries(&home.chat).await, "nothing twice and nothing missed");

    let now = read("now").await;
    assert_eq!((now.json(), now.header("stream-up-to-date")), (json!([]), "true"), "an empty answer that reached the tail");
    assert_eq!(read(now.header("stream-next-offset")).await.json(), json!([]));
    let other = home.driven().await;
    let foreign = home.town.get(&home.ada, &format!("/api/threads/{other}/stream")).await;
    for made_up in ["0", "latest", "0000", "-2", "1_", "abc_def", foreign.header("stream-next-offset")] {
        assert!((400..500).contains(&read(made_up).await.status), "{made_up}");
    }
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_who_is_behind_is_not_told_to_be_up_to_date() {
    let Some(home) = Home::start().await else { return };
    let large = "x".repeat(1 << 20);
    for _ in 0..6 {
        home.say(&home.ada, &home.chat, &large).await;
    }
    let (mut offset, mut pages, mut seen) = ("-1".to_owned(), Vec::new(), 0);
    while pages.last() != Some(&true) {
        let page = home.town.get(&home.ada, &format!("/api/threads/{}/stream?offset={offset}", home.chat)).await;
        seen += page.json().as_array().unwrap().len();
        offset = page.header("stream-next-offset").to_owned();
        pages.push(page.header("stream-up-to-date") == "true");
    }
    assert!(pages.len() > 1, "more than a page");
    assert_eq!((pages.iter().filter(|up_to_date| **up_to_date).count(), seen), (1, 7), "only the last one is");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn append_first_so_that_a_failed_dispatch_leaves_the_message_and_a_word_of_the_failure() {
    let Some(home) = Home::start().await else { return };
    let said = home.post(&home.ada, &format!("/api/threads/{}/entries", home.chat), json!({ "text": "do it" })).await;
    let id = said["entries"][0]["id"].clone();
    assert_eq!(home.entries(&home.chat).await[1]["id"], id, "durable before anything runs");
    let failed = json!({ "error_class": "provider", "message": "no capacity" });
    home.tell(&home.bot, &home.chat, "signal.dispatch.failed", failed.clone()).await;
    let entries = home.entries(&home.chat).await;
    assert_eq!((&entries[1]["id"], &entries[2]["payload"]), (&id, &failed), "the log tells the truth");
    assert_eq!(home.status(&home.chat).await, "open", "what goes on in a dispatch is not the thread's status");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scoped_token_is_for_one_thread_for_two_hours_and_only_for_its_stream() {
    let Some(home) = Home::start().await else { return };
    let (made_at, other) = (Timestamp::now(), home.driven().await);
    let token = home.post(&home.bot, &format!("/api/threads/{}/token", home.chat), Value::Null).await;
    let expires: Timestamp = token["expires_at"].as_str().unwrap().parse().unwrap();
    let hours = expires.duration_since(made_at).as_secs_f64() / 3600.0;
    assert!((1.99..2.01).contains(&hours), "{hours}");
    let token = token["token"].as_str().unwrap();
    let own = home.town.send(token, "GET", &format!("/api/stream/arbe-thread-{}", home.chat), None, &[]).await;
    assert_eq!((own.status, own.json()), (200, json!(home.entries(&home.chat).await)));
    let before = home.town.log.position();
    let words = Some(r#"{"text":"x"}"#);
    for (method, path, body) in [
        ("GET", format!("/api/stream/arbe-thread-{other}"), None),
        ("POST", format!("/api/stream/arbe-thread-{other}"), words),
        ("POST", format!("/api/threads/{other}/entries"), words),
        ("POST", "/api/threads".to_owned(), Some(r#"{"house_id":"h"}"#)),
        ("POST", format!("/api/threads/{}/runs", home.chat), None),
        ("POST", format!("/api/threads/{}/token", home.chat), None),
        ("GET", format!("/api/houses/{}", home.house), None),
    ] {
        assert_eq!(home.town.send(token, method, &path, body, &[]).await.status, 403, "{method} {path}");
    }
    assert_eq!(home.town.log.position(), before);
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_tells_its_whole_run_through_the_scoped_door() {
    let Some(home) = Home::start().await else { return };
    let thread = home.driven().await;
    let run = home.start_run(&home.bot, &thread).await;
    let token = home.post(&home.bot, &format!("/api/threads/{thread}/token"), Value::Null).await;
    let (token, door) = (token["token"].as_str().unwrap(), format!("/api/stream/arbe-thread-{thread}"));
    let post = async |below: &str, body: Value, key: &str| {
        home.town.send(token, "POST", &format!("{door}{below}"), Some(&body.to_string()), &[("idempotency-key", key)]).await
    };
    for (key, kind, payload) in [
        ("a", "signal.dispatch.session_started", json!({ "run_id": run, "session_ref": thread })),
        ("b", "signal.dispatch.heartbeat", json!({ "run_id": run })),
        ("c", "pi.entry", json!({ "type": "session", "id": thread })),
        ("c", "pi.entry", json!({ "type": "session", "id": thread })),
    ] {
        let told = post("", json!({ "type": kind, "payload": payload }), key).await;
        assert_eq!(told.status, 201, "{kind}: {told:?}");
    }
    let ended = json!({ "status": "failed", "failure": { "error_class": "model", "message": "500", "exit_code": 0 } });
    let (terminal, finish) = (format!("{run}:terminal"), format!("/runs/{run}/finish"));
    let wrong = post("/runs/another/finish", ended.clone(), "d").await;
    assert_eq!(wrong.code(), (409, "wrong_run".into()));
    for _ in 0..2 {
        let said = post(&finish, ended.clone(), &terminal).await;
        assert_eq!(said.status, 200, "a second word of the same end is the first: {said:?}");
    }
    let other = post(&finish, json!({ "status": "completed" }), &terminal).await;
    assert_eq!(other.code(), (409, "idempotency_key_reused".into()));
    let late = post(&finish, json!({ "status": "completed" }), "e").await;
    assert_eq!(late.code(), (409, "wrong_status".into()));
    let kinds = home.kinds(&thread).await;
    let expected = [
        "signal.dispatch.session_started",
        "signal.dispatch.heartbeat",
        "pi.entry",
        "signal.thread.pi_failed",
        "signal.thread.status_changed",
    ];
    assert_eq!(kinds[3..], expected.map(str::to_owned));
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drivers_token_that_expired_is_renewed_for_a_day_while_it_drives_and_opens_nothing_else() {
    let Some(home) = Home::start().await else { return };
    let thread = home.driven().await;
    let run = home.start_run(&home.bot, &thread).await;
    let options = http_api::auth::Options { key: crate::town::KEY, issuer: None };
    let expired = |who: &crate::town::Person, thread: &str, hours: u64| {
        let made = home.town.log.now_ms() - (2 + hours) * 3_600_000 - 5_000;
        options.thread_token(who.id, &thread.parse().unwrap(), made).unwrap()
    };
    let door = format!("/api/stream/arbe-thread-{thread}");
    let renew = async |token: &str| home.town.send(token, "POST", &format!("{door}/token"), None, &[]).await;
    let late = expired(&home.bot, &thread, 1);
    for (method, path) in [("GET", door.clone()), ("POST", door.clone()), ("POST", format!("{door}/runs/{run}/finish"))] {
        let refused = home.town.send(&late, method, &path, Some(r#"{"status":"completed"}"#), &[]).await;
        assert_eq!(refused.status, 401, "{method} {path}: {refused:?}");
    }
    let fresh = renew(&late).await;
    assert_eq!(fresh.status, 201, "{fresh:?}");
    let fresh = fresh.json()["token"].as_str().unwrap().to_owned();
    assert_eq!(home.town.send(&fresh, "GET", &door, None, &[]).await.status, 200);
    assert_eq!(renew(&expired(&home.bot, &thread, 23)).await.status, 201);
    assert_eq!(renew(&expired(&home.bot, &thread, 24)).await.status, 401, "a day is over");
    assert_eq!(renew(&expired(&home.ada, &thread, 1)).await.status, 403, "she does not drive");
    assert_eq!(renew(&expired(&home.bot, &home.chat, 1)).await.code(), (403, "wrong_thread".into()));
    home.finish_run(&thread, &run, json!({ "status": "completed" })).await;
    assert_eq!(renew(&late).await.status, 403, "it is over");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scoped_token_is_renewed_by_the_driver_while_it_drives() {
    let Some(home) = Home::start().await else { return };
    let thread = home.driven().await;
    let scoped = async |who| home.post(who, &format!("/api/threads/{thread}/token"), Value::Null).await["token"].clone();
    let (bots, adas) = (scoped(&home.bot).await, scoped(&home.ada).await);
    let door = format!("/api/stream/arbe-thread-{thread}");
    let renew = async |token: &Value| home.town.send(token.as_str().unwrap(), "POST", &format!("{door}/token"), None, &[]).await;
    assert_eq!(renew(&bots).await.status, 403, "nothing runs");
    let run = home.start_run(&home.bot, &thread).await;
    assert_eq!(renew(&adas).await.status, 403, "she does not drive");
    let renewed = renew(&bots).await;
    assert_eq!(renewed.status, 201, "{renewed:?}");
    let fresh = renewed.json()["token"].clone();
    assert_eq!(home.town.send(fresh.as_str().unwrap(), "GET", &door, None, &[]).await.status, 200);
    let other = home.driven().await;
    let elsewhere = format!("/api/stream/arbe-thread-{other}");
    for (below, body) in [("/token".to_owned(), None), (format!("/runs/{run}/finish"), Some(r#"{"status":"completed"}"#))] {
        let refused = home.town.send(fresh.as_str().unwrap(), "POST", &format!("{elsewhere}{below}"), body, &[]).await;
        assert_eq!(refused.code(), (403, "wrong_thread".into()), "{below}");
    }
    home.finish_run(&thread, &run, json!({ "status": "completed" })).await;
    assert_eq!(renew(&bots).await.status, 403, "it is over");
    home.end().await;
}
