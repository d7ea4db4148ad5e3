//! Feeding one copy.

use event_log::Cursor;
use projector::{Checkpoint, Sink, SinkError, Span};
use sqlx::{Connection, PgConnection};

use crate::apply::{ApplyError, apply};
use crate::change::{Change, Op};

/// Advisory locks of this class are claims on copies. Never changed: servers of different versions must agree.
pub(crate) const CLAIM_CLASS: i32 = 0x6172_6265;

/// One connection that holds the claim and makes every change.
#[derive(Debug)]
pub struct RowsSink {
    pub(crate) conn: PgConnection,
    pub(crate) id: i64,
    pub(crate) schema: String,
    pub(crate) state: &'static str,
}

pub(crate) fn unavailable(error: sqlx::Error) -> SinkError {
    SinkError::Unavailable(error.to_string())
}

#[derive(sqlx::FromRow)]
pub(crate) struct Stored {
    next: i64,
    digest: Vec<u8>,
    records: i64,
    time_ms: i64,
}

impl Stored {
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        let digest = self.digest.as_slice().try_into().unwrap_or_default();
        let cursor = Cursor { next: self.next as u64, digest };
        Checkpoint { cursor, records: self.records as u64, time: self.time_ms as u64 }
    }
}

impl Sink<Change> for RowsSink {
    async fn checkpoint(&mut self) -> Result<Checkpoint, SinkError> {
        let stored: Option<Stored> =
            sqlx::query_as("select next, digest, records, time_ms from arbe.copies where id = $1 and state = $2")
                .bind(self.id)
                .bind(self.state)
                .fetch_optional(&mut self.conn)
                .await
                .map_err(unavailable)?;
        stored.as_ref().map(Stored::checkpoint).ok_or(SinkError::Moved)
    }

    async fn claim(&mut self) -> Result<bool, SinkError> {
        sqlx::query_scalar("select pg_try_advisory_lock($1, $2)")
            .bind(CLAIM_CLASS)
            .bind(self.id as i32)
            .fetch_one(&mut self.conn)
            .await
            .map_err(unavailable)
    }

    async fn commit(&mut self, span: &Span, changes: Vec<Change>) -> Result<(), SinkError> {
        if changes.is_empty() {
            return advance(&mut self.conn, self.id, self.state, span).await;
        }
        let mut tx = self.conn.begin().await.map_err(unavailable)?;
        advance(&mut tx, self.id, self.state, span).await?;
        let ops: Vec<Op> = changes.into_iter().map(|change| change.0).collect();
        match apply(&mut tx, &ops).await {
            Ok(()) => tx.commit().await.map_err(unavailable),
            Err(error) => {
                tx.rollback().await.map_err(unavailable)?;
                let why = refusal(error)?;
                self.locate(&ops, why).await
            }
        }
    }

    async fn stopped(&mut self, why: &str) -> Result<(), SinkError> {
        let note = sqlx::query("update arbe.copies set stopped = $2 where id = $1").bind(self.id).bind(why);
        note.execute(&mut self.conn).await.map_err(unavailable)?;
        Ok(())
    }
}

/// Moves the checkpoint, or says that another did.
async fn advance(conn: &mut PgConnection, id: i64, state: &str, span: &Span) -> Result<(), SinkError> {
    let Span { from, to } = span;
    let moved = sqlx::query(
        "update arbe.copies set next = $5, digest = $6, records = $7, time_ms = $8, stopped = null
        where id = $1 and state = $2 and next = $3 and digest = $4",
    )
    .bind(id)
    .bind(state)
    .bind(from.cursor.next as i64)
    .bind(&from.cursor.digest[..])
    .bind(to.cursor.next as i64)
    .bind(&to.cursor.digest[..])
    .bind(to.records as i64)
    .bind(to.time as i64);
    let moved = moved.execute(conn).await.map_err(unavailable)?.rows_affected();
    if moved == 1 { Ok(()) } else { Err(SinkError::Moved) }
}

/// What the rows themselves object to, as opposed to a database that is not there.
fn refusal(error: ApplyError) -> Result<String, SinkError> {
    let ApplyError::Sql(sqlx::Error::Database(refused)) = &error else {
        return match error {
            ApplyError::Sql(error) => Err(unavailable(error)),
            ApplyError::Contradiction | ApplyError::Missing => Ok(error.to_string()),
        };
    };
    // Classes 22 and 23: a value that does not fit, a constraint that does not hold.
    let code = refused.code().unwrap_or_default();
    if code.starts_with("22") || code.starts_with("23") {
        Ok(error.to_string())
    } else {
        Err(SinkError::Unavailable(error.to_string()))
    }
}

impl RowsSink {
    /// Applies changes one by one, and none of them for good, to find the one that is refused.
    async fn locate(&mut self, ops: &[Op], whole: String) -> Result<(), SinkError> {
        let mut tx = self.conn.begin().await.map_err(unavailable)?;
        for (change, op) in ops.iter().enumerate() {
            if let Err(error) = apply(&mut tx, std::slice::from_ref(op)).await {
                let why = refusal(error)?;
                tx.rollback().await.map_err(unavailable)?;
                return Err(SinkError::Refused { change, why });
            }
        }
        tx.rollback().await.map_err(unavailable)?;
        Err(SinkError::Refused { change: 0, why: whole })
    }
}
