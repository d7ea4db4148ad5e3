//! Where the datasets of sessions are, and what reads them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use event_log::Log;
use events::session::{MessageId, Session, SessionId};
use events::{HouseId, Json};
use lance_sessions::{Around, DatasetError, Datasets};
use projector::Watermark;
use queries::library::{Code, Library, PondError, StoredMessage, StoredPart, Which};

use crate::config::Config;
use crate::seeker::Model;

const DIRECTORY: &str = "lance";
/// How long a request waits for what was just written.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn open(config: &Config, log: &Log) -> Result<Datasets, DatasetError> {
    Datasets::open(&config.data_dir.join(DIRECTORY), log.clone())
}

/// With vectors of a model, if there is one.
pub(crate) fn open_with(config: &Config, log: &Log, model: Option<&Model>) -> Result<Datasets, DatasetError> {
    let datasets = open(config, log)?;
    Ok(match model {
        Some(model) => datasets.with_vectors(Arc::new(model.clone())),
        None => datasets,
    })
}

/// The datasets as the API reads them.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    pub(crate) datasets: Datasets,
    log: Log,
    /// How far they are, if somebody in this process knows.
    watermark: Option<Watermark>,
}

impl Shelf {
    pub(crate) fn new(datasets: Datasets, log: &Log, watermark: Option<Watermark>) -> Self {
        Self { datasets, log: log.clone(), watermark }
    }
}

pub(crate) fn told(error: DatasetError) -> PondError {
    match error {
        DatasetError::Conflict { .. } => PondError::new(Code::Conflict, error.to_string()),
        DatasetError::Damaged(_) => {
            tracing::error!(%error, "the datasets are damaged");
            PondError::new(Code::StorageUnavailable, "the datasets are damaged; `arbe rebuild sessions` makes them anew")
        }
        DatasetError::Unavailable(_) => {
            tracing::warn!(%error, "the datasets could not be read");
            PondError::new(Code::StorageUnavailable, "the datasets cannot be read now; the server's log says why")
        }
    }
}

fn around(which: Which, most: Option<u64>, last: bool) -> Around {
    Around { from: which.from, below: which.below, said: which.said, at_most: most, last }
}

fn message(row: lance_sessions::Message) -> StoredMessage {
    let lance_sessions::Message { session_id, id, seq, timestamp, role, content, search_text, options } = row;
    StoredMessage { session_id, id, seq, timestamp, role, content, text: search_text, options }
}

fn part(row: lance_sessions::Part) -> Result<StoredPart, PondError> {
    let lance_sessions::Part { message_id, id, ordinal, kind, provenance, variant, data, options } = row;
    let variant: BTreeMap<String, Json> =
        variant.decode().map_err(|error| PondError::new(Code::Internal, format!("part {id}: {error}")))?;
    let url = variant.get("data_kind").is_some_and(|kind| kind.get() == "\"url\"");
    let data = data.map(|data| (if url { "url" } else { "data" }, data));
    Ok(StoredPart { message_id, id, ordinal, kind, provenance, variant, data, options })
}

/// Waits until a read model holds everything up to a position of the log.
pub(crate) async fn reached(
    log: &Log,
    watermark: Option<Watermark>,
    position: u64,
    patience: Duration,
    what: &str,
) -> Result<(), PondError> {
    let Some(mut watermark) = watermark else { return Ok(()) };
    if position > log.position() {
        let known = log.refreshed().await;
        known.map_err(|error| PondError::new(Code::StorageUnavailable, format!("the log: {error}")))?;
    }
    if position > log.position() {
        return Err(PondError::invalid("min_position is beyond the end of the log"));
    }
    if watermark.reached(position, patience).await {
        return Ok(());
    }
    let message = format!("{what} is at position {}, before {position}; try again", watermark.position());
    Err(PondError::new(Code::StorageUnavailable, message))
}

#[async_trait::async_trait]
impl Library for Shelf {
    async fn session(&self, house: &HouseId, id: &SessionId) -> Result<Option<Session>, PondError> {
        self.datasets.session(house, id).await.map_err(told)
    }

    async fn first(&self, house: &HouseId, id: &SessionId, which: Which, most: u64) -> Result<Vec<StoredMessage>, PondError> {
        let rows = self.datasets.messages(house, id, around(which, Some(most), false)).await.map_err(told)?;
        Ok(rows.into_iter().map(message).collect())
    }

    async fn last(&self, house: &HouseId, id: &SessionId, which: Which, most: u64) -> Result<Vec<StoredMessage>, PondError> {
        let rows = self.datasets.messages(house, id, around(which, Some(most), true)).await.map_err(told)?;
        Ok(rows.into_iter().map(message).collect())
    }

    async fn count(&self, house: &HouseId, id: &SessionId, which: Which) -> Result<u64, PondError> {
        self.datasets.count(house, id, around(which, None, false)).await.map_err(told)
    }

    async fn message(&self, house: &HouseId, id: &MessageId, of: Option<&SessionId>) -> Result<Vec<StoredMessage>, PondError> {
        let rows = self.datasets.message(house, id, of).await.map_err(told)?;
        Ok(rows.into_iter().map(message).collect())
    }

    async fn parts(&self, house: &HouseId, session: &SessionId, of: &[MessageId]) -> Result<Vec<StoredPart>, PondError> {
        self.datasets.parts(house, session, of).await.map_err(told)?.into_iter().map(part).collect()
    }

    async fn reached(&self, position: u64) -> Result<(), PondError> {
        reached(&self.log, self.watermark.clone(), position, PATIENCE, "the dataset").await
    }

    async fn blob(&self, hash: &str) -> Result<String, PondError> {
        let bytes = self.log.blob(hash).await;
        let bytes = bytes.map_err(|error| PondError::new(Code::StorageUnavailable, format!("what a file holds: {error}")))?;
        Ok(STANDARD.encode(&bytes))
    }

    async fn blob_bytes(&self, hash: &str) -> Result<u64, PondError> {
        let bytes = self.log.blob_bytes(hash).await;
        let bytes = bytes.map_err(|error| PondError::new(Code::StorageUnavailable, format!("what a file holds: {error}")))?;
        Ok(bytes.div_ceil(3) * 4)
    }
}
