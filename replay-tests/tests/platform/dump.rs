//! Rows as text, to be compared byte for byte.

use events::HouseId;
use postgres_rows::Rows;
use sqlx::{AssertSqlSafe, PgConnection};

const TABLES: [&str; 9] =
    ["houses", "agents", "agent_keys", "members", "environments", "secrets", "sandboxes", "threads", "reconciliation"];

/// Every row of the live copy.
pub async fn dump(rows: &Rows) -> String {
    let mut tx = rows.read_all().await.unwrap();
    text(&mut tx, &TABLES).await
}

/// What the role of queries sees for one house.
pub async fn seen_by(rows: &Rows, house: &HouseId) -> String {
    let mut tx = rows.read(house).await.unwrap();
    sqlx::query("savepoint s").execute(&mut *tx).await.unwrap();
    assert!(sqlx::query("select from agent_keys").execute(&mut *tx).await.is_err(), "keys are not for queries");
    sqlx::query("rollback to s").execute(&mut *tx).await.unwrap();
    let visible: Vec<_> = TABLES.into_iter().filter(|table| *table != "agent_keys").collect();
    text(&mut tx, &visible).await
}

async fn text(conn: &mut PgConnection, tables: &[&str]) -> String {
    sqlx::query("set local timezone = 'UTC'").execute(&mut *conn).await.unwrap();
    let mut text = String::new();
    for table in tables {
        let select = format!("select row_to_json(t)::text from {table} t");
        let mut lines: Vec<String> = sqlx::query_scalar(AssertSqlSafe(select)).fetch_all(&mut *conn).await.unwrap();
        lines.sort_unstable();
        text.push_str(&format!("-- {table}\n"));
        lines.iter().for_each(|line| text.extend([line.as_str(), "\n"]));
    }
    text
}
