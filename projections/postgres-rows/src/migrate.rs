//! The schema `arbe`, forward only.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Applied in this order, each once. Never edited, only added.
const MIGRATIONS: &[(i32, &str)] = &[(1, include_str!("../../../migrations/0001_copies.sql"))];

const LOCK: i64 = 0x6172_6265_0000_0001;

/// Any number of servers may do this at once.
pub(crate) async fn migrate(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    let mut tx = conn.begin().await?;
    sqlx::raw_sql("set local synchronous_commit = on").execute(&mut *tx).await?;
    sqlx::query("select pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *tx).await?;
    sqlx::raw_sql("create schema if not exists arbe; create table if not exists arbe.migrations (version integer primary key)")
        .execute(&mut *tx)
        .await?;
    let done: Option<i32> = sqlx::query_scalar("select max(version) from arbe.migrations").fetch_one(&mut *tx).await?;
    for (version, text) in MIGRATIONS.iter().filter(|(version, _)| Some(*version) > done) {
        sqlx::raw_sql(AssertSqlSafe(*text)).execute(&mut *tx).await?;
        sqlx::query("insert into arbe.migrations values ($1)").bind(version).execute(&mut *tx).await?;
    }
    tx.commit().await
}
