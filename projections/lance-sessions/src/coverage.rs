//! How many messages have vectors, and of which models. Fragments do not change, so what was counted in one is remembered.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{Array, AsArray, RecordBatch};
use events::HouseId;
use futures::TryStreamExt;
use lance::Dataset;
use lance::deps::datafusion::arrow;
use lance::table::format::Fragment;
use parking_lot::Mutex;
use serde::Serialize;

use crate::copies::Datasets;
use crate::error::DatasetError;
use crate::read::{damaged, fault, literal};
use crate::schema::Table;
use crate::substrate::{Substrate, scan};
use crate::vectors::{MODEL, VECTOR};

/// What of a house has vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    pub messages_with_text: u64,
    /// Those with a vector of the model that was asked for.
    pub embedded: u64,
    /// Those with a vector of some other model.
    pub other_model: u64,
    /// Those that the model was not asked about yet.
    pub missing: u64,
}

/// Of the rows that name a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub vectors: u64,
    /// Those it had no words for.
    pub without: u64,
}

/// Of one fragment, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub texts: u64,
    pub models: BTreeMap<String, Marks>,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.texts += other.texts;
        for (model, marks) in &other.models {
            let sum = self.models.entry(model.clone()).or_default();
            sum.vectors += marks.vectors;
            sum.without += marks.without;
        }
    }

    fn count(&mut self, batch: &RecordBatch) -> Result<(), DatasetError> {
        let wrong = || damaged(&"the columns of vectors are others");
        let [said, has] = [0, 1].map(|n| batch.column(n).as_boolean_opt());
        let (said, has) = (said.ok_or_else(wrong)?, has.ok_or_else(wrong)?);
        let models = batch.column(2).as_string_opt::<i32>().ok_or_else(wrong)?;
        for row in 0..batch.num_rows() {
            self.texts += u64::from(said.value(row));
            if models.is_valid(row) {
                let marks = match self.models.get_mut(models.value(row)) {
                    Some(marks) => marks,
                    None => self.models.entry(models.value(row).to_owned()).or_default(),
                };
                *(if has.value(row) { &mut marks.vectors } else { &mut marks.without }) += 1;
            }
        }
        Ok(())
    }

    /// Of the rows that name this model, or any.
    pub fn of(&self, model: Option<&str>) -> Marks {
        let mut sum = Marks::default();
        for (_, marks) in self.models.iter().filter(|(name, _)| model.is_none_or(|model| model == name.as_str())) {
            sum.vectors += marks.vectors;
            sum.without += marks.without;
        }
        sum
    }

    /// Rows with a text that name no model, or none but this.
    pub fn lacking(&self, model: Option<&str>) -> u64 {
        let Marks { vectors, without } = self.of(model);
        self.texts.saturating_sub(vectors + without)
    }

    fn coverage(&self, model: &str) -> Coverage {
        let (embedded, all) = (self.of(Some(model)).vectors, self.of(None).vectors);
        Coverage { messages_with_text: self.texts, embedded, other_model: all - embedded, missing: self.lacking(Some(model)) }
    }
}

/// Of the messages of a house.
#[derive(Debug, Default)]
struct Known {
    /// The columns that were counted. They may be replaced by others of the same names, and the fragments stay.
    columns: [Option<i32>; 2],
    fragments: HashMap<u64, (Fragment, Counts)>,
}

/// What was counted.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    fragments: Mutex<HashMap<HouseId, Known>>,
    /// Whether a version of the messages has a vector of a model.
    any: Mutex<HashMap<(HouseId, String), (u64, bool)>>,
}

/// What each fragment of these messages holds.
pub(crate) async fn of_fragments(
    substrate: &Substrate,
    house: &HouseId,
    messages: &Dataset,
) -> Result<Vec<(u64, Counts)>, DatasetError> {
    let columns = [VECTOR, MODEL].map(|name| messages.schema().field(name).map(|field| field.id));
    let known = substrate.counted.fragments.lock().remove(house).filter(|known| known.columns == columns);
    let mut known = known.unwrap_or_default().fragments;
    let mut fragments = HashMap::with_capacity(messages.count_fragments());
    for fragment in messages.fragments().iter() {
        let counts = match known.remove(&fragment.id) {
            Some((same, counts)) if same == *fragment => counts,
            Some(_) | None => Box::pin(count(messages, fragment)).await?,
        };
        fragments.insert(fragment.id, (fragment.clone(), counts));
    }
    let counts = messages.fragments().iter().filter_map(|it| Some((it.id, fragments.get(&it.id)?.1.clone()))).collect();
    substrate.counted.fragments.lock().insert(house.clone(), Known { columns, fragments });
    Ok(counts)
}

async fn count(messages: &Dataset, fragment: &Fragment) -> Result<Counts, DatasetError> {
    let mut scanner = scan(messages);
    let columns =
        [("said", "search_text is not null".to_owned()), ("has", format!("{VECTOR} is not null")), ("model", MODEL.to_owned())];
    let columns: Vec<_> = columns.iter().map(|(name, sql)| (*name, sql.as_str())).collect();
    scanner.with_fragments(vec![fragment.clone()]).project_with_transform(&columns).map_err(fault)?;
    let mut batches = scanner.try_into_stream().await.map_err(fault)?;
    let mut counts = Counts::default();
    while let Some(batch) = batches.try_next().await.map_err(fault)? {
        counts.count(&batch)?;
    }
    Ok(counts)
}

pub(crate) fn sum(fragments: &[(u64, Counts)]) -> Counts {
    let mut sum = Counts::default();
    fragments.iter().for_each(|(_, counts)| sum.add(counts));
    sum
}

impl Datasets {
    /// How much of a house has vectors of a model.
    pub async fn coverage(&self, house: &HouseId, model: &str) -> Result<Coverage, DatasetError> {
        let Some((substrate, messages)) = self.table(house, Table::Messages).await? else { return Ok(Coverage::default()) };
        Ok(sum(&of_fragments(&substrate, house, &messages).await?).coverage(model))
    }

    /// Whether anything of a house has a vector of a model: whether it makes sense to look for near ones. Quicker than
    /// [`Self::coverage`] where nobody counted yet.
    pub async fn has_vectors(&self, house: &HouseId, model: &str) -> Result<bool, DatasetError> {
        let Some((substrate, messages)) = self.table(house, Table::Messages).await? else { return Ok(false) };
        let (at, version) = ((house.clone(), model.to_owned()), messages.version_id());
        if let Some((_, any)) = substrate.counted.any.lock().get(&at).filter(|(seen, _)| *seen == version) {
            return Ok(*any);
        }
        let any = Box::pin(any(&messages, model)).await?;
        substrate.counted.any.lock().insert(at, (version, any));
        Ok(any)
    }
}

async fn any(messages: &Dataset, model: &str) -> Result<bool, DatasetError> {
    let mut scanner = scan(messages);
    let filter = format!("{MODEL} = {} and {VECTOR} is not null", literal(model));
    scanner.filter(&filter).map_err(fault)?.project(&[MODEL]).map_err(fault)?.limit(Some(1), None).map_err(fault)?;
    // The first rows mostly tell: few are read ahead.
    scanner.batch_size(1_024).fragment_readahead(1);
    let mut batches = scanner.try_into_stream().await.map_err(fault)?;
    while let Some(batch) = batches.try_next().await.map_err(fault)? {
        if batch.num_rows() > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}
