//! A checksum per table that does not depend on the order of rows. Embeddings are not counted: the log does not say them.

use arrow::row::{RowConverter, SortField};
use events::HouseId;
use futures::TryStreamExt;
use futures::future::BoxFuture;
use lance::Dataset;
use lance::datatypes::BlobHandling;
use lance::deps::datafusion::arrow;
use projector::Sums;

use crate::error::DatasetError;
use crate::schema::Table;
use crate::substrate::{Substrate, scan, told};

const DERIVED: [&str; 2] = ["vector", "embedding_model"];
const ROWS_AT_A_TIME: usize = 1_024;

/// All tables as they are at this moment.
pub(crate) async fn tables(substrate: &Substrate) -> Result<Vec<(HouseId, Table, Dataset)>, DatasetError> {
    let mut tables = Vec::new();
    for house in substrate.houses()? {
        for table in Table::ALL {
            if let Some(dataset) = substrate.table(&house, table).await? {
                tables.push((house.clone(), table, dataset));
            }
        }
    }
    Ok(tables)
}

#[derive(Clone, Copy, Default)]
struct Sum {
    rows: u64,
    digests: u128,
}

/// Of the rows up to a position: a feeder that died may have left some that its checkpoint does not know.
pub(crate) async fn of(tables: Vec<(HouseId, Table, Dataset)>, position: u64) -> Result<Sums, DatasetError> {
    let mut sums: Vec<(Table, Sum)> = Table::ALL.into_iter().map(|table| (table, Sum::default())).collect();
    for (house, table, dataset) in tables {
        let sum = &mut sums[table as usize].1;
        let adding: BoxFuture<'_, _> = Box::pin(add(sum, &house, table, &dataset, position));
        adding.await?;
    }
    let told = |(table, sum): (Table, Sum)| (table.name().to_owned(), format!("{} rows {:032x}", sum.rows, sum.digests));
    Ok(sums.into_iter().map(told).collect())
}

async fn add(sum: &mut Sum, house: &HouseId, table: Table, dataset: &Dataset, position: u64) -> Result<(), DatasetError> {
    let fault = |error: lance::Error| told(error, 1);
    let schema = table.schema();
    let columns: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).filter(|it| !DERIVED.contains(it)).collect();
    let mut scanner = scan(dataset);
    scanner.project(&columns).map_err(fault)?.filter(&format!("position <= {position}")).map_err(fault)?;
    scanner.blob_handling(BlobHandling::AllBinary).batch_size(ROWS_AT_A_TIME);
    let mut batches = scanner.try_into_stream().await.map_err(fault)?;
    let arrow = |error: arrow::error::ArrowError| DatasetError::Unavailable(error.to_string());
    while let Some(batch) = batches.try_next().await.map_err(fault)? {
        let fields = batch.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
        let converter = RowConverter::new(fields).map_err(arrow)?;
        for row in &converter.convert_columns(batch.columns()).map_err(arrow)? {
            let mut hasher = blake3::Hasher::new();
            hasher.update(house.as_str().as_bytes()).update(&[0]).update(row.as_ref());
            let digest: [u8; 16] = *hasher.finalize().as_bytes().first_chunk().unwrap_or(&[0; 16]);
            sum.rows += 1;
            sum.digests = sum.digests.wrapping_add(u128::from_le_bytes(digest));
        }
    }
    Ok(())
}
