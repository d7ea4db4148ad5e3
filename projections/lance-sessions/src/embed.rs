//! Vectors for messages that have none, or one of another model. `session-embed-from-canonical`: they are made of `search_text`, and
//! nothing else of a row is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, StringArray};
use arrow::datatypes::{Schema, UInt64Type};
use events::HouseId;
use futures::TryStreamExt;
use lance::Dataset;
use lance::deps::datafusion::arrow;
use lance::table::format::Fragment;
use projector::folders::files;

use crate::copies::Datasets;
use crate::coverage::{self, Counts};
use crate::error::DatasetError;
use crate::maintain;
use crate::read::{damaged, fault, literal};
use crate::schema::{self, Table};
use crate::substrate::{Amend, Substrate, scan};
use crate::vectors::{self, Embedding, MODEL, VectorSource};

/// Texts that are embedded and written at once. What is made when the process ends, and not written, is made again.
const AT_ONCE: u64 = 4_096;
/// Of a model that is not quick: less of its work is lost.
const AT_ONCE_SLOWLY: u64 = 512;
/// Columns are written for all rows of a fragment, if those that get a vector are at least one in so many.
const ONE_IN: u64 = 4;

/// Which messages get a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Those that have none.
    Missing,
    /// Those that have one of another model too.
    Stale,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Embedded {
    pub done: u64,
    pub of: u64,
    /// Of those done: the model had no words for them.
    pub without_words: u64,
}

/// What [`Datasets::embed`] is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Made(Embedded),
    /// All are made, and what is due of their index begins: for many it takes minutes.
    Indexing,
}

#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    #[error("there is no model to make vectors with")]
    NoModel,
    #[error("the model {model} made no vectors: {why}")]
    Model { model: String, why: String },
    /// [`Again::Stale`] makes them anew.
    #[error("there are vectors of {stored} numbers, and the model {model} makes {dimensions}")]
    OtherWidth { stored: usize, model: String, dimensions: usize },
    #[error(transparent)]
    Datasets(#[from] DatasetError),
}

/// Messages that are to get a vector.
struct Backlog {
    keys: [Arc<StringArray>; 2],
    texts: Vec<String>,
    /// The fragments that hold them.
    fragments: BTreeSet<u64>,
}

/// The work of one call.
struct Work<'a> {
    substrate: Arc<Substrate>,
    house: &'a HouseId,
    source: Arc<dyn VectorSource>,
    again: Again,
}

impl Datasets {
    /// Makes the vectors that are missing, and then what is due of their index, which is so as well if the feeder wrote them. Others
    /// may read and write meanwhile; begun again after it was interrupted, it goes on with what is left.
    pub async fn embed(&self, house: &HouseId, again: Again, progress: impl FnMut(Step)) -> Result<Embedded, EmbedError> {
        self.embed_some(house, again, u64::MAX, progress).await
    }

    /// The same, but no further text is begun with after so many, because others wait. If fewer are done, there were no more.
    pub async fn embed_some(
        &self,
        house: &HouseId,
        again: Again,
        most: u64,
        mut progress: impl FnMut(Step),
    ) -> Result<Embedded, EmbedError> {
        let source = self.caches.making.source.clone().ok_or(EmbedError::NoModel)?;
        let mut embedded = Embedded::default();
        // Messages come while others are embedded.
        loop {
            let Some((substrate, _)) = self.table(house, Table::Messages).await? else { return Ok(embedded) };
            let work = Work { substrate, house, source: source.clone(), again };
            let before = embedded.done;
            let groups = work.prepare(&mut embedded).await?;
            for fragments in groups {
                while embedded.done < most && work.step(&fragments, &mut embedded).await? {
                    progress(Step::Made(embedded));
                }
            }
            if embedded.done >= most {
                progress(Step::Made(embedded));
                return Ok(embedded);
            }
            let serves = self.serving()?.is_some_and(|it| it.directory() == work.substrate.directory());
            if embedded.done == before && serves {
                maintain::after_vectors(&work.substrate, house, || progress(Step::Indexing)).await;
                return Ok(embedded);
            }
            progress(Step::Made(embedded));
        }
    }

    /// The houses that have messages, or had.
    pub fn houses(&self) -> Result<Vec<HouseId>, DatasetError> {
        self.serving()?.map_or(Ok(Vec::new()), |substrate| substrate.houses())
    }
}

impl Work<'_> {
    fn at_once(&self) -> u64 {
        if self.source.is_quick() { AT_ONCE } else { AT_ONCE_SLOWLY }
    }

    /// The model whose vectors are left alone; `None`: of whatever model.
    fn kept(&self) -> Option<&str> {
        match self.again {
            Again::Missing => None,
            Again::Stale => Some(self.source.model()),
        }
    }

    async fn messages(&self) -> Result<Dataset, DatasetError> {
        let messages = self.substrate.table(self.house, Table::Messages).await?;
        messages.ok_or_else(|| DatasetError::Damaged(format!("the messages of house {} are gone", self.house)))
    }

    async fn counts(&self) -> Result<Vec<(u64, Counts)>, DatasetError> {
        coverage::of_fragments(&self.substrate, self.house, &self.messages().await?).await
    }

    /// While it is held nobody else writes to the copy. `None`: it was replaced by another.
    async fn standing(&self) -> Result<Option<impl Sized>, DatasetError> {
        let lock = self.substrate.folder().stand_still().await?;
        Ok(self.substrate.folder().is_wanted()?.then_some(lock))
    }

    /// Makes the columns fit the model, and says in which fragments there is something to do.
    async fn prepare(&self, embedded: &mut Embedded) -> Result<Vec<Vec<u64>>, EmbedError> {
        let mut counts = self.counts().await?;
        if coverage::sum(&counts).lacking(self.kept()) > 0 && self.fit(&coverage::sum(&counts)).await? {
            counts = self.counts().await?;
        }
        let todo: Vec<_> = counts.iter().map(|(id, counts)| (*id, counts.lacking(self.kept()))).filter(|it| it.1 > 0).collect();
        embedded.of = embedded.done + todo.iter().map(|(_, lacking)| lacking).sum::<u64>();
        let (mut groups, mut rows) = (Vec::<Vec<u64>>::new(), u64::MAX);
        for (fragment, lacking) in todo {
            if rows >= self.at_once() {
                groups.push(Vec::new());
                rows = 0;
            }
            rows += lacking;
            groups.last_mut().expect("the first round begins a group").push(fragment);
        }
        Ok(groups)
    }

    /// Whether the columns were emptied: vectors of another width go all at once, because a column has one. Search asks for those of
    /// the model in use, so nobody misses them.
    async fn fit(&self, sum: &Counts) -> Result<bool, EmbedError> {
        let Some(_standing) = self.standing().await? else { return Ok(false) };
        let messages = self.messages().await?;
        let (stored, dimensions, model) = (vectors::width_of(&messages)?, self.source.dimensions(), self.source.model());
        if stored == dimensions {
            if sum.models.keys().any(|stored| stored != model) && self.again == Again::Stale {
                maintain::forget_vectors(messages).await?;
            }
            return Ok(false);
        }
        if !sum.models.is_empty() && self.again == Again::Missing {
            return Err(EmbedError::OtherWidth { stored, model: model.to_owned(), dimensions });
        }
        let width = vectors::as_arrow(dimensions).map_err(|error| damaged(&error))?;
        self.substrate.empty(self.house, Table::Messages, &schema::derived(width)).await?;
        files::sync_all(self.substrate.directory()).await.map_err(DatasetError::from)?;
        Ok(true)
    }

    /// Embeds and writes some messages of these fragments. Whether there may be more.
    async fn step(&self, fragments: &[u64], embedded: &mut Embedded) -> Result<bool, EmbedError> {
        let messages = self.messages().await?;
        let here = messages.fragments().iter().filter(|it| fragments.contains(&it.id)).cloned().collect();
        let Some(backlog) = Box::pin(self.read(&messages, here)).await? else { return Ok(false) };
        let asked = backlog.texts.len() as u64;
        let Backlog { keys, texts, fragments } = backlog;
        let made = vectors::make(&self.source, texts).await;
        let made = made.map_err(|why| EmbedError::Model { model: self.source.model().to_owned(), why })?;
        let without = made.iter().filter(|it| it.vector.is_none()).count() as u64;
        let rows = self.rows(keys, &made).map_err(|error| damaged(&error))?;
        let held = messages.fragments().iter().filter(|it| fragments.contains(&it.id));
        let held: u64 = held.map(|it| it.physical_rows.unwrap_or_default() as u64).sum();
        let how = if asked * ONE_IN >= held { Amend::Columns } else { Amend::Rows };
        let Some(_standing) = self.standing().await? else { return Ok(false) };
        let condition = format!("target.{MODEL} is null or target.{MODEL} != source.{MODEL}");
        let (amended, written) = self.substrate.amend(self.house, Table::Messages, rows, &condition, how).await?;
        files::sync_all(self.substrate.directory()).await.map_err(DatasetError::from)?;
        if let Some(amended) = amended {
            maintain::routine(&self.substrate, amended, Table::Messages).await;
        }
        embedded.done += written;
        embedded.without_words += without.min(written);
        Ok(written > 0 && asked == self.at_once())
    }

    async fn read(&self, messages: &Dataset, fragments: Vec<Fragment>) -> Result<Option<Backlog>, DatasetError> {
        if fragments.is_empty() {
            return Ok(None);
        }
        let stale = self.kept().map(|model| format!(" or {MODEL} != {}", literal(model))).unwrap_or_default();
        let mut scanner = scan(messages);
        scanner.with_fragments(fragments).use_scalar_index(false).with_row_address();
        scanner.filter(&format!("search_text is not null and ({MODEL} is null{stale})")).map_err(fault)?;
        scanner.project(&["session_id", "id", "search_text"]).map_err(fault)?;
        scanner.limit(i64::try_from(self.at_once()).ok(), None).map_err(fault)?;
        let batches: Vec<_> = scanner.try_into_stream().await.map_err(fault)?.try_collect().await.map_err(fault)?;
        let backlog = Backlog::of(&batches).ok_or_else(|| damaged(&"the columns of messages are others"))?;
        Ok(Some(backlog).filter(|backlog| !backlog.texts.is_empty()))
    }

    /// What is written: keys, and the two columns.
    fn rows(&self, [session, id]: [Arc<StringArray>; 2], made: &[Embedding]) -> Result<RecordBatch, arrow::error::ArrowError> {
        let schema = schema::messages_with(vectors::as_arrow(self.source.dimensions())?);
        let mut fields = Vec::new();
        for name in ["session_id", "id", vectors::VECTOR, MODEL] {
            fields.push(schema.field_with_name(name)?.clone());
        }
        let [vector, model] = vectors::columns(made.iter().map(Some), self.source.dimensions())?;
        RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![session, id, vector, model])
    }
}

impl Backlog {
    /// `None`: the columns are others.
    fn of(batches: &[RecordBatch]) -> Option<Self> {
        let (mut keys, mut texts, mut fragments) = ([Vec::new(), Vec::new()], Vec::new(), BTreeSet::new());
        for batch in batches {
            let strings = |name: &str| batch.column_by_name(name)?.as_string_opt::<i32>();
            let (session, id, said) = (strings("session_id")?, strings("id")?, strings("search_text")?);
            let addresses = batch.column_by_name("_rowaddr")?.as_primitive_opt::<UInt64Type>()?;
            for row in 0..batch.num_rows() {
                keys[0].push(session.value(row).to_owned());
                keys[1].push(id.value(row).to_owned());
                texts.push(said.value(row).to_owned());
                // An address is the fragment, and the place in it.
                fragments.insert(addresses.value(row) >> 32);
            }
        }
        Some(Self { keys: keys.map(|keys| Arc::new(StringArray::from(keys))), texts, fragments })
    }
}
