//! Values that no secret names: a crash came between a value and its event, or between an event and the forgetting.

use std::collections::BTreeSet;
use std::time::Duration;

use commands::ports::{Vault, VaultError};
use events::HouseId;
use uuid::Uuid;

use crate::store::{ObjectVault, named};

/// Younger ones may belong to a change under way.
pub const GARBAGE_AGE: Duration = Duration::from_secs(60 * 60);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub kept: u64,
    /// Named by nobody, but too young to be sure.
    pub young: u64,
    pub forgotten: u64,
}

impl ObjectVault {
    /// Forgets what nobody names and is older than [`GARBAGE_AGE`]. `live` is asked after the values were listed, and must look at a
    /// world that was brought to the end of the log since `now_ms`: one that is an hour behind would forget what is in use.
    pub async fn sweep(&self, now_ms: u64, live: impl FnOnce() -> BTreeSet<(HouseId, Uuid)> + Send) -> Result<Swept, VaultError> {
        let before = i64::try_from(now_ms).unwrap_or(i64::MAX).saturating_sub(GARBAGE_AGE.as_millis() as i64);
        let mut swept = Swept::default();
        let all = self.list().await?;
        let live = live();
        for meta in all {
            let Some(value) = named(&meta.location) else { continue };
            if live.contains(&value) {
                swept.kept += 1;
            } else if meta.last_modified.timestamp_millis() >= before {
                swept.young += 1;
            } else {
                self.forget(&value.0, value.1).await?;
                swept.forgotten += 1;
            }
        }
        if swept.forgotten > 0 {
            tracing::info!(forgotten = swept.forgotten, "values that no secret names are gone");
        }
        Ok(swept)
    }
}
