//! What sessions are about: the mean of the vectors of all that their people asked. One message can be near a question by chance; all
//! that was asked in a session is not.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Float16Type;
use events::HouseId;
use events::session::{Role, SessionId};
use futures::TryStreamExt;
use futures::future::BoxFuture;
use lance::Dataset;
use lance::deps::datafusion::arrow;
use parking_lot::Mutex;

use crate::copies::Datasets;
use crate::error::DatasetError;
use crate::read::{damaged, fault, literal};
use crate::schema::Table;
use crate::substrate::scan;
use crate::vectors::{self, F16, MODEL, VECTOR};

/// Sessions that are remembered; past it all are forgotten, and those that matter come back.
const REMEMBERED: usize = 16_384;

/// Houses of which anything is remembered.
const HOUSES: usize = 1_024;

type Mean = Option<Arc<[f32]>>;

/// What was computed, of one version of a house's messages.
#[derive(Debug, Default)]
pub(crate) struct Means(Mutex<HashMap<(HouseId, String), Known>>);

#[derive(Debug, Default)]
struct Known {
    version: u64,
    means: HashMap<String, Mean>,
}

impl Means {
    fn with<T>(&self, house: &HouseId, model: &str, version: u64, use_it: impl FnOnce(&mut HashMap<String, Mean>) -> T) -> T {
        let mut all = self.0.lock();
        if all.len() > HOUSES {
            all.clear();
        }
        let known = all.entry((house.clone(), model.to_owned())).or_default();
        if known.version != version || known.means.len() > REMEMBERED {
            *known = Known { version, means: HashMap::new() };
        }
        use_it(&mut known.means)
    }
}

impl Datasets {
    /// How near what was asked in these sessions is to a question, on the whole. Sessions in which nobody asked anything are left out.
    pub async fn about(
        &self,
        house: &HouseId,
        query: &[F16],
        model: &str,
        sessions: &[SessionId],
    ) -> Result<BTreeMap<SessionId, f32>, DatasetError> {
        let Some((substrate, messages)) = self.table(house, Table::Messages).await? else { return Ok(BTreeMap::new()) };
        if sessions.is_empty() || vectors::width_of(&messages)? != query.len() {
            return Ok(BTreeMap::new());
        }
        let version = messages.version().version;
        // Copied at once: whoever asks of another version forgets these.
        let mut known: HashMap<String, Mean> = substrate.means.with(house, model, version, |means| {
            let of = |id: &SessionId| Some((id.to_string(), means.get(id.as_str())?.clone()));
            sessions.iter().filter_map(of).collect()
        });
        let unknown: Vec<&str> = sessions.iter().map(SessionId::as_str).filter(|id| !known.contains_key(*id)).collect();
        if !unknown.is_empty() {
            let reading: BoxFuture<'_, _> = Box::pin(read(&messages, model, &unknown, query.len()));
            let read = reading.await?;
            known.extend(read.clone());
            substrate.means.with(house, model, version, |means| means.extend(read));
        }
        let query: Vec<f32> = query.iter().map(|number| number.to_f32()).collect();
        let near = |mean: &Arc<[f32]>| mean.iter().zip(&query).map(|(one, two)| one * two).sum::<f32>();
        let of = |id: &SessionId| Some((id.clone(), near(known.get(id.as_str())?.as_ref()?)));
        Ok(sessions.iter().filter_map(of).collect())
    }
}

/// One for each of the sessions.
async fn read(messages: &Dataset, model: &str, sessions: &[&str], width: usize) -> Result<HashMap<String, Mean>, DatasetError> {
    let ids: Vec<_> = sessions.iter().map(|id| literal(id)).collect();
    let (ids, role, model) = (ids.join(", "), literal(Role::User.as_str()), literal(model));
    let mut scanner = scan(messages);
    scanner.filter(&format!("session_id in ({ids}) and role = {role} and {MODEL} = {model}")).map_err(fault)?;
    scanner.project(&["session_id", VECTOR]).map_err(fault)?;
    let mut batches = scanner.try_into_stream().await.map_err(fault)?;
    let mut sums: HashMap<String, (Vec<f32>, u32)> = HashMap::new();
    while let Some(batch) = batches.try_next().await.map_err(fault)? {
        add(&mut sums, &batch, width).ok_or_else(|| damaged(&"the columns of vectors are others"))?;
    }
    let mut mean = |id: &&str| {
        let (sum, count) = sums.remove(*id)?;
        Some(sum.into_iter().map(|number| number / count as f32).collect())
    };
    Ok(sessions.iter().map(|id| ((*id).to_owned(), mean(id))).collect())
}

/// `None`: the columns are others.
fn add(sums: &mut HashMap<String, (Vec<f32>, u32)>, batch: &RecordBatch, width: usize) -> Option<()> {
    let sessions = batch.column_by_name("session_id")?.as_string_opt::<i32>()?;
    let vectors = batch.column_by_name(VECTOR)?.as_fixed_size_list_opt()?;
    let numbers = vectors.values().as_primitive_opt::<Float16Type>()?.values();
    for row in (0..batch.num_rows()).filter(|row| vectors.is_valid(*row)) {
        let vector = numbers.get(row * width..(row + 1) * width)?;
        let (sum, count) = match sums.get_mut(sessions.value(row)) {
            Some(known) => known,
            None => sums.entry(sessions.value(row).to_owned()).or_insert_with(|| (vec![0.0; width], 0)),
        };
        sum.iter_mut().zip(vector).for_each(|(sum, number)| *sum += number.to_f32());
        *count += 1;
    }
    Some(())
}
