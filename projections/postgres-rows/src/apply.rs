//! Changes into the rows of one copy, inside the caller's transaction.

use serde::Serialize;
use sqlx::PgConnection;

use crate::change::Op;
use crate::fold::{Fold, Step};
use crate::sql;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("a row is made twice")]
    Contradiction,
    #[error("a row to change does not exist")]
    Missing,
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

pub(crate) async fn apply(conn: &mut PgConnection, ops: &[Op]) -> Result<(), ApplyError> {
    let mut fold = Fold::default();
    for op in ops {
        match fold.take(op.clone()).map_err(|_| ApplyError::Contradiction)? {
            Step::Folded => {}
            Step::Barrier(op) => {
                flush(conn, std::mem::take(&mut fold)).await?;
                cross(conn, &op).await?;
            }
        }
    }
    flush(conn, fold).await
}

async fn cross(conn: &mut PgConnection, op: &Op) -> Result<(), ApplyError> {
    let query = match op {
        Op::DropEnvironment(house, id) => sqlx::query(sql::DROP_ENVIRONMENT).bind(house.as_str()).bind(id.as_str()),
        Op::DropMember(house, agent) => sqlx::query(sql::DROP_MEMBER).bind(house.as_str()).bind(agent.0),
        Op::House(_)
        | Op::Agent(_)
        | Op::AgentKey(_)
        | Op::Member(_)
        | Op::Environment(_)
        | Op::Secret(_)
        | Op::Sandbox(_)
        | Op::Thread(_)
        | Op::Work(_) => return Ok(()),
    };
    query.execute(conn).await?;
    Ok(())
}

/// What is referred to comes before what refers to it, and a name is free before it is taken; within one statement order does not matter.
async fn flush(conn: &mut PgConnection, fold: Fold) -> Result<(), ApplyError> {
    all(conn, sql::SECRETS_CHANGED, &fold.secrets.changed()).await?;
    all(conn, sql::AGENTS_NEW, &fold.agents.new_rows()).await?;
    all(conn, sql::AGENT_KEYS_NEW, &fold.agent_keys.new_rows()).await?;
    all(conn, sql::HOUSES_NEW, &fold.houses.new_rows()).await?;
    all(conn, sql::MEMBERS_NEW, &fold.members.new_rows()).await?;
    run(conn, sql::ENVIRONMENTS_NEW, &fold.environments.new_rows()).await?;
    run(conn, sql::SECRETS_NEW, &fold.secrets.new_rows()).await?;
    run(conn, sql::SANDBOXES_NEW, &fold.sandboxes.new_rows()).await?;
    all(conn, sql::THREADS_NEW, &fold.threads.new_rows()).await?;
    all(conn, sql::AGENTS_CHANGED, &fold.agents.changed()).await?;
    all(conn, sql::AGENT_KEYS_CHANGED, &fold.agent_keys.changed()).await?;
    all(conn, sql::HOUSES_CHANGED, &fold.houses.changed()).await?;
    all(conn, sql::MEMBERS_CHANGED, &fold.members.changed()).await?;
    all(conn, sql::ENVIRONMENTS_CHANGED, &fold.environments.changed()).await?;
    all(conn, sql::SANDBOXES_CHANGED, &fold.sandboxes.changed()).await?;
    all(conn, sql::THREADS_CHANGED, &fold.threads.changed()).await?;
    run(conn, sql::WORK_DONE, &fold.work.done()).await?;
    run(conn, sql::WORK_SEEN, &fold.work.seen()).await?;
    run(conn, sql::WORK_PUT, &fold.work.put()).await?;
    Ok(())
}

/// Every row given must be there to be made, changed or taken away.
async fn all<T: Serialize>(conn: &mut PgConnection, sql: &'static str, rows: &[T]) -> Result<(), ApplyError> {
    if run(conn, sql, rows).await? == rows.len() as u64 { Ok(()) } else { Err(ApplyError::Missing) }
}

async fn run<T: Serialize>(conn: &mut PgConnection, sql: &'static str, rows: &[T]) -> Result<u64, ApplyError> {
    if rows.is_empty() {
        return Ok(0);
    }
    let json = serde_json::to_string(rows).expect("rows have text keys only");
    Ok(sqlx::query(sql).bind(json).execute(conn).await?.rows_affected())
}
