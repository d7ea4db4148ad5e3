//! Slots as objects, one each.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, PutMode, PutOptions};

use super::{Creation, PACK_SLOTS, Pace, SlotStore, StoreError, get_object};

const SHARD: u16 = 0;

#[derive(Debug)]
pub struct ObjectSlots {
    objects: Arc<dyn ObjectStore>,
    pace: Pace,
}

impl ObjectSlots {
    #[must_use]
    pub fn new(objects: Arc<dyn ObjectStore>, pace: Pace) -> Self {
        Self { objects, pace }
    }

    /// For stores a network away.
    #[must_use]
    pub fn remote_pace() -> Pace {
        Pace { depth: 4, linger: Duration::from_millis(5), poll: Duration::from_millis(50), pack: PACK_SLOTS, own_thread: false }
    }
}

pub(crate) fn path(n: u64) -> Path {
    Path::from(format!("j/{SHARD:02x}/{:012x}/{:03x}.seg", n >> 12, n & 0xfff))
}

fn number(path: &Path) -> Option<u64> {
    let mut parts = path.as_ref().rsplit('/');
    let low = u64::from_str_radix(parts.next()?.strip_suffix(".seg")?, 16).ok()?;
    let high = u64::from_str_radix(parts.next()?, 16).ok()?;
    Some(high << 12 | low)
}

#[async_trait]
impl SlotStore for ObjectSlots {
    async fn create(&self, n: u64, bytes: Bytes) -> Result<Creation, StoreError> {
        let key = path(n);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.objects.put_opts(&key, bytes.into(), options).await {
            Ok(_) => Ok(Creation::Created),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(Creation::Exists),
            Err(error) => Err(StoreError::transient(key, error)),
        }
    }

    async fn get(&self, n: u64) -> Result<Option<Bytes>, StoreError> {
        get_object(self.objects.as_ref(), &path(n)).await
    }

    async fn list(&self) -> Result<Vec<u64>, StoreError> {
        let prefix = Path::from(format!("j/{SHARD:02x}"));
        let found: Vec<_> =
            self.objects.list(Some(&prefix)).try_collect().await.map_err(|error| StoreError::transient(&prefix, error))?;
        let mut numbers: Vec<u64> = found.iter().filter_map(|meta| number(&meta.location)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn key(&self, n: u64) -> String {
        path(n).to_string()
    }

    fn pace(&self) -> Pace {
        self.pace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_number_reads_back_from_its_key() {
        for n in [0, 1, 4095, 4096, 123_456_789] {
            assert_eq!(number(&path(n)), Some(n));
        }
        assert_eq!(path(4097).as_ref(), "j/00/000000000001/001.seg");
    }
}
