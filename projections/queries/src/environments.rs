//! Environments, with the names of the secrets they inject.

use events::{EnvironmentId, HouseId, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::cursor::{Limit, Page, Place, page};
use crate::row::{micros, parsed, time, undecodable};
use crate::view::{At, Queries, QueryError};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Environment {
    pub environment_id: EnvironmentId,
    pub house_id: HouseId,
    pub name: String,
    pub config: JsonObject,
    pub secret_bindings: Vec<SecretBinding>,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretBinding {
    pub name: String,
    /// A dispatch fails while there is no secret of this name.
    pub required: bool,
    /// Whether the house has a secret of this name.
    pub exists: bool,
    /// When the value came that it has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub rotated_at: Option<String>,
}

/// Secrets as in `secrets.rs`.
macro_rules! columns {
    () => {
        concat!(
            "select id, house_id, name, config::text as config, (
                 select coalesce(jsonb_agg(binding || jsonb_build_object('exists', s.moment is not null, 'rotated_at', s.moment)
                     order by place), '[]')
                 from jsonb_array_elements(secret_bindings) with ordinality b(binding, place)
                 left join lateral (
                     select ",
            time!("coalesce(of_v2.rotated_at, secrets.created_at)" as "moment"),
            " from secrets, jsonb_to_record(to_jsonb(secrets)) of_v2(rotated_at timestamptz, deleted_at timestamptz)
                     where secrets.house_id = environments.house_id and secrets.name = binding->>'name'
                       and of_v2.deleted_at is null
                 ) s on true
             )::text as secret_bindings, ",
            time!("created_at"),
            ", ",
            micros!("created_at"),
            " from environments "
        )
    };
}

const ONE: &str = concat!(columns!(), "where house_id = $1 and id = $2");

const MANY: &str = concat!(
    columns!(),
    "where house_id = $1
       and ($2::bigint is null
            or (environments.created_at, id) > (timestamptz 'epoch' + $2 * interval '1 microsecond', $3))
     order by environments.created_at, id
     limit $4"
);

impl Queries {
    pub async fn environment(&self, house: &HouseId, id: &EnvironmentId) -> Result<At<Option<Environment>>, QueryError> {
        let mut view = self.view(house).await?;
        let row = sqlx::query(ONE).bind(house.as_str()).bind(id.as_str()).fetch_optional(&mut *view.transaction).await?;
        let environment = row.as_ref().map(environment).transpose()?;
        view.answer(environment.map(|(_, environment)| environment)).await
    }

    /// The oldest first.
    pub async fn environments(
        &self,
        house: &HouseId,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<At<Page<Environment>>, QueryError> {
        const LIST: &str = "environments";
        let after = cursor.map(|cursor| Place::parse(LIST, cursor)).transpose()?;
        let mut view = self.view(house).await?;
        let rows = sqlx::query(MANY)
            .bind(house.as_str())
            .bind(after.as_ref().map(|place| place.key))
            .bind(after.map(|place| place.id))
            .bind(limit.probe())
            .fetch_all(&mut *view.transaction)
            .await?;
        let rows = rows.iter().map(environment).collect::<Result<_, _>>()?;
        view.answer(page(LIST, limit, rows)).await
    }
}

fn environment(row: &PgRow) -> Result<(Place, Environment), sqlx::Error> {
    let config: &str = row.try_get("config")?;
    let bindings: &str = row.try_get("secret_bindings")?;
    let environment = Environment {
        environment_id: parsed(row, "id")?,
        house_id: parsed(row, "house_id")?,
        name: row.try_get("name")?,
        config: JsonObject::parse(config).map_err(|error| undecodable("config", error))?,
        secret_bindings: serde_json::from_str(bindings).map_err(|error| undecodable("secret_bindings", error))?,
        created_at: row.try_get("created_at")?,
    };
    Ok((Place { key: row.try_get("place_key")?, id: environment.environment_id.to_string() }, environment))
}
