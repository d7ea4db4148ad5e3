//! What `arbe sync` does after it has imported: bring the datasets up to the log and fold their indexes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use entry_index::{EntriesProjector, EntryIndex};
use indicatif::{ProgressBar, ProgressStyle};
use lance_sessions::{Again, DatasetError, Datasets, EmbedError, Embedded, SessionsProjector, Upkeep};
use projector::{Checkpoint, Copies, Projector};
use tokio::time::Instant;

use super::Library;
use crate::config::Config;
use crate::output::Refused;
use crate::{datasets, output, seeker};

/// A server that feeds the datasets gets this long for its next step.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Bytes of the log that are left for later, unless they are asked for: a dataset writes many times what little comes to it.
const LITTLE: usize = 1 << 20;

pub(super) async fn update_indexes(library: &Library, config: &Config, asked: bool) -> anyhow::Result<()> {
    // Words are cheap: what was imported is found at once.
    follow_index(library, &seeker::open(config, &library.log)?).await?;
    let model = seeker::model(config).await?;
    let datasets = datasets::open_with(config, &library.log, model.as_ref())?;
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
pub(crate) async fn follow(library: &Library, datasets: &Datasets) -> anyhow::Result<()> {
    bring_up(library, SessionsProjector, datasets, || Ok(datasets.checkpoint()?)).await
}

/// Returns when the index holds what the log does.
pub(crate) async fn follow_index(library: &Library, index: &EntryIndex) -> anyhow::Result<()> {
    bring_up(library, EntriesProjector, index, || Ok(index.checkpoint()?)).await
}

/// Feeds a read model, or waits for the server that does.
async fn bring_up<P: Projector, K: Copies<P::Change>>(
    library: &Library,
    projector: P,
    copies: &K,
    checkpoint: impl Fn() -> anyhow::Result<Checkpoint>,
) -> anyhow::Result<()> {
    if projector::is_current(&library.log, checkpoint()?).await {
        return Ok(());
    }
    if projector::advance(&library.log, &Arc::new(projector), copies, |_| {}).await?.is_some() {
        return Ok(());
    }
    let (mut since, mut last, target) = (Instant::now(), 0, library.log.position());
    loop {
        let at = checkpoint()?;
        if at.position() > last {
            (since, last) = (Instant::now(), at.position());
        }
        if at.position() >= target || projector::is_current(&library.log, at).await {
            return Ok(());
        }
        if since.elapsed() > PATIENCE {
            let (name, at) = (P::NAME, at.position());
            bail!("the server that feeds the {name} is at position {at} of {target}; see `arbe projections`");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Messages get vectors, if there is a model.
pub(super) async fn embed(library: &Library, config: &Config, again: bool) -> anyhow::Result<Option<Embedded>> {
    let Some(model) = seeker::model(config).await? else {
        output::note("embed: no model is configured (--embed-model), so nothing is embedded");
        return Ok(None);
    };
    let datasets = datasets::open_with(config, &library.log, Some(&model))?;
    follow(library, &datasets).await?;
    let style = ProgressStyle::with_template("embedding {wide_bar} {pos}/{len} messages, {eta} left");
    let bar = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let which = if again { Again::Stale } else { Again::Missing };
    let show = |at: Embedded| {
        bar.set_length(at.of);
        bar.set_position(at.done);
    };
    let embedded = datasets.embed(&library.house, which, show).await;
    bar.finish_and_clear();
    match embedded {
        Err(EmbedError::OtherWidth { .. }) => Err(Refused(format!(
            "{}; --force-embed makes them anew",
            embedded.err().map(|it| it.to_string()).unwrap_or_default()
        ))
        .into()),
        done => Ok(Some(done?)),
    }
}
