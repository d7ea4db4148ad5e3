//! Vectors of texts, as two columns of messages. They are derived: the log does not say them, checksums leave them out, and a row has them
//! when somebody had a model.

use std::fmt::Debug;
use std::num::NonZero;
use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray, Float16Array, StringBuilder};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type};
use arrow::error::ArrowError;
use events::HouseId;
use lance::Dataset;
use lance::deps::datafusion::arrow;

use crate::copies::Datasets;
use crate::error::DatasetError;
use crate::rows::MessageRow;
use crate::schema::{self, DIMENSIONS, Table};
use crate::substrate::Substrate;

/// The two columns, which are written and emptied together.
pub(crate) const VECTOR: &str = "vector";
pub(crate) const MODEL: &str = "embedding_model";
/// Below it every vector is looked at, above it there is an index.
const ACTIVATION: u64 = 100_000;
/// Of an index, as many as the specification says.
const ROWS_OF_A_PART: u64 = 4_096;

/// A number of a vector: half of a float, `half::f16`.
pub type F16 = <Float16Type as ArrowPrimitiveType>::Native;

/// Text to vectors, for rows. Implemented by whoever has a model.
pub trait VectorSource: Send + Sync + Debug {
    /// What is stored with every vector. Vectors of one name can be compared, whoever made them.
    fn model(&self) -> &str;

    fn dimensions(&self) -> usize;

    /// One for each text; `None` where the model has no words for it. Called on a blocking thread.
    fn vectors(&self, texts: &[&str]) -> Result<Vec<Option<Vec<F16>>>, String>;

    /// One for each text; `None` where it would have to be made first. Asks no model, and takes no longer than to read what is kept.
    /// Called on a blocking thread.
    fn kept(&self, texts: &[&str]) -> Result<Vec<Option<Vec<F16>>>, String> {
        Ok(vec![None; texts.len()])
    }

    /// Whether it is quick enough to be asked while rows are written.
    fn is_quick(&self) -> bool;
}

/// What makes vectors in this process, and how they are indexed.
#[derive(Clone, Debug)]
pub(crate) struct Making {
    pub source: Option<Arc<dyn VectorSource>>,
    pub indexed_from: u64,
    pub rows_of_a_part: u64,
}

impl Default for Making {
    fn default() -> Self {
        Self { source: None, indexed_from: ACTIVATION, rows_of_a_part: ROWS_OF_A_PART }
    }
}

/// What a model made of a text.
#[derive(Clone, Debug)]
pub(crate) struct Embedding {
    pub model: Arc<str>,
    /// `None`: it was asked and had no words, and is not asked again.
    pub vector: Option<Vec<F16>>,
}

impl Datasets {
    /// Rows get vectors of this source: as they are written if it is quick, or has kept them and the copy is made beside the one that
    /// serves; by [`Datasets::embed`] in any case. Before the first use.
    #[must_use]
    pub fn with_vectors(mut self, source: Arc<dyn VectorSource>) -> Self {
        self.caches.making.source = Some(source);
        self
    }

    /// Vectors are indexed from this many on. Before the first use.
    #[must_use]
    pub fn with_vectors_indexed_from(mut self, vectors: u64) -> Self {
        self.caches.making.indexed_from = vectors;
        self
    }

    /// An index of them has a part for so many. Before the first use.
    #[must_use]
    pub fn with_vectors_of_a_part(mut self, vectors: NonZero<u64>) -> Self {
        self.caches.making.rows_of_a_part = vectors.get();
        self
    }
}

/// One of no length, or with numbers that are none, is next to nothing.
fn sound(vector: &[F16]) -> bool {
    vector.iter().all(|number| number.is_finite()) && vector.iter().any(|number| number.to_f32() != 0.0)
}

type Ask = fn(&dyn VectorSource, &[&str]) -> Result<Vec<Option<Vec<F16>>>, String>;

/// Asks a source, away from the threads on which others wait.
async fn told(source: &Arc<dyn VectorSource>, texts: Vec<String>, ask: Ask) -> Result<Vec<Option<Vec<F16>>>, String> {
    let (asked, told, dimensions) = (source.clone(), texts.len(), source.dimensions());
    let made = move || ask(&*asked, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    let vectors = tokio::task::spawn_blocking(made).await.map_err(|error| error.to_string())??;
    if vectors.len() != told {
        return Err(format!("{} vectors came back for {told} texts", vectors.len()));
    }
    if let Some(odd) = vectors.iter().flatten().find(|vector| vector.len() != dimensions) {
        return Err(format!("a vector of {} numbers came back, not of {dimensions}", odd.len()));
    }
    Ok(vectors)
}

/// Asks the model.
pub(crate) async fn make(source: &Arc<dyn VectorSource>, texts: Vec<String>) -> Result<Vec<Embedding>, String> {
    let vectors = told(source, texts, |source, texts| source.vectors(texts)).await?;
    let model: Arc<str> = source.model().into();
    let embedding = |vector: Option<Vec<F16>>| Embedding { model: model.clone(), vector: vector.filter(|it| sound(it)) };
    Ok(vectors.into_iter().map(embedding).collect())
}

/// What is there without asking it. `None`: it is to be asked.
async fn look_up(source: &Arc<dyn VectorSource>, texts: Vec<String>) -> Result<Vec<Option<Embedding>>, String> {
    let vectors = told(source, texts, |source, texts| source.kept(texts)).await?;
    let model: Arc<str> = source.model().into();
    let embedding = |vector: Vec<F16>| sound(&vector).then(|| Embedding { model: model.clone(), vector: Some(vector) });
    Ok(vectors.into_iter().map(|vector| vector.and_then(embedding)).collect())
}

/// The numbers of a vector of these messages.
pub(crate) fn width_of(messages: &Dataset) -> Result<usize, DatasetError> {
    let column = messages.schema().field(VECTOR).map(|field| field.data_type());
    match column {
        Some(DataType::FixedSizeList(_, width)) => Ok(usize::try_from(width).unwrap_or_default()),
        other => Err(DatasetError::Damaged(format!("the column {VECTOR} is {other:?}"))),
    }
}

/// How wide the vectors of a house are, or will be when its first message comes.
pub(crate) async fn width(substrate: &Substrate, house: &HouseId) -> Result<usize, DatasetError> {
    if substrate.is_there(house, Table::Messages)?
        && let Some(messages) = substrate.table(house, Table::Messages).await?
    {
        return width_of(&messages);
    }
    Ok(substrate.making().source.as_ref().map_or(DIMENSIONS as usize, |source| source.dimensions()))
}

/// Vectors for rows that are about to be written. A copy that is built anew beside the one that serves loses none that a source has kept
/// which is not quick; of new rows it has kept nothing, and to look would take longer than to write them. Without vectors the rows are
/// written all the same, and `embed` finds them later.
pub(crate) async fn fill(substrate: &Substrate, rows: &mut [MessageRow], width: usize, beside: bool) {
    let Some(source) = substrate.making().source.as_ref().filter(|it| it.dimensions() == width) else { return };
    if !source.is_quick() && !beside {
        return;
    }
    let texts: Vec<_> = rows.iter().filter_map(|row| row.text.clone()).collect();
    if texts.is_empty() {
        return;
    }
    let embeddings = match source.is_quick() {
        true => make(source, texts).await.map(|made| made.into_iter().map(Some).collect()),
        false => look_up(source, texts).await,
    };
    match embeddings {
        Ok(embeddings) => {
            let said = rows.iter_mut().filter(|row| row.text.is_some());
            said.zip(embeddings).for_each(|(row, embedding)| row.embedding = embedding);
        }
        Err(error) => tracing::warn!(error, model = source.model(), "messages are written without vectors"),
    }
}

/// The two columns of some rows.
pub(crate) fn columns<'a>(
    embeddings: impl Iterator<Item = Option<&'a Embedding>>,
    width: usize,
) -> Result<[ArrayRef; 2], ArrowError> {
    let (mut numbers, mut there, mut models) = (Vec::new(), Vec::new(), StringBuilder::new());
    for embedding in embeddings {
        let vector = embedding.and_then(|it| it.vector.as_deref());
        there.push(vector.is_some());
        match vector {
            Some(vector) => numbers.extend_from_slice(vector),
            None => numbers.resize(numbers.len() + width, F16::ZERO),
        }
        models.append_option(embedding.map(|it| &it.model));
    }
    let nulls = Some(NullBuffer::from(there));
    let vectors = FixedSizeListArray::try_new(
        schema::number_of_a_vector(),
        as_arrow(width)?,
        Arc::new(Float16Array::from(numbers)),
        nulls,
    )?;
    Ok([Arc::new(vectors), Arc::new(models.finish())])
}

pub(crate) fn as_arrow(width: usize) -> Result<i32, ArrowError> {
    i32::try_from(width).map_err(|error| ArrowError::ExternalError(Box::new(error)))
}
