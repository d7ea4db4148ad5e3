//! Who sees and changes which rows, tried as each role on each table.

use events::Uuid;
use postgres_rows::Rows;
use sqlx::{AssertSqlSafe, Postgres, Transaction};

use crate::rules::settled;
use crate::story::{agent, house};

type Tx = Transaction<'static, Postgres>;

/// A house's own tables, with the column that says whose a row is.
const SCOPED: [(&str, &str); 7] = [
    ("houses", "id"),
    ("members", "house_id"),
    ("environments", "house_id"),
    ("secrets", "house_id"),
    ("sandboxes", "house_id"),
    ("threads", "house_id"),
    ("reconciliation", "house_id"),
];

const ALL: [&str; 9] =
    ["houses", "members", "environments", "secrets", "sandboxes", "threads", "reconciliation", "agents", "agent_keys"];

async fn reader(rows: &Rows, n: usize) -> Tx {
    rows.read(&house(n)).await.expect("a transaction")
}

async fn projector(rows: &Rows) -> Tx {
    rows.read_all().await.expect("a transaction")
}

async fn run(tx: &mut Tx, statement: &str) -> Result<u64, (String, String)> {
    let done = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut **tx).await;
    done.map(|done| done.rows_affected()).map_err(|error| {
        let error = error.into_database_error().expect("a database error");
        (error.code().unwrap_or_default().into_owned(), error.message().to_owned())
    })
}

async fn count(tx: &mut Tx, table: &str) -> i64 {
    let count = AssertSqlSafe(format!("select count(*) from {table}"));
    sqlx::query_scalar(count).fetch_one(&mut **tx).await.expect("a count")
}

/// The statements that write to a table, with rows it has already.
fn writes(table: &str) -> [String; 3] {
    let column = if table == "reconciliation" { "kind" } else { "created_at" };
    let column = if table == "members" { "role" } else { column };
    let insert = match table {
        "agent_keys" => format!("insert into agent_keys values ('{}', 'n', 'n', null, now(), null)", agent(0)),
        _ => format!("insert into {table} select * from {table}"),
    };
    [insert, format!("update {table} set {column} = {column}"), format!("delete from {table}")]
}

#[tokio::test]
async fn a_reader_sees_its_house_and_nothing_of_another() {
    let Some((db, _story, _running)) = settled().await else { return };
    for n in 0..2 {
        let mut tx = reader(&db.rows, n).await;
        for (table, column) in SCOPED {
            let seen = AssertSqlSafe(format!("select distinct {column} from {table}"));
            let seen: Vec<String> = sqlx::query_scalar(seen).fetch_all(&mut *tx).await.expect("rows");
            assert_eq!(seen, [format!("h{n}")], "{table}");
        }
        let agents: Vec<Uuid> = sqlx::query_scalar("select id from agents").fetch_all(&mut *tx).await.expect("agents");
        assert_eq!(agents, [agent(n).0]);
        assert_eq!(count(&mut tx, "pending where house_id is not null").await, count(&mut tx, "reconciliation").await);
    }
    let mut tx = reader(&db.rows, 5).await;
    for (table, _) in SCOPED {
        assert_eq!(count(&mut tx, table).await, 0, "{table}");
    }
}

#[tokio::test]
async fn a_reader_writes_nothing_and_reads_no_keys() {
    let Some((db, _story, _running)) = settled().await else { return };
    let others = ["select * from agent_keys", "create table mine ()", "update arbe.copies set next = 0"];
    for statement in ALL.iter().flat_map(|table| writes(table)).chain(others.map(str::to_owned)) {
        let mut tx = reader(&db.rows, 0).await;
        let (code, message) = run(&mut tx, &statement).await.expect_err(&statement);
        assert_eq!((code.as_str(), message.starts_with("permission denied")), ("42501", true), "{statement}: {message}");
    }
}

#[tokio::test]
async fn a_reader_with_grants_it_should_not_have_is_still_bound_to_reading_its_house() {
    let Some((db, _story, _running)) = settled().await else { return };
    for table in ALL {
        let [insert, update, delete] = writes(table);
        let mut tx = reader(&db.rows, 0).await;
        let grant = format!("set local role none; grant all on {table} to arbe_reader; set local role arbe_reader");
        run(&mut tx, &grant).await.expect("a grant");
        assert_eq!(run(&mut tx, &update).await, Ok(0), "{update}");
        assert_eq!(run(&mut tx, &delete).await, Ok(0), "{delete}");
        if table == "agent_keys" {
            assert_eq!(count(&mut tx, table).await, 0);
        }
        let (code, message) = run(&mut tx, &insert).await.expect_err(&insert);
        assert_eq!((code.as_str(), message.contains("row-level security")), ("42501", true), "{insert}: {message}");
    }
}

#[tokio::test]
async fn the_projector_sees_and_changes_every_house() {
    let Some((db, _story, _running)) = settled().await else { return };
    for (table, column) in SCOPED {
        let mut tx = projector(&db.rows).await;
        assert_eq!(count(&mut tx, &format!("(select distinct {column} from {table}) houses")).await, 2, "{table}");
    }
    for table in ALL {
        let [_, update, _] = writes(table);
        let mut tx = projector(&db.rows).await;
        let rows = count(&mut tx, table).await as u64;
        assert!(rows > 0, "{table}");
        assert_eq!(run(&mut tx, &update).await, Ok(rows), "{update}");
    }
}

#[tokio::test]
async fn without_a_house_nobody_sees_or_changes_anything_not_even_the_owner() {
    let Some((db, _story, _running)) = settled().await else { return };
    for table in ALL {
        let [_, update, delete] = writes(table);
        let mut tx = projector(&db.rows).await;
        assert!(count(&mut tx, table).await > 0, "{table}");
        run(&mut tx, "set local role none").await.expect("the owner itself");
        assert_eq!(count(&mut tx, table).await, 0, "{table}");
        assert_eq!(run(&mut tx, &update).await, Ok(0), "{update}");
        assert_eq!(run(&mut tx, &delete).await, Ok(0), "{delete}");
        let insert = format!("insert into agents values (gen_random_uuid(), 'human', null, null, now()) -- {table}");
        assert_eq!(run(&mut tx, &insert).await.expect_err("an owner that writes").0, "42501");
    }
}

#[tokio::test]
async fn a_house_that_is_set_does_not_outlive_its_transaction() {
    let Some((db, _story, _running)) = settled().await else { return };
    reader(&db.rows, 0).await.commit().await.expect("an end");
    let mut tx = projector(&db.rows).await;
    run(&mut tx, "set local role arbe_reader").await.expect("a reader");
    for (table, _) in SCOPED {
        assert_eq!(count(&mut tx, table).await, 0, "{table}");
    }
}
