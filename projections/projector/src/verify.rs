//! Whether the live copy is what the log says.

use std::sync::Arc;

use event_log::Log;

use crate::copies::Copies;
use crate::project::Projector;
use crate::rebuild::claimed;
use crate::replay::{Progress, ReplayError, Until, replay};
use crate::sink::{Checkpoint, Sink};

const LABEL: &str = "verify";

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TableSums {
    pub table: String,
    pub live: Option<String>,
    pub replayed: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Report {
    pub checkpoint: Checkpoint,
    pub tables: Vec<TableSums>,
}

impl Report {
    #[must_use]
    pub fn equal(&self) -> bool {
        self.tables.iter().all(|table| table.live == table.replayed)
    }
}

/// Replays into a scratch copy up to where the live copy was at one moment, and compares them as of that moment.
pub async fn verify<P: Projector, K: Copies<P::Change>>(
    log: &Log,
    projector: &Arc<P>,
    copies: &K,
    mut progress: impl FnMut(Progress),
) -> Result<Report, ReplayError> {
    let mut scratch = claimed(copies, LABEL).await?;
    if scratch.checkpoint().await? != Checkpoint::default() {
        copies.discard(scratch).await?;
        scratch = claimed(copies, LABEL).await?;
    }
    let live = copies.live_sums().await.map_err(ReplayError::from).and_then(|live| live.ok_or(ReplayError::NothingLive));
    let (checkpoint, mut live) = match live {
        Ok(live) => live,
        Err(error) => {
            copies.discard(scratch).await?;
            return Err(error);
        }
    };
    log.refresh().await;
    log.follow(checkpoint.cursor).await.map_err(|error| ReplayError::from(crate::batch::ReadAheadError::from(error)))?;
    let reached = replay(log, projector, &mut scratch, Until::Position(checkpoint.position()), &mut progress).await?;
    if reached.cursor != checkpoint.cursor {
        return Err(ReplayError::Behind);
    }
    let replayed = copies.sums(&mut scratch).await?;
    copies.discard(scratch).await?;
    let tables = replayed.into_iter().map(|(table, sum)| {
        let live = live.remove(&table);
        TableSums { table, live, replayed: Some(sum) }
    });
    let mut tables: Vec<_> = tables.collect();
    tables.extend(live.into_iter().map(|(table, sum)| TableSums { table, live: Some(sum), replayed: None }));
    Ok(Report { checkpoint, tables })
}
