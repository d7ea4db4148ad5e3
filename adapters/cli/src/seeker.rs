//! What search asks: the index for words, the datasets for meaning, the log for what was said.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use embedders::{Cached, Embedder};
use entry_index::{EntryFilter, EntryIndex, FoundEntries, IndexError, Last, MessageFilter, Question, Ranked, Whereabouts};
use event_log::Log;
use events::session::{Message, Role, SessionId, Timestamp};
use events::{Entry, HouseId, StreamName, ThreadId};
use lance_sessions::{Coverage, Datasets, F16, Filter, Project, Tuning, VectorSource};
use parking_lot::Mutex;
use projector::{Monitor, RunState};
use queries::entries::EntryFinder;
use queries::library::{Code, Finder, Meaning, Near, Place, PondError, Stats};
use session_source::{Source, Unfit};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::datasets;

const INDEX: &str = "index";
const VECTORS: &str = "vectors";
/// Sessions of which it is looked at what they are about.
const ROOTS: usize = 60;
pub(crate) const LATE: &str = "what was recorded last may be missing: it is still being read in; ask again in a while";
/// What was said within it need not be found yet.
const MOMENT_MS: u64 = 1_000;
const GLANCE: Duration = Duration::from_millis(50);
/// How long a request waits for what was just written.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn open(config: &Config, log: &Log) -> Result<EntryIndex, IndexError> {
    EntryIndex::open(&config.data_dir.join(INDEX), log.clone())
}

/// The configured model, if there is one.
pub(crate) async fn model(config: &Config) -> anyhow::Result<Option<Model>> {
    kept(embedder(config).await?, config)
}

/// The same before there is a place for its vectors: to load it takes a while, in which others can work.
pub(crate) async fn embedder(config: &Config) -> anyhow::Result<Option<Arc<dyn Embedder>>> {
    let Some(options) = &config.embedding else { return Ok(None) };
    Ok(Some(embedders::load(options).await?))
}

pub(crate) fn kept(embedder: Option<Arc<dyn Embedder>>, config: &Config) -> anyhow::Result<Option<Model>> {
    let Some(embedder) = embedder else { return Ok(None) };
    let directory: PathBuf = config.data_dir.join(VECTORS);
    let quick = embedder.is_quick();
    Ok(Some(Model { cached: Arc::new(Cached::open(embedder, &directory)?), quick }))
}

/// A model whose vectors are kept.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    cached: Arc<Cached>,
    quick: bool,
}

impl Model {
    /// Its own scale of similarity.
    async fn chance(&self) -> Result<f32, PondError> {
        let internal = |error: &dyn std::fmt::Display| PondError::new(Code::Internal, error.to_string());
        let cached = self.cached.clone();
        let chance = tokio::task::spawn_blocking(move || cached.chance()).await;
        chance.map_err(|error| internal(&error))?.map_err(|error| internal(&error))
    }

    /// The vector of a question. `None`: it has no word that the model knows.
    async fn of(&self, query: &str) -> Result<Option<Vec<F16>>, PondError> {
        let internal = |error: &dyn std::fmt::Display| PondError::new(Code::Internal, error.to_string());
        let (cached, text) = (self.cached.clone(), query.to_owned());
        let vector = tokio::task::spawn_blocking(move || cached.embed_query(&text)).await;
        vector.map_err(|error| internal(&error))?.map_err(|error| internal(&error))
    }
}

impl VectorSource for Model {
    fn model(&self) -> &str {
        self.cached.model()
    }

    fn dimensions(&self) -> usize {
        self.cached.dimensions()
    }

    fn vectors(&self, texts: &[&str]) -> Result<Vec<Option<Vec<F16>>>, String> {
        self.cached.embed_documents(texts).map_err(|error| error.to_string())
    }

    fn kept(&self, texts: &[&str]) -> Result<Vec<Option<Vec<F16>>>, String> {
        self.cached.kept_documents(texts).map_err(|error| error.to_string())
    }

    fn is_quick(&self) -> bool {
        self.quick
    }
}

/// Where messages are found.
#[derive(Clone, Debug)]
pub(crate) struct Seeker {
    pub(crate) index: EntryIndex,
    pub(crate) datasets: Datasets,
    log: Log,
    model: Option<Model>,
    tuning: Tuning,
    /// Remembers what threads are.
    threads: Arc<Source>,
    /// How far the index is, if somebody in this process knows.
    words: Option<Monitor>,
    /// How much of each house has vectors, as it was last counted.
    coverage: Arc<Mutex<BTreeMap<HouseId, Coverage>>>,
}

fn told(error: &IndexError) -> PondError {
    match error {
        IndexError::Damaged(_) => {
            tracing::error!(%error, "the index is damaged");
            PondError::new(Code::StorageUnavailable, "the index is damaged; `arbe rebuild entries` makes it anew")
        }
        IndexError::Unavailable(_) => {
            tracing::warn!(%error, "the index could not be read");
            PondError::new(Code::StorageUnavailable, "the index cannot be read now; the server's log says why")
        }
    }
}

fn unfit(unfit: Unfit) -> PondError {
    match unfit {
        Unfit::Event(why) => PondError::new(Code::Internal, why),
        Unfit::Log(why) => PondError::new(Code::StorageUnavailable, why),
    }
}

impl Seeker {
    pub(crate) fn new(config: &Config, log: &Log, index: EntryIndex, datasets: Datasets, model: Option<Model>) -> Self {
        let threads = Arc::new(Source::new(log.clone()));
        Self { index, datasets, log: log.clone(), model, tuning: config.tuning, threads, words: None, coverage: Arc::default() }
    }

    pub(crate) fn following(self, words: Monitor) -> Self {
        Self { words: Some(words), ..self }
    }

    /// Counts what has vectors: too slow for every search.
    pub(crate) async fn count_vectors(&self, houses: &[HouseId]) {
        let Some(model) = &self.model else { return };
        for house in houses {
            match self.datasets.coverage(house, model.model()).await {
                Ok(coverage) => drop(self.coverage.lock().insert(house.clone(), coverage)),
                Err(error) => tracing::warn!(%house, %error, "vectors could not be counted"),
            }
        }
    }

    pub(crate) fn model(&self) -> Option<&Model> {
        self.model.as_ref()
    }

    /// Those that recorded something in a house.
    pub(crate) async fn clients(&self, house: &HouseId) -> Result<BTreeSet<String>, PondError> {
        let house = house.clone();
        self.look(move |index| index.clients(&house)).await
    }

    /// Reads files, away from the threads on which others wait.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&EntryIndex) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<T, PondError> {
        let index = self.index.clone();
        let found = tokio::task::spawn_blocking(move || look(&index)).await;
        // tantivy takes for granted that lists of postings are what it wrote.
        let broken = |error: tokio::task::JoinError| IndexError::Damaged(error.to_string());
        found.map_err(broken).and_then(|found| found).map_err(|error| told(&error))
    }

    async fn message(&self, place: &Place) -> Result<Option<Message>, PondError> {
        let Some(stream) = StreamName::parse(&place.stream) else { return Ok(None) };
        match stream {
            StreamName::Thread(_) => self.threads.message(&stream, place.seq).await.map_err(unfit),
            StreamName::Session(..) => Source::new(self.log.clone()).message(&stream, place.seq).await.map_err(unfit),
            StreamName::House(_) | StreamName::Agents => Ok(None),
        }
    }

    async fn embedded(&self, house: &HouseId, model: &Model) -> Result<bool, PondError> {
        self.datasets.has_vectors(house, model.model()).await.map_err(datasets::told)
    }
}

/// Those of the nearest messages, each once.
fn roots(places: &[Option<Whereabouts>]) -> Vec<SessionId> {
    let mut seen = BTreeSet::new();
    let roots = places.iter().flatten().filter(|at| seen.insert(at.root.as_str()));
    roots.filter_map(|at| SessionId::new(&at.root).ok()).take(ROOTS).collect()
}

fn as_filter(filter: &MessageFilter) -> Result<Filter, PondError> {
    let wrong = |error: &dyn std::fmt::Display| PondError::invalid(error.to_string());
    let moment = |micros: Option<i64>| micros.map(Timestamp::from_micros).transpose().map_err(|error| wrong(&error));
    let project = |name: &String| match name.strip_suffix('*') {
        Some(beginning) => Project::Begins(beginning.to_owned()),
        None => Project::Is(name.clone()),
    };
    let role = |name: &String| match name.as_str() {
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "system" => Ok(Role::System),
        "tool" => Ok(Role::Tool),
        other => Err(PondError::invalid(format!("there is no role {other:?}"))),
    };
    Ok(Filter {
        project: filter.project.as_ref().map(|name| vec![project(name)]),
        session: filter.session.as_deref().map(SessionId::new).transpose().map_err(|error| wrong(&error))?,
        source_agent: filter.source_agent.clone(),
        role: filter.role.as_ref().map(role).transpose()?,
        since: moment(filter.since)?,
        until: moment(filter.until)?,
    })
}

#[async_trait::async_trait]
impl Finder for Seeker {
    async fn words(
        &self,
        house: &HouseId,
        question: &Question,
        filter: &MessageFilter,
        most: usize,
    ) -> Result<Option<Ranked>, PondError> {
        let (house, question, filter) = (house.clone(), question.clone(), filter.clone());
        self.look(move |index| index.messages(&house, &question, &filter, most)).await
    }

    async fn meaning(
        &self,
        house: &HouseId,
        query: &str,
        filter: &MessageFilter,
        most: usize,
    ) -> Result<Option<Meaning>, PondError> {
        let Some(model) = &self.model else { return Ok(None) };
        if !self.embedded(house, model).await? {
            return Ok(None);
        }
        let chance = model.chance().await?;
        // A question without a word that the model knows means nothing to it.
        let Some(vector) = model.of(query).await? else { return Ok(Some(Meaning { near: Vec::new(), chance, more: false })) };
        let by = as_filter(filter)?;
        let near = self.datasets.nearest(house, &vector, model.model(), &by, most, self.tuning).await.map_err(datasets::told)?;
        let more = near.len() >= most;
        let (ids, of) = (near.iter().map(|it| it.session_id.to_string()).collect::<Vec<_>>(), house.clone());
        let places = self.look(move |index| index.whereabouts(&of, &ids.iter().map(String::as_str).collect::<Vec<_>>())).await?;
        // What a session is about is a trait of it, like its project, whichever of its messages a filter lets through.
        let about = self.datasets.about(house, &vector, model.model(), &roots(&places)).await.map_err(datasets::told)?;
        let near = near.into_iter().zip(places).filter_map(|(it, at)| {
            let at = at?;
            let about = SessionId::new(&at.root).ok().and_then(|root| about.get(&root).copied()).unwrap_or_default();
            Some(Near {
                about,
                root: at.root,
                root_agent: at.source_agent,
                root_project: at.project,
                created_at: at.created_at,
                last_at: at.last_at,
                session_id: it.session_id.to_string(),
                place: Place { stream: at.stream, seq: it.seq },
                similarity: it.similarity,
            })
        });
        Ok(Some(Meaning { near: near.collect(), chance, more }))
    }

    async fn plan(&self, house: &HouseId, query: &str, filter: &MessageFilter, most: usize) -> Result<Option<String>, PondError> {
        let Some(model) = &self.model else { return Ok(None) };
        let Some(vector) = model.of(query).await? else { return Ok(None) };
        let plan = self.datasets.nearest_analysis(house, &vector, model.model(), &as_filter(filter)?, most, self.tuning).await;
        plan.map(Some).map_err(datasets::told)
    }

    async fn said(&self, places: &[Place]) -> Result<Vec<Option<Message>>, PondError> {
        let mut streams: BTreeMap<&str, Vec<(usize, Place)>> = BTreeMap::new();
        for (at, place) in places.iter().enumerate() {
            streams.entry(&place.stream).or_default().push((at, place.clone()));
        }
        // What one stream says is stored together: read one after the other, the next is mostly there already.
        let mut reads = JoinSet::new();
        for these in streams.into_values() {
            let seeker = self.clone();
            reads.spawn(async move {
                let mut said = Vec::new();
                for (at, place) in these {
                    said.push((at, seeker.message(&place).await?));
                }
                Ok::<_, PondError>(said)
            });
        }
        let mut said = vec![None; places.len()];
        while let Some(read) = reads.join_next().await {
            let read = read.map_err(|error| PondError::new(Code::Internal, error.to_string()))??;
            read.into_iter().for_each(|(at, message)| said[at] = message);
        }
        Ok(said)
    }

    async fn newer(&self, house: &HouseId, lasts: Vec<Last>) -> Result<Vec<u64>, PondError> {
        let of = house.clone();
        self.look(move |index| index.newer(&of, &lasts)).await
    }

    /// Whether the index lacks what was said before the last moment.
    async fn late(&self) -> Option<String> {
        let words = self.words.as_ref()?;
        if let RunState::Stopped { .. } = words.status(self.log.position()).state {
            return Some(
                "what was recorded since the index stopped cannot be found; its server's log says why it did".to_owned(),
            );
        }
        // Nobody waits long to be told how long the index has been behind.
        let waits = match tokio::time::timeout(GLANCE, words.waiting_since(&self.log)).await {
            Ok(Ok(since)) => self.log.now_ms().saturating_sub(since?),
            Ok(Err(_)) | Err(_) => u64::MAX,
        };
        (waits > MOMENT_MS).then(|| LATE.to_owned())
    }

    fn uncompared(&self, house: &HouseId) -> Option<String> {
        let Coverage { messages_with_text, other_model, missing, .. } = *self.coverage.lock().get(house)?;
        let compared = messages_with_text.saturating_sub(missing);
        let again = if other_model > 0 { "; `arbe sync --only embed --force-embed` does the rest" } else { "" };
        (compared < messages_with_text)
            .then(|| format!("{compared} of {messages_with_text} messages were compared by meaning, all by their words{again}"))
    }

    async fn stats(&self, house: &HouseId) -> Result<Stats, PondError> {
        let of = house.clone();
        let searchable_messages = self.look(move |index| index.count(&of)).await?;
        let position = self.index.checkpoint().map_err(|error| told(&error))?.position();
        let health = self.datasets.health(house).await.map_err(datasets::told)?;
        let rows = |table: &str| health.get(table).map_or(0, |it| it.rows);
        let embedded_messages = match &self.model {
            Some(model) => self.datasets.coverage(house, model.model()).await.map_err(datasets::told)?.embedded,
            None => 0,
        };
        Ok(Stats {
            sessions: rows("sessions"),
            messages: rows("messages"),
            parts: rows("parts"),
            searchable_messages,
            embedded_messages,
            embedding_model: self.model.as_ref().map(|model| model.model().to_owned()),
            clients: self.datasets.clients(house).await.map_err(datasets::told)?,
            position,
        })
    }

    async fn searchable(&self, position: u64) -> Result<(), PondError> {
        let watermark = self.words.as_ref().map(Monitor::watermark);
        datasets::reached(&self.log, watermark, position, PATIENCE, "the index").await
    }
}

#[async_trait::async_trait]
impl EntryFinder for Seeker {
    async fn entries(
        &self,
        house: &HouseId,
        question: &Question,
        filter: &EntryFilter,
        skip: usize,
        most: usize,
    ) -> Result<Option<FoundEntries>, PondError> {
        let (house, question, filter) = (house.clone(), question.clone(), filter.clone());
        self.look(move |index| index.entries(&house, &question, &filter, skip, most)).await
    }

    async fn entry(&self, house: &HouseId, stream: u64, seq: u64) -> Result<Option<(ThreadId, Entry)>, PondError> {
        let of = house.clone();
        let Some(thread) = self.look(move |index| index.thread(&of, stream)).await? else { return Ok(None) };
        let internal = |error: events::InvalidId| PondError::new(Code::Internal, error.to_string());
        let thread = ThreadId::new(&thread).map_err(internal)?;
        let entry = Source::new(self.log.clone()).entry(&StreamName::Thread(thread.clone()), seq).await.map_err(unfit)?;
        Ok(entry.map(|entry| (thread, entry)))
    }

    fn position(&self) -> Result<u64, PondError> {
        Ok(self.index.checkpoint().map_err(|error| told(&error))?.position())
    }

    async fn findable(&self, position: u64) -> Result<(), PondError> {
        self.searchable(position).await
    }
}
