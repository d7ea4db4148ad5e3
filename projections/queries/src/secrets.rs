//! What is known of secrets. Their values are in the vault.

use events::{AgentId, HouseId, SecretId};
use schemars::JsonSchema;
use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::cursor::{Limit, Page, Place, page};
use crate::row::{micros, optional_agent, parsed, time};
use crate::view::{At, Queries, QueryError};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Secret {
    pub secret_id: SecretId,
    pub house_id: HouseId,
    /// The variable's name in a sandbox. Never changed.
    pub name: String,
    /// The environments that bind it, by id.
    pub bound_by: Vec<String>,
    /// Who made it. It gates nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author_id: Option<AgentId>,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// When the value came that it has now.
    #[schemars(extend("format" = "date-time"))]
    pub rotated_at: String,
}

/// What version 2 of the rows brought is read by way of JSON: a copy of version 1 serves until the next one is built.
macro_rules! columns {
    () => {
        concat!(
            "select id, house_id, name, of_v2.author_id, array(
                 select e.id from environments e
                 where e.house_id = secrets.house_id
                   and e.secret_bindings @> jsonb_build_array(jsonb_build_object('name', secrets.name))
                 order by e.id
             ) as bound_by, ",
            time!("created_at"),
            ", ",
            time!("coalesce(of_v2.rotated_at, created_at)" as "rotated_at"),
            ", ",
            micros!("created_at"),
            " from secrets, jsonb_to_record(to_jsonb(secrets))
                 of_v2(author_id uuid, rotated_at timestamptz, deleted_at timestamptz)
             where of_v2.deleted_at is null and "
        )
    };
}

const ONE: &str = concat!(columns!(), "house_id = $1 and id = $2");

const MANY: &str = concat!(
    columns!(),
    "house_id = $1
       and ($2::text is null or name = $2)
       and ($3::bigint is null
            or (secrets.created_at, id) > (timestamptz 'epoch' + $3 * interval '1 microsecond', $4))
     order by secrets.created_at, id
     limit $5"
);

impl Queries {
    pub async fn secret(&self, house: &HouseId, id: &SecretId) -> Result<At<Option<Secret>>, QueryError> {
        let mut view = self.view(house).await?;
        let row = sqlx::query(ONE).bind(house.as_str()).bind(id.as_str()).fetch_optional(&mut *view.transaction).await?;
        let secret = row.as_ref().map(secret).transpose()?;
        view.answer(secret.map(|(_, secret)| secret)).await
    }

    /// The oldest first; with a name that one only.
    pub async fn secrets(
        &self,
        house: &HouseId,
        name: Option<&str>,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<At<Page<Secret>>, QueryError> {
        const LIST: &str = "secrets";
        let after = cursor.map(|cursor| Place::parse(LIST, cursor)).transpose()?;
        let mut view = self.view(house).await?;
        let rows = sqlx::query(MANY)
            .bind(house.as_str())
            .bind(name)
            .bind(after.as_ref().map(|place| place.key))
            .bind(after.map(|place| place.id))
            .bind(limit.probe())
            .fetch_all(&mut *view.transaction)
            .await?;
        let rows = rows.iter().map(secret).collect::<Result<_, _>>()?;
        view.answer(page(LIST, limit, rows)).await
    }
}

fn secret(row: &PgRow) -> Result<(Place, Secret), sqlx::Error> {
    let secret = Secret {
        secret_id: parsed(row, "id")?,
        house_id: parsed(row, "house_id")?,
        name: row.try_get("name")?,
        bound_by: row.try_get("bound_by")?,
        author_id: optional_agent(row, "author_id")?,
        created_at: row.try_get("created_at")?,
        rotated_at: row.try_get("rotated_at")?,
    };
    Ok((Place { key: row.try_get("place_key")?, id: secret.secret_id.to_string() }, secret))
}
