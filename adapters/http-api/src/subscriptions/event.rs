//! What happened to subscriptions: the stored format of the hidden stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::glob::Pattern;
use super::mark::Mark;

const VERSION: u32 = 1;

/// Fixed at creation. Two are the same subscription when these are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    pub(super) delivery: Delivery,
    pub(super) pattern: Option<Pattern>,
    /// Linked explicitly at creation.
    pub(super) streams: BTreeSet<Arc<str>>,
    pub(super) lease_ttl_ms: u64,
    pub(super) description: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Delivery {
    Webhook { url: Arc<str> },
    PullWake { wake_stream: Arc<str> },
}

/// Persisted; a field or variant is never renamed or reused. A change of meaning is a new version of [`Recorded`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Event {
    /// `base_url` is how its creator reached the server; webhooks are told to call back there.
    Created {
        config: Config,
        base_url: Arc<str>,
    },
    Deleted {},
    /// New links, and what they are now for those that were there.
    Linked {
        links: Vec<Linked>,
    },
    Unlinked {
        paths: Vec<Arc<str>>,
    },
    /// `snapshot` holds the tails of the streams with pending work. A webhook is being delivered until `deliver_until`; a wake
    /// stream was told in its incarnation `wake_stream`.
    Woken {
        generation: u64,
        wake_id: Arc<str>,
        stream: Arc<str>,
        snapshot: BTreeMap<Arc<str>, Mark>,
        deliver_until: Option<u64>,
        wake_stream: Option<u64>,
    },
    /// The webhook accepted the wake and works on it.
    Delivered {
        generation: u64,
        lease_until: u64,
    },
    DeliveryFailed {
        generation: u64,
        attempt: u32,
        next_try: u64,
    },
    DeliveryRetried {
        generation: u64,
        deliver_until: u64,
    },
    Claimed {
        generation: u64,
        worker: Arc<str>,
        lease_until: u64,
    },
    /// Without `lease_until` the work on this wake is done.
    Acked {
        generation: u64,
        offsets: BTreeMap<Arc<str>, Mark>,
        lease_until: Option<u64>,
    },
    Released {
        generation: u64,
    },
    LeaseExpired {
        generation: u64,
    },
    /// Nobody can claim this wake any more: its wake stream is gone, or the work is.
    Withdrawn {
        generation: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Linked {
    pub(super) path: Arc<str>,
    pub(super) explicit: bool,
    /// Generation of the stream that the mark belongs to; 0 while there is none.
    pub(super) incarnation: u64,
    pub(super) acked: Mark,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recorded {
    v: u32,
    pub(super) at: u64,
    pub(super) subscription: Arc<str>,
    pub(super) event: Event,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("an event of version {0} was written by a newer server")]
    Version(u32),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl Recorded {
    pub(super) fn new(at: u64, subscription: Arc<str>, event: Event) -> Self {
        Self { v: VERSION, at, subscription, event }
    }

    pub(super) fn encode(&self) -> String {
        serde_json::to_string(self).expect("an event has only string keys")
    }

    /// A run of messages as the log joins them.
    pub(super) fn decode_run(joined: &[u8]) -> Result<Vec<Self>, DecodeError> {
        #[derive(Deserialize)]
        struct Versioned {
            v: u32,
        }
        let array = [b"[", joined, b"]"].concat();
        match serde_json::from_slice::<Vec<Self>>(&array) {
            Ok(run) => run.iter().find(|r| r.v != VERSION).map_or(Ok(()), |r| Err(DecodeError::Version(r.v))).map(|()| run),
            Err(error) => {
                let versions: Vec<Versioned> = serde_json::from_slice(&array)?;
                let newer = versions.iter().find(|versioned| versioned.v != VERSION);
                Err(newer.map_or(DecodeError::Json(error), |versioned| DecodeError::Version(versioned.v)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
