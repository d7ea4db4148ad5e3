//! The seam to storage: numbered slots that can be created once, and named objects beside them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};

pub mod cluster;
pub mod local;
pub mod open;
pub mod slots;

pub use cluster::Cluster;
pub use open::{OpenError, StoreUrl};

/// Where the log lives: its slots, and the objects derived from or named by them.
#[derive(Clone, Debug)]
pub struct Store {
    pub slots: Arc<dyn SlotStore>,
    pub objects: Arc<dyn ObjectStore>,
    /// For people: what was opened.
    pub url: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    Created,
    /// Somebody was first; it may have been us, if an earlier reply was lost.
    Exists,
}

/// Slots, each created at most once and never changed. Creating slot `n` is the only commit point of the log.
#[async_trait]
pub trait SlotStore: Send + Sync + fmt::Debug {
    /// Durable and visible to every reader when it returns `Created`. An error says nothing about the outcome.
    async fn create(&self, n: u64, bytes: Bytes) -> Result<Creation, StoreError>;
    async fn get(&self, n: u64) -> Result<Option<Bytes>, StoreError>;
    /// Every slot number present, in order. Slow; only for the checker.
    async fn list(&self) -> Result<Vec<u64>, StoreError>;
    /// The object that holds slot `n`, for reports.
    fn key(&self, n: u64) -> String;
    fn pace(&self) -> Pace;
    /// What is wrong with the store's own bookkeeping, given that it holds this many slots.
    fn audit(&self, _slots: u64) -> Option<crate::check::Finding> {
        None
    }
}

/// How a store wants to be driven.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Slots in flight at once.
    pub depth: usize,
    /// Least time between the starts of two slots while one is in flight.
    pub linger: Duration,
    /// How often a follower looks for the next slot while somebody waits for it.
    pub poll: Duration,
    /// Slots that make a first pack.
    pub pack: u64,
    /// `create` blocks the thread it is called on: the driver gets one for itself, where it may also wait for a crowd of writers.
    pub own_thread: bool,
}

/// Fewer slots than this are read faster one by one than through a pack's index.
pub const PACK_SLOTS: u64 = 256;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{key}: {what}")]
    Transient { key: String, what: String },
    /// The disk may hold anything now (a failed fsync). The process must end; what was acknowledged is safe.
    #[error("{key}: {what}; the server must be restarted")]
    Fatal { key: String, what: String },
    #[error("{key}: {what}")]
    Damaged { key: String, what: String },
}

impl StoreError {
    /// The text is enough: errors of the stores tell their whole chain themselves.
    pub(crate) fn transient(key: impl ToString, error: impl fmt::Display) -> Self {
        Self::Transient { key: key.to_string(), what: error.to_string() }
    }
}

/// Creates a derived or content-addressed object. That it already exists is as good, but stores also say so when it does not.
pub(crate) async fn put_once(objects: &dyn ObjectStore, key: &Path, bytes: Bytes) -> Result<(), StoreError> {
    let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    match objects.put_opts(key, bytes.into(), options).await {
        Ok(_) => Ok(()),
        Err(object_store::Error::AlreadyExists { .. }) => match objects.head(key).await {
            Ok(_) => Ok(()),
            Err(error) => Err(StoreError::transient(key, error)),
        },
        Err(error) => Err(StoreError::transient(key, error)),
    }
}

pub(crate) async fn get_object(objects: &dyn ObjectStore, key: &Path) -> Result<Option<Bytes>, StoreError> {
    match objects.get(key).await {
        Ok(found) => found.bytes().await.map(Some).map_err(|error| StoreError::transient(key, error)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(StoreError::transient(key, error)),
    }
}
