//! What the thread model must support, each shown on the log, in the rows and through the API.

use std::collections::BTreeSet;
use std::sync::Arc;

use commands::{Commands, RealSource};
use events::ThreadId;
use serde_json::{Value, json};

use crate::home::Home;

#[tokio::test(flavor = "multi_thread")]
async fn requirement_1_a_thread_is_a_durable_observable_log_shared_by_humans_and_bots() {
    let Some(home) = Home::start().await else { return };
    home.join(&home.bob).await;
    let door = format!("/api/threads/{}/stream", home.chat);
    let caught_up = home.town.get(&home.ada, &door).await.header("stream-next-offset").to_owned();
    for (who, text) in [(&home.ada, "a PDF, please"), (&home.bob, "in colour"), (&home.bot, "on it")] {
        home.say(who, &home.chat, text).await;
    }
    let said = home.entries(&home.chat).await;
    let authors: Vec<_> = said[1..].iter().map(|entry| (&entry["author_agent_id"], &entry["payload"]["text"])).collect();
    let [ada, bob, bot] = [&home.ada, &home.bob, &home.bot].map(|who| json!(who.id.to_string()));
    assert_eq!(authors, [(&ada, &json!("a PDF, please")), (&bob, &json!("in colour")), (&bot, &json!("on it"))]);

    for who in [&home.ada, &home.bob, &home.bot] {
        assert_eq!(home.town.get(who, &door).await.json(), json!(said), "read from the beginning, everybody sees the same");
        let live = home.town.get(who, &format!("{door}?offset={caught_up}&live=long-poll")).await;
        assert_eq!(live.json(), json!(said[1..]), "and so does who followed");
    }
    let listed = home.see(&format!("/api/threads/{}/entries", home.chat)).await;
    let texts = |entries: &[Value]| entries.iter().map(|entry| entry["payload"]["text"].clone()).collect::<Vec<_>>();
    assert_eq!(texts(listed["items"].as_array().unwrap()), texts(&said));

    let again = Commands::start(home.town.log.clone(), Arc::new(RealSource));
    again.caught_up().await.unwrap();
    let id = ThreadId::new(&home.chat).unwrap();
    let folded = |commands: &Commands| commands.with_world(|world| world.thread(&id).cloned());
    assert_eq!(folded(&again), folded(&home.town.commands), "a server that starts anew knows the same thread");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requirement_2_agents_run_quick_commands_and_long_tasks() {
    let Some(home) = Home::start().await else { return };
    let sandbox = home.sandbox(json!({ "environment_id": home.environment, "thread_id": home.chat })).await;
    home.mark(&sandbox, "live", json!({ "provider_ref": "box-1" })).await;
    let started = json!({ "command_id": "c1", "command": "make pdf", "sandbox_id": sandbox });
    home.tell(&home.bot, &home.chat, "signal.command.started", started).await;
    assert_eq!(home.pending().await, [format!("command_running {}/c1", home.chat)]);
    let output = json!({ "command_id": "c1", "stream": "stdout", "text": "done\n" });
    home.tell(&home.bot, &home.chat, "signal.command.output", output).await;
    let finished = json!({ "command_id": "c1", "exit_code": 0, "truncated": false, "duration_ms": 3 });
    home.tell(&home.bot, &home.chat, "signal.command.finished", finished).await;
    assert_eq!(home.pending().await, [""; 0], "a command is over with its last word");
    assert_eq!(home.kinds(&home.chat).await[2..], ["signal.command.started", "signal.command.output", "signal.command.finished"]);
    assert_eq!(home.see(&format!("/api/threads?parent={}", home.chat)).await["items"], json!([]), "no thread of its own");

    home.set_default(&home.environment).await;
    let task = home.delegate(json!({ "name": "fix the build" })).await;
    assert_eq!(home.pending().await, [format!("thread_idle {task}")]);
    let run = home.start_run(&home.bot, &task).await;
    home.tell(&home.bot, &task, "signal.dispatch.session_started", json!({ "run_id": run })).await;
    home.tell(&home.bot, &task, "pi.assistant", json!({ "stopReason": "toolUse" })).await;
    assert_eq!((home.status(&task).await, home.pending().await), ("running".into(), vec![format!("run_live {task}")]));
    assert_eq!(home.row(&task).await["agent_id"], json!(home.bot.id.to_string()));
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requirement_3_one_thread_has_several_tasks_at_once() {
    let Some(home) = Home::start().await else { return };
    home.set_default(&home.environment).await;
    let mut tasks = Vec::new();
    for name in ["make a PDF", "pull this", "fix that"] {
        let task = home.delegate(json!({ "name": name })).await;
        home.start_run(&home.bot, &task).await;
        tasks.push(task);
    }
    for task in &tasks {
        assert_eq!(home.status(task).await, "running");
    }
    let spawned: Vec<_> = home.entries(&home.chat).await[1..].iter().map(|entry| entry["payload"].clone()).collect();
    assert_eq!(spawned, tasks.iter().map(|task| json!({ "child_thread_id": task })).collect::<Vec<_>>());
    let running = format!("select id from threads where parent_thread_id = '{}' and status = 'running'", home.chat);
    assert_eq!(home.rows(&running).await.len(), 3);
    let listed = home.see(&format!("/api/threads?parent={}&status=running", home.chat)).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
    let children = home.see(&format!("/api/threads/{}", home.chat)).await["children"].clone();
    let children: BTreeSet<_> = children.as_array().unwrap().iter().map(|child| child["thread_id"].as_str().unwrap()).collect();
    assert_eq!(children, tasks.iter().map(String::as_str).collect());
    assert_eq!(home.status(&home.chat).await, "open", "the thread they came from goes on");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requirement_4_tasks_reuse_a_sandbox_or_run_isolated_by_choice() {
    let Some(home) = Home::start().await else { return };
    home.set_default(&home.environment).await;
    let shared = home.sandbox(json!({ "thread_id": home.chat })).await;
    let (alone, also_alone) = (home.delegate(json!({})).await, home.delegate(json!({})).await);
    let together = home.delegate(json!({ "sandbox_id": shared, "environment_id": "ignored" })).await;
    for task in [&alone, &also_alone] {
        assert_eq!(home.row(task).await["sandbox_id"], json!(null), "isolated unless a sandbox is named");
        assert!(home.entries(task).await[0]["payload"].get("sandbox_id").is_none());
    }
    assert_eq!(home.entries(&together).await[0]["payload"]["sandbox_id"], json!(shared));
    let row = home.row(&together).await;
    assert_eq!((&row["sandbox_id"], &row["environment_id"]), (&json!(shared), &json!(null)), "no recipe for what runs already");

    let own = home.sandbox(json!({ "thread_id": alone })).await;
    let also_own = home.sandbox(json!({ "thread_id": also_alone })).await;
    let on = |sandbox: &str| format!("select id from threads where sandbox_id = '{sandbox}' order by created_at");
    assert_eq!(home.rows(&on(&shared)).await, [json!({ "id": home.chat }), json!({ "id": together })], "one tree by choice");
    assert_eq!(home.rows(&on(&own)).await, [json!({ "id": alone })]);
    assert_eq!(home.rows(&on(&also_own)).await, [json!({ "id": also_alone })]);
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requirement_5_somebody_else_continues_the_work_later() {
    let Some(home) = Home::start().await else { return };
    home.set_default(&home.environment).await;
    let task = home.delegate(json!({})).await;
    let first = home.start_run(&home.ada, &task).await;
    home.finish_run(&task, &first, json!({ "status": "failed" })).await;
    home.join(&home.bob).await;
    home.ask(&home.ada, "PATCH", &format!("/api/houses/{}/members/{}", home.house, home.bob.id), json!({ "role": "owner" }))
        .await;
    home.ask(&home.ada, "DELETE", &format!("/api/houses/{}/members/{}", home.house, home.ada.id), Value::Null).await;

    let second = home.start_run(&home.bob, &task).await;
    assert_ne!(first, second);
    let entries = home.entries(&task).await;
    let resumed = entries.iter().rfind(|entry| entry["type"] == "signal.thread.status_changed").unwrap();
    let expected = json!({ "status": "running", "run_id": second, "reason": "resumed" });
    assert_eq!((&resumed["payload"], &resumed["author_agent_id"]), (&expected, &json!(home.bob.id.to_string())));
    let row = home.get(&home.bob, &format!("/api/threads/{task}")).await.json();
    assert_eq!(
        (&row["status"], &row["agent_id"]),
        (&json!("running"), &json!(home.bot.id.to_string())),
        "the same thread and driver"
    );
    assert_eq!(home.get(&home.ada, &format!("/api/threads/{task}")).await.status, 404, "who began it need not be there");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requirement_6_a_sandbox_dies_and_resumes_without_losing_the_thread_or_its_log() {
    let Some(home) = Home::start().await else { return };
    let old = home.sandbox(json!({ "environment_id": home.environment, "thread_id": home.chat })).await;
    home.say(&home.ada, &home.chat, "before").await;
    let before = home.entries(&home.chat).await;
    home.mark(&old, "dead", json!({ "reason": "preempted" })).await;
    assert_eq!(home.entries(&home.chat).await, before, "its death is nothing that happens to the thread");
    home.say(&home.ada, &home.chat, "the log goes on").await;
    let new = home.post(&home.ada, &format!("/api/sandboxes/{old}/resume"), Value::Null).await["sandbox_id"].clone();
    let after = home.entries(&home.chat).await;
    assert_eq!(after[..before.len()], before[..]);
    assert_eq!(after.last().unwrap()["payload"], json!({ "sandbox_id": new, "from_sandbox_id": old }));
    assert_eq!(home.row(&home.chat).await["sandbox_id"], new);
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requirement_7_nobody_picks_a_sandbox_by_hand() {
    let Some(home) = Home::start().await else { return };
    let mut recipes = Vec::new();
    for name in ["of the call", "of the thread", "of the house"] {
        let recipe = json!({ "house_id": home.house, "name": name, "config": {} });
        recipes.push(home.town.make(&home.ada, "/api/environments", &recipe, "environment_id").await);
    }
    let [call, thread, house] = &recipes[..] else { unreachable!() };
    let wish = |on: &str| json!({ "house_id": home.house, "provider": "local", "thread_id": on });
    let code = home.refused(&home.ada, "POST", "/api/sandboxes", wish(&home.chat)).await;
    assert_eq!(code, "no_environment", "loudly, at the first command");
    let task = json!({ "agent_id": home.bot.id.to_string() });
    let delegate = format!("/api/threads/{}/delegate", home.chat);
    assert_eq!(home.refused(&home.ada, "POST", &delegate, task).await, "no_environment");

    home.set_default(house).await;
    let bound = home.thread(json!({ "environment_id": thread })).await;
    for (on, named, expected) in [(&home.chat, None, house), (&bound, None, thread), (&home.driven().await, Some(call), call)] {
        let sandbox = home.sandbox(json!({ "thread_id": on, "environment_id": named })).await;
        assert_eq!(home.row(on).await["sandbox_id"], json!(sandbox), "resolved and pointed at in one step");
        let built = home.rows(&format!("select environment_id, status from sandboxes where id = '{sandbox}'")).await;
        assert_eq!(built, [json!({ "environment_id": expected, "status": "pending" })]);
        for stream in [format!("arbe-house-{}", home.house), format!("arbe-thread-{on}")] {
            assert_eq!(home.stream(&stream).await.last().unwrap()["payload"]["sandbox_id"], json!(sandbox));
        }
        assert_eq!(home.refused(&home.ada, "POST", "/api/sandboxes", wish(on)).await, "has_sandbox", "a live one is used");
    }
    let dead = home.row(&bound).await["sandbox_id"].as_str().unwrap().to_owned();
    home.mark(&dead, "dead", Value::Null).await;
    assert_eq!(home.refused(&home.ada, "POST", "/api/sandboxes", wish(&bound)).await, "sandbox_dead", "a dead one is resumed");
    home.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requirement_8_a_sandbox_may_exist_without_a_thread() {
    let Some(home) = Home::start().await else { return };
    let warm = home.sandbox(json!({ "environment_id": home.environment })).await;
    home.mark(&warm, "live", json!({ "provider_ref": "box-1" })).await;
    assert_eq!(home.rows(&format!("select 1 from threads where sandbox_id = '{warm}'")).await, [json!(null); 0]);
    let shown = home.see(&format!("/api/sandboxes/{warm}")).await;
    assert_eq!((&shown["status"], &shown["provider_ref"]), (&json!("live"), &json!("box-1")));
    let columns = home.rows("select column_name from information_schema.columns where table_name = 'sandboxes'").await;
    assert!(!columns.is_empty() && columns.iter().all(|column| !column.to_string().contains("thread")), "threads point, not it");
    home.mark(&warm, "dead", Value::Null).await;
    assert_eq!(home.pending().await, [""; 0], "nobody stands on it, so there is nothing to resume");
    assert_eq!(home.refused(&home.ada, "POST", &format!("/api/sandboxes/{warm}/resume"), Value::Null).await, "nothing_to_resume");
    home.end().await;
}
