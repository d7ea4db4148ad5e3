//! Houses and who is in them.

use events::{AgentId, AgentKind, EnvironmentId, HouseId, Role};
use schemars::JsonSchema;
use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::cursor::{Limit, Page, Place, page};
use crate::row::{agent, micros, optional, parsed, time, word};
use crate::view::{At, Queries, QueryError, View};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct House {
    pub house_id: HouseId,
    pub name: String,
    pub default_environment_id: Option<EnvironmentId>,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Member {
    pub house_id: HouseId,
    pub agent_id: AgentId,
    pub role: Role,
    pub kind: AgentKind,
    pub runtime: Option<String>,
    pub name: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    pub joined_at: String,
}

const HOUSE: &str = concat!("select id, name, default_environment_id, ", time!("created_at"), " from houses where id = $1");

const MEMBERS: &str = concat!(
    "select m.house_id, m.agent_id, m.role, a.kind, a.runtime, a.name, ",
    time!("joined_at"),
    ", ",
    micros!("joined_at"),
    " from members m join agents a on a.id = m.agent_id
     where m.house_id = $1
       and ($2::bigint is null
            or (m.joined_at, m.agent_id) > (timestamptz 'epoch' + $2 * interval '1 microsecond', $3::uuid))
     order by m.joined_at, m.agent_id
     limit $4"
);

impl Queries {
    pub async fn house(&self, id: &HouseId) -> Result<At<Option<House>>, QueryError> {
        let mut view = self.view(id).await?;
        let house = house(&mut view, id).await?;
        view.answer(house).await
    }

    /// Of these houses, in this order, those that have a row.
    pub async fn houses(&self, ids: &[HouseId]) -> Result<At<Vec<House>>, QueryError> {
        let nowhere = HouseId::new("-").expect("one letter is an id");
        let mut view = self.view(ids.first().unwrap_or(&nowhere)).await?;
        let mut houses = Vec::with_capacity(ids.len());
        for id in ids {
            view.turn_to(id).await?;
            houses.extend(house(&mut view, id).await?);
        }
        view.answer(houses).await
    }

    /// The longest there first.
    pub async fn members(&self, house: &HouseId, cursor: Option<&str>, limit: Limit) -> Result<At<Page<Member>>, QueryError> {
        const LIST: &str = "members";
        let after = cursor.map(|cursor| Place::parse(LIST, cursor)).transpose()?;
        let after_id = after.as_ref().map(|place| place.id.parse()).transpose().map_err(|_| crate::BadCursor)?;
        let mut view = self.view(house).await?;
        let rows = sqlx::query(MEMBERS)
            .bind(house.as_str())
            .bind(after.as_ref().map(|place| place.key))
            .bind(after_id.map(|AgentId(id)| id))
            .bind(limit.probe())
            .fetch_all(&mut *view.transaction)
            .await?;
        let rows = rows.iter().map(member).collect::<Result<_, _>>()?;
        view.answer(page(LIST, limit, rows)).await
    }
}

async fn house(view: &mut View, id: &HouseId) -> Result<Option<House>, QueryError> {
    let row = sqlx::query(HOUSE).bind(id.as_str()).fetch_optional(&mut *view.transaction).await?;
    let house = row.map(|row| {
        Ok::<_, sqlx::Error>(House {
            house_id: parsed(&row, "id")?,
            name: row.try_get("name")?,
            default_environment_id: optional(&row, "default_environment_id")?,
            created_at: row.try_get("created_at")?,
        })
    });
    Ok(house.transpose()?)
}

fn member(row: &PgRow) -> Result<(Place, Member), sqlx::Error> {
    let member = Member {
        house_id: parsed(row, "house_id")?,
        agent_id: agent(row, "agent_id")?,
        role: word(row, "role")?,
        kind: word(row, "kind")?,
        runtime: row.try_get("runtime")?,
        name: row.try_get("name")?,
        joined_at: row.try_get("joined_at")?,
    };
    Ok((Place { key: row.try_get("place_key")?, id: member.agent_id.to_string() }, member))
}
