//! The index as it is at one moment, with what is known of whole sessions. Segments never change, so what is read of one is read once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use events::HouseId;
use parking_lot::Mutex;
use tantivy::BitSet;
use tantivy::index::SegmentId;
use tantivy::schema::{IndexRecordOption, Value};
use tantivy::{DocSet, Searcher, SegmentReader, TERMINATED, TantivyDocument, Term};

use crate::documents::{SessionNote, scope};
use crate::error::IndexError;
use crate::schema::{Fields, Kind};

/// What is known of the messages of one session, or of those of it in one segment.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    messages: u64,
    /// Terms, as the index counts them.
    length: u64,
    last: i64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        *self = Self {
            messages: self.messages + other.messages,
            length: self.length + other.length,
            last: if self.messages == 0 { other.last } else { self.last.max(other.last) },
        };
    }
}

/// What one segment says about sessions.
#[derive(Debug)]
pub(crate) struct Table {
    /// The number of the stream of each document.
    streams: Vec<u64>,
    houses: BTreeMap<String, House>,
    /// All its words, each on a line, once somebody looked for a piece of one.
    pub words: OnceLock<String>,
}

#[derive(Debug)]
struct House {
    messages: Docs,
    entries: Docs,
    /// Terms in all its entries.
    entries_length: u64,
    tallies: HashMap<u64, Tally>,
    notes: Vec<(u64, Arc<SessionNote>)>,
}

/// The documents of a house in one segment, as it takes less memory: with many houses a set for each would be houses times documents.
#[derive(Debug)]
enum Docs {
    Few(Vec<u32>),
    Many(BitSet),
}

impl Docs {
    /// In order, of so many in the segment.
    fn new(docs: Vec<u32>, all: u32) -> Self {
        if docs.len() * 32 < all as usize { Self::Few(docs) } else { Self::Many(laid_out(&docs, all)) }
    }
}

fn laid_out(docs: &[u32], all: u32) -> BitSet {
    let mut set = BitSet::with_max_value(all);
    for doc in docs {
        set.insert(*doc);
    }
    set
}

/// Sets that were laid out for one look, each of one house.
#[derive(Debug, Default)]
struct LaidOut(OnceLock<Box<(String, BitSet, LaidOut)>>);

impl LaidOut {
    fn get(&self, house: &str, lay_out: impl Fn() -> BitSet) -> &BitSet {
        let (of, set, next) = &**self.0.get_or_init(|| Box::new((house.to_owned(), lay_out(), Self::default())));
        if of == house { set } else { next.get(house, lay_out) }
    }
}

/// A segment in one look: what is laid out for it goes with it.
#[derive(Debug)]
pub(crate) struct Part {
    table: Arc<Table>,
    messages: LaidOut,
    entries: LaidOut,
}

impl From<Arc<Table>> for Part {
    fn from(table: Arc<Table>) -> Self {
        Self { table, messages: LaidOut::default(), entries: LaidOut::default() }
    }
}

impl Clone for Part {
    fn clone(&self) -> Self {
        self.table.clone().into()
    }
}

impl Deref for Part {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl Part {
    /// The entries of a house, and how many terms they have.
    pub fn entries(&self, house: &HouseId) -> Option<(&BitSet, u64)> {
        let of = self.table.houses.get(house.as_str())?;
        Some((self.set(house, &of.entries, &self.entries), of.entries_length))
    }

    /// The messages of a house.
    pub fn messages(&self, house: &HouseId) -> Option<&BitSet> {
        let of = self.table.houses.get(house.as_str())?;
        Some(self.set(house, &of.messages, &self.messages))
    }

    fn set<'a>(&'a self, house: &HouseId, docs: &'a Docs, laid: &'a LaidOut) -> &'a BitSet {
        match docs {
            Docs::Many(set) => set,
            Docs::Few(docs) => laid.get(house.as_str(), || laid_out(docs, self.table.streams.len() as u32)),
        }
    }
}

/// A session of a house, with those that it spawned.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub note: Option<Arc<SessionNote>>,
    /// The place of the session that this one hangs on in the end; its own if on none.
    pub root: u32,
    pub last: i64,
    /// Of it and of all that hang on it.
    pub length: u64,
}

/// Where a session stands in the log, and the session that it hangs on in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    pub stream: String,
    pub root: String,
    /// Of the root, as are the rest. Microseconds.
    pub source_agent: String,
    pub project: String,
    pub created_at: i64,
    pub last_at: i64,
}

/// Numbers of streams are digests of their names: there is nothing left to mix.
#[derive(Debug, Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, byte| sum.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The sessions of one house.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    pub all: Vec<Session>,
    places: HashMap<u64, u32, BuildHasherDefault<Itself>>,
    ids: HashMap<String, u64>,
    pub messages: u64,
    pub length: u64,
    /// Those that hang on no other.
    pub roots: u64,
}

impl Sessions {
    pub fn place(&self, stream: u64) -> Option<u32> {
        self.places.get(&stream).copied()
    }

    pub fn whereabouts(&self, id: &str) -> Option<Whereabouts> {
        let session = &self.all[self.place(self.streams(id)?)? as usize];
        let root = &self.all[session.root as usize];
        let (own, note) = (session.note.as_ref()?, root.note.as_ref()?);
        Some(Whereabouts {
            stream: own.stream.clone(),
            root: note.id.clone(),
            source_agent: note.source_agent.clone(),
            project: note.project.clone(),
            created_at: note.created_at,
            last_at: root.last,
        })
    }

    /// Of each session; those of one client tell it again.
    pub fn clients(&self) -> impl Iterator<Item = &str> {
        self.all.iter().filter_map(|session| session.note.as_ref()).map(|note| note.source_agent.as_str())
    }

    /// The stream of a session.
    pub fn streams(&self, id: &str) -> Option<u64> {
        self.ids.get(id).copied()
    }
}

/// The tables of segments, kept from one moment to the next.
pub(crate) type Tables = Arc<Mutex<HashMap<SegmentId, Arc<Table>>>>;

/// One moment of the index. A clone is for one look.
#[derive(Clone)]
pub(crate) struct View {
    pub searcher: Searcher,
    pub fields: Fields,
    parts: Vec<Part>,
    houses: Arc<Mutex<HashMap<HouseId, Arc<Sessions>>>>,
}

impl View {
    pub fn new(searcher: Searcher, fields: Fields, known: &Tables) -> Result<Self, IndexError> {
        let mut tables = Vec::new();
        for segment in searcher.segment_readers() {
            let there = known.lock().get(&segment.segment_id()).cloned();
            let table = match there {
                Some(table) => table,
                None => Arc::new(Table::read(segment, &fields)?),
            };
            tables.push(table);
        }
        let now = searcher.segment_readers().iter().map(SegmentReader::segment_id).zip(tables.iter().cloned());
        *known.lock() = now.collect();
        let parts = tables.into_iter().map(Part::from).collect();
        Ok(Self { searcher, fields, parts, houses: Arc::default() })
    }

    pub fn segments(&self) -> impl Iterator<Item = (u32, &SegmentReader, &Part)> {
        let segments = self.searcher.segment_readers().iter().zip(&self.parts);
        (0..).zip(segments).map(|(number, (segment, part))| (number, segment, part))
    }

    pub fn sessions(&self, house: &HouseId) -> Arc<Sessions> {
        let mut houses = self.houses.lock();
        houses.entry(house.clone()).or_insert_with(|| Arc::new(merge(&self.parts, house.as_str()))).clone()
    }
}

impl Table {
    fn read(segment: &SegmentReader, fields: &Fields) -> Result<Self, IndexError> {
        let streams = segment.fast_fields().u64("stream")?.first_or_default_col(0);
        let streams: Vec<u64> = (0..segment.max_doc()).map(|doc| streams.get_val(doc)).collect();
        let mut houses = BTreeMap::new();
        let inverted = segment.inverted_index(fields.scope)?;
        let kinds = Kind::ALL.map(|kind| scope(kind, ""));
        let mut names = BTreeSet::new();
        let mut terms = inverted.terms().stream()?;
        while terms.advance() {
            let key = String::from_utf8_lossy(terms.key());
            names.extend(kinds.iter().find_map(|kind| key.strip_prefix(kind)).map(str::to_owned));
        }
        for name in names {
            let house = House::read(segment, fields, &streams, &name)?;
            houses.insert(name, house);
        }
        Ok(Self { streams, houses, words: OnceLock::new() })
    }

    pub fn stream(&self, doc: u32) -> u64 {
        self.streams[doc as usize]
    }
}

impl House {
    fn read(segment: &SegmentReader, fields: &Fields, streams: &[u64], name: &str) -> Result<Self, IndexError> {
        let mut tallies: HashMap<u64, Tally> = HashMap::new();
        let norms = segment.get_fieldnorms_reader(fields.text)?;
        let times = segment.fast_fields().i64("time")?.first_or_default_col(0);
        let messages = docs(segment, fields, &scope(Kind::Message, name))?;
        for doc in &messages {
            let one = Tally { messages: 1, length: norms.fieldnorm(*doc).into(), last: times.get_val(*doc) };
            tallies.entry(streams[*doc as usize]).or_default().add(one);
        }
        let entries = docs(segment, fields, &scope(Kind::Entry, name))?;
        let entries_length = entries.iter().map(|doc| u64::from(norms.fieldnorm(*doc))).sum();
        let [messages, entries] = [messages, entries].map(|docs| Docs::new(docs, segment.max_doc()));
        let store = segment.get_store_reader(1)?;
        let mut notes = Vec::new();
        for doc in docs(segment, fields, &scope(Kind::Session, name))? {
            let document: TantivyDocument = store.get(doc)?;
            let text = document.get_first(fields.stored).and_then(|value| value.as_str().map(str::to_owned));
            let note = text.and_then(|text| serde_json::from_str(&text).ok());
            let note = note.ok_or_else(|| IndexError::Damaged("a session cannot be read".into()))?;
            notes.push((streams[doc as usize], Arc::new(note)));
        }
        Ok(Self { messages, entries, entries_length, tallies, notes })
    }
}

/// The documents of a scope, without those that were replaced.
pub(crate) fn docs(segment: &SegmentReader, fields: &Fields, scope: &str) -> Result<Vec<u32>, IndexError> {
    let term = Term::from_field_text(fields.scope, scope);
    let postings = segment.inverted_index(fields.scope)?.read_postings(&term, IndexRecordOption::Basic)?;
    let mut docs = Vec::new();
    if let Some(mut postings) = postings {
        docs.reserve_exact(postings.doc_freq() as usize);
        while postings.doc() != TERMINATED {
            docs.extend((!segment.is_deleted(postings.doc())).then_some(postings.doc()));
            postings.advance();
        }
    }
    Ok(docs)
}

fn merge(parts: &[Part], house: &str) -> Sessions {
    let mut sessions = Sessions::default();
    let mut tallies: BTreeMap<u64, Tally> = BTreeMap::new();
    let mut notes: BTreeMap<u64, Arc<SessionNote>> = BTreeMap::new();
    for house in parts.iter().filter_map(|part| part.houses.get(house)) {
        house.tallies.iter().for_each(|(stream, tally)| tallies.entry(*stream).or_default().add(*tally));
        notes.extend(house.notes.iter().cloned());
    }
    notes.keys().for_each(|stream| {
        tallies.entry(*stream).or_default();
    });
    let by_id: HashMap<&str, u64> = notes.iter().map(|(stream, note)| (note.id.as_str(), *stream)).collect();
    for (stream, tally) in &tallies {
        sessions.places.insert(*stream, sessions.all.len() as u32);
        let note = notes.get(stream).cloned();
        sessions.all.push(Session { note, root: 0, last: tally.last, length: 0 });
        sessions.messages += tally.messages;
        sessions.length += tally.length;
    }
    for (place, stream) in tallies.keys().enumerate() {
        let root = root(&notes, &by_id, *stream);
        let root = sessions.places.get(&root).copied().unwrap_or(place as u32);
        sessions.all[place].root = root;
        sessions.roots += u64::from(root as usize == place);
        sessions.all[root as usize].length += tallies[stream].length;
    }
    sessions.ids = by_id.into_iter().map(|(id, stream)| (id.to_owned(), stream)).collect();
    sessions
}

/// How far up sessions are followed: one that hangs on itself hangs on nothing.
const DEEPEST: usize = 16;

fn root(notes: &BTreeMap<u64, Arc<SessionNote>>, by_id: &HashMap<&str, u64>, stream: u64) -> u64 {
    let mut at = stream;
    for _ in 0..DEEPEST {
        let parent = notes.get(&at).and_then(|note| note.parent.as_deref()).and_then(|parent| by_id.get(parent));
        match parent {
            Some(parent) if *parent != at && *parent != stream => at = *parent,
            Some(_) => return stream,
            None => return at,
        }
    }
    stream
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every so many-th.
    fn every(step: u32, from: u32, all: u32) -> Vec<u32> {
        (from..all).step_by(step as usize).collect()
    }

    fn bytes(docs: &Docs, all: u32) -> usize {
        match docs {
            Docs::Few(docs) => docs.capacity() * size_of::<u32>(),
            Docs::Many(_) => all.div_ceil(64) as usize * size_of::<u64>(),
        }
    }

    #[test]
    fn the_documents_of_however_many_houses_take_four_bytes_each_at_most() {
        const ALL: u32 = 100_000;
        for houses in [1, 2, 10, 31, 33, 1_000, 10_000] {
            let all = (0..houses).map(|from| bytes(&Docs::new(every(houses, from, ALL), ALL), ALL));
            assert!(all.sum::<usize>() <= ALL as usize * size_of::<u32>(), "{houses}");
        }
    }

    #[test]
    fn a_house_has_the_same_documents_however_they_are_kept_and_whoever_asked_before() {
        const ALL: u32 = 1_000;
        let houses =
            [("most", every(2, 0, ALL)), ("few", every(50, 0, ALL)), ("fewer", every(300, 9, ALL)), ("none", Vec::new())];
        let house = |docs: &[u32]| House {
            messages: Docs::new(docs.to_vec(), ALL),
            entries: Docs::new(docs.iter().map(|doc| doc + 1).collect(), ALL),
            entries_length: docs.len() as u64,
            tallies: HashMap::new(),
            notes: Vec::new(),
        };
        let known = houses.iter().map(|(name, docs)| ((*name).to_owned(), house(docs))).collect();
        let table = Table { streams: vec![0; ALL as usize], houses: known, words: OnceLock::new() };
        let part = Part::from(Arc::new(table));
        for (name, docs) in houses.iter().chain(houses.iter().rev()) {
            let house = HouseId::new(name).unwrap();
            let (entries, length) = part.entries(&house).unwrap();
            let messages = part.messages(&house).unwrap();
            assert_eq!((messages.len(), entries.len(), length), (docs.len(), docs.len(), docs.len() as u64), "{name}");
            assert!(docs.iter().all(|doc| messages.contains(*doc) && entries.contains(doc + 1)), "{name}");
        }
        assert!(part.messages(&HouseId::new("other").unwrap()).is_none());
    }
}
