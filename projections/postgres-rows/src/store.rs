//! The database that holds the copies, for those who feed them and those who read them.

use std::time::Duration;

use events::HouseId;
use projector::{Dropped, Projector};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, Postgres, Transaction};

use crate::migrate::migrate;
use crate::projection::RowsProjector;
use crate::sink::CLAIM_CLASS;

const ACQUIRE_PATIENCE: Duration = Duration::from_secs(10);

/// Clones share the pool.
#[derive(Clone, Debug)]
pub struct Rows {
    pub(crate) pool: PgPool,
    options: PgConnectOptions,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The first start has not made the rows yet.
    #[error("there are no rows yet")]
    NothingLive,
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

/// A copy as the database knows it.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct CopyInfo {
    pub id: i64,
    pub projection: String,
    pub version: i32,
    pub label: String,
    pub schema: String,
    pub state: String,
    pub next: i64,
    pub records: i64,
    pub time_ms: i64,
    pub stopped: Option<String>,
}

/// Of the pool that queries share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    pub used: u32,
    pub idle: u32,
    pub max: u32,
}

impl Rows {
    /// Connects and brings the schema up to date.
    pub async fn connect(options: PgConnectOptions, connections: u32) -> Result<Self, sqlx::Error> {
        let mut conn = PgConnection::connect_with(&options).await?;
        migrate(&mut conn).await?;
        conn.close().await?;
        let pool = PgPoolOptions::new()
            .max_connections(connections.max(2))
            .acquire_timeout(ACQUIRE_PATIENCE)
            .connect_with(options.clone())
            .await?;
        Ok(Self { pool, options })
    }

    /// A transaction that sees the live rows of one house and nothing else.
    pub async fn read(&self, house: &HouseId) -> Result<Transaction<'static, Postgres>, ReadError> {
        let tx = self.pool.begin().await?;
        Ok(enter(tx, house.as_str(), "arbe_reader").await?.0)
    }

    /// The same as one snapshot, and how far the rows are in it.
    pub async fn snapshot(&self, house: &HouseId) -> Result<(Transaction<'static, Postgres>, u64), ReadError> {
        let tx = self.pool.begin_with("begin isolation level repeatable read read only").await?;
        enter(tx, house.as_str(), "arbe_reader").await
    }

    /// A transaction that sees the live rows of every house, for drivers. No request of a user comes here.
    pub async fn read_all(&self) -> Result<Transaction<'static, Postgres>, ReadError> {
        let tx = self.pool.begin().await?;
        Ok(enter(tx, "", "arbe_projector").await?.0)
    }

    #[must_use]
    pub fn connections(&self) -> Connections {
        let idle = u32::try_from(self.pool.num_idle()).unwrap_or(u32::MAX);
        Connections { used: self.pool.size().saturating_sub(idle), idle, max: self.pool.options().get_max_connections() }
    }

    /// Whether there is a live copy.
    pub async fn serving(&self) -> Result<bool, sqlx::Error> {
        let live = sqlx::query_scalar("select exists (select from arbe.copies where projection = $1 and state = 'live')");
        live.bind(RowsProjector::NAME).fetch_one(&self.pool).await
    }

    /// Every copy there is, live or not.
    pub async fn copies(&self) -> Result<Vec<CopyInfo>, sqlx::Error> {
        sqlx::query_as(
            "select id, projection, version, label, schema, state, next, records, time_ms, stopped from arbe.copies order by id",
        )
        .fetch_all(&self.pool)
        .await
    }

    /// Takes a copy away that is neither live nor being built, such as one of the past.
    pub async fn drop_copy(&self, schema: &str) -> Result<Dropped, sqlx::Error> {
        let mut tx = self.pool.begin().await?;
        let found: Option<(i64, bool, bool)> = sqlx::query_as(
            "select id, state = 'live', pg_try_advisory_xact_lock($2, id::integer) from arbe.copies where schema = $1 for update",
        )
        .bind(schema)
        .bind(CLAIM_CLASS)
        .fetch_optional(&mut *tx)
        .await?;
        match found {
            None => return Ok(Dropped::Unknown),
            Some((_, true, _)) => return Ok(Dropped::Live),
            Some((_, false, false)) => return Ok(Dropped::Busy),
            Some((id, false, true)) => {
                sqlx::query("delete from arbe.copies where id = $1").bind(id).execute(&mut *tx).await?;
            }
        }
        drop_schema(&mut tx, schema).await?;
        tx.commit().await?;
        Ok(Dropped::Gone)
    }

    /// A connection of its own for one who makes, feeds or checks copies.
    pub(crate) async fn feeder(&self) -> Result<PgConnection, sqlx::Error> {
        let mut conn = PgConnection::connect_with(&self.options).await?;
        // Losing the end of what was applied is harmless: the checkpoint is lost with it.
        sqlx::raw_sql("set synchronous_commit = off; set timezone = 'UTC'; set jit = off").execute(&mut conn).await?;
        Ok(conn)
    }

    pub async fn close(&self) {
        self.pool.close().await;
    }
}

pub(crate) async fn drop_schema(conn: &mut PgConnection, schema: &str) -> Result<(), sqlx::Error> {
    let drop = AssertSqlSafe(format!("drop schema if exists \"{schema}\" cascade"));
    sqlx::raw_sql(drop).execute(conn).await.map(|_| ())
}

/// The settings end with the transaction. The role is set last: it may not look at the schemas of other copies.
async fn enter(
    mut tx: Transaction<'static, Postgres>,
    house: &str,
    role: &str,
) -> Result<(Transaction<'static, Postgres>, u64), ReadError> {
    let entered: Option<(i64, String)> = sqlx::query_as(
        "select next, set_config('search_path', quote_ident(schema), true) || set_config('app.house_id', $2, true)
            || set_config('role', $3, true)
        from arbe.copies where projection = $1 and state = 'live'",
    )
    .bind(RowsProjector::NAME)
    .bind(house)
    .bind(role)
    .fetch_optional(&mut *tx)
    .await?;
    let (next, _) = entered.ok_or(ReadError::NothingLive)?;
    Ok((tx, u64::try_from(next).unwrap_or(0)))
}
