//! Entries by their words.

use axum::http::Method;
use entry_index::EntryFilter;
use events::{AgentId, HouseId, ThreadId, ThreadStatus};
use queries::At;
use queries::entries::{self, EntryHits, EntryQuery};
use queries::library::{Code, PondError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::access::limit;
use super::answer::{Answer, Queried};
use super::docs::Routes;
use super::error::ApiError;
use super::extract::{Caller, Known, Query};

pub(super) fn routes(routes: Routes) -> Routes {
    routes.add(&Method::GET, "/api/search", "search_entries", "Entries of threads by their words", search)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Filter {
    /// May be left out by who is in one house only.
    #[serde(default)]
    house: Option<HouseId>,
    /// Every word of it has to be there, in whatever form; without any, the newest entries are found. Numbers of seven digits and more,
    /// and fractions, are found only where they stand in a text.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    q: Option<String>,
    #[serde(default)]
    thread: Option<ThreadId>,
    #[serde(default)]
    author: Option<AgentId>,
    /// As it is, or with a `*` at its end how it begins: `chat`, `pi.*`.
    #[serde(default, rename = "type")]
    kind: Option<String>,
    /// Of the thread, as it stands now.
    #[serde(default)]
    tag: Option<String>,
    #[serde(default)]
    status: Option<ThreadStatus>,
    /// Unix milliseconds; from here on.
    #[serde(default)]
    since: Option<u64>,
    /// Unix milliseconds; before.
    #[serde(default)]
    until: Option<u64>,
    /// Entries to pass over, as `next_offset` says.
    #[serde(default)]
    #[schemars(range(max = 10000))]
    offset: Option<u32>,
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u16>,
    /// Waits until what is found includes this position.
    #[serde(default)]
    min_position: Option<u64>,
}

fn refused(error: PondError) -> ApiError {
    match error.code {
        Code::ValidationFailed | Code::VersionUnsupported => ApiError::bad_request(error.message),
        Code::NotFound | Code::NamespaceUnknown => ApiError::not_found("house"),
        Code::StorageUnavailable | Code::Conflict => ApiError::unavailable(error.message),
        Code::Internal => ApiError::internal(error.message),
    }
}

async fn search(caller: Caller, Query(query): Query<Filter>, known: Known) -> Queried<EntryHits> {
    let Filter { house, q, thread, author, kind, tag, status, since, until, offset, min_position, .. } = query;
    let house = match (house, &thread) {
        (None, Some(thread)) => caller.thread(thread, |_| ())?.0,
        (house, _) => caller.scope(house)?,
    };
    let finder = caller.plane()?.search.as_ref().map(|search| search.entries.clone());
    let finder = finder.ok_or_else(|| ApiError::unavailable("this server keeps no index"))?;
    if let Some(position) = min_position {
        finder.findable(position).await.map_err(refused)?;
    }
    let micros = |ms: Option<u64>| ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000));
    let filter = EntryFilter {
        thread: thread.map(|thread| thread.to_string()),
        author: author.map(|author| author.to_string()),
        kind,
        tag,
        status: status.map(|status| status.as_str().to_owned()),
        since: micros(since),
        until: micros(until),
    };
    let most = usize::from(limit(query.limit)?.get());
    let asked = EntryQuery { text: q.unwrap_or_default(), filter, skip: offset.unwrap_or_default() as usize, most };
    let position = finder.position().map_err(refused)?;
    let value = entries::find(finder.as_ref(), &house, asked).await.map_err(refused)?;
    Ok(Answer::of(At { position, value }, known.0))
}
