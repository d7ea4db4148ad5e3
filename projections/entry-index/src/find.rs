//! Entries of threads by their words and by what they are.

use events::HouseId;

use crate::error::IndexError;
use crate::filter::{self, EntryFilter};
use crate::groups::{self, Lot};
use crate::question::{Question, Shape};
use crate::view::View;

const K1: f32 = 1.2;
const B: f32 = 0.75;

/// An entry that fits, and where it stands in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryFit {
    pub stream: u64,
    pub seq: u64,
    pub score: f32,
    /// Microseconds.
    pub time: i64,
}

/// What the index says to a question about entries.
#[derive(Clone, Debug)]
pub struct FoundEntries {
    /// The best first, of the same the newest.
    pub entries: Vec<EntryFit>,
    /// All that fit, told or not.
    pub total: u64,
    pub plan: String,
}

/// Every word has to be there, in whatever form; without words the newest that the filter leaves.
pub(crate) fn find(
    view: &View,
    house: &HouseId,
    question: &Question,
    filter: &EntryFilter,
    skip: usize,
    most: usize,
) -> Result<FoundEntries, IndexError> {
    let query = filter::entries(view, house, filter)?;
    let plan = filter::told(Some(query.as_ref()));
    let (mut lots, mut segments, mut length) = (Vec::new(), Vec::new(), 0);
    for (_, segment, table) in view.segments() {
        let Some((inside, terms)) = table.entries(house) else { continue };
        let wanted = Some(filter::docs(view, segment, query.as_ref())?);
        let (inverted, norms) = (segment.inverted_index(view.fields.text)?, segment.get_fieldnorms_reader(view.fields.text)?);
        lots.push(Lot { inverted, norms, inside, wanted, words: &table.words });
        segments.push((segment, table));
        length += terms;
    }
    let found = if question.is_empty() { newest(&lots) } else { scored(view, &lots, question, length)? };
    let total = found.len() as u64;
    let mut columns = Vec::new();
    for (segment, table) in segments {
        let fast = segment.fast_fields();
        columns.push((fast.i64("time")?.first_or_default_col(0), fast.u64("seq")?.first_or_default_col(0), table));
    }
    let fit = |(lot, doc, score): (usize, u32, f32)| {
        let (times, seqs, table) = &columns[lot];
        EntryFit { stream: table.stream(doc), seq: seqs.get_val(doc), score, time: times.get_val(doc) }
    };
    let entries = first(found.into_iter().map(fit).collect(), skip, most);
    Ok(FoundEntries { entries, total, plan })
}

/// A page of them in order, without ordering what comes after it.
fn first(mut fits: Vec<EntryFit>, skip: usize, most: usize) -> Vec<EntryFit> {
    let order = |one: &EntryFit, two: &EntryFit| {
        let newer = two.time.cmp(&one.time).then((one.stream, two.seq).cmp(&(two.stream, one.seq)));
        two.score.total_cmp(&one.score).then(newer)
    };
    let end = skip.saturating_add(most);
    if end < fits.len() {
        fits.select_nth_unstable_by(end, order);
        fits.truncate(end);
    }
    fits.sort_by(order);
    fits.into_iter().skip(skip).collect()
}

type Scored = Vec<(usize, u32, f32)>;

fn newest(lots: &[Lot<'_>]) -> Scored {
    let docs = |(lot, it): (usize, &Lot<'_>)| -> Scored {
        (0..it.norms.num_docs()).filter(|doc| it.inside.contains(*doc) && it.may(*doc)).map(|doc| (lot, doc, 0.0)).collect()
    };
    lots.iter().enumerate().flat_map(docs).collect()
}

fn scored(view: &View, lots: &[Lot<'_>], question: &Question, length: u64) -> Result<Scored, IndexError> {
    let groups = groups::all(lots, view.fields.text, question)?;
    let documents: u64 = lots.iter().map(|lot| lot.inside.len() as u64).sum();
    let average = (length as f32 / documents.max(1) as f32).max(1.0);
    let mut found = Scored::new();
    for (lot, it) in lots.iter().enumerate() {
        let needed: Vec<_> = groups.iter().filter(|group| group.factor == 1.0 && group.word.shape != Shape::Pair).collect();
        let pairs: Vec<_> = groups.iter().filter(|group| group.word.shape == Shape::Pair).collect();
        let Some(fewest) = needed.iter().chain(&pairs).min_by_key(|group| group.hits[lot].len()) else { continue };
        for (doc, _) in &fewest.hits[lot] {
            if !needed.iter().chain(&pairs).all(|group| group.in_document(lot as u32, *doc) > 0) {
                continue;
            }
            let norm = K1 * (1.0 - B + B * it.norms.fieldnorm(*doc) as f32 / average);
            let score = groups.iter().map(|group| {
                let times = group.in_document(lot as u32, *doc) as f32 / 100.0;
                let rarity = (1.0_f32 + (documents as f32 + 0.5) / (group.frequency as f32 + 0.5)).ln();
                group.factor * rarity * times / (times + norm)
            });
            found.push((lot, *doc, score.sum()));
        }
    }
    Ok(found)
}

/// The name of the stream that a document stands in, by its number.
pub(crate) fn thread_of(view: &View, house: &HouseId, stream: u64) -> Option<String> {
    let sessions = view.sessions(house);
    let place = sessions.place(stream)?;
    sessions.all[place as usize].note.as_ref().map(|note| note.id.clone())
}
