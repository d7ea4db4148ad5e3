//! Messages whose vectors are near another, of one model and among those that a filter lets through.

use arrow::array::Float16Array;
use events::HouseId;
use events::session::SessionId;
use futures::future::BoxFuture;
use lance::Dataset;
use lance::dataset::scanner::Scanner;
use lance::deps::datafusion::arrow;

use crate::copies::Datasets;
use crate::error::DatasetError;
use crate::filter::Filter;
use crate::read::{Columns, collect, fault, literal};
use crate::schema::Table;
use crate::substrate::scan;
use crate::vectors::{self, F16, MODEL, VECTOR};

/// Where they stand and what is compared, in one go: single rows are slow to read.
const COLUMNS: [&str; 4] = ["session_id", "seq", VECTOR, "_distance"];

/// How hard an index is searched. Where there is none every vector is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Parts of the index that are searched at least; more where they hold too little.
    pub nprobes: usize,
    /// So many times more candidates are compared exactly than are asked for.
    pub refine: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { nprobes: 16, refine: 3 }
    }
}

/// A message that is near.
#[derive(Clone, Debug, PartialEq)]
pub struct Near {
    pub session_id: SessionId,
    /// Its place in the session.
    pub seq: u64,
    /// The cosine of the angle between the two: one is the same direction.
    pub similarity: f32,
}

impl Datasets {
    /// The `k` nearest of those that the filter lets through, nearest first. Equally near ones are in the order of their sessions and
    /// places, and of those that all just fit in the earlier recorded are taken; so an exact search finds the same after a rebuild.
    pub async fn nearest(
        &self,
        house: &HouseId,
        query: &[F16],
        model: &str,
        filter: &Filter,
        k: usize,
        tuning: Tuning,
    ) -> Result<Vec<Near>, DatasetError> {
        let Some(scanner) = self.near(house, query, model, filter, k, tuning).await? else { return Ok(Vec::new()) };
        let query: Vec<f32> = query.iter().map(|number| number.to_f32()).collect();
        let found: BoxFuture<'_, _> = Box::pin(collect(&scanner, |columns, row| near(&query, columns, row)));
        let mut found: Vec<_> = found.await?.into_iter().filter(|it| it.similarity.is_finite()).collect();
        // An index knows distances about; those that are equal stay in the order of the log.
        found.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
        found.truncate(k);
        found.sort_by(|a, b| {
            b.similarity.total_cmp(&a.similarity).then_with(|| (&a.session_id, a.seq).cmp(&(&b.session_id, b.seq)))
        });
        Ok(found)
    }

    /// How Lance would look for them. Empty: there is nothing to look through.
    pub async fn nearest_plan(
        &self,
        house: &HouseId,
        query: &[F16],
        model: &str,
        filter: &Filter,
        k: usize,
        tuning: Tuning,
    ) -> Result<String, DatasetError> {
        let Some(scanner) = self.near(house, query, model, filter, k, tuning).await? else { return Ok(String::new()) };
        let plan: BoxFuture<'_, _> = Box::pin(scanner.explain_plan(true));
        plan.await.map_err(fault)
    }

    /// How Lance looked for them, and how long each step took.
    pub async fn nearest_analysis(
        &self,
        house: &HouseId,
        query: &[F16],
        model: &str,
        filter: &Filter,
        k: usize,
        tuning: Tuning,
    ) -> Result<String, DatasetError> {
        let Some(scanner) = self.near(house, query, model, filter, k, tuning).await? else { return Ok(String::new()) };
        let plan: BoxFuture<'_, _> = Box::pin(scanner.analyze_plan());
        plan.await.map_err(fault)
    }

    /// `None`: no vector could be compared with this one.
    async fn near(
        &self,
        house: &HouseId,
        query: &[F16],
        model: &str,
        filter: &Filter,
        k: usize,
        tuning: Tuning,
    ) -> Result<Option<Scanner>, DatasetError> {
        let Some((_, messages)) = self.table(house, Table::Messages).await? else { return Ok(None) };
        if k == 0 || vectors::width_of(&messages)? != query.len() {
            return Ok(None);
        }
        let filter = filter.sql().map(|filter| format!(" and {filter}")).unwrap_or_default();
        let filter = format!("{MODEL} = {}{filter}", literal(model));
        looking(&messages, query, &filter, k, tuning).map(Some).map_err(fault)
    }
}

/// Rows without a vector have no distance, and Lance leaves those out.
fn looking(messages: &Dataset, query: &[F16], filter: &str, k: usize, tuning: Tuning) -> Result<Scanner, lance::Error> {
    let mut scanner = scan(messages);
    let candidates = k.saturating_mul(tuning.refine.max(1) as usize);
    scanner.filter(filter)?.nearest(VECTOR, &Float16Array::from(query.to_vec()), candidates)?;
    scanner.distance_metric("cosine".try_into()?).minimum_nprobes(tuning.nprobes.max(1));
    scanner.project(&COLUMNS)?;
    Ok(scanner)
}

fn near(query: &[f32], columns: &Columns, row: usize) -> Result<Near, DatasetError> {
    Ok(Near {
        session_id: columns.parsed("session_id", row)?,
        seq: columns.number("seq", row)?,
        similarity: cosine(query, &columns.vector(VECTOR, row)?),
    })
}

fn cosine(one: &[f32], two: &[f32]) -> f32 {
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    product(one, two) / (product(one, one) * product(two, two)).sqrt()
}
