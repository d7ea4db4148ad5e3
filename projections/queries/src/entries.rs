//! Entries of threads by their words: what `GET /api/search` and `arbe find` answer.

use entry_index::{EntryFilter, FoundEntries, Question, beginning, entry_text, snippet};
use events::{AgentId, Entry, EventId, HouseId, ThreadId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::library::PondError;

/// Entries that can be paged through; who wants more asks more precisely.
pub const DEEPEST: usize = 10_000;
/// Bytes of an entry that are shown.
const SHOWN: usize = 300;

/// Where entries are found.
#[async_trait::async_trait]
pub trait EntryFinder: Send + Sync + std::fmt::Debug {
    /// `None`: nothing was ever indexed.
    async fn entries(
        &self,
        house: &HouseId,
        question: &Question,
        filter: &EntryFilter,
        skip: usize,
        most: usize,
    ) -> Result<Option<FoundEntries>, PondError>;

    /// The thread that an entry was found in, and the entry.
    async fn entry(&self, house: &HouseId, stream: u64, seq: u64) -> Result<Option<(ThreadId, Entry)>, PondError>;

    /// How far what can be found has come.
    fn position(&self) -> Result<u64, PondError>;

    /// Returns when everything up to a position of the log can be found, or tells why that takes too long.
    async fn findable(&self, position: u64) -> Result<(), PondError>;
}

/// Which entries are looked for.
#[derive(Clone, Debug, Default)]
pub struct EntryQuery {
    /// Every word of it has to be there; without any, the newest are found.
    pub text: String,
    pub filter: EntryFilter,
    pub skip: usize,
    pub most: usize,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EntryHits {
    /// The best first, of the same the newest.
    pub entries: Vec<EntryHit>,
    /// All that fit.
    pub total: u64,
    /// Go on with this as `offset`, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EntryHit {
    pub thread_id: ThreadId,
    pub seq: u64,
    pub id: EventId,
    /// Unix milliseconds.
    pub ts: u64,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author_agent_id: Option<AgentId>,
    pub score: f64,
    /// Around the words that were looked for, which stand between `«` and `»`.
    pub snippet: String,
}

pub async fn find(finder: &dyn EntryFinder, house: &HouseId, query: EntryQuery) -> Result<EntryHits, PondError> {
    let EntryQuery { text, filter, skip, most } = query;
    if text.chars().count() > crate::library::LONGEST {
        return Err(PondError::invalid(format!("q has at most {} characters", crate::library::LONGEST)));
    }
    if skip.saturating_add(most) > DEEPEST {
        return Err(PondError::invalid(format!("offset and limit reach beyond {DEEPEST} entries: ask more precisely")));
    }
    let question = Question::new(&text);
    let none = EntryHits { entries: Vec::new(), total: 0, next_offset: None };
    // Signs alone are no words, and are nowhere.
    if question.is_empty() && !text.trim().is_empty() {
        return Ok(none);
    }
    let Some(found) = finder.entries(house, &question, &filter, skip, most).await? else { return Ok(none) };
    let terms = question.terms();
    let mut entries = Vec::new();
    for fit in &found.entries {
        let Some((thread_id, entry)) = finder.entry(house, fit.stream, fit.seq).await? else { continue };
        let said = entry_text(&entry);
        entries.push(EntryHit {
            thread_id,
            seq: fit.seq,
            id: entry.id,
            ts: entry.ts,
            score: (f64::from(fit.score) * 1_000.0).round() / 1_000.0,
            snippet: snippet(&said, &terms, SHOWN).unwrap_or_else(|| beginning(&said, SHOWN).to_owned()),
            kind: entry.kind,
            author_agent_id: entry.author_agent_id,
        });
    }
    let next = skip + found.entries.len();
    let more = (next as u64) < found.total && next < DEEPEST;
    Ok(EntryHits { entries, total: found.total, next_offset: more.then_some(next as u64) })
}
