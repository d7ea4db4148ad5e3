//! Models that are not on this machine yet.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use reqwest::{Client, StatusCode};
use safetensors::SafeTensors;
use serde::de::IgnoredAny;

use crate::files::{CONFIG, POOLING, SENTENCES, TOKENIZER, WEIGHTS};
use crate::{EmbedError, Options};

/// The weights are last: where they are, everything is.
const FILES: [(&str, Need); 5] = [
    (CONFIG, Need::Required),
    (TOKENIZER, Need::Required),
    (POOLING, Need::Optional),
    (SENTENCES, Need::Optional),
    (WEIGHTS, Need::Required),
];
const PATIENCE_TO_CONNECT: Duration = Duration::from_secs(10);
const PATIENCE_BETWEEN_BYTES: Duration = Duration::from_secs(30);
const LARGEST: usize = 2 << 30;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

/// Of the model, which is in it when this returns.
pub(crate) async fn directory(options: &Options) -> Result<PathBuf, EmbedError> {
    let named = PathBuf::from(&options.model);
    if named.is_dir() {
        return Ok(named);
    }
    if !is_id(&options.model) {
        return Err(EmbedError::NoSuchModel { model: options.model.clone() });
    }
    let directory = options.models.join(options.model.replace('/', "--"));
    if !directory.join(WEIGHTS).is_file() {
        tracing::info!(model = options.model, "fetching an embedding model");
        fetch_all(options, &directory).await?;
    }
    Ok(directory)
}

fn is_id(model: &str) -> bool {
    let is_name = |name: &str| {
        !name.starts_with('.')
            && !name.is_empty()
            && name.chars().all(|char| char.is_ascii_alphanumeric() || "._-".contains(char))
    };
    model.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name))
}

async fn fetch_all(options: &Options, directory: &Path) -> Result<(), EmbedError> {
    let client = Client::builder()
        .connect_timeout(PATIENCE_TO_CONNECT)
        .read_timeout(PATIENCE_BETWEEN_BYTES)
        .build()
        .map_err(|source| EmbedError::Unreachable { url: options.hub.clone(), source })?;
    for (file, need) in FILES {
        let url = format!("{}/{}/resolve/main/{file}", options.hub, options.model);
        match fetch(&client, &url).await {
            Ok(bytes) => {
                check(file, &bytes).map_err(|reason| EmbedError::Corrupt { url, reason })?;
                store(&directory.join(file), bytes).await?;
            }
            Err(EmbedError::Refused { status: 404, .. }) if need == Need::Optional => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn fetch(client: &Client, url: &str) -> Result<Vec<u8>, EmbedError> {
    let unreachable = |source| EmbedError::Unreachable { url: url.to_owned(), source };
    let mut response = client.get(url).send().await.map_err(unreachable)?;
    if response.status() != StatusCode::OK {
        return Err(EmbedError::Refused { url: url.to_owned(), status: response.status().as_u16() });
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if bytes.len() + chunk.len() > LARGEST {
            return Err(EmbedError::Corrupt { url: url.to_owned(), reason: format!("it is larger than {LARGEST} bytes") });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// What is kept is never fetched again, so it has to be whole.
fn check(file: &str, bytes: &[u8]) -> Result<(), String> {
    if file == WEIGHTS {
        SafeTensors::deserialize(bytes).map(|_| ()).map_err(|error| error.to_string())
    } else {
        serde_json::from_slice::<IgnoredAny>(bytes).map(|_| ()).map_err(|error| error.to_string())
    }
}

async fn store(path: &Path, bytes: Vec<u8>) -> Result<(), EmbedError> {
    let to = path.to_owned();
    let storing = tokio::task::spawn_blocking(move || write_whole(&to, &bytes));
    let stored = storing.await.expect("writing does not panic and is never aborted");
    stored.map_err(|source| EmbedError::Inaccessible { path: path.to_owned(), source })
}

/// Beside its place and then to it, under a name that nobody else writes to.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static WRITTEN: AtomicU32 = AtomicU32::new(0);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let part = path.with_added_extension(format!("{}-{number}.part", std::process::id()));
    let written = write_synced(&part, bytes).and_then(|()| std::fs::rename(&part, path));
    if written.is_err() {
        _ = std::fs::remove_file(&part);
    }
    written
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    let mut file = std::fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
