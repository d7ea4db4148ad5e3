//! Every rule of the schema, tried straight in SQL.

use events::house as h;
use events::thread as t;
use events::{AgentKind, JsonObject, Role, Runtime, SecretId, Uuid, directory as d};
use postgres_rows::Rows;
use sqlx::{AssertSqlSafe, Postgres, Transaction};

use crate::live::{Running, run};
use crate::postgres::{Database, database};
use crate::story::{Story, agent, environment, house, in_directory, in_house, in_thread, sandbox, thread};

/// Two houses with one of everything: h0 with t0 (a chat) and t1 (driven by agent 0, child of t0, on s0), h1 with t2.
pub async fn two_houses(story: &mut Story) -> u64 {
    let registered = |n, kind, runtime: Option<&str>| d::Registered {
        agent_id: agent(n),
        kind,
        runtime: runtime.map(|name| Runtime::new(name).expect("a runtime")),
        name: None,
    };
    let bot = in_directory(registered(0, AgentKind::Bot, Some("pi")));
    story.tell([bot, in_directory(registered(1, AgentKind::Human, None))]).await;
    for n in 0..2 {
        let config = JsonObject::parse("{}").expect("an object");
        let secret_id = SecretId::new(&format!("x{n}")).expect("an id");
        story
            .tell([
                in_house(n, h::Created { house_id: house(n), name: format!("house {n}") }),
                in_house(n, h::MemberAdded { agent_id: agent(n), role: Role::Owner }),
                in_house(n, h::EnvironmentCreated { environment_id: environment(n), name: "env".into(), config }),
                in_house(n, h::SecretSet { secret_id, name: "TOKEN".into(), vault_secret_id: Uuid::from_u128(9) }),
                in_house(n, h::SandboxRequested { sandbox_id: sandbox(n), environment_id: environment(n), provider: "p".into() }),
            ])
            .await;
    }
    story.tell([in_thread(0, chat(0, 0))]).await;
    let child = t::Created {
        parent_thread_id: Some(thread(0)),
        environment_id: Some(environment(0)),
        sandbox_id: Some(sandbox(0)),
        agent_id: Some(agent(0)),
        ..chat(1, 0)
    };
    story.tell([in_thread(1, child), in_thread(0, t::AgentSpawn { child_thread_id: thread(1) })]).await;
    story.tell([in_thread(2, chat(2, 1))]).await
}

pub fn chat(n: usize, house_n: usize) -> t::Created {
    t::Created {
        thread_id: thread(n),
        house_id: house(house_n),
        name: None,
        parent_thread_id: None,
        parent_agent_id: None,
        environment_id: None,
        sandbox_id: None,
        agent_id: None,
        tags: Vec::new(),
        pinned: false,
    }
}

pub async fn settled() -> Option<(Database, Story, Running)> {
    let db = database().await?;
    let mut story = Story::new().await;
    let position = two_houses(&mut story).await;
    let running = run(&story.log, &db.rows);
    running.reaches(position).await;
    Some((db, story, running))
}

async fn owner(rows: &Rows) -> Transaction<'static, Postgres> {
    rows.read_all().await.expect("a transaction")
}

/// The SQLSTATE and the constraint that refuse a statement.
async fn refusal(rows: &Rows, statement: &str) -> (String, String) {
    let mut tx = owner(rows).await;
    let done = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *tx).await;
    let error = done.expect_err(statement).into_database_error().expect("a database error");
    (error.code().unwrap_or_default().into_owned(), error.constraint().unwrap_or_default().to_owned())
}

const A0: &str = "00000000-0000-0000-0000-000000000001";
const A1: &str = "00000000-0000-0000-0000-000000000002";

#[tokio::test]
async fn every_check_refuses_what_it_forbids() {
    let Some((db, _story, _running)) = settled().await else { return };
    let new_thread = |columns: &str, values: &str| {
        format!(
            "insert into threads (id, house_id, stream_id, created_at, updated_at, {columns})
            values ('n', 'h0', 'n', now(), now(), {values})"
        )
    };
    let cases = [
        ("insert into agents values (gen_random_uuid(), 'robot', null, null, now())".into(), "agents_kind_check"),
        ("insert into agents values (gen_random_uuid(), 'human', 'pi', null, now())".into(), "agents_human_has_no_runtime"),
        ("insert into agents values (gen_random_uuid(), 'bot', null, null, now())".into(), "agents_bot_has_runtime"),
        ("update members set role = 'guest'".into(), "members_role_check"),
        ("update sandboxes set status = 'sleeping'".into(), "sandboxes_status_check"),
        (new_thread("status", "'idle'"), "threads_status_fits_driver"),
        (new_thread("status", "'stuck'"), "threads_status_fits_driver"),
        (new_thread("status, agent_id", &format!("'open', '{A0}'")), "threads_status_fits_driver"),
        (new_thread("status, agent_id", &format!("'blocked', '{A0}'")), "threads_status_fits_driver"),
        (new_thread("parent_thread_id, parent_agent_id", &format!("'t0', '{A1}'")), "threads_one_parent"),
        ("update reconciliation set kind = 'whatever'".into(), "reconciliation_kind_check"),
    ];
    for (statement, constraint) in cases {
        assert_eq!(refusal(&db.rows, &statement).await, ("23514".into(), constraint.into()), "{statement}");
    }
}

#[tokio::test]
async fn every_edge_stays_in_its_house() {
    let Some((db, _story, _running)) = settled().await else { return };
    let cases = [
        ("update threads set environment_id = 'e1' where id = 't0'", "threads_house_id_environment_id_fkey"),
        ("update threads set sandbox_id = 's1' where id = 't0'", "threads_house_id_sandbox_id_fkey"),
        ("update threads set parent_thread_id = 't2' where id = 't1'", "threads_house_id_parent_thread_id_fkey"),
        (
            "update threads set agent_id = '00000000-0000-0000-0000-000000000002' where id = 't1'",
            "threads_house_id_agent_id_fkey",
        ),
        ("update threads set parent_agent_id = gen_random_uuid() where id = 't2'", "threads_parent_agent_id_fkey"),
        ("update threads set house_id = 'h1' where id = 't1'", "threads_house_id_agent_id_fkey"),
        ("update sandboxes set environment_id = 'e1' where id = 's0'", "sandboxes_house_id_environment_id_fkey"),
        ("update members set house_id = 'nowhere' where house_id = 'h1'", "members_house_id_fkey"),
        ("insert into members values ('h0', gen_random_uuid(), 'member', now())", "members_agent_id_fkey"),
        ("insert into environments values ('n', 'nowhere', 'x', '{}', '[]', now())", "environments_house_id_fkey"),
        ("update secrets set house_id = 'nowhere' where id = 'x1'", "secrets_house_id_fkey"),
        ("delete from environments where id = 'e0'", ""),
        ("delete from members where house_id = 'h0'", "threads_house_id_agent_id_fkey"),
    ];
    for (statement, constraint) in cases {
        let (code, by) = refusal(&db.rows, statement).await;
        assert_eq!(code, "23503", "{statement}");
        assert!(constraint.is_empty() || by == constraint, "{statement}: {by}");
    }
}

#[tokio::test]
async fn every_key_is_unique_and_every_column_that_must_be_is_there() {
    let Some((db, _story, _running)) = settled().await else { return };
    let cases = [
        ("insert into houses values ('h0', 'x', null, now())", "23505", "houses_pkey"),
        ("insert into agents select * from agents", "23505", "agents_pkey"),
        ("insert into members select * from members", "23505", "members_pkey"),
        ("insert into environments values ('e0', 'h1', 'x', '{}', '[]', now())", "23505", "environments_pkey"),
        ("insert into secrets values ('new', 'h0', 'TOKEN', gen_random_uuid(), now())", "23505", "secrets_house_id_name_key"),
        ("update threads set stream_id = 'arbe-thread-t0' where id = 't2'", "23505", "threads_stream_id_key"),
        ("update threads set id = 't0' where id = 't2'", "23505", "threads_pkey"),
        ("update sandboxes set environment_id = null", "23502", ""),
        ("update threads set tags = null", "23502", ""),
        ("update houses set name = null", "23502", ""),
        ("update secrets set vault_secret_id = null", "23502", ""),
    ];
    for (statement, code, constraint) in cases {
        assert_eq!(refusal(&db.rows, statement).await, (code.to_owned(), constraint.to_owned()), "{statement}");
    }
}

#[tokio::test]
async fn a_sandbox_row_that_goes_leaves_its_threads_and_a_house_takes_everything_with_it() {
    let Some((db, _story, _running)) = settled().await else { return };
    let mut tx = owner(&db.rows).await;
    sqlx::query("delete from sandboxes where id = 's0'").execute(&mut *tx).await.expect("a delete");
    let left: (String, Option<String>) =
        sqlx::query_as("select house_id, sandbox_id from threads where id = 't1'").fetch_one(&mut *tx).await.expect("a thread");
    assert_eq!(left, ("h0".into(), None));
    sqlx::query("delete from threads where id = 't0'").execute(&mut *tx).await.expect("a delete");
    let threads: Vec<String> = sqlx::query_scalar("select id from threads").fetch_all(&mut *tx).await.expect("threads");
    assert_eq!(threads, ["t2"]);
    sqlx::query("delete from houses where id = 'h1'").execute(&mut *tx).await.expect("a delete");
    for table in ["threads", "environments where house_id = 'h1'", "secrets where house_id = 'h1'"] {
        let count = AssertSqlSafe(format!("select count(*) from {table}"));
        let count: i64 = sqlx::query_scalar(count).fetch_one(&mut *tx).await.expect("a count");
        assert_eq!(count, 0, "{table}");
    }
}

const SCOPED: [&str; 7] = ["houses", "members", "environments", "secrets", "sandboxes", "threads", "reconciliation"];

async fn count(tx: &mut Transaction<'static, Postgres>, table: &str) -> i64 {
    let count = AssertSqlSafe(format!("select count(*) from {table}"));
    sqlx::query_scalar(count).fetch_one(&mut **tx).await.expect("a count")
}

#[tokio::test]
async fn a_reader_sees_its_house_and_nothing_of_another() {
    let Some((db, _story, _running)) = settled().await else { return };
    for n in 0..2 {
        let mut tx = db.rows.read(&house(n)).await.expect("a transaction");
        for table in SCOPED {
            let column = if table == "houses" { "id" } else { "house_id" };
            let seen = AssertSqlSafe(format!("select distinct {column} from {table}"));
            let seen: Vec<String> = sqlx::query_scalar(seen).fetch_all(&mut *tx).await.expect("rows");
            assert_eq!(seen, [format!("h{n}")], "{table}");
        }
        let agents: Vec<Uuid> = sqlx::query_scalar("select id from agents").fetch_all(&mut *tx).await.expect("agents");
        assert_eq!(agents, [agent(n).0]);
        assert_eq!(count(&mut tx, "pending where house_id is not null").await, count(&mut tx, "reconciliation").await);
    }
    let mut tx = db.rows.read(&house(5)).await.expect("a transaction");
    for table in SCOPED {
        assert_eq!(count(&mut tx, table).await, 0, "{table}");
    }
}

#[tokio::test]
async fn a_reader_can_neither_write_nor_read_keys() {
    let Some((db, _story, _running)) = settled().await else { return };
    for statement in ["update threads set name = 'x'", "delete from houses", "select * from agent_keys", "create table mine ()"] {
        let mut tx = db.rows.read(&house(0)).await.expect("a transaction");
        let error = sqlx::raw_sql(statement).execute(&mut *tx).await.expect_err(statement);
        assert_eq!(error.into_database_error().and_then(|e| e.code().map(|c| c.into_owned())).as_deref(), Some("42501"));
    }
}

#[tokio::test]
async fn without_a_house_nobody_sees_anything_not_even_the_owner() {
    let Some((db, _story, _running)) = settled().await else { return };
    let mut tx = owner(&db.rows).await;
    assert_eq!(count(&mut tx, "houses").await, 2);
    sqlx::raw_sql("set local role none").execute(&mut *tx).await.expect("the owner itself");
    for table in SCOPED.into_iter().chain(["agents", "agent_keys"]) {
        assert_eq!(count(&mut tx, table).await, 0, "{table}");
    }
}
