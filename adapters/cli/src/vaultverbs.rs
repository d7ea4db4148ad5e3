//! The vault of a server, and `arbe vault …`, with or without a running one.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use commands::{Commands, RealSource, World};
use event_log::store::Store;
use event_log::{Log, Options, StoreUrl};
use events::SecretId;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use vault::{Checked, KeySource, ObjectVault, Rotated, add_key};

use crate::args::VaultVerb;
use crate::config::Config;
use crate::exit;
use crate::output::{NotFound, Usage, print, print_json};

/// After the start, so that what a crash left is not left for longer by the next one.
const SWEEP_FIRST: Duration = Duration::from_secs(60);
/// Between sweeps.
const SWEEP_EVERY: Duration = Duration::from_secs(60 * 60);

/// For a server: the key file is made if there is none.
pub(crate) async fn open(config: &Config, store: &Store) -> anyhow::Result<ObjectVault> {
    if matches!(config.store, StoreUrl::Remote(_)) && config.vault_key_is_default {
        tracing::warn!("the vault's key is in this data directory: other servers on the same store need a copy of it");
    }
    ObjectVault::open(store.objects.clone(), config.vault.clone()).await.context("the vault")
}

/// Takes away what crashes left behind, for as long as the server runs.
pub(crate) async fn keep_clean(vault: ObjectVault, log: Log, commands: Commands) {
    let mut wait = SWEEP_FIRST;
    loop {
        tokio::time::sleep(wait).await;
        wait = SWEEP_EVERY;
        let now = log.now_ms();
        if log.looked().await.is_err() || commands.caught_up().await.is_err() {
            continue;
        }
        let named = |world: &World| world.secrets().map(|(_, it)| (it.house_id.clone(), it.vault_secret_id)).collect();
        if let Err(error) = vault.sweep(now, || commands.with_world(named)).await {
            tracing::warn!(%error, "the vault could not be swept; trying again later");
        }
    }
}

pub(crate) async fn run(verb: VaultVerb, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    if let Some(KeySource::File(path)) = config.vault.keys.first()
        && !path.exists()
    {
        return Err(NotFound(format!("there is no key of a vault at {}", path.display())).into());
    }
    let opened = config.store.open(&config.store_options, false);
    let store = opened.map_err(|error| NotFound(format!("no log at {}: {error}", config.store)))?;
    match verb {
        VaultVerb::Rotate { new_key } => {
            if new_key {
                make_key(config)?;
            }
            rotate(&open(config, &store).await?, json).await
        }
        VaultVerb::Check => check(config, store, json).await,
    }
}

fn make_key(config: &Config) -> anyhow::Result<()> {
    match config.vault.keys.first() {
        Some(KeySource::File(path)) => {
            add_key(path)?;
            Ok(())
        }
        Some(KeySource::Text(_) | KeySource::Command(_)) | None => {
            bail!(Usage("--new-key is for a key file; put the new key first where this one comes from".into()))
        }
    }
}

async fn rotate(vault: &ObjectVault, json: bool) -> anyhow::Result<ExitCode> {
    let bar = bar("rotating")?;
    let rotated = vault.rotate(|done, of| show(&bar, done, of)).await;
    bar.finish_and_clear();
    let Rotated { key, rewrapped, already, gone, unopened, verified, remaining } = rotated?;
    let key = key.map(|key| key.to_string()).unwrap_or_default();
    if json {
        let unopened: Vec<_> = unopened.iter().map(|it| json!({ "object": it.object, "why": it.why })).collect();
        print_json(&json!({
            "key": key, "rewrapped": rewrapped, "already": already, "gone": gone, "verified": verified,
            "remaining": remaining, "unopened": unopened,
        }))?;
    } else {
        for it in &unopened {
            print(format!("UNOPENED  {}  {}\n", it.object, it.why))?;
        }
        print(format!("{verified} values are under the key {key}: {rewrapped} were brought there, {already} were already\n"))?;
        if remaining > 0 {
            print(format!("{remaining} values came under another key meanwhile; rotate again\n"))?;
        }
    }
    Ok(match (unopened.is_empty(), remaining) {
        (false, _) => ExitCode::from(exit::DAMAGE),
        (true, 0) => ExitCode::SUCCESS,
        (true, _) => ExitCode::from(exit::FAILED),
    })
}

async fn check(config: &Config, store: Store, json: bool) -> anyhow::Result<ExitCode> {
    let vault = open(config, &store).await?;
    let log = Log::open_existing(store, Options { memory: config.memory, ..Options::default() }).await;
    let log = log.with_context(|| config.store.to_string())?;
    let commands = Commands::start(log.clone(), Arc::new(RealSource));
    commands.caught_up().await?;
    let secrets: Vec<(SecretId, commands::Secret)> =
        commands.with_world(|world| world.secrets().map(|(id, secret)| (id.clone(), secret.clone())).collect());
    let bar = bar("checking")?;
    let checked = vault.check(&secrets, |done, of| show(&bar, done, of)).await;
    bar.finish_and_clear();
    let mut checked = checked?;
    if !checked.missing.is_empty() {
        log.looked().await?;
        commands.caught_up().await?;
        checked = vault.confirm(checked, |id| commands.with_world(|world| world.secret(id).cloned())).await?;
    }
    drop(commands);
    log.close().await;
    tell(&checked, secrets.len(), json)?;
    Ok(if checked.is_sound() { ExitCode::SUCCESS } else { ExitCode::from(exit::DAMAGE) })
}

fn tell(checked: &Checked, secrets: usize, json: bool) -> anyhow::Result<()> {
    let Checked { by_key, damaged, missing, unnamed } = checked;
    if json {
        let keys: serde_json::Map<_, _> = by_key.iter().map(|(key, values)| (key.to_string(), json!(values))).collect();
        let damaged: Vec<_> = damaged.iter().map(|it| json!({ "object": it.object, "why": it.why })).collect();
        let lacks = |it: &vault::Missing| json!({ "secret_id": it.secret_id, "house_id": it.house, "name": it.name });
        let missing: Vec<_> = missing.iter().map(lacks).collect();
        return print_json(&json!({
            "secrets": secrets, "by_key": keys, "damaged": damaged, "missing": missing, "unnamed": unnamed,
        }));
    }
    for it in damaged {
        print(format!("DAMAGED  {}  {}\n", it.object, it.why))?;
    }
    for it in missing {
        print(format!("MISSING  {} in house {}: set it again\n", it.name, it.house))?;
    }
    for (key, values) in by_key {
        print(format!("{values} values under the key {key}\n"))?;
    }
    let state = if checked.is_sound() { "sound" } else { "NOT sound" };
    print(format!("{secrets} secrets, {unnamed} values that none of them names: {state}\n"))
}

fn bar(what: &'static str) -> anyhow::Result<ProgressBar> {
    let style = ProgressStyle::with_template("{msg:<12} {wide_bar} {pos}/{len} {per_sec} {eta}")?;
    Ok(ProgressBar::new(0).with_message(what).with_style(style))
}

fn show(bar: &ProgressBar, done: u64, of: u64) {
    bar.set_length(of);
    bar.set_position(done);
}
