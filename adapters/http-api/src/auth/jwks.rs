//! The keys of an issuer, fetched when needed.

use std::time::Duration;

use jsonwebtoken::jwk::{Jwk, JwkSet};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Refusal;

/// A key that is not known may be new, but not more often than this.
const REFRESH_EVERY: Duration = Duration::from_secs(60);
const RETRY_AFTER: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(5);
const SIZE_MAX: usize = 1 << 20;

pub(super) struct Jwks {
    url: String,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    keys: Option<JwkSet>,
    not_before: Option<Instant>,
    error: String,
}

impl Jwks {
    pub(super) fn new(url: String) -> Self {
        Self { url, known: Mutex::default() }
    }

    /// The key of this id; without an id the only key, if there is only one.
    pub(super) async fn find(&self, kid: Option<&str>) -> Result<Option<Jwk>, Refusal> {
        let mut known = self.known.lock().await;
        if let Some(found) = known.keys.as_ref().and_then(|keys| pick(keys, kid)) {
            return Ok(Some(found));
        }
        let now = Instant::now();
        if known.not_before.is_none_or(|at| at <= now) {
            match self.fetch().await {
                Ok(keys) => *known = Known { keys: Some(keys), not_before: Some(now + REFRESH_EVERY), error: String::new() },
                Err(error) => {
                    tracing::warn!(%error, "the issuer's keys could not be fetched");
                    known.not_before = Some(now + RETRY_AFTER);
                    known.error = error;
                }
            }
        }
        match &known.keys {
            Some(keys) => Ok(pick(keys, kid)),
            None => Err(Refusal::Unavailable(known.error.clone())),
        }
    }

    async fn fetch(&self) -> Result<JwkSet, String> {
        let client = reqwest::Client::builder().timeout(PATIENCE).build().map_err(|error| error.to_string())?;
        let mut response = client.get(&self.url).send().await.map_err(|error| error.to_string())?;
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
        serde_json::from_slice(&body).map_err(|error| error.to_string())
    }
}

fn pick(keys: &JwkSet, kid: Option<&str>) -> Option<Jwk> {
    match (kid, keys.keys.as_slice()) {
        (Some(kid), _) => keys.find(kid).cloned(),
        (None, [only]) => Some(only.clone()),
        (None, _) => None,
    }
}
