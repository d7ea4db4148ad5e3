//! Threads: what they are and how they stand.

use axum::http::Method;
use commands::command::{
    CloseThread, CreateThread, PinThread, RenameThread, ReopenThread, ReplaceTags, SetThreadEnvironment, TagThread, UnpinThread,
    UntagThread,
};
use commands::{Command, Rejection};
use events::{AgentId, EnvironmentId, HouseId, SandboxId, StreamName, ThreadId, ThreadStatus};
use queries::{Page, Thread, ThreadDetail, ThreadFilter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::{found, limit, made, present};
use super::answer::{Answer, Created, Done, Nothing, Ok200, Queried};
use super::docs::Routes;
use super::error::ApiError;
use super::extract::{Body, Caller, Key, Known, Path, Query};
use super::server::AtLeast;
use super::words::{Name, Tag};

pub(super) fn routes(routes: Routes) -> Routes {
    const ALL: &str = "/api/threads";
    const ONE: &str = "/api/threads/{thread_id}";
    routes
        .add(&Method::GET, ALL, "list_threads", "The threads of a house", list)
        .add(&Method::POST, ALL, "create_thread", "Start one", create)
        .add(&Method::GET, ONE, "get_thread", "One thread with its children and its sandbox", get)
        .add(&Method::PATCH, ONE, "update_thread", "Change what it is", update)
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ThreadPath {
    pub(super) thread_id: ThreadId,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Filter {
    /// May be left out by who is in one house only.
    #[serde(default)]
    house: Option<HouseId>,
    #[serde(default)]
    parent: Option<ThreadId>,
    #[serde(default)]
    tag: Option<String>,
    #[serde(default)]
    pinned: Option<bool>,
    #[serde(default)]
    status: Option<ThreadStatus>,
    /// The driving bot.
    #[serde(default)]
    agent: Option<AgentId>,
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u16>,
    /// Waits until what is read includes this position.
    #[serde(default)]
    min_position: Option<u64>,
}

async fn list(caller: Caller, Query(query): Query<Filter>, known: Known) -> Queried<Page<Thread>> {
    caller.reach(query.min_position).await?;
    let Filter { house, parent, tag, pinned, status, agent, cursor, .. } = query;
    if tag.as_ref().is_some_and(|tag| tag.contains('\0')) {
        return Err(ApiError::bad_request("tag holds a NUL"));
    }
    let house = match (house, &parent) {
        (None, Some(parent)) => caller.thread(parent, |_| ())?.0,
        (house, _) => caller.scope(house)?,
    };
    let filter = ThreadFilter { parent, tag, pinned, status, agent };
    let threads = caller.plane()?.queries.threads(&house, &filter, cursor.as_deref(), limit(query.limit)?).await?;
    Ok(Answer::of(threads, known.0))
}

async fn get(caller: Caller, Path(path): Path<ThreadPath>, Query(query): Query<AtLeast>, known: Known) -> Queried<ThreadDetail> {
    caller.reach(query.min_position).await?;
    let (house, status) = caller.thread(&path.thread_id, |thread| thread.status)?;
    let plane = caller.plane()?;
    if let (ThreadStatus::Running, Some(hands)) = (status, &plane.hands) {
        hands.look(&path.thread_id);
    }
    let thread = plane.queries.thread(&house, &path.thread_id).await?;
    Ok(Answer::of(found(thread)?, known.0))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewThread {
    house_id: HouseId,
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    name: Option<String>,
    /// At most one of the two parents.
    #[serde(default)]
    parent_thread_id: Option<ThreadId>,
    #[serde(default)]
    parent_agent_id: Option<AgentId>,
    #[serde(default)]
    environment_id: Option<EnvironmentId>,
    #[serde(default)]
    sandbox_id: Option<SandboxId>,
    /// The bot that drives the thread; none makes it a chat.
    #[serde(default)]
    agent_id: Option<AgentId>,
    #[serde(default)]
    #[schemars(with = "Vec<Tag>")]
    tags: Vec<String>,
    #[serde(default)]
    pinned: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ThreadMade {
    pub(super) thread_id: ThreadId,
    pub(super) stream_id: String,
}

impl ThreadMade {
    pub(super) fn of(id: Option<ThreadId>) -> Result<Self, ApiError> {
        let thread_id = made(id)?;
        Ok(Self { stream_id: StreamName::Thread(thread_id.clone()).to_string(), thread_id })
    }
}

async fn create(caller: Caller, key: Key, Body(body): Body<NewThread>) -> Created<ThreadMade> {
    let create = CreateThread {
        house_id: body.house_id,
        thread_id: None,
        name: body.name,
        parent_thread_id: body.parent_thread_id,
        parent_agent_id: body.parent_agent_id,
        environment_id: body.environment_id,
        sandbox_id: body.sandbox_id,
        agent_id: body.agent_id,
        tags: body.tags,
        pinned: body.pinned,
    };
    let done = caller.execute(&key, create).await?;
    Ok(Done { position: done.position, body: ThreadMade::of(done.made.thread_id)? })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ThreadPatch {
    /// Null takes it away.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<Name>")]
    name: Option<Option<String>>,
    #[serde(default)]
    pinned: Option<bool>,
    /// The whole new set.
    #[serde(default)]
    #[schemars(with = "Option<Vec<Tag>>")]
    tags: Option<Vec<String>>,
    #[serde(default)]
    #[schemars(with = "Option<Vec<Tag>>")]
    add_tags: Option<Vec<String>>,
    #[serde(default)]
    remove_tags: Option<Vec<String>>,
    /// Null takes it away.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<EnvironmentId>")]
    environment_id: Option<Option<EnvironmentId>>,
    #[serde(default)]
    status: Option<ChatStatus>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ChatStatus {
    Open,
    Closed,
}

impl ThreadPatch {
    fn commands(self, thread_id: &ThreadId) -> Vec<Command> {
        let thread_id = || thread_id.clone();
        let mut commands: Vec<Command> = Vec::new();
        if let Some(name) = self.name {
            commands.push(RenameThread { thread_id: thread_id(), name }.into());
        }
        match self.pinned {
            Some(true) => commands.push(PinThread { thread_id: thread_id() }.into()),
            Some(false) => commands.push(UnpinThread { thread_id: thread_id() }.into()),
            None => {}
        }
        if let Some(tags) = self.tags {
            commands.push(ReplaceTags { thread_id: thread_id(), tags }.into());
        }
        if let Some(tags) = self.remove_tags {
            commands.push(UntagThread { thread_id: thread_id(), tags }.into());
        }
        if let Some(tags) = self.add_tags {
            commands.push(TagThread { thread_id: thread_id(), tags }.into());
        }
        if let Some(environment_id) = self.environment_id {
            commands.push(SetThreadEnvironment { thread_id: thread_id(), environment_id }.into());
        }
        match self.status {
            Some(ChatStatus::Open) => commands.push(ReopenThread { thread_id: thread_id() }.into()),
            Some(ChatStatus::Closed) => commands.push(CloseThread { thread_id: thread_id() }.into()),
            None => {}
        }
        commands
    }
}

async fn update(caller: Caller, Path(path): Path<ThreadPath>, key: Key, Body(patch): Body<ThreadPatch>) -> Ok200<Nothing> {
    let id = path.thread_id;
    if patch.tags.is_some() && (patch.add_tags.is_some() || patch.remove_tags.is_some()) {
        let why = "the whole new set; it does not go with add_tags and remove_tags";
        return Err(Rejection::Invalid { field: "tags", why: why.to_owned() }.into());
    }
    caller.thread(&id, |_| ())?;
    let done = caller.execute_all(&key, patch.commands(&id)).await?;
    Ok(Done { position: done.position, body: Nothing {} })
}
