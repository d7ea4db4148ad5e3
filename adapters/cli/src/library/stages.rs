//! What `arbe sync` does after it has imported: bring the datasets up to the log and fold their indexes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use lance_sessions::{DatasetError, Datasets, SessionsProjector, Upkeep};
use tokio::time::Instant;

use super::Library;
use crate::config::Config;
use crate::{datasets, output};

/// A server that feeds the datasets gets this long for its next step.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Bytes of the log that are left for later, unless they are asked for: a dataset writes many times what little comes to it.
const LITTLE: usize = 1 << 20;

pub(super) async fn update_indexes(library: &Library, config: &Config, asked: bool) -> anyhow::Result<()> {
    let datasets = datasets::open(config, &library.log)?;
    let at = datasets.checkpoint()?;
    if !asked && at.position() > 0 && projector::backlog(&library.log, at, LITTLE).await < LITTLE {
        return Ok(());
    }
    follow(library, &datasets).await?;
    let upkeep = if asked { Upkeep::Everything } else { Upkeep::WhatIsDue };
    match datasets.update_indexes(upkeep, |_, _| {}).await {
        // Whoever wrote meanwhile keeps them, too.
        Err(DatasetError::Conflict { .. }) if !asked => Ok(()),
        done => Ok(done?),
    }
}

/// Returns when the datasets hold what the log does.
pub(super) async fn follow(library: &Library, datasets: &Datasets) -> anyhow::Result<()> {
    if projector::is_current(&library.log, datasets.checkpoint()?).await {
        return Ok(());
    }
    if projector::advance(&library.log, &Arc::new(SessionsProjector), datasets, |_| {}).await?.is_some() {
        return Ok(());
    }
    let (mut since, mut last, target) = (Instant::now(), 0, library.log.position());
    loop {
        let at = datasets.checkpoint()?;
        if at.position() > last {
            (since, last) = (Instant::now(), at.position());
        }
        if at.position() >= target || projector::is_current(&library.log, at).await {
            return Ok(());
        }
        if since.elapsed() > PATIENCE {
            bail!("the server that feeds the datasets is at position {} of {target}; see `arbe projections`", at.position());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Nothing is embedded without a model.
pub(super) fn embed() {
    output::note("embed: no model is configured, so nothing is embedded");
}
