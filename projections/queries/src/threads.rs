//! Threads: by house, parent, tag, pin, status and driving bot; and one of them with what hangs on it.

use events::{AgentId, EnvironmentId, HouseId, SandboxId, ThreadId, ThreadStatus};
use schemars::JsonSchema;
use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::cursor::{Limit, Page, Place, page};
use crate::row::{micros, optional, optional_agent, parsed, time, word};
use crate::sandboxes::{self, Sandbox};
use crate::view::{At, Queries, QueryError, View};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Thread {
    pub thread_id: ThreadId,
    pub house_id: HouseId,
    pub stream_id: String,
    pub name: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    pub pinned_at: Option<String>,
    pub parent_thread_id: Option<ThreadId>,
    pub parent_agent_id: Option<AgentId>,
    pub environment_id: Option<EnvironmentId>,
    pub sandbox_id: Option<SandboxId>,
    /// The bot that drives the thread; a chat has none.
    pub agent_id: Option<AgentId>,
    pub tags: Vec<String>,
    pub status: ThreadStatus,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThreadDetail {
    #[serde(flatten)]
    pub thread: Thread,
    /// The oldest first, at most 200; the list of threads with `parent` gives them all.
    pub children: Vec<Thread>,
    pub sandbox: Option<Sandbox>,
}

/// What is set must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadFilter {
    pub parent: Option<ThreadId>,
    pub tag: Option<String>,
    pub pinned: Option<bool>,
    pub status: Option<ThreadStatus>,
    /// The driving bot.
    pub agent: Option<AgentId>,
}

macro_rules! columns {
    () => {
        concat!(
            "select id, house_id, stream_id, name, parent_thread_id, parent_agent_id, environment_id, sandbox_id, agent_id,
                    tags, status, ",
            time!("pinned_at"),
            ", ",
            time!("created_at"),
            ", ",
            time!("updated_at"),
            ", ",
            micros!("created_at"),
            " from threads "
        )
    };
}

const ONE: &str = concat!(columns!(), "where house_id = $1 and id = $2");

const CHILDREN: &str = concat!(
    columns!(),
    "where house_id = $1 and parent_thread_id = $2
     order by threads.created_at, id
     limit 200"
);

const MANY: &str = concat!(
    columns!(),
    "where house_id = $1
       and ($2::bigint is null
            or (threads.created_at, id) < (timestamptz 'epoch' + $2 * interval '1 microsecond', $3))
       and ($5::text is null or parent_thread_id = $5)
       and ($6::text is null or tags @> array[$6])
       and ($7::boolean is null or (threads.pinned_at is not null) = $7)
       and ($8::text is null or status = $8)
       and ($9::uuid is null or agent_id = $9)
     order by threads.created_at desc, id desc
     limit $4"
);

impl Queries {
    pub async fn thread(&self, house: &HouseId, id: &ThreadId) -> Result<At<Option<ThreadDetail>>, QueryError> {
        let mut view = self.view(house).await?;
        let row = sqlx::query(ONE).bind(house.as_str()).bind(id.as_str()).fetch_optional(&mut *view.transaction).await?;
        let detail = match row {
            Some(row) => Some(detail(&mut view, thread(&row)?.1).await?),
            None => None,
        };
        view.answer(detail).await
    }

    /// The newest first.
    pub async fn threads(
        &self,
        house: &HouseId,
        filter: &ThreadFilter,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<At<Page<Thread>>, QueryError> {
        const LIST: &str = "threads";
        let after = cursor.map(|cursor| Place::parse(LIST, cursor)).transpose()?;
        let mut view = self.view(house).await?;
        let rows = sqlx::query(MANY)
            .bind(house.as_str())
            .bind(after.as_ref().map(|place| place.key))
            .bind(after.map(|place| place.id))
            .bind(limit.probe())
            .bind(filter.parent.as_ref().map(ThreadId::as_str))
            .bind(filter.tag.as_deref())
            .bind(filter.pinned)
            .bind(filter.status.map(ThreadStatus::as_str))
            .bind(filter.agent.map(|AgentId(id)| id))
            .fetch_all(&mut *view.transaction)
            .await?;
        let rows = rows.iter().map(thread).collect::<Result<_, _>>()?;
        view.answer(page(LIST, limit, rows)).await
    }
}

async fn detail(view: &mut View, thread_row: Thread) -> Result<ThreadDetail, QueryError> {
    let (house, id) = (thread_row.house_id.as_str(), thread_row.thread_id.as_str());
    let rows = sqlx::query(CHILDREN).bind(house).bind(id).fetch_all(&mut *view.transaction).await?;
    let children = rows.iter().map(|row| thread(row).map(|(_, thread)| thread)).collect::<Result<_, _>>()?;
    let sandbox = match &thread_row.sandbox_id {
        Some(id) => sandboxes::one(view, &thread_row.house_id, id).await?,
        None => None,
    };
    Ok(ThreadDetail { thread: thread_row, children, sandbox })
}

fn thread(row: &PgRow) -> Result<(Place, Thread), sqlx::Error> {
    let thread = Thread {
        thread_id: parsed(row, "id")?,
        house_id: parsed(row, "house_id")?,
        stream_id: row.try_get("stream_id")?,
        name: row.try_get("name")?,
        pinned_at: row.try_get("pinned_at")?,
        parent_thread_id: optional(row, "parent_thread_id")?,
        parent_agent_id: optional_agent(row, "parent_agent_id")?,
        environment_id: optional(row, "environment_id")?,
        sandbox_id: optional(row, "sandbox_id")?,
        agent_id: optional_agent(row, "agent_id")?,
        tags: row.try_get("tags")?,
        status: word(row, "status")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    };
    Ok((Place { key: row.try_get("place_key")?, id: thread.thread_id.to_string() }, thread))
}
