//! Entries of threads by their words: what `GET /api/search` and `arbe find` answer.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use entry_index::{EntryFilter, EntryFit, FoundEntries, Question, beginning, entry_text, snippet};
use events::{AgentId, Entry, EventId, HouseId, ThreadId};
use futures::{StreamExt, stream};
use schemars::JsonSchema;
use serde::Serialize;

use crate::library::PondError;
use crate::phrase::Phrase;

/// Entries that can be paged through; who wants more asks more precisely.
pub const DEEPEST: usize = 10_000;
/// Bytes of an entry that are shown.
const SHOWN: usize = 300;
/// The best by their words, of which those come first in which the question stands as it was typed.
const LOOKED_AT: usize = 30;
/// Entries that are read at the same time.
const AT_ONCE: usize = 16;

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
    /// The best first, of the same the newest. Of the first thirty those in which more of the question stands as it was typed come before the
    /// others, whatever their scores.
    pub entries: Vec<EntryHit>,
    /// All that fit.
    pub total: u64,
    /// Go on with this as `offset`, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// Why there is nothing, and what of the question was not looked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
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
    let none = |why: &str| EntryHits { entries: Vec::new(), total: 0, next_offset: None, hints: vec![why.to_owned()] };
    // Signs alone are no words, and are nowhere.
    if question.is_empty() && !text.trim().is_empty() {
        return Ok(none("there is no word in the question"));
    }
    let terms = question.terms();
    // One word stands as it was typed wherever it is, and what comes after those that are looked at is in its order already.
    let looks = terms.len() > 1 && skip < LOOKED_AT;
    let (from, to) = if looks { (0, LOOKED_AT.max(skip + most)) } else { (skip, skip + most) };
    let Some(found) = finder.entries(house, &question, &filter, from, to - from).await? else {
        return Ok(none("nothing is indexed yet"));
    };
    let terms: BTreeSet<&str> = terms.into_iter().chain(found.heard.iter().map(String::as_str)).collect();
    let mut places: Vec<Placed> = found.entries.into_iter().map(|fit| Placed { fit, read: None }).collect();
    if looks {
        let looked_at = places.len().min(LOOKED_AT);
        typed_first(finder, house, &Phrase::new(&text), &mut places[..looked_at]).await;
    }
    let mut page: Vec<Placed> = places.into_iter().skip(skip - from).take(most).collect();
    read(finder, house, &mut page).await;
    let next = skip + page.len();
    let mut entries = Vec::with_capacity(page.len());
    for Placed { fit, read } in page {
        let read = read.transpose()?.flatten();
        entries.extend(read.map(|(thread_id, entry)| hit(&fit, thread_id, entry, &terms)));
    }
    let more = (next as u64) < found.total && next < DEEPEST;
    let mut hints = found.hints;
    if question.left_out > 0 {
        hints.push(format!("{} words of the question were left out: it has too many", question.left_out));
    }
    Ok(EntryHits { entries, total: found.total, next_offset: more.then_some(next as u64), hints })
}

/// What was found, and the entry once it was looked at; within, `None` where it cannot be found any more.
struct Placed {
    fit: EntryFit,
    read: Option<Result<Option<(ThreadId, Entry)>, PondError>>,
}

/// Those first that have most of the question as it was typed; the others stay as they are, and so do those that cannot be read: they may
/// not be of the page that is shown.
async fn typed_first(finder: &dyn EntryFinder, house: &HouseId, phrase: &Phrase, places: &mut [Placed]) {
    read(finder, house, places).await;
    places.sort_by_cached_key(|place| {
        let share = match &place.read {
            Some(Ok(Some((_, entry)))) => phrase.share(&entry_text(entry)),
            Some(Ok(None) | Err(_)) | None => 0.0,
        };
        // Shares of a few words are far apart.
        Reverse((share * 1_000_000.0) as u64)
    });
}

/// Reads those that were not read before, some at the same time.
async fn read(finder: &dyn EntryFinder, house: &HouseId, places: &mut [Placed]) {
    let unread: Vec<&mut Placed> = places.iter_mut().filter(|place| place.read.is_none()).collect();
    let reads: Vec<_> = unread.iter().map(|place| finder.entry(house, place.fit.stream, place.fit.seq)).collect();
    let read: Vec<_> = stream::iter(reads).buffered(AT_ONCE).collect().await;
    unread.into_iter().zip(read).for_each(|(place, read)| place.read = Some(read));
}

fn hit(fit: &EntryFit, thread_id: ThreadId, entry: Entry, terms: &BTreeSet<&str>) -> EntryHit {
    let said = entry_text(&entry);
    EntryHit {
        thread_id,
        seq: fit.seq,
        id: entry.id,
        ts: entry.ts,
        score: (f64::from(fit.score) * 1_000.0).round() / 1_000.0,
        snippet: snippet(&said, terms, SHOWN).unwrap_or_else(|| beginning(&said, SHOWN).to_owned()),
        kind: entry.kind,
        author_agent_id: entry.author_agent_id,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use events::Ulid;

    use super::*;
    use crate::library::Code;

    /// Entries in the order that the index would tell them in; the best is the first.
    #[derive(Debug, Default)]
    struct Board {
        said: Vec<String>,
        gone: Option<u64>,
        unreadable: Option<u64>,
        reading: AtomicUsize,
        most_at_once: AtomicUsize,
        read: AtomicUsize,
    }

    #[async_trait::async_trait]
    impl EntryFinder for Board {
        async fn entries(
            &self,
            _: &HouseId,
            question: &Question,
            _: &EntryFilter,
            skip: usize,
            most: usize,
        ) -> Result<Option<FoundEntries>, PondError> {
            let fit = |at: usize| EntryFit { stream: 1, seq: at as u64, score: 1.0 / (at + 1) as f32, time: 0 };
            let entries = (0..self.said.len()).map(fit).skip(skip).take(most).collect();
            let none = self.said.is_empty() && !question.is_empty();
            let hints = none.then(|| "nobody says it".to_owned()).into_iter().collect();
            let total = self.said.len() as u64;
            Ok(Some(FoundEntries { entries, total, heard: BTreeSet::new(), hints, plan: String::new() }))
        }

        async fn entry(&self, _: &HouseId, _: u64, seq: u64) -> Result<Option<(ThreadId, Entry)>, PondError> {
            let now = self.reading.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(now, Ordering::SeqCst);
            self.read.fetch_add(1, Ordering::SeqCst);
            // Later ones are done sooner.
            for _ in 0..(20 - seq % 20) {
                tokio::task::yield_now().await;
            }
            self.reading.fetch_sub(1, Ordering::SeqCst);
            if self.gone == Some(seq) {
                return Ok(None);
            }
            if self.unreadable == Some(seq) {
                return Err(PondError::new(Code::StorageUnavailable, "the store does not answer"));
            }
            let said = serde_json::to_string(&self.said[seq as usize]).unwrap();
            let id = EventId(Ulid(u128::from(seq)));
            let written = format!(r#"{{"id":"{id}","ts":1,"type":"chat","v":1,"payload":{{"text":{said}}}}}"#);
            Ok(Some((ThreadId::new("t-1").unwrap(), Entry::from_slice(written.as_bytes()).unwrap())))
        }

        fn position(&self) -> Result<u64, PondError> {
            Ok(1)
        }

        async fn findable(&self, _: u64) -> Result<(), PondError> {
            Ok(())
        }
    }

    fn board<S: ToString>(said: impl IntoIterator<Item = S>) -> Board {
        Board { said: said.into_iter().map(|said| said.to_string()).collect(), ..Board::default() }
    }

    async fn found(board: &Board, text: &str, skip: usize, most: usize) -> (Vec<u64>, Option<u64>) {
        let query = EntryQuery { text: text.into(), filter: EntryFilter::default(), skip, most };
        let hits = find(board, &HouseId::new("h-1").unwrap(), query).await.unwrap();
        (hits.entries.iter().map(|hit| hit.seq).collect(), hits.next_offset)
    }

    #[tokio::test]
    async fn what_stands_as_it_was_typed_comes_first_and_the_rest_stays_in_order() {
        let board = board([
            "rs: lib gone, see src",
            "lib rs src",
            "the thread panicked, after all that was said before it, at src/lib.rs:12 in the end",
            "src of the lib in rs",
            "look at src/lib: rs",
        ]);
        assert_eq!(found(&board, "src/lib.rs", 0, 9).await.0, [2, 4, 1, 0, 3]);
        assert_eq!(found(&board, "SRC/lib.rs", 1, 2).await, (vec![4, 1], Some(3)));
        assert_eq!(found(&board, "src", 0, 9).await.0, [0, 1, 2, 3, 4], "one word stands everywhere");
    }

    #[tokio::test]
    async fn pages_follow_one_another_also_past_those_that_are_looked_at() {
        let board = board((0..130).map(|n| if n % 2 == 0 { "lib src".to_owned() } else { format!("src/lib {n}") }));
        let mut all = Vec::new();
        let mut next = Some(0);
        while let Some(skip) = next {
            let (page, more) = found(&board, "src/lib", skip as usize, 20).await;
            all.extend(page);
            next = more;
        }
        let typed = (0..30).filter(|n| n % 2 == 1);
        let expected: Vec<u64> = typed.chain((0..30).filter(|n| n % 2 == 0)).chain(30..130).collect();
        assert_eq!(all, expected);
    }

    #[tokio::test]
    async fn why_there_is_nothing_is_told_and_what_was_not_looked_for() {
        let hints = async |board: &Board, text: &str| {
            let query = EntryQuery { text: text.into(), filter: EntryFilter::default(), skip: 0, most: 9 };
            find(board, &HouseId::new("h-1").unwrap(), query).await.unwrap().hints
        };
        let (some, none) = (board(["src"]), Board::default());
        assert_eq!(hints(&some, "src").await, Vec::<String>::new());
        assert_eq!(hints(&none, "src").await, ["nobody says it"]);
        assert_eq!(hints(&none, "").await, Vec::<String>::new(), "there is nothing at all");
        assert_eq!(hints(&some, "?!").await, ["there is no word in the question"]);
        let many: Vec<String> = (0..80).map(|n| format!("w{n}")).collect();
        assert_eq!(hints(&some, &many.join(" ")).await, ["16 words of the question were left out: it has too many"]);
    }

    #[tokio::test]
    async fn what_was_looked_at_is_not_read_again() {
        let board = board((0..130).map(|n| format!("src/lib {n}")));
        assert_eq!(found(&board, "src/lib", 10, 40).await, ((10..50).collect(), Some(50)));
        assert_eq!(board.read.into_inner(), 50);
    }

    #[tokio::test]
    async fn an_entry_that_cannot_be_read_stands_in_the_way_of_its_own_page_alone() {
        let mut board = board((0..40).map(|n| if n == 25 { "src/lib".to_owned() } else { format!("lib {n} src") }));
        board.unreadable = Some(4);
        assert_eq!(found(&board, "src/lib", 10, 10).await, ((9..19).collect(), Some(20)));
        assert_eq!(found(&board, "src/lib", 0, 5).await.0, [25, 0, 1, 2, 3]);
        let query = EntryQuery { text: "src/lib".into(), filter: EntryFilter::default(), skip: 5, most: 5 };
        let refused = find(&board, &HouseId::new("h-1").unwrap(), query).await.unwrap_err();
        assert_eq!(refused.code, Code::StorageUnavailable);
    }

    #[tokio::test]
    async fn entries_are_read_side_by_side_and_told_in_order_and_only_those_of_the_page() {
        let mut board = board((0..200).map(|n| format!("entry {n}")));
        board.gone = Some(3);
        let (page, next) = found(&board, "", 0, 50).await;
        assert_eq!((page, next), ((0..50).filter(|n| *n != 3).collect(), Some(50)));
        assert_eq!((board.read.into_inner(), board.most_at_once.into_inner()), (50, AT_ONCE));
    }
}
