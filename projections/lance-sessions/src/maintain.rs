//! Keeping tables quick: indexes are folded, small fragments made one, old versions removed, in this order, because fragments that are
//! indexed differently are not made one.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::time::Duration;

use arrow::array::{Array, AsArray};
use arrow::datatypes::UInt64Type;
use chrono::{DateTime, TimeDelta, Utc};
use events::HouseId;
use futures::TryStreamExt;
use futures::future::BoxFuture;
use lance::Dataset;
use lance::dataset::cleanup::CleanupPolicy;
use lance::dataset::optimize::{CompactionOptions, compact_files};
use lance::deps::datafusion::arrow;
use lance::index::DatasetIndexExt;
use lance::index::vector::VectorIndexParams;
use lance::table::format::Fragment;
use lance_index::IndexType;
use lance_index::optimize::OptimizeOptions;
use lance_index::scalar::{BuiltinIndexType, ScalarIndexParams};
use projector::folders::files;
use serde::Serialize;
use tokio::time::Instant;

use crate::copies::{self, Datasets};
use crate::coverage;
use crate::error::DatasetError;
use crate::read::literal;
use crate::schema::{Index, Table};
use crate::substrate::{LookedAt, Substrate, scan, told};
use crate::vectors::{MODEL, VECTOR, width_of};

/// Fragments of fewer rows are made one with others of their tier. Larger ones than the last are never written again,
/// but for messages that are `TOGETHER`.
const TIERS: [usize; 2] = [512, 16_384];
/// Nor are larger files, unless they hold next to nothing.
const LARGE: u64 = 1 << 20;
/// So many of a tier may stand beside each other.
const MANY: usize = 32;
/// With an index of vectors single rows are read from all over a table, and every fragment costs a file or two to be opened: past so many
/// they are made one up to so many rows.
const SCATTERED: usize = 32;
const TOGETHER: usize = 131_072;
/// Past so many, where there is an index and nobody asked: the tiers leave half of them at most, so the others are new rows and not a
/// few that are written again and again with what came since.
const SCATTERED_AGAIN: usize = 2 * SCATTERED;
/// Segments of an index that are looked through one after the other.
const SEGMENTS: usize = 8;
/// Some rows are large; this many of them are held when fragments are made one.
const ROWS_AT_A_TIME: usize = 256;
const READ_AHEAD: u64 = 64 << 20;
/// Rows that an index may lack: to look through them costs less than to write them into it.
const LACKING: u64 = 1_024;
/// One row in so many that it may lack all the same, where whoever embeds looks every few seconds.
const LACKING_ONE_IN: u64 = 64;
/// For each number of a vector; what is found by them is compared exactly.
const BITS: u8 = 3;
/// Vectors that do not come out even are not indexed.
const BITS_OF_A_BYTE: usize = 8;
/// Versions are kept so long after the next came, for readers that are still at them.
const KEPT: TimeDelta = TimeDelta::minutes(10);
/// What failed may take minutes, and whoever embeds looks every few seconds.
const AFTER_A_FAILURE: Duration = Duration::from_secs(600);

/// How much is done for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// What saves more than it costs.
    WhatIsDue,
    /// No row is left that an index does not cover.
    Everything,
}

/// When something is done for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// Rows were written, and more wait.
    Write,
    /// Somebody asked.
    Stage(Upkeep),
}

/// The highest position that a table has rows of.
pub(crate) fn mark<'a>(substrate: &'a Substrate, house: &'a HouseId, table: Table) -> BoxFuture<'a, Result<u64, DatasetError>> {
    Box::pin(highest(substrate, house, table))
}

async fn highest(substrate: &Substrate, house: &HouseId, table: Table) -> Result<u64, DatasetError> {
    let fault = |error: lance::Error| told(error, 1);
    let Some(mut scanner) = substrate.scan(house, table).await? else { return Ok(0) };
    let mut batches = scanner.project(&["position"]).map_err(fault)?.try_into_stream().await.map_err(fault)?;
    let mut highest = 0;
    while let Some(batch) = batches.try_next().await.map_err(fault)? {
        let positions = batch.column(0).as_primitive::<UInt64Type>();
        highest = positions.values().iter().copied().fold(highest, u64::max);
    }
    Ok(highest)
}

/// The rows below which a fragment is made one with others, if more than `MANY` are.
fn due(dataset: &Dataset) -> Option<usize> {
    let rows = |fragment: &Fragment| fragment.physical_rows.unwrap_or_default();
    let is_large = |fragment: &&Fragment| {
        let bytes = fragment.files.iter().filter_map(|file| file.file_size_bytes.get()).map(NonZero::get);
        bytes.sum::<u64>() >= LARGE && rows(fragment) >= TIERS[0]
    };
    let fragments = dataset.fragments();
    let fewest = fragments.iter().filter(is_large).map(rows).min().unwrap_or(usize::MAX);
    let tiers = TIERS.into_iter().map(|tier| tier.min(fewest));
    tiers.into_iter().find(|tier| fragments.iter().filter(|fragment| rows(fragment) < *tier).count() > MANY)
}

fn is_scattered(messages: &Dataset, most: usize) -> bool {
    let small = |fragment: &&Fragment| fragment.physical_rows.unwrap_or_default() < TOGETHER;
    messages.fragments().iter().filter(small).count() > most
}

/// After every write; mostly it does nothing.
pub(crate) async fn routine(substrate: &Substrate, dataset: Dataset, table: Table) {
    if due(&dataset).is_none() {
        return;
    }
    if let Err(error) = upkeep(substrate, dataset, table, Occasion::Write).await {
        tracing::warn!(%error, table = table.name(), "upkeep of a dataset failed");
    }
}

/// After vectors were written, by whomever: makes what is due of their index, and says so before. Who searches and who feeds does not wait
/// for it.
pub(crate) async fn after_vectors(substrate: &Substrate, house: &HouseId, begins: impl FnOnce()) {
    if let Some(LookedAt::Failed(when)) = substrate.looked_at.lock().get(house)
        && when.elapsed() < AFTER_A_FAILURE
    {
        return;
    }
    if let Err(error) = Box::pin(keep_vectors(substrate, house, begins)).await {
        substrate.looked_at.lock().insert(house.clone(), LookedAt::Failed(Instant::now()));
        tracing::warn!(%error, %house, "upkeep of vectors failed; trying again in a while");
    }
}

async fn keep_vectors(substrate: &Substrate, house: &HouseId, begins: impl FnOnce()) -> Result<(), DatasetError> {
    let Some(messages) = substrate.table(house, Table::Messages).await? else { return Ok(()) };
    let looked_at = substrate.looked_at.lock().insert(house.clone(), LookedAt::Version(messages.version_id()));
    let known = matches!(looked_at, Some(LookedAt::Version(version)) if version == messages.version_id());
    if known || !is_behind(substrate, house, &messages).await? {
        return Ok(());
    }
    begins();
    upkeep(substrate, messages, Table::Messages, Occasion::Stage(Upkeep::WhatIsDue)).await
}

/// Whether messages lack an index that they are to have, or it lacks many of them. Counts what [`is_for_an_index`] reads.
async fn is_behind(substrate: &Substrate, house: &HouseId, messages: &Dataset) -> Result<bool, DatasetError> {
    let fault = |error: lance::Error| told(error, 1);
    let rows = messages.count_rows(None).await.map_err(fault)? as u64;
    if lacking(messages, Table::Messages).await.map_err(fault)? >= LACKING.max(rows / LACKING_ONE_IN) {
        return Ok(true);
    }
    if segments(messages).await.map_err(fault)?.contains_key(&index_name(VECTOR)) {
        return Ok(is_scattered(messages, SCATTERED_AGAIN));
    }
    let from = substrate.making().indexed_from;
    if rows < from || !width_of(messages)?.is_multiple_of(BITS_OF_A_BYTE) {
        return Ok(false);
    }
    let counts = coverage::sum(&coverage::of_fragments(substrate, house, messages).await?);
    Ok(counts.models.len() == 1 && counts.models.values().all(|marks| marks.vectors >= from))
}

fn upkeep(substrate: &Substrate, dataset: Dataset, table: Table, why: Occasion) -> BoxFuture<'_, Result<(), DatasetError>> {
    Box::pin(keep_up(substrate, dataset, table, why))
}

async fn keep_up(substrate: &Substrate, mut dataset: Dataset, table: Table, why: Occasion) -> Result<(), DatasetError> {
    let fault = |error: lance::Error| told(error, 1);
    let before = dataset.version_id();
    let everything = why == Occasion::Stage(Upkeep::Everything);
    if everything || due(&dataset).is_some() || lacking(&dataset, table).await.map_err(fault)? >= LACKING {
        fold(&mut dataset, table).await.map_err(fault)?;
    }
    while let Some(rows) = due(&dataset) {
        let fragments = dataset.count_fragments();
        make_one(&mut dataset, rows).await.map_err(fault)?;
        if dataset.count_fragments() == fragments {
            break;
        }
    }
    let indexed_from = substrate.making().indexed_from;
    if table == Table::Messages && why != Occasion::Write && is_for_an_index(&dataset, indexed_from).await.map_err(fault)? {
        let indexed = segments(&dataset).await.map_err(fault)?.contains_key(&index_name(VECTOR));
        // It may take longer than versions are kept.
        let _reading = substrate.folder().reading()?;
        if is_scattered(&dataset, if indexed && !everything { SCATTERED_AGAIN } else { SCATTERED }) {
            make_one(&mut dataset, TOGETHER).await.map_err(fault)?;
        }
        index_vectors(&mut dataset, substrate.making().rows_of_a_part).await.map_err(fault)?;
    }
    if dataset.version_id() != before {
        files::sync_all(substrate.directory()).await?;
        remove_old_versions(substrate, &dataset).await?;
    }
    Ok(())
}

/// When what replaces them is on the disk, and nobody reads for long.
async fn remove_old_versions(substrate: &Substrate, dataset: &Dataset) -> Result<(), DatasetError> {
    if substrate.folder().unread()?.is_none() {
        return Ok(());
    }
    // One cannot be read if another process removes it at the same time.
    let Ok(versions) = dataset.versions().await else { return Ok(()) };
    let times: Vec<_> = versions.iter().map(|it| (it.version, it.timestamp)).collect();
    // The latest has just been written.
    let Some(kept) = oldest_kept(&times, dataset.version().timestamp - KEPT) else { return Ok(()) };
    let policy = CleanupPolicy { before_version: Some(kept), error_if_tagged_old_versions: false, ..CleanupPolicy::default() };
    dataset.cleanup_with_policy(policy).await.map_err(|error| told(error, 1))?;
    Ok(())
}

/// The version that was the latest at a moment: in a quiet house it may be old, and was read until the next came all the same.
fn oldest_kept(versions: &[(u64, DateTime<Utc>)], at: DateTime<Utc>) -> Option<u64> {
    versions.iter().filter(|(_, since)| *since <= at).map(|(version, _)| *version).max()
}

/// Fragments of fewer rows, where they stand beside each other.
async fn make_one(dataset: &mut Dataset, rows: usize) -> Result<(), lance::Error> {
    let options = CompactionOptions {
        target_rows_per_fragment: rows,
        num_threads: Some(1),
        batch_size: Some(ROWS_AT_A_TIME),
        io_buffer_size: Some(READ_AHEAD),
        ..CompactionOptions::default()
    };
    compact_files(dataset, options, None).await.map(drop)
}

fn index_name(column: &str) -> String {
    format!("{column}_idx")
}

/// Of every index how many segments it has, and how many fragments they cover.
async fn segments(dataset: &Dataset) -> Result<BTreeMap<String, (usize, u64)>, lance::Error> {
    let mut segments: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for index in dataset.load_indices().await?.iter() {
        let known = segments.entry(index.name.clone()).or_default();
        known.0 += 1;
        // One of which every row was written anew is gone, and the index still names it.
        let live = |fragments: &_| dataset.fragment_bitmap().intersection_len(fragments);
        known.1 += index.fragment_bitmap.as_ref().map_or(0, live);
    }
    Ok(segments)
}

/// `lance-index-maintenance`: an index that is behind is complete all the same, only slower.
async fn fold(dataset: &mut Dataset, table: Table) -> Result<(), lance::Error> {
    let segments = segments(dataset).await?;
    for (column, kind) in table.indexes() {
        let name = index_name(column);
        match segments.get(&name) {
            None => {
                let (builtin, kind) = match kind {
                    Index::Tree => (BuiltinIndexType::BTree, IndexType::BTree),
                    Index::Bitmap => (BuiltinIndexType::Bitmap, IndexType::Bitmap),
                };
                let params = ScalarIndexParams::for_builtin(builtin);
                dataset.create_index(&[column], kind, Some(name), &params, true).await?;
            }
            Some(pieces) => catch_up(dataset, name, *pieces).await?,
        }
    }
    let name = index_name(VECTOR);
    match segments.get(&name) {
        Some(_) if !are_of_one_model(dataset).await? => dataset.drop_index(&name).await,
        Some(pieces) => catch_up(dataset, name, *pieces).await,
        None => Ok(()),
    }
}

async fn catch_up(dataset: &mut Dataset, name: String, (pieces, covered): (usize, u64)) -> Result<(), lance::Error> {
    if covered >= dataset.count_fragments() as u64 {
        return Ok(());
    }
    let fold = if pieces >= SEGMENTS { OptimizeOptions::merge(pieces) } else { OptimizeOptions::append() };
    dataset.optimize_indices(&fold.index_names(vec![name])).await
}

/// Whether there is an index of vectors, or are enough vectors for one. Its centres are in the space of one model, so there is none of
/// vectors of several.
async fn is_for_an_index(messages: &Dataset, from: u64) -> Result<bool, lance::Error> {
    if segments(messages).await?.contains_key(&index_name(VECTOR)) {
        return Ok(true);
    }
    if (messages.count_rows(None).await? as u64) < from {
        return Ok(false);
    }
    let vectors = count_vectors(messages).await?;
    let can_be = vectors > 0 && width_of(messages).is_ok_and(|width| width.is_multiple_of(BITS_OF_A_BYTE));
    Ok(can_be && vectors as u64 >= from && are_of_one_model(messages).await?)
}

async fn count_vectors(messages: &Dataset) -> Result<usize, lance::Error> {
    messages.count_rows(Some(format!("{VECTOR} is not null"))).await
}

/// Takes a while; it is folded like the others.
async fn index_vectors(messages: &mut Dataset, rows_of_a_part: u64) -> Result<(), lance::Error> {
    let name = index_name(VECTOR);
    if segments(messages).await?.contains_key(&name) {
        return Ok(());
    }
    let parts = (count_vectors(messages).await? as u64 / rows_of_a_part).max(1) as usize;
    let params = VectorIndexParams::ivf_rq(parts, BITS, "cosine".try_into()?);
    messages.create_index(&[VECTOR], IndexType::Vector, Some(name), &params, true).await?;
    Ok(())
}

async fn are_of_one_model(messages: &Dataset) -> Result<bool, lance::Error> {
    let Some(model) = model_where(messages, &format!("{MODEL} is not null")).await? else { return Ok(true) };
    Ok(model_where(messages, &format!("{MODEL} != {}", literal(&model))).await?.is_none())
}

/// The model of some row that fits. Of rows that were written anew the index still says what they were, as long as its segment covers
/// others, too: what is not so is not looked up there.
async fn model_where(messages: &Dataset, filter: &str) -> Result<Option<String>, lance::Error> {
    let mut scanner = scan(messages);
    scanner.use_scalar_index(false).project(&[MODEL])?.filter(filter)?.limit(Some(1), None)?;
    let first = scanner.try_into_batch().await?;
    Ok(first.column(0).as_string_opt::<i32>().filter(|it| !it.is_empty()).map(|it| it.value(0).to_owned()))
}

/// Before vectors of another model come.
pub(crate) async fn forget_vectors(mut messages: Dataset) -> Result<(), DatasetError> {
    let fault = |error: lance::Error| told(error, 1);
    let name = index_name(VECTOR);
    if segments(&messages).await.map_err(fault)?.contains_key(&name) {
        messages.drop_index(&name).await.map_err(fault)?;
    }
    Ok(())
}

/// What is there of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    pub rows: u64,
    pub fragments: u64,
    pub versions: u64,
    /// Rows that some index does not cover yet.
    pub unindexed: u64,
    pub indexes: u64,
    /// Messages with a vector of the model that makes vectors here; of any model where none does.
    pub embedded: u64,
}

impl Datasets {
    /// Brings indexes up to date and makes small fragments one, in all tables that serve. Others may read and write meanwhile.
    pub async fn update_indexes(&self, how: Upkeep, mut done: impl FnMut(&HouseId, Table)) -> Result<(), DatasetError> {
        let Some(substrate) = self.serving()? else { return Ok(()) };
        for house in substrate.houses()? {
            for table in Table::ALL {
                if let Some(dataset) = substrate.table(&house, table).await? {
                    upkeep(&substrate, dataset, table, Occasion::Stage(how)).await?;
                    done(&house, table);
                }
            }
        }
        Ok(())
    }

    /// How Lance looks rows up, for those who doubt that it does not read everything.
    pub async fn plan(&self, house: &HouseId, table: Table, filter: &str) -> Result<Option<String>, DatasetError> {
        let fault = |error: lance::Error| told(error, 1);
        let Some(substrate) = self.serving()? else { return Ok(None) };
        let Some(mut scanner) = substrate.scan(house, table).await? else { return Ok(None) };
        scanner.filter(filter).map_err(fault)?;
        scanner.explain_plan(false).await.map(Some).map_err(fault)
    }

    /// The health of the tables of a house.
    pub async fn health(&self, house: &HouseId) -> Result<BTreeMap<&'static str, Health>, DatasetError> {
        let mut all: BTreeMap<&'static str, Health> = Table::ALL.iter().map(|it| (it.name(), Health::default())).collect();
        let Some(substrate) = self.serving()? else { return Ok(all) };
        for table in Table::ALL {
            let Some(dataset) = substrate.table(house, table).await? else {
                copies::missed(&substrate, house, table)?;
                continue;
            };
            let mut state = Box::pin(health(&dataset, table)).await.map_err(|error| told(error, 1))?;
            if table == Table::Messages {
                let counts = coverage::sum(&Box::pin(coverage::of_fragments(&substrate, house, &dataset)).await?);
                let model = substrate.making().source.as_ref().map(|source| source.model());
                state.embedded = counts.of(model).vectors;
            }
            all.insert(table.name(), state);
        }
        Ok(all)
    }
}

/// Rows that some index does not cover.
async fn lacking(dataset: &Dataset, table: Table) -> Result<u64, lance::Error> {
    let indices = dataset.load_indices().await?;
    let covered = |column: &str, fragment: u64| {
        let name = index_name(column);
        let of = indices.iter().filter(|index| index.name == name).filter_map(|index| index.fragment_bitmap.as_ref());
        u32::try_from(fragment).is_ok_and(|fragment| of.clone().any(|fragments| fragments.contains(fragment)))
    };
    let rows = |fragment: &&Fragment| fragment.num_rows().unwrap_or_default() as u64;
    let vectors = (table == Table::Messages && indices.iter().any(|index| index.name == index_name(VECTOR))).then_some(VECTOR);
    let columns: Vec<_> = table.indexes().iter().map(|(column, _)| *column).chain(vectors).collect();
    let behind = dataset.fragments().iter().filter(|fragment| !columns.iter().all(|column| covered(column, fragment.id)));
    Ok(behind.map(|fragment| rows(&fragment)).sum())
}

async fn health(dataset: &Dataset, table: Table) -> Result<Health, lance::Error> {
    let indices = dataset.load_indices().await?;
    let names: std::collections::BTreeSet<_> = indices.iter().map(|index| index.name.as_str()).collect();
    Ok(Health {
        rows: dataset.count_rows(None).await? as u64,
        fragments: dataset.count_fragments() as u64,
        versions: dataset.count_versions().await?,
        unindexed: lacking(dataset, table).await?,
        indexes: names.len() as u64,
        embedded: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_kept_until_the_one_after_it_is_old() {
        let minute = |n: i64| DateTime::<Utc>::UNIX_EPOCH + TimeDelta::minutes(n);
        let versions = [(3, minute(0)), (4, minute(100)), (5, minute(500)), (6, minute(501))];
        assert_eq!(oldest_kept(&versions, minute(491)), Some(4), "it was read until a minute ago");
        assert_eq!(oldest_kept(&versions, minute(99)), Some(3));
        assert_eq!(oldest_kept(&versions, minute(500)), Some(5));
        assert_eq!(oldest_kept(&versions, minute(-1)), None);
    }
}
