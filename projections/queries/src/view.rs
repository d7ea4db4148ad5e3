//! One transaction of the reader.

use std::sync::Arc;
use std::time::Duration;

use events::HouseId;
use postgres_rows::{Connections, ReadError, Rows};
use projector::Monitor;
use sqlx::{Postgres, Transaction};

use crate::cursor::BadCursor;

/// Clones share one pool.
#[derive(Clone, Debug)]
pub struct Queries {
    pub(crate) rows: Rows,
    pub(crate) feeding: Monitor,
    pub(crate) others: Arc<[Monitor]>,
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

impl From<ReadError> for QueryError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NothingLive => Self::NotReady,
            ReadError::Sql(error) => Self::Unavailable(error),
        }
    }
}

impl From<sqlx::Error> for QueryError {
    fn from(error: sqlx::Error) -> Self {
        Self::Unavailable(error)
    }
}

pub(crate) struct View {
    pub(crate) transaction: Transaction<'static, Postgres>,
    position: u64,
}

impl Queries {
    /// `feeding` is the monitor of the runner that feeds the rows.
    #[must_use]
    pub fn new(rows: Rows, feeding: Monitor) -> Self {
        Self { rows, feeding, others: Arc::default() }
    }

    /// Tells of other read models too.
    #[must_use]
    pub fn beside(self, others: Vec<Monitor>) -> Self {
        Self { others: others.into(), ..self }
    }

    /// Returns when queries include everything below `position`.
    pub async fn wait(&self, position: u64, patience: Duration) -> Result<(), NotThereYet> {
        let mut watermark = self.feeding.watermark();
        if watermark.reached(position, patience).await {
            return Ok(());
        }
        Err(NotThereYet { asked: position, position: watermark.position() })
    }

    /// Whether there is a copy to read from.
    pub async fn serving(&self) -> Result<bool, QueryError> {
        Ok(self.rows.serving().await?)
    }

    #[must_use]
    pub fn connections(&self) -> Connections {
        self.rows.connections()
    }

    pub(crate) async fn view(&self, house: &HouseId) -> Result<View, QueryError> {
        let (transaction, position) = self.rows.snapshot(house).await?;
        Ok(View { transaction, position })
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
