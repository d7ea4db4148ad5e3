//! One slot, tried until its outcome is known.

use std::time::Duration;

use bytes::Bytes;

use crate::store::{Creation, SlotStore, StoreError};

/// What became of a slot we tried to create.
pub(crate) enum Placed {
    Ours,
    Theirs(Bytes),
}

/// Creates slot `n`, however often the store must be asked. Any answer but `Created` is not an answer: a lost reply, a conflict that
/// never was and a lost race look alike until the slot is read.
pub(crate) async fn place(slots: &dyn SlotStore, n: u64, bytes: Bytes) -> Result<Placed, StoreError> {
    let mut pause = Duration::from_millis(10);
    loop {
        let trouble = match slots.create(n, bytes.clone()).await {
            Ok(Creation::Created) => return Ok(Placed::Ours),
            Ok(Creation::Exists) => match slots.get(n).await {
                Ok(Some(found)) if found == bytes => return Ok(Placed::Ours),
                Ok(Some(found)) => return Ok(Placed::Theirs(found)),
                Ok(None) => "refused as existing, but absent".to_owned(),
                Err(StoreError::Transient { what, .. }) => what,
                Err(error) => return Err(error),
            },
            Err(StoreError::Transient { what, .. }) => what,
            Err(error) => return Err(error),
        };
        tracing::debug!(slot = n, trouble, "slot not settled, trying again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(2));
    }
}
