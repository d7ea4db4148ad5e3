//! What is shown of a text: the words that were looked for, and what stands around them.

use std::collections::BTreeSet;

use crate::analysis;

/// Around the words of a question, between these.
pub const MARKS: (char, char) = ('«', '»');

/// Where words of a question stand in a text.
fn marks(text: &str, terms: &BTreeSet<&str>) -> Vec<(usize, usize)> {
    let mut marks: Vec<(usize, usize)> = Vec::new();
    for run in analysis::runs(text) {
        let mut ends: Vec<(usize, usize)> = Vec::new();
        let mut whole = false;
        analysis::terms(&run, |term, at| {
            if !terms.contains(term.as_str()) {
                return;
            }
            if !run.dense && at == run.at && !whole && ends.is_empty() {
                whole = term.chars().count() >= run.text.trim_matches('_').chars().count().min(64);
            }
            let length = if run.dense { term.len() } else { width(&text[at..], term.chars().count()) };
            ends.push((at, at + length));
        });
        if whole {
            ends = vec![(run.at, run.at + run.text.len())];
        }
        for (from, to) in ends {
            match marks.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                Some(_) | None => marks.push((from, to)),
            }
        }
    }
    marks
}

/// Bytes of so many characters.
fn width(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The beginning of a text, at most so many bytes and not within a character.
#[must_use]
pub fn beginning(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes { text } else { &text[..floor(text, bytes)] }
}

/// The stretch of a text that has most of the words, with the words marked; `…` where it goes on. `None` where none of them is in it.
#[must_use]
pub fn snippet(text: &str, terms: &BTreeSet<&str>, bytes: usize) -> Option<String> {
    let marks = marks(text, terms);
    let first = marks.first()?;
    let mut best = (0, first.0);
    for (n, (from, _)) in marks.iter().enumerate() {
        let inside: BTreeSet<String> = marks[n..]
            .iter()
            .take_while(|(_, to)| *to <= from + bytes)
            .map(|(from, to)| text[*from..*to].to_lowercase())
            .collect();
        if inside.len() > best.0 {
            best = (inside.len(), *from);
        }
    }
    // A little of what comes before tells what it is about.
    let from = floor(text, best.1.saturating_sub(bytes / 4));
    let to = floor(text, (from + bytes).min(text.len()));
    let mut shown = String::with_capacity(bytes + 64);
    if from > 0 {
        shown.push('…');
    }
    let mut at = from;
    for (start, end) in marks.into_iter().filter(|(start, end)| *start >= from && *end <= to) {
        shown.push_str(&text[at..start]);
        shown.push(MARKS.0);
        shown.push_str(&text[start..end]);
        shown.push(MARKS.1);
        at = end;
    }
    shown.push_str(&text[at..to]);
    if to < text.len() {
        shown.push('…');
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, terms: &[&str], bytes: usize) -> Option<String> {
        snippet(text, &terms.iter().copied().collect(), bytes)
    }

    #[test]
    fn words_are_marked_where_they_stand() {
        assert_eq!(shown("call fromSortedIter twice", &["fromsortediter", "from"], 100).unwrap(), "call «fromSortedIter» twice");
        assert_eq!(shown("call fromSortedIter twice", &["sorted"], 100).unwrap(), "call from«Sorted»Iter twice");
        assert_eq!(shown("日本語の検索", &["検索"], 100).unwrap(), "日本語の«検索»");
        assert_eq!(shown("nothing of it", &["else"], 100), None);
    }

    #[test]
    fn the_stretch_with_most_words_is_shown_and_no_character_is_cut() {
        let text = format!("alpha {} alpha and beta {}", "ä".repeat(300), "ü".repeat(300));
        let shown = shown(&text, &["alpha", "beta"], 80).unwrap();
        assert!(shown.contains("«alpha» and «beta»"), "{shown}");
        assert!(shown.starts_with('…') && shown.ends_with('…'));
        assert_eq!(beginning("äöü", 3), "ä");
    }
}
