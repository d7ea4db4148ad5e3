//! What the drivers need besides machines and the vault.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use events::{AgentId, HouseId, SandboxId, ThreadId};

/// Tokens that are good for one thread only.
pub trait Tokens: Send + Sync + fmt::Debug {
    /// `None` if it could not be signed.
    fn thread_token(&self, agent: AgentId, thread: &ThreadId) -> Option<String>;
}

/// None of them means that there was nothing to rebuild.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RebuildError {
    /// What the thread holds does not make a session that can be loaded.
    #[error("the thread does not make a session: {0}")]
    Broken(String),
    #[error("the thread cannot be read: {0}")]
    Unavailable(String),
}

/// A coding agent's session, made again of what its thread holds.
#[async_trait]
pub trait Rebuild: Send + Sync + fmt::Debug {
    /// The file to begin with, already checked; `None` if the thread holds no session yet. `cwd` is where it will be loaded.
    async fn session(&self, thread: &ThreadId, harness: &str, cwd: &str) -> Result<Option<Bytes>, RebuildError>;
}

/// A working tree as it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Unix milliseconds.
    pub taken_ms: u64,
    pub bytes: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("working trees cannot be reached: {0}")]
pub struct TreeError(pub String);

/// Where working trees are kept between machines: the last of each sandbox.
#[async_trait]
pub trait Trees: Send + Sync + fmt::Debug {
    async fn keep(&self, house: &HouseId, sandbox: &SandboxId, tree: Tree) -> Result<(), TreeError>;

    async fn last(&self, house: &HouseId, sandbox: &SandboxId) -> Result<Option<Tree>, TreeError>;

    /// When the last one was taken.
    async fn taken(&self, house: &HouseId, sandbox: &SandboxId) -> Result<Option<u64>, TreeError>;

    /// Of which sandboxes there is one.
    async fn kept(&self) -> Result<Vec<(HouseId, SandboxId)>, TreeError>;

    /// One that is gone already is fine.
    async fn forget(&self, house: &HouseId, sandbox: &SandboxId) -> Result<(), TreeError>;
}
