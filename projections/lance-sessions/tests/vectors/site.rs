//! A log and datasets, and what makes vectors: a fake.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use commands::RealSource;
use commands::sessions::{Recording, Sessions};
use event_log::{Log, Options, StoreUrl};
use events::HouseId;
use events::session::{Message, Session, Timestamp};
use lance_sessions::{
    Again, Coverage, Datasets, EmbedError, Embedded, F16, Filter, Near, SessionsProjector, Tuning, VectorSource,
};
use projector::{advance, verify};
use tempfile::TempDir;

/// Every word is a direction that its letters give: enough to tell texts apart, and nothing like a model.
#[derive(Debug)]
pub struct FakeVectors {
    pub model: &'static str,
    pub dimensions: usize,
    pub quick: bool,
    pub asked: AtomicU64,
    /// It fails from this many texts on.
    pub fails_from: AtomicU64,
    pub failing: AtomicBool,
    /// What it made.
    pub kept: Mutex<HashMap<String, Vec<F16>>>,
    /// Texts that were looked for among it.
    pub looked_for: AtomicU64,
}

pub fn fake(model: &'static str, dimensions: usize, quick: bool) -> Arc<FakeVectors> {
    let (asked, fails_from, failing) = (AtomicU64::new(0), AtomicU64::new(u64::MAX), AtomicBool::new(false));
    let (kept, looked_for) = Default::default();
    Arc::new(FakeVectors { model, dimensions, quick, asked, fails_from, failing, kept, looked_for })
}

pub fn direction(text: &str, dimensions: usize) -> Option<Vec<F16>> {
    let mut sum = vec![0.0_f32; dimensions];
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    for word in words {
        let mut state =
            word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        for number in &mut sum {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *number += (state >> 40) as f32 / (1_u64 << 24) as f32 - 0.5;
        }
    }
    let length = sum.iter().map(|it| it * it).sum::<f32>().sqrt();
    (length > 0.0).then(|| sum.into_iter().map(|it| F16::from_f32(it / length)).collect())
}

impl VectorSource for FakeVectors {
    fn model(&self) -> &str {
        self.model
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn vectors(&self, texts: &[&str]) -> Result<Vec<Option<Vec<F16>>>, String> {
        let before = self.asked.fetch_add(texts.len() as u64, Ordering::SeqCst);
        if self.failing.load(Ordering::SeqCst) || before >= self.fails_from.load(Ordering::SeqCst) {
            return Err("it does not want to".into());
        }
        let made: Vec<_> = texts.iter().map(|text| direction(text, self.dimensions)).collect();
        let known = texts.iter().zip(&made).filter_map(|(text, made)| Some(((*text).to_owned(), made.clone()?)));
        self.kept.lock().unwrap().extend(known);
        Ok(made)
    }

    fn kept(&self, texts: &[&str]) -> Result<Vec<Option<Vec<F16>>>, String> {
        self.looked_for.fetch_add(texts.len() as u64, Ordering::SeqCst);
        let kept = self.kept.lock().unwrap();
        Ok(texts.iter().map(|text| kept.get(*text).cloned()).collect())
    }

    fn is_quick(&self) -> bool {
        self.quick
    }
}

pub struct Site {
    pub log: Log,
    pub sessions: Sessions,
    pub datasets: Datasets,
    pub directory: TempDir,
}

pub async fn site(source: &Arc<FakeVectors>) -> Site {
    let store = StoreUrl::Memory.open(&[], true).unwrap();
    let log = Log::open(store, Options { keep: true, ..Options::default() }).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let datasets = Datasets::open(directory.path(), log.clone()).unwrap().with_vectors(source.clone());
    Site { sessions: Sessions::new(log.clone(), Arc::new(RealSource)), log, datasets, directory }
}

pub fn house() -> HouseId {
    HouseId::new("h-1").unwrap()
}

pub fn moment(second: u64) -> Timestamp {
    Timestamp::from_millis(1_767_225_600_000 + i64::try_from(second).unwrap() * 1_000).unwrap()
}

/// Where messages are said.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub session: &'a str,
    pub agent: &'a str,
    pub project: &'a str,
    pub role: &'a str,
    pub from: u64,
}

pub const PLACE: Place<'_> = Place { session: "s", agent: "pi", project: "/p", role: "user", from: 0 };

fn message(place: Place<'_>, n: u64, text: &str) -> Message {
    let part = serde_json::json!({"id": "0", "type": "text", "provenance": "conversational", "text": text});
    let said = serde_json::json!({
        "id": format!("m{n}"), "role": place.role, "timestamp": moment(place.from + n), "content": [part],
    });
    serde_json::from_value(said).unwrap()
}

impl Site {
    /// Says texts in a session, from its beginning.
    pub async fn say_in(&self, house: &HouseId, place: Place<'_>, texts: &[String]) {
        let session = serde_json::json!({
            "id": place.session, "source_agent": place.agent, "created_at": moment(0), "project": place.project,
        });
        let session: Session = serde_json::from_value(session).unwrap();
        let messages = texts.iter().zip(0..).map(|(text, n)| message(place, n, text)).collect();
        let recording = Recording { session_id: session.id.clone(), session: Some(session), messages };
        self.sessions.record(house, recording).await.unwrap();
    }

    pub async fn say(&self, place: Place<'_>, texts: &[String]) {
        self.say_in(&house(), place, texts).await;
        self.follow().await;
    }

    pub async fn follow(&self) {
        advance(&self.log, &Arc::new(SessionsProjector), &self.datasets, |_| {}).await.unwrap();
    }

    /// The same datasets, with another model.
    pub fn with(self, source: &Arc<FakeVectors>) -> Self {
        let datasets = Datasets::open(self.directory.path(), self.log.clone()).unwrap().with_vectors(source.clone());
        Self { datasets, ..self }
    }

    /// The same with fewer vectors to an index.
    pub fn indexed_from(self, vectors: u64) -> Self {
        Self { datasets: self.datasets.clone().with_vectors_indexed_from(vectors), ..self }
    }

    /// The same with so many vectors to a part of an index.
    pub fn in_parts_of(self, vectors: u64) -> Self {
        Self { datasets: self.datasets.clone().with_vectors_of_a_part(vectors.try_into().unwrap()), ..self }
    }

    pub async fn embed(&self, again: Again) -> Result<Embedded, EmbedError> {
        self.datasets.embed(&house(), again, |_| {}).await
    }

    pub async fn coverage(&self, model: &str) -> (u64, u64, u64) {
        let Coverage { messages_with_text, embedded, other_model, .. } = self.datasets.coverage(&house(), model).await.unwrap();
        assert_eq!(self.datasets.has_vectors(&house(), model).await.unwrap(), embedded > 0);
        (messages_with_text, embedded, other_model)
    }

    /// As the health of the datasets tells it.
    pub async fn embedded(&self) -> u64 {
        self.datasets.health(&house()).await.unwrap()["messages"].embedded
    }

    pub async fn near(&self, source: &FakeVectors, text: &str, filter: &Filter, k: usize) -> Vec<Near> {
        let query = direction(text, source.dimensions).unwrap();
        self.datasets.nearest(&house(), &query, source.model, filter, k, Tuning::default()).await.unwrap()
    }

    pub async fn plan(&self, source: &FakeVectors, filter: &Filter) -> String {
        let query = direction("alpha", source.dimensions).unwrap();
        self.datasets.nearest_plan(&house(), &query, source.model, filter, 5, Tuning::default()).await.unwrap()
    }

    pub async fn verify(&self) {
        let report = verify(&self.log, &Arc::new(SessionsProjector), &self.datasets, |_| {}).await.unwrap();
        assert!(report.equal(), "{report:?}");
    }

    /// Where the messages of the copy that serves are.
    pub fn messages(&self) -> PathBuf {
        let live = std::fs::read_to_string(self.directory.path().join("live")).unwrap();
        self.directory.path().join(live).join("houses/h-1/messages.lance")
    }

    pub fn versions(&self) -> usize {
        std::fs::read_dir(self.messages().join("_versions")).unwrap().count()
    }
}

pub fn numbered(words: &str, count: u64) -> Vec<String> {
    (0..count).map(|n| format!("{words} {n}")).collect()
}

/// The first message of a session comes after the session itself.
pub fn ids(found: &[Near]) -> Vec<String> {
    found.iter().map(|it| format!("{} m{}", it.session_id, it.seq - 1)).collect()
}
