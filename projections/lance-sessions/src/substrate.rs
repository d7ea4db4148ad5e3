//! How Lance is used, whatever the rows are. There is one way to find a dataset, one to read it and one to write it. Lance's futures are
//! boxed here and in `maintain` and `sums`: as parts of ours they are more than the compiler can look through.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{RecordBatch, RecordBatchIterator};
use arrow::datatypes::{Field, Schema};
use events::HouseId;
use futures::future::BoxFuture;
use lance::dataset::builder::DatasetBuilder;
use lance::dataset::scanner::Scanner;
use lance::dataset::transaction::{Operation, TransactionBuilder};
use lance::dataset::write::merge_insert::SourceDedupeBehavior;
use lance::dataset::{
    CommitBuilder, InsertBuilder, MergeInsertBuilder, MergeInsertWriteMode, NewColumnTransform, WhenMatched, WhenNotMatched,
    WriteMode, WriteParams,
};
use lance::deps::datafusion::arrow;
use lance::session::Session;
use lance::{Dataset, Error};
use parking_lot::Mutex;
use projector::Folder;
use tokio::time::Instant;

use crate::about::Means;
use crate::coverage::Counted;
use crate::error::DatasetError;
use crate::schema::Table;
use crate::vectors::Making;

/// Lance would take seven GiB.
const INDEX_CACHE: usize = 64 << 20;
const METADATA_CACHE: usize = 64 << 20;
const HOUSES: &str = "houses";
const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// What everything in a process shares: Lance's caches, and what makes vectors.
#[derive(Clone, Debug)]
pub(crate) struct Caches {
    session: Arc<Session>,
    pub making: Making,
}

impl Default for Caches {
    fn default() -> Self {
        Self { session: Arc::new(Session::new(INDEX_CACHE, METADATA_CACHE, Arc::default())), making: Making::default() }
    }
}

/// The tables of all houses in one directory.
#[derive(Debug)]
pub(crate) struct Substrate {
    folder: Folder,
    caches: Caches,
    open: Mutex<HashMap<(HouseId, Table), Dataset>>,
    pub counted: Counted,
    pub means: Means,
    pub looked_at: Mutex<HashMap<HouseId, LookedAt>>,
}

/// When it was looked last what is due of the vectors of messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LookedAt {
    Version(u64),
    /// Then it failed.
    Failed(Instant),
}

impl Substrate {
    pub fn new(folder: Folder, caches: Caches) -> Self {
        Self {
            folder,
            caches,
            open: Mutex::default(),
            counted: Counted::default(),
            means: Means::default(),
            looked_at: Mutex::default(),
        }
    }

    /// The copy that the tables are.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    pub fn directory(&self) -> &Path {
        self.folder.path()
    }

    pub fn making(&self) -> &Making {
        &self.caches.making
    }

    /// `lance-chokepoints-catalog`: where a table is.
    fn locate(&self, house: &HouseId, table: Table) -> String {
        format!("{}/{HOUSES}/{house}/{}.lance", self.directory().display(), table.name())
    }

    /// The houses that have tables.
    pub fn houses(&self) -> Result<Vec<HouseId>, DatasetError> {
        let directory = self.directory().join(HOUSES);
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
            match DatasetBuilder::from_uri(&uri).with_session(self.caches.session.clone()).load().await {
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

    /// `lance-chokepoints-write`: rows are added, never changed but for what is derived. One feeder at a time writes a copy, and it knows from the table what
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
            session: Some(self.caches.session.clone()),
            auto_cleanup: None,
            skip_auto_cleanup: true,
            ..WriteParams::default()
        };
        let dataset = match self.table(house, table).await? {
            Some(dataset) => dataset,
            None => {
                let uri = self.locate(house, table);
                let nothing = || RecordBatchIterator::new(std::iter::empty(), rows.schema());
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

    /// Writes columns of rows that are there, found by their keys, where `condition` holds; adds none. How many were written.
    ///
    /// The keys are looked for in the whole table and not in their indexes: with those Lance would take another way, on which it does
    /// not do as it is told here.
    pub fn amend<'a>(
        &'a self,
        house: &'a HouseId,
        table: Table,
        rows: RecordBatch,
        condition: &'a str,
        how: Amend,
    ) -> BoxFuture<'a, Result<(Option<Dataset>, u64), DatasetError>> {
        Box::pin(self.rewrite(house, table, rows, condition, how))
    }

    async fn rewrite(
        &self,
        house: &HouseId,
        table: Table,
        rows: RecordBatch,
        condition: &str,
        how: Amend,
    ) -> Result<(Option<Dataset>, u64), DatasetError> {
        let mode = match how {
            Amend::Rows => MergeInsertWriteMode::RewriteRows,
            Amend::Columns => MergeInsertWriteMode::RewriteColumns,
        };
        let Some(dataset) = self.table(house, table).await? else { return Ok((None, 0)) };
        let dataset = Arc::new(dataset);
        let amended = retrying_if(contended, || async {
            let mut merge = MergeInsertBuilder::try_new(dataset.clone(), Vec::new())?;
            merge.when_matched(WhenMatched::update_if(&dataset, condition)?).when_not_matched(WhenNotMatched::DoNothing);
            merge.write_mode(mode).use_index(false).skip_auto_cleanup(true);
            merge.source_dedupe_behavior(SourceDedupeBehavior::FirstSeen);
            Box::pin(merge.try_build()?.execute_batches(vec![rows.clone()])).await
        });
        let (amended, stats) = amended.await?;
        let amended = Arc::unwrap_or_clone(amended);
        self.open.lock().insert((house.clone(), table), amended.clone());
        Ok((Some(amended), stats.num_updated_rows))
    }

    /// Puts empty columns in the place of those with the same names, whatever type these are of. The rows are not touched.
    ///
    /// In two steps, of which the second is one commit: a table always has the columns, and what the first left when it was
    /// interrupted is removed.
    pub fn empty<'a>(
        &'a self,
        house: &'a HouseId,
        table: Table,
        columns: &'a [Field],
    ) -> BoxFuture<'a, Result<(), DatasetError>> {
        Box::pin(self.replace(house, table, columns))
    }

    async fn replace(&self, house: &HouseId, table: Table, columns: &[Field]) -> Result<(), DatasetError> {
        let fault = |error: Error| told(error, 1);
        let Some(mut dataset) = self.table(house, table).await? else { return Ok(()) };
        let new = |name: &str| format!("new_{name}");
        let left: Vec<_> = columns.iter().map(|it| new(it.name())).filter(|it| dataset.schema().field(it).is_some()).collect();
        if !left.is_empty() {
            let left: Vec<_> = left.iter().map(String::as_str).collect();
            dataset.drop_columns(&left).await.map_err(fault)?;
        }
        let fields: Vec<_> = columns.iter().map(|it| it.clone().with_name(new(it.name()))).collect();
        let nothing = NewColumnTransform::AllNulls(Arc::new(Schema::new(fields)));
        dataset.add_columns(nothing, None, None).await.map_err(fault)?;
        let mut schema = dataset.schema().clone();
        for column in columns {
            let at = schema.fields.iter().position(|it| it.name == new(column.name()));
            let mut field =
                schema.fields.remove(at.ok_or_else(|| DatasetError::Damaged(format!("there is no new {}", column.name())))?);
            field.name = column.name().clone();
            match schema.fields.iter().position(|it| it.name == field.name) {
                Some(old) => schema.fields[old] = field,
                None => schema.fields.push(field),
            }
        }
        let project = Operation::Project { schema, preserves_nullability: true };
        let transaction = TransactionBuilder::new(dataset.version_id(), project).build();
        let done = CommitBuilder::new(Arc::new(dataset)).execute(transaction).await.map_err(fault)?;
        self.open.lock().insert((house.clone(), table), done);
        Ok(())
    }
}

/// How columns of rows that are there are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amend {
    /// The rows whole, beside the others: for few of many.
    Rows,
    /// The columns of all rows of the fragments that hold them: for many.
    Columns,
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
    if contended(&error) {
        DatasetError::Conflict { attempts }
    } else if matches!(error, Error::CorruptFile { .. }) {
        DatasetError::Damaged(error.to_string())
    } else {
        DatasetError::Unavailable(error.to_string())
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
