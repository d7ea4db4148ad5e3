//! The keys of an issuer: fetched when first needed and for a key that is not known, and now and then, so that one that was
//! withdrawn is not trusted for ever.

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::jwk::{Jwk, JwkSet};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

use super::Refusal;

/// Keys of this age are fetched again, while the old ones serve.
const REFRESH_AFTER: Duration = Duration::from_secs(300);
/// A key that is not known may be new, but not more often than this. The same after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(5);
const SIZE_MAX: usize = 1 << 20;

#[derive(Clone)]
pub(super) struct Jwks {
    /// A URL, or a file.
    source: Arc<str>,
    known: Arc<Mutex<Known>>,
    /// Held by the one who fetches for all who wait.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Known {
    keys: Option<JwkSet>,
    refresh_at: Option<Instant>,
    not_before: Option<Instant>,
    error: String,
}

impl Known {
    fn may_fetch(&self) -> bool {
        self.not_before.is_none_or(|at| at <= Instant::now())
    }

    fn is_old(&self) -> bool {
        self.refresh_at.is_some_and(|at| at <= Instant::now())
    }
}

impl Jwks {
    pub(super) fn new(source: &str) -> Self {
        Self { source: source.into(), known: Arc::default(), turn: Arc::default() }
    }

    /// The key of this id; without an id the only key, if there is only one.
    pub(super) async fn find(&self, kid: Option<&str>) -> Result<Option<Jwk>, Refusal> {
        if let Some(found) = self.look(kid) {
            let due = |known: &Known| known.is_old() && known.may_fetch();
            if due(&self.known.lock()) {
                let keys = self.clone();
                tokio::spawn(async move { keys.fetch_if(due).await });
            }
            return Ok(Some(found));
        }
        self.fetch_if(|known| known.may_fetch()).await;
        let known = self.known.lock();
        match &known.keys {
            Some(keys) => Ok(pick(keys, kid)),
            None => Err(Refusal::Unavailable(known.error.clone())),
        }
    }

    fn look(&self, kid: Option<&str>) -> Option<Jwk> {
        self.known.lock().keys.as_ref().and_then(|keys| pick(keys, kid))
    }

    /// Unless another has just done so.
    async fn fetch_if(&self, wanted: impl Fn(&Known) -> bool) {
        let _turn = self.turn.lock().await;
        if !wanted(&self.known.lock()) {
            return;
        }
        let fetched = fetch(&self.source).await;
        let now = Instant::now();
        let mut known = self.known.lock();
        known.not_before = Some(now + RETRY_AFTER);
        match fetched {
            Ok(keys) => {
                known.keys = Some(keys);
                known.refresh_at = Some(now + REFRESH_AFTER);
            }
            Err(error) => {
                tracing::warn!(%error, "the issuer's keys could not be fetched");
                known.error = error;
            }
        }
    }
}

/// Of which there may be keys of a kind that is not known here.
#[derive(Deserialize)]
struct KeySet {
    keys: Vec<serde_json::Value>,
}

async fn fetch(source: &str) -> Result<JwkSet, String> {
    let body = if source.starts_with("http://") || source.starts_with("https://") {
        download(source).await?
    } else {
        std::fs::read(source).map_err(|error| format!("{source}: {error}"))?
    };
    let KeySet { keys } = serde_json::from_slice(&body).map_err(|error| format!("not a key set: {error}"))?;
    Ok(JwkSet { keys: keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect() })
}

async fn download(url: &str) -> Result<Vec<u8>, String> {
    let client = reqwest::Client::builder().timeout(PATIENCE).build().map_err(|error| error.to_string())?;
    let mut response = client.get(url).send().await.map_err(|error| error.to_string())?;
    if !response.status().is_success() {
        return Err(format!("status {}", response.status()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| error.to_string())? {
        body.extend_from_slice(&chunk);
        if body.len() > SIZE_MAX {
            return Err("the key set is too large".to_owned());
        }
    }
    Ok(body)
}

fn pick(keys: &JwkSet, kid: Option<&str>) -> Option<Jwk> {
    match (kid, keys.keys.as_slice()) {
        (Some(kid), _) => keys.find(kid).cloned(),
        (None, [only]) => Some(only.clone()),
        (None, _) => None,
    }
}
