//! Every rule of the schema, tried straight in SQL as the role that writes the rows.

use events::house as h;
use events::thread as t;
use events::{AgentKind, JsonObject, KeyHash, KeyId, Role, Runtime, SecretId, Uuid, directory as d};
use postgres_rows::Rows;
use sqlx::{AssertSqlSafe, Postgres, Transaction};

use crate::postgres::{Database, database};
use crate::running::{Running, run};
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
    let (key_id, hash) = (KeyId::new("k0").expect("an id"), KeyHash::new(&"a".repeat(64)).expect("a hash"));
    let key = in_directory(d::KeyIssued { agent_id: agent(0), key_id, hash, label: None });
    story.tell([bot, key, in_directory(registered(1, AgentKind::Human, None))]).await;
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

async fn writer(rows: &Rows) -> Transaction<'static, Postgres> {
    rows.read_all().await.expect("a transaction")
}

/// The SQLSTATE and the constraint that refuse a statement.
async fn refusal(rows: &Rows, statement: &str) -> (String, String) {
    let mut tx = writer(rows).await;
    let done = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *tx).await;
    let error = done.expect_err(statement).into_database_error().expect("a database error");
    (error.code().unwrap_or_default().into_owned(), error.constraint().unwrap_or_default().to_owned())
}

const A0: &str = "00000000-0000-0000-0000-000000000001";
const A1: &str = "00000000-0000-0000-0000-000000000002";

fn thread_with(columns: &str, values: &str) -> String {
    format!(
        "insert into threads (id, house_id, stream_id, created_at, updated_at, {columns})
        values ('n', 'h0', 'n', now(), now(), {values})"
    )
}

fn secret_with(id_house_and_name: &str) -> String {
    format!("insert into secrets values ({id_house_and_name}, null, gen_random_uuid(), now(), now(), null)")
}

/// Where two constraints forbid the same, one is put aside to see that the other holds alone.
fn without(table: &str, constraint: &str, statement: &str) -> String {
    format!("set local role none; alter table {table} drop constraint {constraint}; set local role arbe_projector; {statement}")
}

/// What each constraint forbids, under its name.
pub fn forbidden() -> Vec<(&'static str, String)> {
    [checks(), references(), keys()].concat()
}

fn checks() -> Vec<(&'static str, String)> {
    vec![
        ("agents_kind_check", "insert into agents values (gen_random_uuid(), 'robot', null, null, now())".into()),
        ("agents_human_has_no_runtime", "insert into agents values (gen_random_uuid(), 'human', 'pi', null, now())".into()),
        ("agents_bot_has_runtime", "insert into agents values (gen_random_uuid(), 'bot', null, null, now())".into()),
        ("members_role_check", "update members set role = 'guest'".into()),
        ("sandboxes_status_check", "update sandboxes set status = 'sleeping'".into()),
        ("threads_status_fits_driver", thread_with("status", "'idle'")),
        ("threads_status_fits_driver", thread_with("status", "'stuck'")),
        ("threads_status_fits_driver", thread_with("status, agent_id", &format!("'open', '{A0}'"))),
        ("threads_status_fits_driver", thread_with("status, agent_id", &format!("'stuck', '{A0}'"))),
        ("threads_status_fits_driver", thread_with("status, agent_id", &format!("'blocked', '{A0}'"))),
        ("threads_status_fits_driver", "update threads set agent_id = null where id = 't1'".into()),
        ("threads_one_parent", thread_with("parent_thread_id, parent_agent_id", &format!("'t0', '{A1}'"))),
        ("reconciliation_kind_check", "update reconciliation set kind = 'whatever'".into()),
    ]
}

fn references() -> Vec<(&'static str, String)> {
    let drop_e0 = "delete from environments where id = 'e0'";
    vec![
        ("threads_house_id_fkey", "update threads set house_id = 'nowhere' where id = 't2'".into()),
        ("threads_house_id_environment_id_fkey", "update threads set environment_id = 'e1' where id = 't0'".into()),
        ("threads_house_id_environment_id_fkey", without("sandboxes", "sandboxes_house_id_environment_id_fkey", drop_e0)),
        ("threads_house_id_sandbox_id_fkey", "update threads set sandbox_id = 's1' where id = 't0'".into()),
        ("threads_house_id_parent_thread_id_fkey", "update threads set parent_thread_id = 't2' where id = 't1'".into()),
        ("threads_house_id_agent_id_fkey", format!("update threads set agent_id = '{A1}' where id = 't1'")),
        ("threads_house_id_agent_id_fkey", "delete from members where house_id = 'h0'".into()),
        ("threads_parent_agent_id_fkey", "update threads set parent_agent_id = gen_random_uuid() where id = 't2'".into()),
        ("sandboxes_house_id_environment_id_fkey", "update sandboxes set environment_id = 'e1' where id = 's0'".into()),
        ("sandboxes_house_id_environment_id_fkey", without("threads", "threads_house_id_environment_id_fkey", drop_e0)),
        (
            "sandboxes_house_id_fkey",
            without("sandboxes", "sandboxes_house_id_environment_id_fkey", "update sandboxes set house_id = 'x' where id = 's1'"),
        ),
        ("members_house_id_fkey", "update members set house_id = 'nowhere' where house_id = 'h1'".into()),
        ("members_agent_id_fkey", "insert into members values ('h0', gen_random_uuid(), 'member', now())".into()),
        ("environments_house_id_fkey", "insert into environments values ('n', 'nowhere', 'x', '{}', '[]', now())".into()),
        ("secrets_house_id_fkey", "update secrets set house_id = 'nowhere' where id = 'x1'".into()),
        ("agent_keys_agent_id_fkey", "update agent_keys set agent_id = gen_random_uuid()".into()),
        ("reconciliation_house_id_fkey", "update reconciliation set house_id = 'nowhere'".into()),
    ]
}

fn keys() -> Vec<(&'static str, String)> {
    let environment = "insert into environments values ('e0', 'h0', 'x', '{}', '[]', now())";
    let sandbox = "insert into sandboxes values ('s0', 'h0', 'e0', 'p', null, 'live', now(), null)";
    let thread = "insert into threads (id, house_id, stream_id, created_at, updated_at) values ('t0', 'h0', 'n', now(), now())";
    vec![
        ("houses_pkey", "insert into houses values ('h0', 'x', null, now())".into()),
        ("agents_pkey", "insert into agents select * from agents".into()),
        ("members_pkey", "insert into members select * from members".into()),
        ("environments_pkey", environment.replace("'h0'", "'h1'")),
        ("environments_house_id_id_key", without("environments", "environments_pkey", environment)),
        ("secrets_id_key", secret_with("'x0', 'h1', 'OTHER'")),
        ("secrets_house_id_name_key", secret_with("'new', 'h0', 'TOKEN'")),
        ("sandboxes_pkey", sandbox.replace("'h0', 'e0'", "'h1', 'e1'")),
        ("sandboxes_house_id_id_key", without("sandboxes", "sandboxes_pkey", sandbox)),
        ("threads_pkey", "update threads set id = 't0' where id = 't2'".into()),
        ("threads_house_id_id_key", without("threads", "threads_pkey", thread)),
        ("threads_stream_id_key", "update threads set stream_id = 'arbe-thread-t0' where id = 't2'".into()),
        ("agent_keys_pkey", "insert into agent_keys select * from agent_keys".into()),
        ("reconciliation_pkey", "insert into reconciliation select * from reconciliation".into()),
    ]
}

#[tokio::test]
async fn every_constraint_refuses_what_it_forbids() {
    let Some((db, _story, _running)) = settled().await else { return };
    for (state, cases) in [("23514", checks()), ("23503", references()), ("23505", keys())] {
        for (constraint, statement) in cases {
            assert_eq!(refusal(&db.rows, &statement).await, (state.into(), constraint.into()), "{statement}");
        }
    }
}

#[tokio::test]
async fn a_column_that_must_be_there_is_there() {
    let Some((db, _story, _running)) = settled().await else { return };
    let mut tx = writer(&db.rows).await;
    let columns: Vec<(String, String)> = sqlx::query_as(
        "select c.relname::text, a.attname::text from pg_attribute a join pg_class c on c.oid = a.attrelid
        where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attnum > 0 and a.attnotnull",
    )
    .fetch_all(&mut *tx)
    .await
    .expect("columns");
    assert!(columns.len() > 40, "{columns:?}");
    for (table, column) in columns {
        let (state, _) = refusal(&db.rows, &format!("update {table} set {column} = null")).await;
        assert_eq!(state, "23502", "{table}.{column}");
    }
}

async fn left(tx: &mut Transaction<'static, Postgres>, rows: &str) -> i64 {
    let count = AssertSqlSafe(format!("select count(*) from {rows}"));
    sqlx::query_scalar(count).fetch_one(&mut **tx).await.expect("a count")
}

async fn delete(tx: &mut Transaction<'static, Postgres>, rows: &str) {
    let gone = sqlx::raw_sql(AssertSqlSafe(format!("delete from {rows}"))).execute(&mut **tx).await;
    assert_eq!(gone.expect(rows).rows_affected(), 1, "{rows}");
}

#[tokio::test]
async fn a_sandbox_that_goes_leaves_its_threads_and_a_parent_takes_its_children_along() {
    let Some((db, _story, _running)) = settled().await else { return };
    let mut tx = writer(&db.rows).await;
    delete(&mut tx, "sandboxes where id = 's0'").await;
    let row: (String, Option<String>) =
        sqlx::query_as("select house_id, sandbox_id from threads where id = 't1'").fetch_one(&mut *tx).await.expect("a thread");
    assert_eq!(row, ("h0".into(), None));
    delete(&mut tx, "threads where id = 't0'").await;
    assert_eq!(left(&mut tx, "threads where house_id = 'h0'").await, 0);
    assert_eq!(left(&mut tx, "threads").await, 1);
}

#[tokio::test]
async fn a_house_takes_everything_in_it_along_and_nothing_else() {
    let Some((db, _story, _running)) = settled().await else { return };
    let mut tx = writer(&db.rows).await;
    delete(&mut tx, "houses where id = 'h0'").await;
    for table in ["members", "environments", "secrets", "sandboxes", "threads", "reconciliation"] {
        assert_eq!(left(&mut tx, &format!("{table} where house_id = 'h0'")).await, 0, "{table}");
        assert!(left(&mut tx, table).await > 0, "{table}");
    }
    assert_eq!(left(&mut tx, "agents").await, 2);
}

#[tokio::test]
async fn an_agent_takes_its_memberships_its_keys_and_what_is_addressed_to_it_along() {
    let Some((db, mut story, running)) = settled().await else { return };
    let addressed = t::Created { parent_agent_id: Some(agent(0)), ..chat(3, 1) };
    let position = story.tell([in_thread(3, addressed)]).await;
    running.reaches(position).await;
    let mut tx = writer(&db.rows).await;
    delete(&mut tx, "threads where id = 't1'").await;
    delete(&mut tx, &format!("agents where id = '{A0}'")).await;
    for gone in ["members where house_id = 'h0'", "agent_keys", "threads where id = 't3'"] {
        assert_eq!(left(&mut tx, gone).await, 0, "{gone}");
    }
    assert_eq!(left(&mut tx, "members").await, 1);
}
