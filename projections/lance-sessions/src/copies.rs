//! The copies of the datasets in one directory: `v<version>_<number>`, of which the file `live` names the one that serves.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use event_log::{Cursor, Digest, Log};
use projector::{Checkpoint, Copies, Live, SinkError, Sums};
use serde::{Deserialize, Serialize};

use crate::error::DatasetError;
use crate::projection::Change;
use crate::sink::SessionsSink;
use crate::substrate::{Caches, Substrate};
use crate::{VERSION, locks, sums};

const LIVE: &str = "live";
const STATE: &str = "state.json";
const RETIRED: &str = "retired";
/// Readers that came before a swap have this long to finish.
const KEPT: Duration = Duration::from_secs(60);

/// All copies of the datasets.
#[derive(Clone, Debug)]
pub struct Datasets {
    directory: PathBuf,
    log: Log,
    caches: Caches,
    serving: Arc<parking_lot::Mutex<Option<Arc<Substrate>>>>,
}

/// How far a copy is, and what it is for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    next: u64,
    digest: Digest,
    records: u64,
    time: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
    /// Of a copy that does not serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
}

impl State {
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { cursor: Cursor { next: self.next, digest: self.digest }, records: self.records, time: self.time }
    }

    pub fn stopped(self, why: Option<&str>) -> Self {
        Self { stopped: why.map(str::to_owned), ..self }
    }

    pub fn at(self, checkpoint: &Checkpoint) -> Self {
        let Checkpoint { cursor: Cursor { next, digest }, records, time } = *checkpoint;
        Self { next, digest, records, time, ..self }
    }
}

pub(crate) fn read_state(copy: &Path) -> Result<State, DatasetError> {
    let path = copy.join(STATE);
    let text = locks::read(&path)?.ok_or_else(|| DatasetError::Damaged(format!("{} is missing", path.display())))?;
    serde_json::from_str(&text).map_err(|error| DatasetError::Damaged(format!("{}: {error}", path.display())))
}

pub(crate) fn write_state(copy: &Path, state: &State) -> Result<(), DatasetError> {
    let text = serde_json::to_string(state).map_err(|error| DatasetError::Unavailable(error.to_string()))?;
    locks::write(&copy.join(STATE), &text)
}

pub(crate) fn is_retired(copy: &Path) -> bool {
    copy.join(RETIRED).exists()
}

/// While it is there the live copy stands still.
#[derive(Debug)]
pub struct Hold {
    _commit: Option<File>,
    live: Option<PathBuf>,
}

fn version_of(name: &str) -> Option<(u32, u64)> {
    let (version, number) = name.strip_prefix('v')?.split_once('_')?;
    Some((version.parse().ok()?, number.parse().ok()?))
}

impl Datasets {
    /// Copies under `directory`, which is made if need be.
    pub fn open(directory: &Path, log: Log) -> Result<Self, DatasetError> {
        std::fs::create_dir_all(directory).map_err(|error| DatasetError::io(directory, &error))?;
        Ok(Self { directory: directory.to_owned(), log, caches: Caches::default(), serving: Arc::default() })
    }

    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn names(&self) -> Result<Vec<String>, DatasetError> {
        let fault = |error: std::io::Error| DatasetError::io(&self.directory, &error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.directory).map_err(fault)? {
            names.extend(entry.map_err(fault)?.file_name().into_string().ok().filter(|name| version_of(name).is_some()));
        }
        names.sort_by_key(|name| version_of(name));
        Ok(names)
    }

    fn live_name(&self) -> Result<Option<String>, DatasetError> {
        let name = locks::read(&self.directory.join(LIVE))?;
        Ok(name.map(|name| name.trim().to_owned()).filter(|name| version_of(name).is_some()))
    }

    /// The tables that serve now. `None`: nothing was ever projected.
    pub(crate) fn serving(&self) -> Result<Option<Arc<Substrate>>, DatasetError> {
        let Some(name) = self.live_name()? else { return Ok(None) };
        let directory = self.directory.join(name);
        let mut serving = self.serving.lock();
        if serving.as_ref().is_none_or(|substrate| substrate.directory() != directory) {
            *serving = Some(Arc::new(Substrate::new(directory, self.caches.clone())));
        }
        Ok(serving.clone())
    }

    /// How far the copy that serves has come.
    pub fn position(&self) -> Result<u64, DatasetError> {
        self.serving()?.map_or(Ok(0), |substrate| Ok(read_state(substrate.directory())?.checkpoint().position()))
    }

    fn sink(&self, directory: PathBuf) -> SessionsSink {
        let serving = self.serving.lock().clone().filter(|substrate| substrate.directory() == directory);
        let substrate = serving.unwrap_or_else(|| Arc::new(Substrate::new(directory, self.caches.clone())));
        SessionsSink::new(substrate, self.log.clone())
    }

    fn make(&self, label: Option<&str>) -> Result<PathBuf, DatasetError> {
        let highest = self.names()?.iter().filter_map(|name| version_of(name)).map(|(_, number)| number).max();
        let directory = self.directory.join(format!("v{VERSION}_{}", highest.unwrap_or_default() + 1));
        std::fs::create_dir(&directory).map_err(|error| DatasetError::io(&directory, &error))?;
        write_state(&directory, &State { label: label.map(str::to_owned), ..State::default() })?;
        Ok(directory)
    }

    /// Copies that no reader needs any more, and those that were not even begun.
    fn tidy(&self) -> Result<(), DatasetError> {
        for name in self.names()? {
            let copy = self.directory.join(name);
            let retired = copy.join(RETIRED).metadata().and_then(|file| file.modified());
            let over = retired.is_ok_and(|since| since.elapsed().is_ok_and(|since| since > KEPT));
            if over || !copy.join(STATE).exists() {
                std::fs::remove_dir_all(&copy).map_err(|error| DatasetError::io(&copy, &error))?;
            }
        }
        Ok(())
    }

    async fn arranging(&self) -> Result<File, DatasetError> {
        locks::lock(&self.directory.join("lock")).await
    }
}

impl Copies<Change> for Datasets {
    type Sink = SessionsSink;
    type Hold = Hold;

    async fn live(&self) -> Result<Live<SessionsSink>, SinkError> {
        let _alone = self.arranging().await?;
        self.tidy()?;
        let name = match self.live_name()? {
            Some(name) => name,
            None => {
                let made = self.make(None)?;
                let name = made.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
                locks::write(&self.directory.join(LIVE), &name)?;
                name
            }
        };
        let version = version_of(&name).map_or(0, |(version, _)| version);
        let directory = self.directory.join(&name);
        let damaged = matches!(read_state(&directory), Err(DatasetError::Damaged(_)));
        if version != VERSION || damaged {
            return Ok(Live::Outdated { version: if damaged { 0 } else { version } });
        }
        self.serving()?;
        Ok(Live::Current(self.sink(directory)))
    }

    async fn beside(&self, label: &str) -> Result<SessionsSink, SinkError> {
        let _alone = self.arranging().await?;
        self.tidy()?;
        for name in self.names()?.iter().rev() {
            let directory = self.directory.join(name);
            let ours = version_of(name).is_some_and(|(version, _)| version == VERSION);
            if ours && !is_retired(&directory) && read_state(&directory)?.label.as_deref() == Some(label) {
                return Ok(self.sink(directory));
            }
        }
        Ok(self.sink(self.make(Some(label))?))
    }

    async fn hold(&self) -> Result<(Hold, Checkpoint), SinkError> {
        let Some(name) = self.live_name()? else { return Ok((Hold { _commit: None, live: None }, Checkpoint::default())) };
        let live = self.directory.join(name);
        let commit = match std::fs::exists(&live) {
            Ok(true) => Some(locks::lock(&live.join("commit")).await?),
            Ok(false) | Err(_) => None,
        };
        let at = read_state(&live).map(|state| state.checkpoint()).unwrap_or_default();
        Ok((Hold { _commit: commit, live: Some(live) }, at))
    }

    async fn swap(&self, hold: Hold, copy: &mut SessionsSink) -> Result<(), SinkError> {
        let _alone = self.arranging().await?;
        let directory = copy.substrate.directory();
        write_state(directory, &State { label: None, ..copy.state()? })?;
        let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        locks::write(&self.directory.join(LIVE), name)?;
        if let Some(old) = hold.live.as_ref().filter(|old| old.exists()) {
            locks::write(&old.join(RETIRED), "")?;
        }
        Ok(())
    }

    fn address(&self, copy: &SessionsSink) -> String {
        copy.substrate.directory().display().to_string()
    }

    async fn discard(&self, copy: SessionsSink) -> Result<(), SinkError> {
        let _alone = self.arranging().await?;
        let directory = copy.substrate.directory();
        Ok(std::fs::remove_dir_all(directory).map_err(|error| DatasetError::io(directory, &error))?)
    }

    async fn sums(&self, copy: &mut SessionsSink) -> Result<Sums, SinkError> {
        let tables = sums::tables(&copy.substrate).await?;
        Ok(sums::of(tables, copy.state()?.checkpoint().position()).await?)
    }

    async fn live_sums(&self) -> Result<Option<(Checkpoint, Sums)>, SinkError> {
        let Some(substrate) = self.serving()? else { return Ok(None) };
        let (at, tables) = {
            let _standing = locks::lock(&substrate.directory().join("commit")).await?;
            (read_state(substrate.directory())?.checkpoint(), sums::tables(&substrate).await?)
        };
        Ok(Some((at, sums::of(tables, at.position()).await?)))
    }
}
