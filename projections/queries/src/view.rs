//! One transaction of the reader.

use std::time::Duration;

use events::HouseId;
use postgres_rows::RowsProjector;
use projector::{Monitor, Projector};
use sqlx::{PgPool, Postgres, Row, Transaction};

use crate::cursor::BadCursor;

/// Clones share one pool.
#[derive(Clone, Debug)]
pub struct Queries {
    pool: PgPool,
    pub(crate) rows: Monitor,
}

/// What was read, and how far the rows were at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    pub position: u64,
    pub value: T,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rows are at position {position} and have not reached {asked}")]
pub struct NotThereYet {
    pub asked: u64,
    pub position: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    #[error(transparent)]
    BadCursor(#[from] BadCursor),
    #[error("there is no copy of the rows yet")]
    NotReady,
    #[error("the database does not answer")]
    Unavailable(#[source] sqlx::Error),
}

impl From<sqlx::Error> for QueryError {
    fn from(error: sqlx::Error) -> Self {
        Self::Unavailable(error)
    }
}

/// One snapshot, so that rows and checkpoint belong together.
const BEGIN: &str = "begin isolation level repeatable read read only";

/// The settings end with the transaction. The role is set last: it may not look at the copies' schemas of others.
const ENTER: &str = "
    select next,
           set_config('search_path', quote_ident(schema), true),
           set_config('app.house_id', $2, true),
           set_config('app.projector', 'off', true),
           set_config('role', 'arbe_reader', true)
    from arbe.copies
    where projection = $1 and state = 'live'";

pub(crate) struct View {
    pub(crate) transaction: Transaction<'static, Postgres>,
    position: u64,
}

impl Queries {
    /// `rows` is the monitor of the runner that feeds the rows.
    #[must_use]
    pub fn new(pool: PgPool, rows: Monitor) -> Self {
        Self { pool, rows }
    }

    /// Returns when queries include everything below `position`.
    pub async fn wait(&self, position: u64, patience: Duration) -> Result<(), NotThereYet> {
        let mut watermark = self.rows.watermark();
        if watermark.reached(position, patience).await {
            return Ok(());
        }
        Err(NotThereYet { asked: position, position: watermark.position() })
    }

    pub(crate) async fn view(&self, house: &HouseId) -> Result<View, QueryError> {
        let mut transaction = self.pool.begin_with(BEGIN).await?;
        let entered = sqlx::query(ENTER).bind(RowsProjector::NAME).bind(house.as_str()).fetch_optional(&mut *transaction).await?;
        let position: i64 = entered.ok_or(QueryError::NotReady)?.try_get("next")?;
        Ok(View { transaction, position: u64::try_from(position).unwrap_or(0) })
    }
}

impl View {
    /// Looks at another house in the same snapshot.
    pub(crate) async fn turn_to(&mut self, house: &HouseId) -> Result<(), QueryError> {
        let turn = sqlx::query("select set_config('app.house_id', $1, true)").bind(house.as_str());
        turn.execute(&mut *self.transaction).await?;
        Ok(())
    }

    pub(crate) async fn answer<T>(self, value: T) -> Result<At<T>, QueryError> {
        self.transaction.commit().await?;
        Ok(At { position: self.position, value })
    }
}
