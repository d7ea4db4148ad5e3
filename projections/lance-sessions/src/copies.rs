//! The copies of the datasets in one directory: `v<version>_<number>`, of which the file `live` names the one that serves. A copy that is not
//! named there and has no label was replaced.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use event_log::{Cursor, Digest, Log};
use events::HouseId;
use projector::{Checkpoint, Copies, Dropped, Live, Projector as _, SinkError, Sums};
use serde::{Deserialize, Serialize};

use crate::error::DatasetError;
use crate::projection::{Change, SessionsProjector};
use crate::schema::Table;
use crate::sink::SessionsSink;
use crate::substrate::{Caches, Substrate};
use crate::{VERSION, locks, maintain, substrate, sums};

const LIVE: &str = "live";
const STATE: &str = "state.json";
const RETIRED: &str = "retired";
const READERS: &str = "readers";
/// Locked by the one who feeds a copy.
pub(crate) const FEEDER: &str = "feeder";
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
    /// Tables that were made, by house and name: one that is gone is missed.
    #[serde(default)]
    made: BTreeSet<String>,
    /// Of a copy that is being built, or of the past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// Since when the machine had been running. Rows beyond the checkpoint of an earlier run were never synced.
    #[serde(default)]
    boot: String,
}

impl State {
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { cursor: Cursor { next: self.next, digest: self.digest }, records: self.records, time: self.time }
    }

    pub fn with_tables(mut self, tables: BTreeSet<String>) -> Self {
        self.made.extend(tables);
        self
    }

    pub fn stopped(self, why: Option<&str>) -> Self {
        Self { stopped: why.map(str::to_owned), ..self }
    }

    pub fn at(self, checkpoint: &Checkpoint) -> Self {
        let Checkpoint { cursor: Cursor { next, digest }, records, time } = *checkpoint;
        Self { next, digest, records, time, boot: boot(), ..self }
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

/// Changes with every start of the machine; empty where the system does not say.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn name_of(copy: &Path) -> &str {
    copy.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The copy that serves, by name.
fn live_name(directory: &Path) -> Result<Option<String>, DatasetError> {
    let name = locks::read(&directory.join(LIVE))?;
    Ok(name.map(|name| name.trim().to_owned()).filter(|name| version_of(name).is_some()))
}

/// Whether a copy may still be fed: it serves, or it is being built. Every other one was replaced.
pub(crate) fn is_wanted(copy: &Path) -> Result<bool, DatasetError> {
    let directory = copy.parent().unwrap_or(copy);
    Ok(live_name(directory)?.as_deref() == Some(name_of(copy)) || read_state(copy)?.label.is_some())
}

/// A table that was never made is empty; one that was made and is not there is gone.
pub(crate) fn missed(substrate: &Substrate, house: &HouseId, table: Table) -> Result<(), DatasetError> {
    if read_state(substrate.directory())?.made.contains(&substrate::name(house, table)) {
        return Err(DatasetError::Damaged(format!("the {} of house {house} are gone", table.name())));
    }
    Ok(())
}

/// A copy as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyInfo {
    pub name: String,
    pub version: u32,
    /// `live`, `building`, or `retired` until nobody reads it any more.
    pub state: &'static str,
    pub label: String,
    pub position: u64,
    pub records: u64,
    pub stopped: Option<String>,
}

/// While it is there the live copy stands still, and no other becomes the live one.
#[derive(Debug)]
pub struct Hold {
    _alone: File,
    _commit: Option<File>,
}

fn version_of(name: &str) -> Option<(u32, u64)> {
    let (version, number) = name.strip_prefix('v')?.split_once('_')?;
    Some((version.parse().ok()?, number.parse().ok()?))
}

impl Datasets {
    /// Copies under `directory`, which is made if need be. What is said is nobody else's business.
    pub fn open(directory: &Path, log: Log) -> Result<Self, DatasetError> {
        let made = std::fs::create_dir_all(directory);
        let closed = made.and_then(|()| std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700)));
        closed.map_err(|error| DatasetError::io(directory, &error))?;
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
        live_name(&self.directory)
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
    pub fn checkpoint(&self) -> Result<Checkpoint, DatasetError> {
        let serving = self.serving()?;
        serving.map_or(Ok(Checkpoint::default()), |substrate| Ok(read_state(substrate.directory())?.checkpoint()))
    }

    /// Every copy there is.
    pub fn copies(&self) -> Result<Vec<CopyInfo>, DatasetError> {
        let live = self.live_name()?;
        let info = |name: String| {
            let state = read_state(&self.directory.join(&name))?;
            let serves = live.as_ref() == Some(&name);
            Ok(CopyInfo {
                version: version_of(&name).map_or(0, |(version, _)| version),
                name: format!("{}_{name}", SessionsProjector::NAME),
                state: match &state.label {
                    _ if serves => LIVE,
                    Some(_) => "building",
                    None => RETIRED,
                },
                position: state.checkpoint().position(),
                records: state.records,
                stopped: state.stopped,
                label: state.label.unwrap_or_default(),
            })
        };
        self.names()?.into_iter().map(info).collect()
    }

    /// Drops a copy that does not serve, by the name that [`Datasets::copies`] gives it.
    pub async fn drop_copy(&self, name: &str) -> Result<Dropped, DatasetError> {
        let _alone = self.arranging().await?;
        let name = name.strip_prefix(SessionsProjector::NAME).and_then(|rest| rest.strip_prefix('_')).unwrap_or_default();
        if !self.names()?.iter().any(|known| known == name) {
            return Ok(Dropped::Unknown);
        }
        if self.live_name()?.as_deref() == Some(name) {
            return Ok(Dropped::Live);
        }
        let copy = self.directory.join(name);
        let (unfed, unread) = (locks::try_lock(&copy.join(FEEDER))?, locks::try_lock(&copy.join(READERS))?);
        if unfed.is_none() || unread.is_none() {
            return Ok(Dropped::Busy);
        }
        std::fs::remove_dir_all(&copy).map_err(|error| DatasetError::io(&copy, &error))?;
        Ok(Dropped::Gone)
    }

    fn sink(&self, directory: PathBuf) -> SessionsSink {
        let serving = self.serving.lock().clone().filter(|substrate| substrate.directory() == directory);
        let substrate = serving.unwrap_or_else(|| Arc::new(Substrate::new(directory, self.caches.clone())));
        SessionsSink::new(substrate, self.log.clone())
    }

    /// A number is never given twice: what is remembered of a copy is remembered by its name.
    fn make(&self, label: Option<&str>) -> Result<PathBuf, DatasetError> {
        let names = self.names()?.into_iter().chain(self.live_name()?);
        let highest = names.filter_map(|name| version_of(&name)).map(|(_, number)| number).max();
        let directory = self.directory.join(format!("v{VERSION}_{}", highest.unwrap_or_default() + 1));
        std::fs::create_dir(&directory).map_err(|error| DatasetError::io(&directory, &error))?;
        write_state(&directory, &State { label: label.map(str::to_owned), ..State::default() })?;
        Ok(directory)
    }

    /// Removes copies that were replaced a while ago and that nobody reads. Whether some are left that have to wait.
    fn tidy(&self) -> Result<bool, DatasetError> {
        let live = self.live_name()?;
        let mut waiting = false;
        for name in self.names()?.into_iter().filter(|name| live.as_ref() != Some(name)) {
            let copy = self.directory.join(name);
            if read_state(&copy).is_ok_and(|state| state.label.is_some()) {
                continue;
            }
            let marker = copy.join(RETIRED);
            match marker.metadata().and_then(|file| file.modified()) {
                Err(_) => {
                    locks::write(&marker, "")?;
                    waiting = true;
                }
                Ok(since) if since.elapsed().is_ok_and(|since| since > KEPT) => {
                    let unread = locks::try_lock(&copy.join(READERS))?;
                    waiting |= unread.is_none();
                    if unread.is_some() {
                        std::fs::remove_dir_all(&copy).map_err(|error| DatasetError::io(&copy, &error))?;
                    }
                }
                Ok(_) => waiting = true,
            }
        }
        Ok(waiting)
    }

    /// Comes back for what has to wait.
    fn tidy_up(&self) -> Result<(), DatasetError> {
        if self.tidy()? {
            let datasets = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(KEPT + Duration::from_secs(1)).await;
                if let (Ok(_alone), Err(error)) = (datasets.arranging().await, datasets.tidy()) {
                    tracing::warn!(%error, "a copy of the datasets that was replaced could not be removed");
                }
            });
        }
        Ok(())
    }

    /// Whether the tables can be read, and, if the machine was started since, hold nothing that was never synced.
    async fn is_sound(&self, directory: &Path) -> Result<bool, DatasetError> {
        let Ok(state) = read_state(directory) else { return Ok(false) };
        let restarted = !state.boot.is_empty() && state.boot != boot();
        let substrate = Substrate::new(directory.to_owned(), self.caches.clone());
        if let Some(table) = state.made.difference(&substrate.tables()?).next() {
            tracing::warn!(table, "a dataset is gone");
            return Ok(false);
        }
        for house in substrate.houses()? {
            for table in Table::ALL {
                match substrate.table(&house, table).await {
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(%error, %house, table = table.name(), "a dataset cannot be read");
                        return Ok(false);
                    }
                }
                if restarted && maintain::mark(&substrate, &house, table).await? > state.checkpoint().position() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
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
        self.tidy_up()?;
        let name = match self.live_name()? {
            Some(name) => name,
            None => {
                let made = self.make(None)?;
                locks::write(&self.directory.join(LIVE), name_of(&made))?;
                name_of(&made).to_owned()
            }
        };
        let version = version_of(&name).map_or(0, |(version, _)| version);
        let directory = self.directory.join(&name);
        if version != VERSION {
            return Ok(Live::Outdated { version });
        }
        if !self.is_sound(&directory).await? {
            return Ok(Live::Outdated { version: 0 });
        }
        self.serving()?;
        Ok(Live::Current(self.sink(directory)))
    }

    async fn beside(&self, label: &str) -> Result<SessionsSink, SinkError> {
        let _alone = self.arranging().await?;
        self.tidy_up()?;
        let live = self.live_name()?;
        for name in self.names()?.into_iter().rev().filter(|name| live.as_ref() != Some(name)) {
            let directory = self.directory.join(&name);
            let ours = version_of(&name).is_some_and(|(version, _)| version == VERSION);
            if ours && read_state(&directory).is_ok_and(|state| state.label.as_deref() == Some(label)) {
                return Ok(self.sink(directory));
            }
        }
        Ok(self.sink(self.make(Some(label))?))
    }

    async fn hold(&self) -> Result<(Hold, Checkpoint), SinkError> {
        let alone = self.arranging().await?;
        let Some(name) = self.live_name()? else { return Ok((Hold { _alone: alone, _commit: None }, Checkpoint::default())) };
        let live = self.directory.join(name);
        let there = std::fs::exists(&live).map_err(|error| DatasetError::io(&live, &error))?;
        let commit = if there { Some(locks::lock(&live.join("commit")).await?) } else { None };
        let at = read_state(&live).map(|state| state.checkpoint()).unwrap_or_default();
        Ok((Hold { _alone: alone, _commit: commit }, at))
    }

    /// From the first of the two writes on the copy serves, and the one before is not wanted any more.
    async fn swap(&self, _hold: Hold, copy: &mut SessionsSink) -> Result<(), SinkError> {
        let directory = copy.substrate.directory();
        locks::write(&self.directory.join(LIVE), name_of(directory))?;
        write_state(directory, &State { label: None, ..copy.state()? })?;
        self.tidy_up()?;
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
        let _reading = locks::lock_shared(&substrate.directory().join(READERS))?;
        let (at, tables) = {
            let _standing = locks::lock(&substrate.directory().join("commit")).await?;
            let tables = sums::tables(&substrate).await.map_err(DatasetError::in_what_was_written)?;
            (read_state(substrate.directory())?.checkpoint(), tables)
        };
        Ok(Some((at, sums::of(tables, at.position()).await.map_err(DatasetError::in_what_was_written)?)))
    }
}
