//! Entries of threads by their words and by what they are.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};

use events::HouseId;

use crate::error::IndexError;
use crate::filter::{self, EntryFilter};
use crate::groups::{self, Group, Lot};
use crate::hints;
use crate::question::Question;
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
    /// What they were found by, in whatever form.
    pub heard: BTreeSet<String>,
    /// Why there are none.
    pub hints: Vec<String>,
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
    let mut columns = Vec::new();
    for (segment, table) in segments {
        let fast = segment.fast_fields();
        columns.push((fast.i64("time")?.first_or_default_col(0), fast.u64("seq")?.first_or_default_col(0), table));
    }
    let mut best = Best::new(skip.saturating_add(most));
    let offer = |lot: usize, doc: u32, score: f32| {
        let (times, seqs, table) = &columns[lot];
        best.offer(EntryFit { stream: table.stream(doc), seq: seqs.get_val(doc), score, time: times.get_val(doc) });
    };
    let mut groups = groups::all(&lots, view.fields.text, question)?;
    groups::link(&mut groups);
    if groups.is_empty() {
        newest(&lots, offer)
    } else {
        scored(&lots, &groups, length, offer)
    }
    let total = best.offered;
    let hints = if total == 0 && !groups.is_empty() { hints::why_none(&lots, view.fields.text, &groups)? } else { Vec::new() };
    let entries = best.into_sorted().into_iter().skip(skip).collect();
    Ok(FoundEntries { entries, total, heard: groups::heard(&groups), hints, plan })
}

/// The first so many of all that are offered, without holding the others.
struct Best {
    most: usize,
    offered: u64,
    /// The last of them on top.
    kept: BinaryHeap<Placed>,
}

impl Best {
    fn new(most: usize) -> Self {
        Self { most, offered: 0, kept: BinaryHeap::new() }
    }

    fn offer(&mut self, fit: EntryFit) {
        self.offered += 1;
        let placed = Placed(fit);
        if self.kept.len() < self.most {
            self.kept.push(placed);
        } else if let Some(mut last) = self.kept.peek_mut().filter(|last| placed < **last) {
            *last = placed;
        }
    }

    fn into_sorted(self) -> Vec<EntryFit> {
        self.kept.into_sorted_vec().into_iter().map(|placed| placed.0).collect()
    }
}

/// Entries in the order in which they are told: the best first, of the same the newest.
struct Placed(EntryFit);

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, two) = (&self.0, &other.0);
        let newer = two.time.cmp(&one.time).then((one.stream, two.seq).cmp(&(two.stream, one.seq)));
        two.score.total_cmp(&one.score).then(newer)
    }
}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Placed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Placed {}

fn newest(lots: &[Lot<'_>], mut each: impl FnMut(usize, u32, f32)) {
    for (lot, it) in lots.iter().enumerate() {
        let docs = (0..it.norms.num_docs()).filter(|doc| it.inside.contains(*doc) && it.may(*doc));
        docs.for_each(|doc| each(lot, doc, 0.0));
    }
}

fn scored(lots: &[Lot<'_>], groups: &[Group], length: u64, mut each: impl FnMut(usize, u32, f32)) {
    let documents: u64 = lots.iter().map(|lot| lot.inside.len() as u64).sum();
    let average = (length as f32 / documents.max(1) as f32).max(1.0);
    for (lot, it) in lots.iter().enumerate() {
        let needed = groups.iter().filter(|group| group.factor == 1.0);
        let always = needed.clone().filter(|group| group.between.is_none());
        let Some(fewest) = always.min_by_key(|group| group.hits[lot].len()) else { continue };
        for (doc, _) in &fewest.hits[lot] {
            let says = |group: &Group| group.in_document(lot as u32, *doc) > 0;
            if !needed.clone().all(|group| says(group) || group.is_bridged(|n| says(&groups[n]))) {
                continue;
            }
            let norm = K1 * (1.0 - B + B * it.norms.fieldnorm(*doc) as f32 / average);
            let score = groups.iter().map(|group| {
                let times = group.in_document(lot as u32, *doc) as f32 / 100.0;
                let rarity = (1.0_f32 + (documents as f32 + 0.5) / (group.frequency as f32 + 0.5)).ln();
                group.factor * rarity * times / (times + norm)
            });
            each(lot, *doc, score.sum());
        }
    }
}

/// The name of the stream that a document stands in, by its number.
pub(crate) fn thread_of(view: &View, house: &HouseId, stream: u64) -> Option<String> {
    let sessions = view.sessions(house);
    let place = sessions.place(stream)?;
    sessions.all[place as usize].note.as_ref().map(|note| note.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(seq: u64) -> EntryFit {
        // Scores and times that come again, in no order.
        EntryFit { stream: seq % 3, seq, score: (seq * 7 % 5) as f32, time: (seq * 11 % 13) as i64 }
    }

    #[test]
    fn what_is_kept_is_the_beginning_of_all_in_order_and_no_more() {
        let mut all: Vec<Placed> = (0..200).map(|seq| Placed(fit(seq))).collect();
        all.sort();
        for most in [0, 1, 7, 199, 200, 500] {
            let mut best = Best::new(most);
            for seq in (0..200).rev() {
                best.offer(fit(seq));
                assert!(best.kept.len() <= most);
            }
            assert_eq!(best.offered, 200);
            let expected: Vec<EntryFit> = all.iter().take(most).map(|placed| placed.0.clone()).collect();
            assert_eq!(best.into_sorted(), expected, "{most}");
        }
        let newest_first =
            |one: &EntryFit, two: &EntryFit| one.score > two.score || (one.score == two.score && one.time >= two.time);
        assert!(all.windows(2).all(|pair| newest_first(&pair[0].0, &pair[1].0)));
    }
}
