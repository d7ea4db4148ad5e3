//! What was deliberately left out stays out until somebody decides otherwise.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::home::Home;

async fn tables(home: &Home) -> Vec<String> {
    let tables = "select table_name as name from information_schema.tables where table_schema = current_schema() order by 1";
    home.rows(tables).await.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

async fn columns(home: &Home, table: &str) -> String {
    let columns = format!(
        "select string_agg(column_name, ' ' order by ordinal_position) as names from information_schema.columns
        where table_schema = current_schema() and table_name = '{table}'"
    );
    home.rows(&columns).await[0]["names"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_table_of_runs_of_tags_of_guests_of_bindings_or_of_entries() {
    let Some(home) = Home::start().await else { return };
    let all = ["agents", "environments", "houses", "members", "pending", "reconciliation", "sandboxes", "secrets", "threads"];
    assert_eq!(tables(&home).await, all, "what a reader may see");
    let threads = "id house_id stream_id name pinned_at parent_thread_id parent_agent_id environment_id sandbox_id agent_id tags \
                   status created_at updated_at";
    assert_eq!(columns(&home, "threads").await, threads, "one status, and no column of its details");
    let secrets = "id house_id name author_id vault_secret_id created_at rotated_at deleted_at";
    assert_eq!(columns(&home, "secrets").await, secrets, "a secret has no audience");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_runs_table_the_stream_tells_every_run_and_machine() {
    let Some(home) = Home::start().await else { return };
    home.set_default(&home.environment).await;
    let task = home.delegate(json!({})).await;
    for outcome in ["failed", "completed"] {
        let run = home.start_run(&home.bot, &task).await;
        home.finish_run(&task, &run, json!({ "status": outcome })).await;
    }
    let entries = home.entries(&task).await;
    let runs = entries.iter().filter(|entry| entry["payload"]["status"] == "running").count();
    assert_eq!((runs, home.status(&task).await.as_str()), (2, "completed"));
    let other = json!({ "agent_id": home.ada.id.to_string() });
    let rebind = home.refused(&home.ada, "PATCH", &format!("/api/threads/{task}"), other).await;
    assert_eq!(rebind, "bad_request", "another runtime is another child, not another driver");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_are_free_form_without_a_registry() {
    let Some(home) = Home::start().await else { return };
    let odd = ["activity-log", "ünïcödé", "with space", "a,b", "{}", "\"quoted\"", "null", "🦀"];
    let thread = home.thread(json!({ "tags": odd })).await;
    let mut sorted = odd.to_vec();
    sorted.sort_unstable();
    assert_eq!(home.row(&thread).await["tags"], json!(sorted));
    for tag in odd {
        let tag: String = tag.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(home.see(&format!("/api/threads?tag={tag}")).await["items"].as_array().unwrap().len(), 1, "{tag}");
    }
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_shared_with_nobody_outside_its_house() {
    let Some(home) = Home::start().await else { return };
    let theirs = home.town.make(&home.bob, "/api/houses", &json!({ "name": "theirs" }), "house_id").await;
    let addressed = home.thread(json!({ "parent_agent_id": home.bob.id.to_string() })).await;
    assert_eq!(home.get(&home.bob, &format!("/api/threads/{addressed}")).await.code(), (404, "not_found".into()));
    let across = json!({ "house_id": theirs, "parent_thread_id": home.chat });
    assert_eq!(home.refused(&home.bob, "POST", "/api/threads", across.clone()).await, "parent_not_found");
    home.join(&home.bob).await;
    assert_eq!(home.refused(&home.bob, "POST", "/api/threads", across).await, "parent_in_other_house");
    let recipe = json!({ "house_id": theirs, "environment_id": home.environment });
    assert_eq!(home.refused(&home.bob, "POST", "/api/threads", recipe).await, "environment_not_found", "nor its recipes");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_write_in_one_thread_at_once_and_everything_has_one_order() {
    let Some(home) = Home::start().await else { return };
    home.join(&home.bob).await;
    let people = [&home.ada, &home.bob, &home.bot];
    let say = async |n: usize| home.say(people[n % 3], &home.chat, &n.to_string()).await;
    join_all((0..30).map(say)).await;
    let listed = home.see(&format!("/api/threads/{}/entries?limit=200", home.chat)).await;
    let items = listed["items"].as_array().unwrap();
    assert_eq!(items.iter().map(|item| item["seq"].as_u64().unwrap()).collect::<Vec<_>>(), (0..31).collect::<Vec<_>>());
    let mut texts: Vec<u32> = items[1..].iter().map(|item| item["payload"]["text"].as_str().unwrap().parse().unwrap()).collect();
    texts.sort_unstable();
    assert_eq!(texts, (0..30).collect::<Vec<_>>());
    let streamed = home.town.get(&home.bob, &format!("/api/threads/{}/stream", home.chat)).await.json();
    let ids = |entries: &[Value]| entries.iter().map(|entry| entry["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(streamed.as_array().unwrap()), ids(items));
    home.end().await;
}
