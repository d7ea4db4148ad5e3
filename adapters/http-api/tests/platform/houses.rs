//! The house as the only boundary, and what is in it: members, places, sets, recipes.

use serde_json::{Value, json};

use crate::home::Home;
use crate::town::Person;

/// What every door to a thread says to somebody.
async fn doors(home: &Home, who: &Person, token: Option<&str>) -> Vec<u16> {
    let thread = format!("/api/threads/{}", home.chat);
    let mut answers = vec![
        home.get(who, &thread).await.status,
        home.get(who, &format!("{thread}/entries")).await.status,
        home.town.get(who, &format!("{thread}/stream")).await.status,
        home.get(who, &format!("/api/threads?house={}", home.house)).await.status,
        home.get(who, &format!("/api/environments/{}", home.environment)).await.status,
        home.get(who, &format!("/api/houses/{}/members", home.house)).await.status,
        home.town.post(who, &format!("{thread}/entries"), &json!({ "text": "hello" })).await.status,
        home.town.post(who, &format!("{thread}/token"), &json!({})).await.status,
    ];
    if let Some(token) = token {
        let door = format!("/api/stream/arbe-thread-{}", home.chat);
        answers.push(home.town.send(token, "GET", &door, None, &[]).await.status);
        answers.push(home.town.send(token, "POST", &door, Some(r#"{"text":"hello"}"#), &[]).await.status);
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn authorization_is_one_predicate_at_the_api_at_the_stream_door_and_in_the_rows() {
    let Some(home) = Home::start().await else { return };
    let bob = home.bob.clone();
    let elsewhere = home.town.make(&bob, "/api/houses", &json!({ "name": "elsewhere" }), "house_id").await;
    let is_member = format!("select 1 as one from members where agent_id = '{}'", bob.id);
    let thread = format!("select id from threads where id = '{}'", home.chat);

    assert!(home.rows(&is_member).await.is_empty());
    assert!(doors(&home, &bob, None).await.iter().all(|status| *status == 404));

    home.join(&bob).await;
    assert_eq!(home.rows(&is_member).await.len(), 1);
    let token = home.post(&bob, &format!("/api/threads/{}/token", home.chat), Value::Null).await["token"].clone();
    let token = token.as_str().unwrap();
    assert!(doors(&home, &bob, Some(token)).await.iter().all(|status| matches!(status, 200 | 201)));
    assert_eq!(home.rows(&thread).await.len(), 1);
    assert!(home.rows_of(&elsewhere, &thread).await.is_empty(), "as a reader of another house there is no such thread");

    home.ask(&home.ada, "DELETE", &format!("/api/houses/{}/members/{}", home.house, bob.id), Value::Null).await;
    assert!(home.rows(&is_member).await.is_empty());
    assert!(
        doors(&home, &bob, Some(token)).await.iter().all(|status| *status == 404),
        "a token is worth no more than its holder"
    );
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_removed_gets_no_receipt_of_what_they_did_there() {
    let Some(home) = Home::start().await else { return };
    home.join(&home.bob).await;
    let entries = format!("/api/threads/{}/entries", home.chat);
    let say =
        async || home.town.send(&home.bob.key, "POST", &entries, Some(r#"{"text":"once"}"#), &[("idempotency-key", "k")]).await;
    let (first, again) = (say().await, say().await);
    assert_eq!((first.status, &first.text), (201, &again.text));
    home.ask(&home.ada, "DELETE", &format!("/api/houses/{}/members/{}", home.house, home.bob.id), Value::Null).await;
    let (before, late) = (home.town.log.position(), say().await);
    assert_eq!((late.code(), home.town.log.position()), ((404, "not_found".into()), before));
    assert_eq!(home.kinds(&home.chat).await, ["signal.thread.created", "chat"]);
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_removed_stops_hearing_also_where_they_are_listening() {
    let Some(home) = Home::start().await else { return };
    home.join(&home.bob).await;
    let door = format!("/api/threads/{}/stream?offset=now&live=", home.chat);
    let (polls, listens) = (format!("{door}long-poll"), format!("{door}sse"));
    let part = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        home.say(&home.ada, &home.chat, "before").await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let again = home.town.get(&home.bob, &polls);
        let send_away = async {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            home.ask(&home.ada, "DELETE", &format!("/api/houses/{}/members/{}", home.house, home.bob.id), Value::Null).await;
            home.say(&home.ada, &home.chat, "after").await;
        };
        tokio::join!(again, send_away).0
    };
    let (first, events, second) = tokio::join!(home.town.get(&home.bob, &polls), home.town.get(&home.bob, &listens), part);
    assert_eq!(first.json()[0]["payload"]["text"], json!("before"));
    assert_eq!(second.code(), (404, "not_found".into()));
    assert!(events.text.contains("before") && !events.text.contains("after"), "{}", events.text);
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn membership_gives_everything_in_the_house_and_an_agent_may_be_in_many() {
    let Some(home) = Home::start().await else { return };
    let bob = home.bob.clone();
    let second = home.town.make(&bob, "/api/houses", &json!({ "name": "second" }), "house_id").await;
    let addressed = home.thread(json!({ "parent_agent_id": home.ada.id.to_string() })).await;
    home.join(&bob).await;
    assert_eq!(home.get(&bob, &format!("/api/threads/{addressed}")).await.status, 200, "addressed to Ada, but not private");
    let me = home.get(&bob, "/api/me").await.json();
    let houses: Vec<_> = me["houses"].as_array().unwrap().iter().map(|house| (&house["name"], &house["role"])).collect();
    assert_eq!(houses.len(), 2);
    assert!(houses.contains(&(&json!("home"), &json!("member"))) && houses.contains(&(&json!("second"), &json!("owner"))));

    let name = json!({ "name": "mine" });
    assert_eq!(home.refused(&bob, "PATCH", &format!("/api/houses/{}", home.house), name).await, "forbidden", "a role");
    let owner = json!({ "role": "owner" });
    let bots = format!("/api/houses/{}/members/{}", home.house, home.bot.id);
    assert_eq!(home.refused(&home.ada, "PATCH", &bots, owner).await, "bot_cannot_own");
    let members = home.rows("select agent_id, role from members order by role desc, joined_at").await;
    let roles: Vec<_> = members.iter().map(|member| member["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["owner", "member", "member"]);
    let theirs = home.rows_of(&second, "select agent_id from members").await;
    assert_eq!(theirs, [json!({ "agent_id": bob.id.to_string() })]);
    let log: Vec<_> = home.stream(&format!("arbe-house-{}", home.house)).await;
    let joined = log.iter().filter(|entry| entry["type"] == "signal.house.member_added").count();
    assert_eq!(joined, 3);
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_thread_is_a_place_and_a_tag_is_a_set() {
    let Some(home) = Home::start().await else { return };
    let place = home.thread(json!({ "pinned": true })).await;
    let branch = home.thread(json!({ "parent_thread_id": place, "tags": ["release", "closed", "!?"] })).await;
    let other = home.thread(json!({ "name": "titled, not pinned", "tags": ["release"] })).await;
    let ids = async |query: &str| {
        let listed = home.see(&format!("/api/threads?{query}")).await;
        let mut ids: Vec<_> = listed["items"].as_array().unwrap().iter().map(|item| item["thread_id"].clone()).collect();
        ids.sort_by_key(Value::to_string);
        ids
    };
    let mut both = [json!(branch), json!(other)];
    both.sort_by_key(Value::to_string);
    assert_eq!(ids("pinned=true").await, [json!(place)], "a place needs no name");
    assert_eq!(ids("tag=release").await, both);
    assert_eq!(ids(&format!("parent={place}")).await, [json!(branch)], "work branches off a place");
    assert_eq!(home.rows("select id from threads where tags @> array['release']").await.len(), 2);
    let row = home.row(&branch).await;
    assert_eq!(
        (&row["tags"], &row["status"], &row["pinned_at"]),
        (&json!(["!?", "closed", "release"]), &json!("open"), &json!(null))
    );
    home.say(&home.ada, &branch, "a tag changes nothing").await;

    home.ask(&home.ada, "PATCH", &format!("/api/threads/{place}"), json!({ "pinned": false })).await;
    assert_eq!(ids("pinned=true").await, [json!(null); 0]);
    assert_eq!(home.kinds(&place).await, ["signal.thread.created", "signal.thread.unpinned"]);
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_names_secrets_that_need_not_exist_and_one_can_tell_who_injects_them() {
    let Some(home) = Home::start().await else { return };
    let bindings = format!("/api/environments/{}/secrets", home.environment);
    for (name, required) in [("TOKEN", true), ("EXTRA", false)] {
        home.ask(&home.ada, "PUT", &format!("{bindings}/{name}"), json!({ "required": required })).await;
    }
    let bound = json!([
        { "name": "EXTRA", "required": false, "exists": false },
        { "name": "TOKEN", "required": true, "exists": false },
    ]);
    assert_eq!(home.see(&format!("/api/environments/{}", home.environment)).await["secret_bindings"], bound);
    let blast = r#"select id from environments where secret_bindings @> '[{"name": "TOKEN"}]'"#;
    assert_eq!(home.rows(blast).await, [json!({ "id": home.environment })]);
    assert!(home.rows("select id from secrets").await.is_empty());
    home.ask(&home.ada, "DELETE", &format!("{bindings}/TOKEN"), Value::Null).await;
    assert!(home.rows(blast).await.is_empty());
    home.end().await;
}

/// Not by a trigger, which would stamp the time of a replay.
#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_a_thread_row_carries_the_time_of_its_event() {
    let Some(home) = Home::start().await else { return };
    let thread = home.driven().await;
    let one = format!("/api/threads/{thread}");
    let moved = async |how: &str| {
        let last = home.entries(&thread).await.pop().unwrap();
        let time = format!("select (extract(epoch from updated_at) * 1000)::bigint as ms from threads where id = '{thread}'");
        assert_eq!(home.rows(&time).await, [json!({ "ms": last["ts"] })], "{how}");
    };
    moved("created").await;
    for change in [
        json!({ "name": "a" }),
        json!({ "pinned": true }),
        json!({ "tags": ["x"] }),
        json!({ "environment_id": home.environment }),
    ] {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        home.ask(&home.ada, "PATCH", &one, change.clone()).await;
        moved(&change.to_string()).await;
    }
    let sandbox = home.sandbox(json!({ "thread_id": thread })).await;
    moved("sandbox set").await;
    home.mark(&sandbox, "dead", Value::Null).await;
    home.post(&home.ada, &format!("/api/sandboxes/{sandbox}/resume"), Value::Null).await;
    moved("sandbox resumed").await;
    home.start_run(&home.bot, &thread).await;
    moved("running").await;
    home.end().await;
}
