//! The copies of the rows, each a schema of its own.

use projector::{Checkpoint, Copies, Live, Projector, SinkError, Sums};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres, Transaction};

use crate::change::Change;
use crate::projection::RowsProjector;
use crate::sink::{RowsSink, Stored, unavailable};
use crate::store::{Rows, drop_schema};

const NAME: &str = RowsProjector::NAME;
const VERSION: i32 = RowsProjector::VERSION as i32;
const TABLES_OF_A_COPY: &str = include_str!("../../../migrations/rows/v2.sql");

/// Everything a copy consists of.
const TABLES: [&str; 9] =
    ["houses", "agents", "agent_keys", "members", "environments", "secrets", "sandboxes", "threads", "reconciliation"];

/// Making, swapping and dropping copies happens one at a time.
const LOCK: i64 = 0x6172_6265_0000_0002;

/// A reader that found its way to a copy before the swap has this long to finish.
const RETIRED_FOR: &str = "1 minute";

/// The live copy's checkpoint row, locked.
#[derive(Debug)]
pub struct Hold {
    tx: Transaction<'static, Postgres>,
    live: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct Found {
    id: i64,
    version: i32,
    schema: String,
}

impl Copies<Change> for Rows {
    type Sink = RowsSink;
    type Hold = Hold;

    async fn live(&self) -> Result<Live<RowsSink>, SinkError> {
        let mut conn = self.feeder().await.map_err(unavailable)?;
        let found = self.find_or_make(&mut conn, "live", "first").await.map_err(unavailable)?;
        if found.version > VERSION {
            return Err(SinkError::Unavailable(format!("the live copy has version {}, newer than this server's", found.version)));
        }
        if found.version < VERSION {
            return Ok(Live::Outdated { version: found.version as u32 });
        }
        sink(conn, found, "live").await.map(Live::Current).map_err(unavailable)
    }

    async fn beside(&self, label: &str) -> Result<RowsSink, SinkError> {
        let mut conn = self.feeder().await.map_err(unavailable)?;
        let found = self.find_or_make(&mut conn, "building", label).await.map_err(unavailable)?;
        sink(conn, found, "building").await.map_err(unavailable)
    }

    async fn hold(&self) -> Result<(Hold, Checkpoint), SinkError> {
        self.hold_live().await.map_err(unavailable)
    }

    async fn swap(&self, hold: Hold, copy: &mut RowsSink) -> Result<(), SinkError> {
        let Hold { mut tx, live } = hold;
        sqlx::query("update arbe.copies set state = 'retired', retired_at = now() where id = $1")
            .bind(live)
            .execute(&mut *tx)
            .await
            .map_err(unavailable)?;
        let risen = sqlx::query("update arbe.copies set state = 'live' where id = $1 and state = 'building'")
            .bind(copy.id)
            .execute(&mut *tx)
            .await
            .map_err(unavailable)?;
        if risen.rows_affected() != 1 {
            return Err(SinkError::Moved);
        }
        tx.commit().await.map_err(unavailable)
    }

    fn address(&self, copy: &RowsSink) -> String {
        copy.schema.clone()
    }

    async fn discard(&self, mut copy: RowsSink) -> Result<(), SinkError> {
        let discarded = async {
            let mut tx = copy.conn.begin().await?;
            sqlx::raw_sql("set local role none").execute(&mut *tx).await?;
            sqlx::query("delete from arbe.copies where id = $1 and state = 'building'").bind(copy.id).execute(&mut *tx).await?;
            drop_schema(&mut tx, &copy.schema).await?;
            tx.commit().await?;
            copy.conn.close().await
        };
        discarded.await.map_err(unavailable)
    }

    async fn sums(&self, copy: &mut RowsSink) -> Result<Sums, SinkError> {
        sums(&mut copy.conn).await.map_err(unavailable)
    }

    async fn live_sums(&self) -> Result<Option<(Checkpoint, Sums)>, SinkError> {
        self.sums_of_live().await.map_err(unavailable)
    }
}

async fn sink(mut conn: PgConnection, found: Found, state: &'static str) -> Result<RowsSink, sqlx::Error> {
    let Found { id, schema, .. } = found;
    feed(&mut conn, &schema).await?;
    Ok(RowsSink { conn, id, schema, state })
}

/// From here on the connection sees every row of the copy and can make no other.
async fn feed(conn: &mut PgConnection, schema: &str) -> Result<(), sqlx::Error> {
    set_path(conn, schema, false).await?;
    sqlx::raw_sql("set role arbe_projector").execute(conn).await.map(|_| ())
}

async fn set_path(conn: &mut PgConnection, schema: &str, local: bool) -> Result<(), sqlx::Error> {
    sqlx::query("select set_config('search_path', quote_ident($1), $2)").bind(schema).bind(local).execute(conn).await.map(|_| ())
}

/// Of the tables in the search path that are there. Independent of the order of rows.
async fn sums(conn: &mut PgConnection) -> Result<Sums, sqlx::Error> {
    let mut sums = Sums::new();
    let there: Vec<String> =
        sqlx::query_scalar("select name from unnest($1::text[]) name where to_regclass(quote_ident(name)) is not null")
            .bind(&TABLES[..])
            .fetch_all(&mut *conn)
            .await?;
    for table in there {
        let sum = format!(
            "select count(*) || ':' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0)
                || ':' || coalesce(sum(hashtextextended(t::text, 1)::numeric), 0) from {table} t"
        );
        sums.insert(table, sqlx::query_scalar(AssertSqlSafe(sum)).fetch_one(&mut *conn).await?);
    }
    Ok(sums)
}

impl Rows {
    async fn find_or_make(&self, conn: &mut PgConnection, state: &str, label: &str) -> Result<Found, sqlx::Error> {
        let mut tx = conn.begin().await?;
        sqlx::raw_sql("set local synchronous_commit = on").execute(&mut *tx).await?;
        sqlx::query("select pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *tx).await?;
        sweep(&mut tx).await?;
        let found: Option<Found> = sqlx::query_as(
            "select id, version, schema from arbe.copies
            where projection = $1 and state = $2 and ($2 = 'live' or (label = $3 and version = $4))",
        )
        .bind(NAME)
        .bind(state)
        .bind(label)
        .bind(VERSION)
        .fetch_optional(&mut *tx)
        .await?;
        let found = match found {
            Some(found) => found,
            None => make(&mut tx, state, label).await?,
        };
        tx.commit().await?;
        Ok(found)
    }

    async fn hold_live(&self) -> Result<(Hold, Checkpoint), sqlx::Error> {
        #[derive(sqlx::FromRow)]
        struct Live {
            id: i64,
            #[sqlx(flatten)]
            stored: Stored,
        }
        let mut tx = self.pool.begin().await?;
        // A holder that hangs must not stop the live copy for good.
        sqlx::raw_sql("set local idle_in_transaction_session_timeout = '60s'").execute(&mut *tx).await?;
        // Held until the swap: no other copy becomes the live one meanwhile, least of all where there was none.
        sqlx::query("select pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *tx).await?;
        let live: Option<Live> = sqlx::query_as(
            "select id, next, digest, records, time_ms from arbe.copies where projection = $1 and state = 'live' for update",
        )
        .bind(NAME)
        .fetch_optional(&mut *tx)
        .await?;
        let checkpoint = live.as_ref().map(|live| live.stored.checkpoint()).unwrap_or_default();
        Ok((Hold { tx, live: live.map(|live| live.id) }, checkpoint))
    }

    async fn sums_of_live(&self) -> Result<Option<(Checkpoint, Sums)>, sqlx::Error> {
        let mut conn = self.feeder().await?;
        let mut tx = conn.begin_with("begin isolation level repeatable read read only").await?;
        let live: Option<Stored> =
            sqlx::query_as("select next, digest, records, time_ms from arbe.copies where projection = $1 and state = 'live'")
                .bind(NAME)
                .fetch_optional(&mut *tx)
                .await?;
        let Some(live) = live else { return Ok(None) };
        let schema: String = sqlx::query_scalar("select schema from arbe.copies where projection = $1 and state = 'live'")
            .bind(NAME)
            .fetch_one(&mut *tx)
            .await?;
        feed(&mut tx, &schema).await?;
        let sums = sums(&mut tx).await?;
        tx.rollback().await?;
        conn.close().await?;
        Ok(Some((live.checkpoint(), sums)))
    }

    /// What the live copy has lost, as after somebody dropped it by hand.
    pub async fn damage(&self) -> Result<Option<String>, sqlx::Error> {
        let found: Option<(String, Vec<String>)> = sqlx::query_as(
            "select schema, array(select name from unnest($2::text[]) name where to_regclass(format('%I.%I', schema, name)) is null)
            from arbe.copies where projection = $1 and state = 'live'",
        )
        .bind(NAME)
        .bind(&TABLES[..])
        .fetch_optional(&self.pool)
        .await?;
        let Some((schema, lost)) = found.filter(|(_, lost)| !lost.is_empty()) else { return Ok(None) };
        let what = if lost.len() == TABLES.len() { "everything".to_owned() } else { lost.join(", ") };
        Ok(Some(format!("{what} in schema {schema} is gone; `arbe rebuild` makes it anew")))
    }

    /// The checksums of a copy by the name of its schema.
    pub async fn sums_of(&self, schema: &str) -> Result<Sums, sqlx::Error> {
        let mut conn = self.feeder().await?;
        feed(&mut conn, schema).await?;
        let sums = sums(&mut conn).await?;
        conn.close().await?;
        Ok(sums)
    }
}

async fn make(tx: &mut PgConnection, state: &str, label: &str) -> Result<Found, sqlx::Error> {
    let id: i64 = sqlx::query_scalar("select nextval(pg_get_serial_sequence('arbe.copies', 'id'))").fetch_one(&mut *tx).await?;
    let schema = format!("{NAME}_v{VERSION}_{id}");
    sqlx::query(
        "insert into arbe.copies (id, projection, version, label, schema, state) overriding system value
        values ($1, $2, $3, $4, $5, $6)",
    )
    .bind(id)
    .bind(NAME)
    .bind(VERSION)
    .bind(label)
    .bind(&schema)
    .bind(state)
    .execute(&mut *tx)
    .await?;
    sqlx::raw_sql(AssertSqlSafe(format!("create schema \"{schema}\""))).execute(&mut *tx).await?;
    set_path(tx, &schema, true).await?;
    sqlx::raw_sql(TABLES_OF_A_COPY).execute(&mut *tx).await?;
    Ok(Found { id, version: VERSION, schema })
}

async fn sweep(tx: &mut PgConnection) -> Result<(), sqlx::Error> {
    let retired: Vec<String> = sqlx::query_scalar(
        "delete from arbe.copies where projection = $1 and state = 'retired' and retired_at < now() - $2::text::interval
        returning schema",
    )
    .bind(NAME)
    .bind(RETIRED_FOR)
    .fetch_all(&mut *tx)
    .await?;
    for schema in retired {
        drop_schema(tx, &schema).await?;
    }
    Ok(())
}
