//! A vault with a look behind it.

use std::sync::Arc;

use commands::ports::Plain;
use events::{HouseId, SecretId, Uuid};
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use vault::{KeySource, ObjectVault, Options};
use zeroize::Zeroizing;

pub type Objects = Arc<dyn ObjectStore>;

pub fn memory() -> Objects {
    Arc::new(InMemory::new())
}

pub fn files(directory: &std::path::Path) -> Objects {
    Arc::new(LocalFileSystem::new_with_prefix(directory).unwrap().with_fsync(true))
}

/// Keys as text, the first of which seals.
pub fn text(keys: &[u8]) -> Options {
    let lines: String = keys.iter().map(|byte| format!("{byte:02x}").repeat(32) + "\n").collect();
    Options { keys: vec![KeySource::Text(Zeroizing::new(lines))] }
}

pub async fn vault(objects: &Objects, keys: &[u8]) -> ObjectVault {
    ObjectVault::open(objects.clone(), text(keys)).await.unwrap()
}

pub fn house(id: &str) -> HouseId {
    HouseId::new(id).unwrap()
}

pub fn secret(id: &str) -> SecretId {
    SecretId::new(id).unwrap()
}

pub fn at(version: u128) -> Uuid {
    Uuid::from_u128(version)
}

pub fn plain(text: &str) -> Plain {
    Plain::new(text.as_bytes().to_vec())
}

pub fn place(in_house: &str, version: u128) -> Path {
    Path::from(format!("vault/{in_house}/{}", at(version)))
}

pub async fn bytes(objects: &Objects, path: &Path) -> Vec<u8> {
    objects.get(path).await.unwrap().bytes().await.unwrap().to_vec()
}

pub async fn names(objects: &Objects) -> Vec<String> {
    let all: Vec<_> = objects.list(None).map_ok(|meta| meta.location.to_string()).try_collect().await.unwrap();
    let mut all: Vec<String> = all;
    all.sort();
    all
}
