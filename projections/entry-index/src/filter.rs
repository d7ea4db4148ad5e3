//! What may be found, decided before anything is ranked: `search-prefilter-pushdown`.

use std::ops::Bound;

use events::{HouseId, StreamName, ThreadId};
use tantivy::BitSet;
use tantivy::query::{BooleanQuery, EnableScoring, Query, RangeQuery, TermQuery, TermSetQuery};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocSet, SegmentReader, TERMINATED, Term};

use crate::documents::number;
use crate::error::IndexError;
use crate::schema::{Fields, Kind};
use crate::view::{Sessions, View};

/// Which messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageFilter {
    /// As it is, or with a `*` at its end how it begins.
    pub project: Option<String>,
    /// This session and no other, not even one that it spawned.
    pub session: Option<String>,
    pub source_agent: Option<String>,
    pub role: Option<String>,
    /// Microseconds; from here on.
    pub since: Option<i64>,
    /// Microseconds; before.
    pub until: Option<i64>,
}

/// Which entries of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryFilter {
    pub thread: Option<String>,
    pub author: Option<String>,
    /// As it is, or with a `*` at its end how it begins.
    pub kind: Option<String>,
    /// Of the thread, as it stands now.
    pub tag: Option<String>,
    pub status: Option<String>,
    /// Microseconds; from here on.
    pub since: Option<i64>,
    /// Microseconds; before.
    pub until: Option<i64>,
}

type Clause = Box<dyn Query>;

fn term(field: Field, text: &str) -> Clause {
    Box::new(TermQuery::new(Term::from_field_text(field, text), IndexRecordOption::Basic))
}

fn begins(field: Field, text: &str) -> Clause {
    let Some(beginning) = text.strip_suffix('*') else { return term(field, text) };
    // No text of UTF-8 comes after this one and begins so.
    let beyond = format!("{beginning}{}", char::MAX);
    let (from, to) = (Term::from_field_text(field, beginning), Term::from_field_text(field, &beyond));
    Box::new(RangeQuery::new(Bound::Included(from), Bound::Excluded(to)))
}

fn streams(field: Field, streams: impl IntoIterator<Item = u64>) -> Clause {
    Box::new(TermSetQuery::new(streams.into_iter().map(|stream| Term::from_field_u64(field, stream))))
}

fn moments(field: Field, since: Option<i64>, until: Option<i64>) -> Option<Clause> {
    let bound = |moment: Option<i64>, bound: fn(Term) -> Bound<Term>| {
        moment.map_or(Bound::Unbounded, |moment| bound(Term::from_field_i64(field, moment)))
    };
    let (since, until) = match (since, until) {
        (None, None) => return None,
        (since, until) => (bound(since, Bound::Included), bound(until, Bound::Excluded)),
    };
    Some(Box::new(RangeQuery::new(since, until)))
}

/// `None` where everything of the house may be found.
pub(crate) fn messages(fields: &Fields, house: &HouseId, filter: &MessageFilter, sessions: &Sessions) -> Option<Clause> {
    let MessageFilter { project, session, source_agent, role, since, until } = filter;
    let of_session = session.as_deref().map(|id| streams(fields.stream, sessions.streams(id)));
    let clauses: Vec<Clause> = [
        project.as_deref().map(|project| begins(fields.project, project)),
        of_session,
        source_agent.as_deref().map(|agent| term(fields.source_agent, agent)),
        role.as_deref().map(|role| term(fields.role, role)),
        moments(fields.time, *since, *until),
    ]
    .into_iter()
    .flatten()
    .collect();
    if clauses.is_empty() {
        return None;
    }
    let scope: Clause = Box::new(TermQuery::new(fields.scope_term(Kind::Message, house), IndexRecordOption::Basic));
    Some(Box::new(BooleanQuery::intersection(std::iter::once(scope).chain(clauses).collect())))
}

/// Always at least the house. Threads as they stand are looked up first, and their entries by them.
pub(crate) fn entries(view: &View, house: &HouseId, filter: &EntryFilter) -> Result<Clause, IndexError> {
    let fields = &view.fields;
    let EntryFilter { thread, author, kind, tag, status, since, until } = filter;
    let standing = match (tag, status) {
        (None, None) => None,
        (tag, status) => Some(streams(fields.stream, threads(view, house, tag.as_deref(), status.as_deref())?)),
    };
    // What cannot be the id of a thread has no stream.
    let thread_stream = |id: &str| ThreadId::new(id).ok().map(|id| number(&StreamName::Thread(id).to_string()));
    let clauses: Vec<Clause> = [
        Some(Box::new(TermQuery::new(fields.scope_term(Kind::Entry, house), IndexRecordOption::Basic)) as Clause),
        thread.as_deref().map(|id| streams(fields.stream, thread_stream(id))),
        author.as_deref().map(|author| term(fields.author, author)),
        kind.as_deref().map(|kind| begins(fields.kind, kind)),
        standing,
        moments(fields.time, *since, *until),
    ]
    .into_iter()
    .flatten()
    .collect();
    Ok(Box::new(BooleanQuery::intersection(clauses)))
}

fn threads(view: &View, house: &HouseId, tag: Option<&str>, status: Option<&str>) -> Result<Vec<u64>, IndexError> {
    let fields = &view.fields;
    let clauses: Vec<Clause> = [
        Some(Box::new(TermQuery::new(fields.scope_term(Kind::Thread, house), IndexRecordOption::Basic)) as Clause),
        tag.map(|tag| term(fields.tag, tag)),
        status.map(|status| term(fields.status, status)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let query = BooleanQuery::intersection(clauses);
    let mut streams = Vec::new();
    for (_, segment, table) in view.segments() {
        let found = docs(view, segment, &query)?;
        streams.extend((0..segment.max_doc()).filter(|doc| found.contains(*doc)).map(|doc| table.stream(doc)));
    }
    Ok(streams)
}

/// What a query finds in a segment, without what was replaced.
pub(crate) fn docs(view: &View, segment: &SegmentReader, query: &dyn Query) -> Result<BitSet, IndexError> {
    let weight = query.weight(EnableScoring::disabled_from_searcher(&view.searcher))?;
    let mut found = BitSet::with_max_value(segment.max_doc());
    let mut scorer = weight.scorer(segment, 1.0)?;
    while scorer.doc() != TERMINATED {
        if !segment.is_deleted(scorer.doc()) {
            found.insert(scorer.doc());
        }
        scorer.advance();
    }
    Ok(found)
}

/// For those who doubt that filters come first.
pub(crate) fn told(query: Option<&dyn Query>) -> String {
    match query {
        Some(query) => format!("filter, before ranking: {query:?}\n"),
        None => "filter, before ranking: the house\n".to_owned(),
    }
}
