//! What `arbe sync` does after it has imported: bring the datasets up to the log and fold their indexes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use entry_index::{EntriesProjector, EntryIndex};
use event_log::Log;
use indicatif::{ProgressBar, ProgressStyle};
use lance_sessions::{Again, DatasetError, Datasets, EmbedError, Embedded, SessionsProjector, Step, Upkeep};
use projector::{Checkpoint, Copies, Projector};
use tokio::time::Instant;

use super::Library;
use crate::config::Config;
use crate::output::Refused;
use crate::{datasets, output, seeker};

/// A server that feeds the datasets gets this long for its next step.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// It may have stopped.
const TRY_EVERY: Duration = Duration::from_secs(2);

/// Bytes of the log that are left for later, unless they are asked for: a dataset writes many times what little comes to it.
const LITTLE: usize = 1 << 20;

pub(super) async fn update_indexes(library: &Library, config: &Config, asked: bool) -> anyhow::Result<()> {
    // Words are cheap: what was imported is found at once. Each reads the log for itself.
    let (log, index) = (library.log.clone(), seeker::open(config, &library.log)?);
    let words = tokio::spawn(async move { follow_index(&log, &index).await });
    let (words, rows) = tokio::join!(words, update_datasets(library, config, asked));
    words??;
    rows
}

async fn update_datasets(library: &Library, config: &Config, asked: bool) -> anyhow::Result<()> {
    let model = seeker::model(config).await?;
    let datasets = datasets::open_with(config, &library.log, model.as_ref())?;
    if asked {
        follow(&library.log, &datasets).await?;
        return Ok(datasets.update_indexes(Upkeep::Everything, |_, _| {}).await?);
    }
    if is_much(library, &datasets).await? {
        follow(&library.log, &datasets).await?;
        keep_up(&datasets).await?;
    }
    Ok(())
}

/// Whether what the datasets lack is worth their writing.
async fn is_much(library: &Library, datasets: &Datasets) -> anyhow::Result<bool> {
    let at = datasets.checkpoint()?;
    Ok(at.position() == 0 || projector::backlog(&library.log, at, LITTLE).await >= LITTLE)
}

async fn keep_up(datasets: &Datasets) -> anyhow::Result<()> {
    match datasets.update_indexes(Upkeep::WhatIsDue, |_, _| {}).await {
        // Whoever wrote meanwhile keeps them, too.
        Err(DatasetError::Conflict { .. }) => Ok(()),
        done => Ok(done?),
    }
}

/// Returns when the datasets hold what the log does.
pub(crate) async fn follow(log: &Log, datasets: &Datasets) -> anyhow::Result<()> {
    bring_up(log, SessionsProjector, datasets, || Ok(datasets.checkpoint()?)).await
}

/// Returns when the index holds what the log does.
pub(crate) async fn follow_index(log: &Log, index: &EntryIndex) -> anyhow::Result<()> {
    bring_up(log, EntriesProjector, index, || Ok(index.checkpoint()?)).await
}

/// Feeds a read model, or waits for the server that does.
async fn bring_up<P: Projector, K: Copies<P::Change>>(
    log: &Log,
    projector: P,
    copies: &K,
    checkpoint: impl Fn() -> anyhow::Result<Checkpoint>,
) -> anyhow::Result<()> {
    if projector::is_current(log, checkpoint()?).await {
        return Ok(());
    }
    let projector = Arc::new(projector);
    if projector::advance(log, &projector, copies, |_| {}).await?.is_some() {
        return Ok(());
    }
    let (mut since, mut last, target, mut tried) = (Instant::now(), 0, log.position(), Instant::now());
    loop {
        let at = checkpoint()?;
        if at.position() > last {
            (since, last) = (Instant::now(), at.position());
        }
        if at.position() >= target || projector::is_current(log, at).await {
            return Ok(());
        }
        if since.elapsed() > PATIENCE {
            let (name, at) = (P::NAME, at.position());
            bail!("the server that feeds the {name} is at position {at} of {target}; see `arbe projections`");
        }
        if tried.elapsed() > TRY_EVERY {
            if projector::advance(log, &projector, copies, |_| {}).await?.is_some() {
                return Ok(());
            }
            tried = Instant::now();
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Messages get vectors, if there is a model. Afterwards nothing is left to follow, so what this wrote is kept up here.
pub(super) async fn embed(library: &Library, config: &Config, again: bool) -> anyhow::Result<Option<Embedded>> {
    let Some(model) = seeker::model(config).await? else {
        output::note("embed: no model is configured (--embed-model), so nothing is embedded");
        return Ok(None);
    };
    let datasets = datasets::open_with(config, &library.log, Some(&model))?;
    let much = is_much(library, &datasets).await?;
    follow(&library.log, &datasets).await?;
    let style = ProgressStyle::with_template("embedding {wide_bar} {pos}/{len} messages, {eta} left");
    let bar = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let which = if again { Again::Stale } else { Again::Missing };
    let show = |step: Step| match step {
        Step::Made(at) => {
            bar.set_length(at.of);
            bar.set_position(at.done);
        }
        Step::Indexing => {
            bar.finish_and_clear();
            output::note("embed: all vectors are made; bringing their index up to date, which takes minutes for many");
        }
    };
    let embedded = datasets.embed(&library.house, which, show).await;
    bar.finish_and_clear();
    match embedded {
        Err(EmbedError::OtherWidth { .. }) => Err(Refused(format!(
            "{}; --force-embed makes them anew",
            embedded.err().map(|it| it.to_string()).unwrap_or_default()
        ))
        .into()),
        done => {
            let done = done?;
            if much || done.done > 0 {
                keep_up(&datasets).await?;
            }
            Ok(Some(done))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use commands::sessions::Recording;
    use serde_json::json;

    use super::*;
    use crate::args::Args;

    /// Of the model2vec family. It knows one word.
    fn write_model(directory: &std::path::Path) {
        let tokenizer = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": { "type": "Whitespace" }, "post_processor": null, "decoder": null,
            "model": { "type": "WordLevel", "vocab": { "[UNK]": 0, "word": 1 }, "unk_token": "[UNK]" },
        });
        let numbers: Vec<u8> = [0.0_f32, 0.0, 1.0, 0.0].into_iter().flat_map(f32::to_le_bytes).collect();
        let head = json!({ "embeddings": { "dtype": "F32", "shape": [2, 2], "data_offsets": [0, numbers.len()] } }).to_string();
        let weights = [&(head.len() as u64).to_le_bytes()[..], head.as_bytes(), &numbers].concat();
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join("tokenizer.json"), tokenizer.to_string()).unwrap();
        std::fs::write(directory.join("model.safetensors"), weights).unwrap();
        std::fs::write(directory.join("config.json"), r#"{"model_type":"model2vec","normalize":true}"#).unwrap();
    }

    /// What it follows is not followed again by the stage after it, which then takes it for little.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_first_embedding_leaves_no_table_without_its_indexes() {
        let directory = tempfile::tempdir().unwrap();
        let (data, model) = (directory.path().join("data"), directory.path().join("model"));
        write_model(&model);
        std::fs::write(directory.path().join("config"), "").unwrap();
        let paths = [("--config", directory.path().join("config")), ("--data-dir", data), ("--embed-model", model)];
        let paths = paths.iter().flat_map(|(flag, path)| [*flag, path.to_str().unwrap()]);
        let args = Args::try_parse_from(["arbe"].into_iter().chain(paths).chain(["sync"])).unwrap();
        let config = Config::load(&args).unwrap();
        let library = Library::open_to_write(&config, None).await.unwrap();
        let session = json!({ "id": "s", "source_agent": "pi", "created_at": "2026-01-01T00:00:00Z", "project": "/p" });
        let message = |n: u64| {
            let part = json!({ "id": "0", "type": "text", "provenance": "conversational", "text": format!("word {n}") });
            let message =
                json!({ "id": format!("m{n}"), "role": "user", "timestamp": "2026-01-01T00:00:00Z", "content": [part] });
            serde_json::from_value(message).unwrap()
        };
        let session: events::session::Session = serde_json::from_value(session).unwrap();
        let recording =
            Recording { session_id: session.id.clone(), session: Some(session), messages: (0..1_100).map(message).collect() };
        library.sessions.record(&library.house, recording).await.unwrap();
        embed(&library, &config, false).await.unwrap();
        let health = datasets::open(&config, &library.log).unwrap().health(&library.house).await.unwrap();
        for table in ["messages", "parts"] {
            assert_eq!((health[table].rows, health[table].unindexed), (1_100, 0), "{health:?}");
        }
        library.close().await;
    }
}
