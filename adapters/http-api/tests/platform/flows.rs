//! The flows of the thread model, step by step.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::home::Home;

#[tokio::test(flavor = "multi_thread")]
async fn the_spawn_flow() {
    let Some(home) = Home::start().await else { return };
    home.set_default(&home.environment).await;
    let before = home.entries(&home.chat).await.len();

    // The child and the word of it in the parent are one commit: no crash can leave one without the other.
    let child = home.delegate(json!({ "name": "fix it" })).await;
    let (own, parents) = (format!("arbe-thread-{child}"), format!("arbe-thread-{}", home.chat));
    assert_eq!(home.commit_of(&own).await, BTreeSet::from([own.clone(), parents]));
    let parent = home.entries(&home.chat).await;
    assert_eq!(parent.len(), before + 1);
    let spawn = &parent[before];
    assert_eq!((&spawn["type"], &spawn["payload"]), (&json!("signal.thread.agent_spawn"), &json!({ "child_thread_id": child })));
    assert_eq!(spawn["author_agent_id"], json!(home.ada.id.to_string()));

    let row = home.row(&child).await;
    assert_eq!((&row["house_id"], &row["parent_thread_id"]), (&json!(home.house), &json!(home.chat)));
    assert_eq!((&row["status"], &row["agent_id"]), (&json!("idle"), &json!(home.bot.id.to_string())));
    assert_eq!((&row["environment_id"], &row["sandbox_id"]), (&json!(home.environment), &json!(null)));
    assert_eq!(row["stream_id"], json!(own));
    assert_eq!(row["created_at"], row["updated_at"]);

    // A machine comes with the first command, not with the thread.
    assert_eq!(home.rows("select id from sandboxes").await, [json!(null); 0]);
    let sandbox = home.sandbox(json!({ "thread_id": child })).await;
    assert_eq!(home.row(&child).await["sandbox_id"], json!(sandbox));

    let run = home.start_run(&home.bot, &child).await;
    assert_eq!(home.status(&child).await, "running");
    home.tell(&home.bot, &child, "pi.assistant", json!({ "stopReason": "stop" })).await;
    home.finish_run(&child, &run, json!({ "status": "completed" })).await;
    assert_eq!(home.status(&child).await, "completed");
    let told = home.entries(&home.chat).await.pop().unwrap();
    let finished = json!({ "child_thread_id": child, "status": "completed" });
    assert_eq!((&told["type"], &told["payload"]), (&json!("signal.thread.child_finished"), &finished));
    let expected = ["created", "sandbox_set", "status_changed", "signal.dispatch.queued", "pi.assistant", "status_changed"];
    let expected = expected.map(|kind| if kind.contains('.') { kind.to_owned() } else { format!("signal.thread.{kind}") });
    assert_eq!(home.kinds(&child).await, expected);
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_resume_flow() {
    let Some(home) = Home::start().await else { return };
    let old = home.sandbox(json!({ "environment_id": home.environment, "thread_id": home.chat })).await;
    home.mark(&old, "live", json!({ "provider_ref": "box-1" })).await;
    let mate = home.delegate(json!({ "sandbox_id": old })).await;
    let elsewhere = home.driven().await;
    let sandbox_of = async |thread: &str| home.row(thread).await["sandbox_id"].clone();

    home.mark(&old, "dead", json!({ "reason": "gone" })).await;
    assert_eq!(home.rows("select status from sandboxes").await, [json!({ "status": "dead" })]);
    assert!(home.pending().await.contains(&format!("sandbox_dead {old}")), "somebody has to resume it");
    let logs = [home.entries(&home.chat).await, home.entries(&mate).await, home.entries(&elsewhere).await];
    for thread in [&home.chat, &mate] {
        assert_eq!(sandbox_of(thread).await, json!(old), "threads and their streams are untouched");
    }

    let new = home.post(&home.ada, &format!("/api/sandboxes/{old}/resume"), Value::Null).await["sandbox_id"].clone();
    let made = home
        .rows(&format!("select environment_id, status from sandboxes where id = {}", new.to_string().replace('"', "'")))
        .await;
    assert_eq!(made, [json!({ "environment_id": home.environment, "status": "pending" })], "from the same recipe");
    for (thread, before) in [&home.chat, &mate].into_iter().zip(&logs) {
        assert_eq!(sandbox_of(thread).await, new, "all that shared it share the new one");
        let after = home.entries(thread).await;
        assert_eq!((after.len(), &after[..before.len()]), (before.len() + 1, &before[..]));
        let resumed = after.last().unwrap();
        assert_eq!(resumed["type"], json!("signal.thread.sandbox_resumed"));
        assert_eq!(resumed["payload"], json!({ "sandbox_id": new, "from_sandbox_id": old }));
    }
    assert_eq!(home.entries(&elsewhere).await, logs[2], "nobody else is concerned");
    let mut both = [&home.chat, &mate];
    both.sort();
    let listed = home.see(&format!("/api/sandboxes?house={}", home.house)).await["items"].clone();
    let on = |sandbox: &Value| {
        let found = listed.as_array().unwrap().iter().find(|it| it["sandbox_id"] == *sandbox);
        found.unwrap()["threads"].clone()
    };
    assert_eq!((on(&new), on(&json!(old))), (json!(both), json!([])));
    assert!(!home.pending().await.contains(&format!("sandbox_dead {old}")));

    // The history of machines is in the stream, the row knows the last.
    let new = new.as_str().unwrap();
    home.mark(new, "dead", Value::Null).await;
    let newest = home.post(&home.ada, &format!("/api/sandboxes/{new}/resume"), Value::Null).await["sandbox_id"].clone();
    let stations: Vec<_> =
        home.entries(&home.chat).await.iter().filter_map(|entry| entry["payload"].get("sandbox_id").cloned()).collect();
    assert_eq!(stations, [json!(old), json!(new), newest.clone()]);
    assert_eq!(sandbox_of(&home.chat).await, newest);
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_that_shared_a_machine_are_repointed_in_one_commit() {
    let Some(home) = Home::start().await else { return };
    let old = home.sandbox(json!({ "environment_id": home.environment, "thread_id": home.chat })).await;
    let mate = home.delegate(json!({ "sandbox_id": old })).await;
    home.mark(&old, "dead", Value::Null).await;
    let before = home.town.log.position();
    home.post(&home.ada, &format!("/api/sandboxes/{old}/resume"), Value::Null).await;
    assert_eq!(home.town.log.position(), before + 1, "the machine and both threads, all or nothing");
    assert_eq!(home.kinds(&mate).await.last().unwrap(), "signal.thread.sandbox_resumed");
    home.end().await;
}

/// A chat without an environment is a mode, not a mistake; what is said there is answered in the same thread.
#[tokio::test(flavor = "multi_thread")]
async fn someone_says_something_and_a_bot_replies_in_the_same_thread() {
    let Some(home) = Home::start().await else { return };
    home.say(&home.ada, &home.chat, "what is a monad?").await;
    home.tell(&home.bot, &home.chat, "pi.assistant", json!({ "text": "a monoid", "stopReason": "stop" })).await;
    home.tell(&home.bot, &home.chat, "chat", json!({ "text": "ask me more", "to": home.ada.id.to_string() })).await;
    assert_eq!(home.kinds(&home.chat).await, ["signal.thread.created", "chat", "pi.assistant", "chat"]);
    let row = home.row(&home.chat).await;
    assert_eq!((&row["environment_id"], &row["sandbox_id"], &row["status"]), (&json!(null), &json!(null), &json!("open")));
    assert_eq!(home.pending().await, [""; 0]);
    home.end().await;
}
