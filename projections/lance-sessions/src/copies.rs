//! The copies of the datasets, each in a directory of its own.

use std::path::Path;
use std::sync::Arc;

use event_log::Log;
use events::HouseId;
use projector::{Checkpoint, Copies, Dropped, Folder, Folders, Live, Projector as _, SinkError, Sums};
pub use projector::{CopyInfo, FolderHold as Hold};

use crate::error::DatasetError;
use crate::projection::{Change, SessionsProjector};
use crate::schema::Table;
use crate::sink::SessionsSink;
use crate::substrate::{Caches, Substrate};
use crate::{VERSION, maintain, substrate, sums};

/// All copies of the datasets.
#[derive(Clone, Debug)]
pub struct Datasets {
    folders: Folders,
    log: Log,
    pub(crate) caches: Caches,
    serving: Arc<parking_lot::Mutex<Option<Arc<Substrate>>>>,
}

/// A table that was never made is empty; one that was made and is not there is gone.
pub(crate) fn missed(substrate: &Substrate, house: &HouseId, table: Table) -> Result<(), DatasetError> {
    if substrate.folder().state()?.made().contains(&substrate::name(house, table)) {
        return Err(DatasetError::Damaged(format!("the {} of house {house} are gone", table.name())));
    }
    Ok(())
}

impl Datasets {
    /// Copies under `directory`, which is made if need be.
    pub fn open(directory: &Path, log: Log) -> Result<Self, DatasetError> {
        let folders = Folders::open(directory, SessionsProjector::NAME, VERSION)?;
        Ok(Self { folders, log, caches: Caches::default(), serving: Arc::default() })
    }

    #[must_use]
    pub fn directory(&self) -> &Path {
        self.folders.directory()
    }

    /// The tables that serve now. `None`: nothing was ever projected.
    pub(crate) fn serving(&self) -> Result<Option<Arc<Substrate>>, DatasetError> {
        let Some(folder) = self.folders.serving()? else { return Ok(None) };
        let mut serving = self.serving.lock();
        if serving.as_ref().is_none_or(|substrate| *substrate.folder() != folder) {
            *serving = Some(Arc::new(Substrate::new(folder, self.caches.clone())));
        }
        Ok(serving.clone())
    }

    /// How far the copy that serves has come.
    pub fn checkpoint(&self) -> Result<Checkpoint, DatasetError> {
        Ok(self.folders.checkpoint()?)
    }

    /// Every copy there is.
    pub fn copies(&self) -> Result<Vec<CopyInfo>, DatasetError> {
        Ok(self.folders.copies()?)
    }

    /// Drops a copy that does not serve, by the name that [`Datasets::copies`] gives it.
    pub async fn drop_copy(&self, name: &str) -> Result<Dropped, DatasetError> {
        Ok(self.folders.drop_copy(name).await?)
    }

    fn sink(&self, folder: Folder, beside: bool) -> SessionsSink {
        let serving = self.serving.lock().clone().filter(|substrate| *substrate.folder() == folder);
        let substrate = serving.unwrap_or_else(|| Arc::new(Substrate::new(folder, self.caches.clone())));
        SessionsSink::new(substrate, self.log.clone(), beside)
    }

    /// Whether the tables can be read, and, if the machine was started since, hold nothing that was never synced.
    async fn is_sound(&self, folder: &Folder) -> Result<bool, DatasetError> {
        let Ok(state) = folder.state() else { return Ok(false) };
        let restarted = state.is_of_an_earlier_run();
        let substrate = Substrate::new(folder.clone(), self.caches.clone());
        if let Some(table) = state.made().difference(&substrate.tables()?).next() {
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
}

impl Copies<Change> for Datasets {
    type Sink = SessionsSink;
    type Hold = Hold;

    async fn live(&self) -> Result<Live<SessionsSink>, SinkError> {
        let (live, _alone) = self.folders.live().await?;
        let folder = match live {
            Live::Current(folder) => folder,
            Live::Outdated { version } => return Ok(Live::Outdated { version }),
        };
        if !self.is_sound(&folder).await? {
            return Ok(Live::Outdated { version: 0 });
        }
        self.serving()?;
        Ok(Live::Current(self.sink(folder, false)))
    }

    async fn beside(&self, label: &str) -> Result<SessionsSink, SinkError> {
        Ok(self.sink(self.folders.beside(label).await?, true))
    }

    async fn hold(&self) -> Result<(Hold, Checkpoint), SinkError> {
        Ok(self.folders.hold().await?)
    }

    async fn swap(&self, hold: Hold, copy: &mut SessionsSink) -> Result<(), SinkError> {
        Ok(self.folders.swap(hold, copy.substrate.folder())?)
    }

    fn address(&self, copy: &SessionsSink) -> String {
        copy.substrate.directory().display().to_string()
    }

    async fn discard(&self, copy: SessionsSink) -> Result<(), SinkError> {
        Ok(self.folders.discard(copy.substrate.folder()).await?)
    }

    async fn sums(&self, copy: &mut SessionsSink) -> Result<Sums, SinkError> {
        let tables = sums::tables(&copy.substrate).await?;
        Ok(sums::of(tables, copy.substrate.folder().checkpoint()?.position()).await?)
    }

    async fn live_sums(&self) -> Result<Option<(Checkpoint, Sums)>, SinkError> {
        let Some(substrate) = self.serving()? else { return Ok(None) };
        let _reading = substrate.folder().reading()?;
        let (at, tables) = {
            let _standing = substrate.folder().stand_still().await?;
            let tables = sums::tables(&substrate).await.map_err(DatasetError::in_what_was_written)?;
            (substrate.folder().checkpoint()?, tables)
        };
        Ok(Some((at, sums::of(tables, at.position()).await.map_err(DatasetError::in_what_was_written)?)))
    }
}
