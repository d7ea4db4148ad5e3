//! Working trees as objects beside the log, one per sandbox.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use events::{HouseId, SandboxId};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

use crate::ports::{Tree, TreeError, Trees};

/// Of the format below. Persisted; never changed.
const MAGIC: &[u8; 8] = b"arbetre1";
const TREES: &str = "trees";
const HEAD: usize = MAGIC.len() + 8;

/// Objects `trees/<house>/<sandbox>`: the magic, the time in milliseconds as eight little-endian bytes, the tree.
#[derive(Clone, Debug)]
pub struct ObjectTrees {
    objects: Arc<dyn ObjectStore>,
}

impl ObjectTrees {
    #[must_use]
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        Self { objects }
    }

    async fn get(&self, house: &HouseId, sandbox: &SandboxId, head_only: bool) -> Result<Option<Bytes>, TreeError> {
        let place = place(house, sandbox);
        let got = if head_only {
            self.objects.get_range(&place, 0..HEAD as u64).await
        } else {
            match self.objects.get(&place).await {
                Ok(found) => found.bytes().await,
                Err(error) => Err(error),
            }
        };
        match got {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(TreeError(error.to_string())),
        }
    }
}

fn place(house: &HouseId, sandbox: &SandboxId) -> Path {
    Path::from_iter([TREES, house.as_str(), sandbox.as_str()])
}

fn taken(bytes: &Bytes) -> Result<u64, TreeError> {
    let time = bytes.strip_prefix(MAGIC.as_slice()).and_then(|rest| rest.first_chunk::<8>());
    time.map(|time| u64::from_le_bytes(*time)).ok_or_else(|| TreeError("the object is not a working tree".into()))
}

#[async_trait]
impl Trees for ObjectTrees {
    async fn keep(&self, house: &HouseId, sandbox: &SandboxId, tree: Tree) -> Result<(), TreeError> {
        let head = Bytes::from([MAGIC.as_slice(), &tree.taken_ms.to_le_bytes()].concat());
        let whole = PutPayload::from_iter([head, tree.bytes]);
        let put = self.objects.put(&place(house, sandbox), whole).await;
        put.map(|_| ()).map_err(|error| TreeError(error.to_string()))
    }

    async fn last(&self, house: &HouseId, sandbox: &SandboxId) -> Result<Option<Tree>, TreeError> {
        let Some(bytes) = self.get(house, sandbox, false).await? else { return Ok(None) };
        Ok(Some(Tree { taken_ms: taken(&bytes)?, bytes: bytes.slice(HEAD..) }))
    }

    async fn taken(&self, house: &HouseId, sandbox: &SandboxId) -> Result<Option<u64>, TreeError> {
        // What is no tree is as good as none, and the next one takes its place.
        Ok(self.get(house, sandbox, true).await?.and_then(|bytes| taken(&bytes).ok()))
    }

    async fn kept(&self) -> Result<Vec<(HouseId, SandboxId)>, TreeError> {
        let listed = self.objects.list(Some(&Path::from(TREES)));
        let places: Vec<_> = listed.map_ok(|found| whose(&found.location)).try_collect().await.map_err(unreached)?;
        Ok(places.into_iter().flatten().collect())
    }

    async fn forget(&self, house: &HouseId, sandbox: &SandboxId) -> Result<(), TreeError> {
        match self.objects.delete(&place(house, sandbox)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(unreached(error)),
        }
    }
}

fn unreached(error: object_store::Error) -> TreeError {
    TreeError(error.to_string())
}

/// What is named otherwise is none of ours.
fn whose(location: &Path) -> Option<(HouseId, SandboxId)> {
    let mut parts = location.parts().skip(1);
    let (house, sandbox) = (parts.next()?, parts.next()?);
    let whose = (house.as_ref().parse().ok()?, sandbox.as_ref().parse().ok()?);
    parts.next().is_none().then_some(whose)
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn the_last_tree_of_a_sandbox_comes_back_with_its_time() {
        let trees = ObjectTrees::new(Arc::new(InMemory::new()));
        let (house, sandbox) = (HouseId::new("h").unwrap(), SandboxId::new("s").unwrap());
        assert_eq!(trees.last(&house, &sandbox).await, Ok(None));
        for taken_ms in [7, 9] {
            let tree = Tree { taken_ms, bytes: format!("tree {taken_ms}").into() };
            trees.keep(&house, &sandbox, tree).await.unwrap();
        }
        assert_eq!(trees.taken(&house, &sandbox).await, Ok(Some(9)));
        assert_eq!(trees.last(&house, &sandbox).await, Ok(Some(Tree { taken_ms: 9, bytes: "tree 9".into() })));
        assert_eq!(trees.last(&house, &SandboxId::new("t").unwrap()).await, Ok(None));
    }

    #[tokio::test]
    async fn a_tree_that_is_forgotten_is_gone_and_the_others_are_listed() {
        let objects = Arc::new(InMemory::new());
        let trees = ObjectTrees::new(objects.clone());
        let (house, one, two) = (HouseId::new("h").unwrap(), SandboxId::new("s1").unwrap(), SandboxId::new("s2").unwrap());
        for sandbox in [&one, &two] {
            trees.keep(&house, sandbox, Tree { taken_ms: 7, bytes: "tree".into() }).await.unwrap();
        }
        objects.put(&Path::from("trees/h/s3/deep"), Bytes::new().into()).await.unwrap();
        objects.put(&Path::from("treesh/h/s4"), Bytes::new().into()).await.unwrap();
        let mut kept = trees.kept().await.unwrap();
        kept.sort();
        assert_eq!(kept, [(house.clone(), one.clone()), (house.clone(), two.clone())]);
        for _ in 0..2 {
            trees.forget(&house, &one).await.unwrap();
        }
        assert_eq!((trees.last(&house, &one).await, trees.kept().await.unwrap()), (Ok(None), vec![(house, two)]));
    }

    #[tokio::test]
    async fn what_is_no_tree_is_not_restored_and_does_not_keep_the_next_one_away() {
        let objects = Arc::new(InMemory::new());
        let (house, sandbox) = (HouseId::new("h").unwrap(), SandboxId::new("s").unwrap());
        objects.put(&place(&house, &sandbox), Bytes::from_static(b"something of another kind").into()).await.unwrap();
        let trees = ObjectTrees::new(objects);
        assert_eq!(trees.taken(&house, &sandbox).await, Ok(None));
        assert!(trees.last(&house, &sandbox).await.is_err());
        trees.keep(&house, &sandbox, Tree { taken_ms: 7, bytes: "tree".into() }).await.unwrap();
        assert_eq!(trees.taken(&house, &sandbox).await, Ok(Some(7)));
    }

    #[test]
    fn the_format_is_kept() {
        let bytes = Bytes::from_static(b"arbetre1\x07\0\0\0\0\0\0\0tree");
        assert_eq!(taken(&bytes), Ok(7));
        assert!(taken(&Bytes::from_static(b"arbetre2\x07\0\0\0\0\0\0\0tree")).is_err());
    }
}
