//! What makes a store one log: its identity, made once, after the store has shown that it is honest.

use bytes::Bytes;
use futures::future::join_all;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use serde::{Deserialize, Serialize};

use super::{Store, StoreError, get_object, put_once};

pub(crate) const KEY: &str = "meta/cluster.json";
const FORMAT: u32 = 1;
const PROBES: usize = 16;

/// Persisted as JSON; fields are only ever added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    pub format: u32,
    /// 32 hex digits; stands in every slot, so that slots of two logs cannot be mixed up.
    pub cluster_id: String,
    pub shards: u32,
    /// Servers of this log authenticate to each other with it. Whoever reads it can read the whole log anyway.
    pub peer_secret: String,
    /// Of the fields above.
    pub checksum: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{KEY} cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("{KEY} has format {0}; this version reads format {FORMAT} with one shard")]
    Unsupported(u32),
    #[error("{KEY} does not match its own checksum")]
    Altered,
    #[error("{KEY} is missing, but there are slots: restore it from a copy of the store")]
    Lost,
    #[error("there is no log at this place ({KEY} is absent)")]
    Absent,
    #[error("this store cannot hold a log: {0}. It must refuse to create an object that exists, also under concurrency")]
    Dishonest(String),
}

impl Cluster {
    #[must_use]
    pub fn id(&self) -> u128 {
        u128::from_str_radix(&self.cluster_id, 16).unwrap_or_default()
    }

    pub async fn load(objects: &dyn ObjectStore) -> Result<Option<Self>, ClusterError> {
        let Some(bytes) = get_object(objects, &Path::from(KEY)).await? else { return Ok(None) };
        let cluster: Self = serde_json::from_slice(&bytes)?;
        if cluster.format != FORMAT || cluster.shards != 1 {
            return Err(ClusterError::Unsupported(cluster.format));
        }
        if cluster.checksum != cluster.sum() {
            return Err(ClusterError::Altered);
        }
        Ok(Some(cluster))
    }

    fn sum(&self) -> String {
        let text = format!("{} {} {} {}", self.format, self.cluster_id, self.shards, self.peer_secret);
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }

    /// A log without its identity is not given another: its slots would not belong to it.
    pub async fn load_or_create(store: &Store, random: &(dyn Fn() -> u64 + Sync)) -> Result<Self, ClusterError> {
        let objects = store.objects.as_ref();
        if let Some(cluster) = Self::load(objects).await? {
            return Ok(cluster);
        }
        if store.slots.get(0).await?.is_some() {
            return Err(ClusterError::Lost);
        }
        probe(objects, random).await?;
        let hex = || format!("{:016x}{:016x}", random(), random());
        let mut cluster = Self { format: FORMAT, cluster_id: hex(), shards: 1, peer_secret: hex(), checksum: String::new() };
        cluster.checksum = cluster.sum();
        let text = serde_json::to_vec_pretty(&cluster)?;
        put_once(objects, &Path::from(KEY), text.into()).await?;
        Self::load(objects).await?.ok_or(ClusterError::Absent)
    }
}

/// Some stores answer create-if-absent with two winners, or overwrite. On such a store no log is safe.
async fn probe(objects: &dyn ObjectStore, random: &(dyn Fn() -> u64 + Sync)) -> Result<(), ClusterError> {
    let key = Path::from(format!("meta/probe/{:016x}", random()));
    let create = |body: Bytes| {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let key = &key;
        async move { objects.put_opts(key, body.into(), options).await }
    };
    let bodies: Vec<Bytes> = (0..PROBES).map(|i| Bytes::from(format!("{i} {:016x}", random()))).collect();
    let mut results = join_all(bodies.iter().cloned().map(create)).await;
    results.push(create(Bytes::from_static(b"late")).await);
    let winners: Vec<usize> = (0..results.len()).filter(|i| results[*i].is_ok()).collect();
    for result in results {
        match result {
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(StoreError::transient(&key, error).into()),
        }
    }
    let stored = get_object(objects, &key).await?;
    let _ = objects.delete(&key).await;
    match (winners.as_slice(), stored) {
        ([], Some(_)) => Ok(()), // The winner's reply was lost and its retry refused: exactly one body is there all the same.
        ([winner], Some(body)) if bodies.get(*winner) == Some(&body) => Ok(()),
        ([_], body) => Err(ClusterError::Dishonest(format!("the object that was created reads back as {body:?}"))),
        (many, _) => Err(ClusterError::Dishonest(format!("{} of {} creations of one object succeeded", many.len(), PROBES + 1))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::store::StoreUrl;

    fn counter() -> impl Fn() -> u64 + Sync {
        let next = AtomicU64::new(1);
        move || next.fetch_add(1, Ordering::Relaxed)
    }

    #[tokio::test]
    async fn a_log_keeps_its_identity() {
        let store = StoreUrl::Memory.open(&[], true).unwrap();
        let first = Cluster::load_or_create(&store, &counter()).await.unwrap();
        let second = Cluster::load_or_create(&store, &counter()).await.unwrap();
        assert_eq!(first, second);
    }
}
