//! The words that there are: forms of a word, words that it is a piece of, words that differ from it by a letter or two.
//!
//! A segment has the words of every house. Which of them count, and which come first, is told by what the house says.

use std::collections::BTreeMap;

use memchr::memmem::Finder;
use memchr::{memchr, memrchr};
use tantivy::Term;
use tantivy::query::FuzzyTermQuery;
use tantivy::schema::Field;
use tantivy::termdict::TermStreamer;

use crate::error::IndexError;
use crate::groups::{Lot, SHORTEST};

/// Words that are looked for in the place of one: those that the house says most.
pub(crate) const MOST: usize = 16;
/// Pairs that are looked for in the place of one character: each has another neighbour, and a frequent character has many.
pub(crate) const MOST_PAIRS: usize = 1_024;
/// Two letters of a word this long may be wrong; of a shorter one, one.
const LONG: usize = 8;

/// Words, and how many documents of any house have them.
type Found = BTreeMap<String, u64>;

/// Words that begin alike and end a little differently are forms of one word in most languages, as prefixes are of few.
fn is_form(word: &str, other: &str) -> bool {
    let long = word.chars().count().max(other.chars().count());
    let common = word.chars().zip(other.chars()).take_while(|(one, two)| one == two).count();
    other != word && common >= SHORTEST && common * 10 >= long * 7 && other.chars().all(char::is_alphabetic)
}

pub(crate) fn forms(lots: &[Lot<'_>], word: &str) -> Result<Vec<String>, IndexError> {
    let stem: String = word.chars().take((word.chars().count() * 7).div_ceil(10).max(SHORTEST)).collect();
    let mut found = Found::new();
    for lot in lots {
        let mut terms = lot.inverted.terms().range().ge(&stem).into_stream()?;
        while terms.advance() && terms.key().starts_with(stem.as_bytes()) {
            if let Ok(term) = std::str::from_utf8(terms.key())
                && is_form(word, term)
            {
                *found.entry(term.to_owned()).or_default() += u64::from(terms.value().doc_freq);
            }
        }
    }
    most_said(lots, found, MOST)
}

/// Words that have this one inside, at most so many.
pub(crate) fn containing(lots: &[Lot<'_>], word: &str, most: usize) -> Result<Vec<String>, IndexError> {
    let (finder, mut found) = (Finder::new(word), Found::new());
    for lot in lots {
        let lines = lot.words()?;
        let mut from = 0;
        while let Some(at) = finder.find(&lines.as_bytes()[from..]).map(|at| from + at) {
            let start = memrchr(b'\n', &lines.as_bytes()[..at]).map_or(0, |before| before + 1);
            let end = memchr(b'\n', &lines.as_bytes()[at..]).map_or(lines.len(), |after| at + after);
            let term = &lines[start..end];
            if term != word
                && let Some(info) = lot.inverted.terms().get(term)?
            {
                *found.entry(term.to_owned()).or_default() += u64::from(info.doc_freq);
            }
            from = end;
        }
    }
    most_said(lots, found, most)
}

/// Words that differ by a letter or two; two that changed places are one.
pub(crate) fn alike(lots: &[Lot<'_>], field: Field, word: &str) -> Result<Vec<String>, IndexError> {
    let letters = if word.chars().count() >= LONG { 2 } else { 1 };
    let query = FuzzyTermQuery::new(Term::from_field_text(field, word), letters, true);
    let mut found = Found::new();
    for lot in lots {
        let mut terms = lot.inverted.terms().search(query.automaton()?).into_stream()?;
        while terms.advance() {
            if let Ok(term) = std::str::from_utf8(terms.key())
                && !term.starts_with(|c: char| c.is_ascii_digit())
            {
                *found.entry(term.to_owned()).or_default() += u64::from(terms.value().doc_freq);
            }
        }
    }
    most_said(lots, found, MOST)
}

/// The words of a segment, each on a line: no word has a line's end in it.
pub(crate) fn lines(mut terms: TermStreamer<'_>) -> String {
    let mut lines = String::new();
    while terms.advance() {
        if let Ok(term) = std::str::from_utf8(terms.key()) {
            lines.push_str(term);
            lines.push('\n');
        }
    }
    lines
}

/// Those that the house says most. Few are not counted, and may be words that it never says.
fn most_said(lots: &[Lot<'_>], found: Found, bound: usize) -> Result<Vec<String>, IndexError> {
    if found.len() <= bound {
        return Ok(found.into_keys().collect());
    }
    let mut found: Vec<(String, u64)> = found.into_iter().collect();
    found.sort_by(|one, two| two.1.cmp(&one.1));
    let mut most: Vec<(String, u64)> = Vec::new();
    for (term, anywhere) in found {
        // The house does not say it in more documents than there are.
        if most.get(bound - 1).is_some_and(|last| last.1 > anywhere) {
            break;
        }
        let said: u64 = lots.iter().map(|lot| lot.said(&term)).sum::<Result<_, IndexError>>()?;
        let at = most.partition_point(|known| (known.1, &term) > (said, &known.0));
        if said > 0 {
            most.insert(at, (term, said));
            most.truncate(bound);
        }
    }
    // As the few above: what another house says does not change the order.
    most.sort();
    Ok(most.into_iter().map(|(term, _)| term).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_make_forms_and_other_words_do_not() {
        for (one, two) in [("delete", "deleted"), ("commit", "commits"), ("hooks", "hook"), ("fermentation", "fermentations")] {
            assert!(is_form(one, two), "{one} {two}");
        }
        for (one, two) in [("commit", "comment"), ("state", "static"), ("test", "testament"), ("read", "read2")] {
            assert!(!is_form(one, two), "{one} {two}");
        }
    }
}
