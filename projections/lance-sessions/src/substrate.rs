//! How Lance is used, whatever the rows are. There is one way to find a dataset, one to read it and one to write it. Lance's futures are
//! boxed here and in `maintain` and `sums`: as parts of ours they are more than the compiler can look through.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{RecordBatch, RecordBatchIterator};
use events::HouseId;
use futures::future::BoxFuture;
use lance::dataset::builder::DatasetBuilder;
use lance::dataset::scanner::Scanner;
use lance::dataset::{InsertBuilder, WriteMode, WriteParams};
use lance::deps::datafusion::arrow;
use lance::session::Session;
use lance::{Dataset, Error};
use parking_lot::Mutex;

use crate::error::DatasetError;
use crate::schema::Table;

/// Lance would take seven GiB.
const INDEX_CACHE: usize = 64 << 20;
const METADATA_CACHE: usize = 64 << 20;
const HOUSES: &str = "houses";
const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// The caches, one for everything in a process.
#[derive(Clone, Debug)]
pub(crate) struct Caches(Arc<Session>);

impl Default for Caches {
    fn default() -> Self {
        Self(Arc::new(Session::new(INDEX_CACHE, METADATA_CACHE, Arc::default())))
    }
}

/// The tables of all houses in one directory.
#[derive(Debug)]
pub(crate) struct Substrate {
    directory: PathBuf,
    caches: Caches,
    open: Mutex<HashMap<(HouseId, Table), Dataset>>,
}

impl Substrate {
    pub fn new(directory: PathBuf, caches: Caches) -> Self {
        Self { directory, caches, open: Mutex::default() }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// `lance-chokepoints-catalog`: where a table is.
    fn locate(&self, house: &HouseId, table: Table) -> String {
        format!("{}/{HOUSES}/{house}/{}.lance", self.directory.display(), table.name())
    }

    /// The houses that have tables.
    pub fn houses(&self) -> Result<Vec<HouseId>, DatasetError> {
        let directory = self.directory.join(HOUSES);
        let fault = |error: std::io::Error| DatasetError::io(&directory, &error);
        let mut houses = Vec::new();
        if !std::fs::exists(&directory).map_err(fault)? {
            return Ok(houses);
        }
        for entry in std::fs::read_dir(&directory).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            if entry.file_type().map_err(fault)?.is_dir() {
                houses.extend(entry.file_name().to_str().and_then(|name| HouseId::new(name).ok()));
            }
        }
        houses.sort();
        Ok(houses)
    }

    pub fn is_there(&self, house: &HouseId, table: Table) -> Result<bool, DatasetError> {
        let versions = Path::new(&self.locate(house, table)).join("_versions");
        std::fs::exists(&versions).map_err(|error| DatasetError::io(&versions, &error))
    }

    /// The tables there are, by house and name.
    pub fn tables(&self) -> Result<BTreeSet<String>, DatasetError> {
        let mut tables = BTreeSet::new();
        for house in self.houses()? {
            for table in Table::ALL {
                if self.is_there(&house, table)? {
                    tables.insert(name(&house, table));
                }
            }
        }
        Ok(tables)
    }

    /// The table as it is now. `None`: it was never written.
    ///
    /// `lance-handle-freshness`: the window on local files is zero.
    pub fn table<'a>(&'a self, house: &'a HouseId, table: Table) -> BoxFuture<'a, Result<Option<Dataset>, DatasetError>> {
        Box::pin(self.open_table(house, table))
    }

    async fn open_table(&self, house: &HouseId, table: Table) -> Result<Option<Dataset>, DatasetError> {
        let at = (house.clone(), table);
        let known = self.open.lock().get(&at).cloned();
        let uri = self.locate(house, table);
        let fresh = retrying(|| async {
            if let Some(mut dataset) = known.clone() {
                dataset.checkout_latest().await?;
                return Ok(Some(dataset));
            }
            match DatasetBuilder::from_uri(&uri).with_session(self.caches.0.clone()).load().await {
                Ok(dataset) => Ok(Some(dataset)),
                Err(Error::DatasetNotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let fresh = fresh.await?;
        if let Some(dataset) = &fresh {
            self.open.lock().insert(at, dataset.clone());
        }
        Ok(fresh)
    }

    /// `lance-chokepoints-read`: every scan begins here.
    pub async fn scan(&self, house: &HouseId, table: Table) -> Result<Option<Scanner>, DatasetError> {
        Ok(self.table(house, table).await?.map(|dataset| scan(&dataset)))
    }

    /// `lance-chokepoints-write`: rows are added, never changed. One feeder at a time writes a copy, and it knows from the table what
    /// is there; so nothing is looked up and nothing comes twice.
    pub fn append<'a>(
        &'a self,
        house: &'a HouseId,
        table: Table,
        rows: RecordBatch,
    ) -> BoxFuture<'a, Result<Dataset, DatasetError>> {
        Box::pin(self.add(house, table, rows))
    }

    async fn add(&self, house: &HouseId, table: Table, rows: RecordBatch) -> Result<Dataset, DatasetError> {
        let params = WriteParams {
            mode: WriteMode::Create,
            enable_stable_row_ids: true,
            enable_v2_manifest_paths: true,
            session: Some(self.caches.0.clone()),
            auto_cleanup: None,
            skip_auto_cleanup: true,
            ..WriteParams::default()
        };
        let dataset = match self.table(house, table).await? {
            Some(dataset) => dataset,
            None => {
                let uri = self.locate(house, table);
                let nothing = || RecordBatchIterator::new(std::iter::empty(), table.schema());
                retrying(|| Dataset::write(nothing(), uri.as_str(), Some(params.clone()))).await?
            }
        };
        let params = WriteParams { mode: WriteMode::Append, ..params };
        let dataset = Arc::new(dataset);
        // A commit of which nobody knows whether it happened is not tried again here: whoever feeds next asks the table.
        let written = retrying_if(contended, || async {
            let insert = InsertBuilder::new(dataset.clone()).with_params(&params);
            Box::pin(insert.execute(vec![rows.clone()])).await
        });
        let written = written.await?;
        self.open.lock().insert((house.clone(), table), written.clone());
        Ok(written)
    }
}

/// Part of stored states; never changed.
pub(crate) fn name(house: &HouseId, table: Table) -> String {
    format!("{house} {}", table.name())
}

pub(crate) fn scan(dataset: &Dataset) -> Scanner {
    let mut scanner = dataset.scan();
    scanner.prefilter(true);
    scanner
}

/// `lance-retry-jitter`
pub(crate) async fn retrying<T, F: Future<Output = Result<T, Error>>>(call: impl FnMut() -> F) -> Result<T, DatasetError> {
    retrying_if(transient, call).await
}

async fn retrying_if<T, F: Future<Output = Result<T, Error>>>(
    passes: fn(&Error) -> bool,
    mut call: impl FnMut() -> F,
) -> Result<T, DatasetError> {
    let mut attempts = 0;
    loop {
        let error = match Box::pin(call()).await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        attempts += 1;
        if attempts == ATTEMPTS || !passes(&error) {
            return Err(told(error, attempts));
        }
        let most = FIRST_PAUSE * 2_u32.pow(attempts);
        let random = RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64;
        tokio::time::sleep(most.mul_f64(0.5 + random / 2.0)).await;
    }
}

fn contended(error: &Error) -> bool {
    matches!(error, Error::CommitConflict { .. } | Error::RetryableCommitConflict { .. } | Error::TooMuchWriteContention { .. })
}

fn transient(error: &Error) -> bool {
    contended(error) || matches!(error, Error::IO { .. } | Error::Timeout { .. })
}

pub(crate) fn told(error: Error, attempts: u32) -> DatasetError {
    match error {
        error if contended(&error) => DatasetError::Conflict { attempts },
        Error::CorruptFile { .. } => DatasetError::Damaged(error.to_string()),
        error => DatasetError::Unavailable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_passes_is_tried_again_and_what_does_not_is_told_with_its_attempts() {
        let calls = AtomicU32::new(0);
        let contended = || Error::too_much_write_contention("somebody else");
        let third = retrying(|| async { if calls.fetch_add(1, Ordering::Relaxed) < 2 { Err(contended()) } else { Ok(7) } });
        assert_eq!((third.await.unwrap(), calls.load(Ordering::Relaxed)), (7, 3));
        let never: Result<(), _> = retrying(|| async { Err(contended()) }).await;
        assert!(matches!(never, Err(DatasetError::Conflict { attempts: ATTEMPTS })), "{never:?}");
        calls.store(0, Ordering::Relaxed);
        let wrong: Result<(), _> = retrying(|| async {
            calls.fetch_add(1, Ordering::Relaxed);
            Err(Error::invalid_input("no such column"))
        })
        .await;
        assert!(matches!(wrong, Err(DatasetError::Unavailable(_))) && calls.load(Ordering::Relaxed) == 1, "{wrong:?}");
    }
}
