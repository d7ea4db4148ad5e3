//! The words of a question, and where they are said: each word with the forms of it that count as the same.

use tantivy::BitSet;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::InvertedIndexReader;
use tantivy::postings::Postings;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocSet, TERMINATED, Term};

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use crate::analysis;
use crate::error::IndexError;
use crate::question::{Literal, Question, Shape, Word};
use crate::vocabulary;

/// Weights are counted in hundredths, so that sums do not depend on their order.
pub(crate) const WHOLE: u32 = 100;
const FRAGMENT: u32 = 80;
/// One is the other with something behind it.
const LONGER: u32 = 50;
const FORM: u32 = 30;
/// A word this long may be part of a longer one, or have other forms.
pub(crate) const SHORTEST: usize = 4;
/// What it counts that the words of a path, a flag or a dotted name are said in one message.
const JOINED: f32 = 1.5;
/// Words of a question that are looked for inside of others: each time all words there are have to be looked at.
const MOST_WALKS: usize = 4;
/// Characters of single ones of a script without spaces: each looks through all words there are, too.
const MOST_CHARACTERS: usize = 8;
/// Words that are named in the place of one that nobody says.
const MOST_ALIKE: usize = 3;
/// A name this long that nobody says may be one that somebody says with an end of at most so many letters.
const LONG_NAME: usize = 8;
const ENDING: usize = 2;

/// One segment as a question sees it.
pub(crate) struct Lot<'a> {
    pub inverted: Arc<InvertedIndexReader>,
    pub norms: FieldNormReader,
    /// What belongs to the house.
    pub inside: &'a BitSet,
    /// What may be found of it.
    pub wanted: Option<BitSet>,
    /// The words of the segment, once somebody asked for them.
    pub words: &'a OnceLock<String>,
}

impl Lot<'_> {
    /// Documents of the house that say a word.
    pub fn said(&self, word: &str) -> Result<u64, IndexError> {
        let Some(term) = self.inverted.terms().get(word)? else { return Ok(0) };
        let mut postings = self.inverted.read_postings_from_terminfo(&term, IndexRecordOption::Basic)?;
        let mut said = 0;
        while postings.doc() != TERMINATED {
            said += u64::from(self.inside.contains(postings.doc()));
            postings.advance();
        }
        Ok(said)
    }

    /// All words of the segment, whoever says them, each on a line.
    pub fn words(&self) -> Result<&str, IndexError> {
        match self.words.get() {
            Some(words) => Ok(words),
            None => {
                let words = vocabulary::lines(self.inverted.terms().stream()?);
                Ok(self.words.get_or_init(|| words))
            }
        }
    }

    pub fn may(&self, doc: u32) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.contains(doc))
    }
}

/// A word, and where it is said.
#[derive(Debug)]
pub(crate) struct Group {
    pub word: Word,
    /// Of a word that stands for itself 1; of a piece of a compound less.
    pub factor: f32,
    /// Documents of the house that say it, in whatever form.
    pub frequency: u64,
    /// Documents that say it as it is written.
    pub exactly: u64,
    /// Documents that say it, or what can hardly be another word.
    pub surely: u64,
    /// Per segment, in order: the document and how often, in hundredths.
    pub hits: Vec<Vec<(u32, u32)>>,
    /// What it is looked for as, and what each of them counts.
    pub forms: Vec<(String, u32)>,
    /// Of a pair of characters, those before and behind it in the question: who says both says all of it, as words do that stand apart.
    pub between: Option<[usize; 2]>,
}

impl Group {
    pub fn is_known(&self) -> bool {
        self.frequency > 0
    }

    /// Whether somebody says this word, and not one that only looks like it.
    pub fn is_said(&self) -> bool {
        self.surely > 0
    }

    /// Whether the pairs beside it are said.
    pub fn is_bridged(&self, says: impl Fn(usize) -> bool) -> bool {
        self.between.is_some_and(|[before, behind]| says(before) && says(behind))
    }

    /// How often a document says it, in hundredths.
    pub fn in_document(&self, segment: u32, doc: u32) -> u32 {
        let hits = &self.hits[segment as usize];
        hits.binary_search_by_key(&doc, |hit| hit.0).map_or(0, |at| hits[at].1)
    }
}

/// Everything that a text may have been found by, for marking it there. A character that was found in pairs is what was asked for, and not
/// what stands beside it.
pub(crate) fn heard(groups: &[Group]) -> BTreeSet<String> {
    let forms = |group: &'_ Group| match group.word.is_character() {
        true => vec![group.word.term.clone()],
        false => group.forms.iter().map(|(form, _)| form.clone()).collect(),
    };
    groups.iter().flat_map(forms).collect()
}

pub(crate) fn all(lots: &[Lot<'_>], field: Field, question: &Question) -> Result<Vec<Group>, IndexError> {
    let (mut groups, mut walks, mut characters) = (Vec::new(), MOST_WALKS, MOST_CHARACTERS);
    let alone = question.words.len() == 1;
    for word in &question.words {
        let mut whole = group(lots, field, word.clone(), 1.0)?;
        if word.is_character() && characters > 0 {
            // Who says a pair says both of its characters, whether or not one of them stands alone elsewhere.
            characters -= 1;
            whole.look_within(lots, field, vocabulary::MOST_PAIRS)?;
        } else if whole.may_be_within(alone) && walks > 0 {
            walks -= 1;
            whole.look_within(lots, field, vocabulary::MOST)?;
            whole.look_without_its_end(lots, field)?;
        }
        let known = whole.is_known();
        groups.push(whole);
        for part in &word.parts {
            if question.words.iter().any(|other| other.term == *part) {
                continue;
            }
            let piece = Word {
                term: part.clone(),
                parts: Vec::new(),
                shape: Shape::Plain,
                capital: false,
                opens: false,
                chunk: word.chunk,
            };
            groups.push(group(lots, field, piece, if known { 0.25 } else { 0.6 })?);
        }
    }
    Ok(groups)
}

/// Finds for each pair of characters the two that overlap it: in a question without spaces some pairs are an end and a beginning of words.
/// Those are of two scripts, or of characters that are words themselves.
pub(crate) fn link(groups: &mut [Group]) {
    let ends: Vec<Option<(usize, char, char)>> = groups.iter().map(Group::ends).collect();
    let overlap = |one: usize, two: usize| {
        let (Some((of, _, last)), Some(Some((chunk, first, _)))) = (ends[one], ends.get(two)) else { return false };
        of == *chunk && last == *first
    };
    for (n, group) in groups.iter_mut().enumerate().skip(1) {
        let may_end = ends[n].is_some_and(|(_, first, last)| analysis::may_end_between(first, last));
        group.between = (may_end && overlap(n - 1, n) && overlap(n, n + 1)).then_some([n - 1, n + 1]);
    }
}

/// Messages that have all words of a piece that is meant as it is typed are more likely to have the piece. No word of its own: it says
/// nothing about how much of the question is said.
pub(crate) fn joined(question: &Question, groups: &[Group]) -> Vec<Group> {
    let mut joined = Vec::new();
    for literal in question.literals.iter().filter(|it| !it.either && it.needs.len() > 1) {
        let needed = |need: &String| groups.iter().find(|group| group.word.term == *need);
        let Some(needed) = literal.needs.iter().map(needed).collect::<Option<Vec<_>>>() else { continue };
        let Some((first, others)) = needed.split_first() else { continue };
        let together = |segment: usize, hits: &Vec<(u32, u32)>| -> Vec<(u32, u32)> {
            let all = |doc: u32| others.iter().all(|group| group.in_document(segment as u32, doc) > 0);
            hits.iter().filter(|(doc, _)| all(*doc)).map(|(doc, _)| (*doc, WHOLE)).collect()
        };
        let hits: Vec<_> = first.hits.iter().enumerate().map(|(segment, hits)| together(segment, hits)).collect();
        let word = Word {
            term: literal.stands.clone(),
            parts: Vec::new(),
            shape: Shape::Name,
            capital: false,
            opens: false,
            chunk: literal.chunk,
        };
        let frequency = hits.iter().map(Vec::len).sum::<usize>() as u64;
        joined.push(Group { frequency, hits, ..Group::new(word, JOINED, Vec::new()) });
    }
    joined
}

/// Where all words of such a piece are said in one message. One of one word has no group beside that of the word.
pub(crate) fn of_piece<'a>(groups: &'a [Group], piece: &Literal) -> Option<&'a Group> {
    let only = |group: &Group| piece.needs.as_slice() == std::slice::from_ref(&group.word.term);
    let all = groups.iter().filter(|group| group.word.term == piece.stands || only(group));
    all.max_by(|one, two| one.factor.total_cmp(&two.factor))
}

fn group(lots: &[Lot<'_>], field: Field, word: Word, factor: f32) -> Result<Group, IndexError> {
    let mut forms = vec![(word.term.clone(), WHOLE)];
    if matches!(word.shape, Shape::Plain | Shape::Capital) && word.is_long() {
        let weight = |form: &str| if form.starts_with(&word.term) || word.term.starts_with(form) { LONGER } else { FORM };
        forms.extend(vocabulary::forms(lots, &word.term)?.into_iter().map(|form| (form.clone(), weight(&form))));
    }
    let mut group = Group::new(word, factor, forms);
    group.look(lots, field)?;
    Ok(group)
}

impl Word {
    fn is_long(&self) -> bool {
        self.term.chars().count() >= SHORTEST
    }

    /// One character of a script without spaces. Where it has neighbours it is indexed with them only.
    fn is_character(&self) -> bool {
        self.shape == Shape::Pair && self.term.chars().count() == 1
    }
}

impl Group {
    fn new(word: Word, factor: f32, forms: Vec<(String, u32)>) -> Self {
        Self { word, factor, frequency: 0, exactly: 0, surely: 0, hits: Vec::new(), forms, between: None }
    }

    /// The piece of the question that a pair of characters stands in, and the two.
    fn ends(&self) -> Option<(usize, char, char)> {
        let mut chars = self.word.term.chars();
        let pair = (self.word.chunk, chars.next()?, chars.next()?);
        (self.word.shape == Shape::Pair).then_some(pair)
    }

    /// A name, or a word that is all of a question, may be a piece of a longer one.
    fn may_be_within(&self, alone: bool) -> bool {
        let shape = match self.word.shape {
            Shape::Name => true,
            Shape::Plain | Shape::Capital => alone,
            Shape::Pair => false,
        };
        shape && self.exactly == 0 && self.word.is_long()
    }

    fn look_within(&mut self, lots: &[Lot<'_>], field: Field, most: usize) -> Result<(), IndexError> {
        let longer = vocabulary::containing(lots, &self.word.term, most)?;
        self.forms.extend(longer.into_iter().map(|form| (form, FRAGMENT)));
        self.look(lots, field)
    }

    /// Several of what has a name are called by it with an end, in most languages that have ends.
    fn look_without_its_end(&mut self, lots: &[Lot<'_>], field: Field) -> Result<(), IndexError> {
        let length = self.word.term.chars().count();
        if self.is_known() || self.word.shape != Shape::Name || length < LONG_NAME {
            return Ok(());
        }
        let without = |end: usize| (self.word.term.chars().take(length - end).collect(), FRAGMENT);
        let shorter: Vec<(String, u32)> = (1..=ENDING).map(without).collect();
        self.forms.extend(shorter);
        self.look(lots, field)
    }

    fn look(&mut self, lots: &[Lot<'_>], field: Field) -> Result<(), IndexError> {
        (self.frequency, self.exactly, self.surely, self.hits) = (0, 0, 0, Vec::new());
        let mut heard = vec![false; self.forms.len()];
        for lot in lots {
            let mut hits: Vec<(u32, u32)> = Vec::new();
            let mut said: Vec<u32> = Vec::new();
            for ((form, weight), heard) in self.forms.iter().zip(&mut heard) {
                let term = Term::from_field_text(field, form);
                let Some(mut postings) = lot.inverted.read_postings(&term, IndexRecordOption::WithFreqs)? else { continue };
                while postings.doc() != TERMINATED {
                    let doc = postings.doc();
                    if lot.inside.contains(doc) {
                        *heard = true;
                        // Without a filter what is said is what is found.
                        if lot.wanted.is_some() {
                            said.push(doc);
                        }
                        self.exactly += u64::from(*weight == WHOLE);
                        self.surely += u64::from(*weight >= LONGER);
                        if lot.may(doc) {
                            hits.push((doc, weight.saturating_mul(postings.term_freq())));
                        }
                    }
                    postings.advance();
                }
            }
            if self.forms.len() > 1 {
                // Stable sorts are quick with runs that are in order, as those of each form are.
                said.sort();
                said.dedup();
                hits.sort_by_key(|hit| hit.0);
                hits.dedup_by(|next, kept| {
                    let same = next.0 == kept.0;
                    kept.1 = if same { kept.1.saturating_add(next.1) } else { kept.1 };
                    same
                });
            }
            self.frequency += if lot.wanted.is_some() { said.len() } else { hits.len() } as u64;
            self.hits.push(hits);
        }
        // What only other houses say is not told of, nor looked for again; the word itself is.
        let mut heard = heard.into_iter().enumerate().map(|(form, heard)| heard || form == 0);
        self.forms.retain(|_| heard.next().unwrap_or_default());
        Ok(())
    }
}

/// What to tell of a word that nobody says.
pub(crate) fn unsaid(lots: &[Lot<'_>], field: Field, group: &Group) -> Result<String, IndexError> {
    let near = alike(lots, field, &group.word.term)?;
    let said = format!("nobody says {:?}", group.word.term);
    Ok(if near.is_empty() { said } else { format!("{said}; there is {}", near.join(", ")) })
}

/// Words that may be found and differ from one that nobody says by a letter or two, the most frequent first.
fn alike(lots: &[Lot<'_>], field: Field, word: &str) -> Result<Vec<String>, IndexError> {
    let mut said: Vec<(u64, String)> = Vec::new();
    if word.chars().count() < SHORTEST {
        return Ok(Vec::new());
    }
    for term in vocabulary::alike(lots, field, word)? {
        let word = Word { term, parts: Vec::new(), shape: Shape::Name, capital: false, opens: false, chunk: 0 };
        let itself = vec![(word.term.clone(), WHOLE)];
        let mut group = Group::new(word, 1.0, itself);
        group.look(lots, field)?;
        if group.hits.iter().any(|hits| !hits.is_empty()) {
            said.push((group.frequency, group.word.term));
        }
    }
    said.sort_by(|one, two| two.0.cmp(&one.0).then_with(|| one.1.cmp(&two.1)));
    Ok(said.into_iter().take(MOST_ALIKE).map(|(_, term)| term).collect())
}
