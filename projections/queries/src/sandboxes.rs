//! Handles of machines.

use events::{EnvironmentId, HouseId, SandboxId, ThreadId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::cursor::{Limit, Page, Place, page};
use crate::row::{all, micros, parsed, time, word};
use crate::view::{At, Queries, QueryError, View};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sandbox {
    pub sandbox_id: SandboxId,
    pub house_id: HouseId,
    pub environment_id: EnvironmentId,
    pub provider: String,
    /// What the provider calls the machine.
    pub provider_ref: Option<String>,
    pub status: SandboxStatus,
    /// Those that point at it.
    pub threads: Vec<ThreadId>,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    #[schemars(extend("format" = "date-time"))]
    pub destroyed_at: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxStatus {
    Pending,
    Live,
    Dead,
}

macro_rules! columns {
    () => {
        concat!(
            "select id, house_id, environment_id, provider, provider_ref, status,
                array(select threads.id from threads where threads.sandbox_id = sandboxes.id order by threads.id collate \"C\")
                    as threads, ",
            time!("created_at"),
            ", ",
            time!("destroyed_at"),
            ", ",
            micros!("created_at"),
            " from sandboxes "
        )
    };
}

const ONE: &str = concat!(columns!(), "where house_id = $1 and id = $2");

const MANY: &str = concat!(
    columns!(),
    "where house_id = $1
       and ($2::bigint is null
            or (sandboxes.created_at, id) < (timestamptz 'epoch' + $2 * interval '1 microsecond', $3))
     order by sandboxes.created_at desc, id desc
     limit $4"
);

impl Queries {
    pub async fn sandbox(&self, house: &HouseId, id: &SandboxId) -> Result<At<Option<Sandbox>>, QueryError> {
        let mut view = self.view(house).await?;
        let sandbox = one(&mut view, house, id).await?;
        view.answer(sandbox).await
    }

    /// The newest first.
    pub async fn sandboxes(&self, house: &HouseId, cursor: Option<&str>, limit: Limit) -> Result<At<Page<Sandbox>>, QueryError> {
        const LIST: &str = "sandboxes";
        let after = cursor.map(|cursor| Place::parse(LIST, cursor)).transpose()?;
        let mut view = self.view(house).await?;
        let rows = sqlx::query(MANY)
            .bind(house.as_str())
            .bind(after.as_ref().map(|place| place.key))
            .bind(after.map(|place| place.id))
            .bind(limit.probe())
            .fetch_all(&mut *view.transaction)
            .await?;
        let rows = rows.iter().map(sandbox).collect::<Result<_, _>>()?;
        view.answer(page(LIST, limit, rows)).await
    }
}

pub(crate) async fn one(view: &mut View, house: &HouseId, id: &SandboxId) -> Result<Option<Sandbox>, QueryError> {
    let row = sqlx::query(ONE).bind(house.as_str()).bind(id.as_str()).fetch_optional(&mut *view.transaction).await?;
    Ok(row.as_ref().map(sandbox).transpose()?.map(|(_, sandbox)| sandbox))
}

fn sandbox(row: &PgRow) -> Result<(Place, Sandbox), sqlx::Error> {
    let sandbox = Sandbox {
        sandbox_id: parsed(row, "id")?,
        house_id: parsed(row, "house_id")?,
        environment_id: parsed(row, "environment_id")?,
        provider: row.try_get("provider")?,
        provider_ref: row.try_get("provider_ref")?,
        status: word(row, "status")?,
        threads: all(row, "threads")?,
        created_at: row.try_get("created_at")?,
        destroyed_at: row.try_get("destroyed_at")?,
    };
    Ok((Place { key: row.try_get("place_key")?, id: sandbox.sandbox_id.to_string() }, sandbox))
}
