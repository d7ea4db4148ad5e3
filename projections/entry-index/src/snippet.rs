//! What is shown of a text: the words that were looked for, and what stands around them.

use std::collections::{BTreeSet, HashMap};

use crate::analysis;

/// Around the words of a question, between these.
pub const MARKS: (char, char) = ('«', '»');

/// Words that are marked in one text; whoever says one more often says nothing more by it.
const MOST_MARKS: usize = 4_096;

/// Where words of a question stand in a text.
fn marks(text: &str, terms: &BTreeSet<&str>) -> Vec<(usize, usize)> {
    let mut marks: Vec<(usize, usize)> = Vec::new();
    for run in analysis::runs(text) {
        if marks.len() > MOST_MARKS {
            break;
        }
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
        if run.dense {
            mark_characters(&run, terms, &mut ends);
        }
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

/// A character by itself is no term of a run where it has neighbours.
fn mark_characters(run: &analysis::Run<'_>, terms: &BTreeSet<&str>, ends: &mut Vec<(usize, usize)>) {
    let characters = run.text.char_indices().map(|(at, c)| (at, at + c.len_utf8()));
    let wanted = characters.filter(|(from, to)| terms.contains(&run.text[*from..*to]));
    ends.extend(wanted.map(|(from, to)| (run.at + from, run.at + to)));
    ends.sort_unstable();
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

/// Where the stretch of so many bytes begins that has most of the words.
fn densest(text: &str, marks: &[(usize, usize)], bytes: usize) -> usize {
    let words: Vec<String> = marks.iter().map(|(from, to)| text[*from..*to].to_lowercase()).collect();
    let (mut inside, mut end): (HashMap<&str, usize>, usize) = (HashMap::new(), 0);
    let (mut most, mut best) = (0, 0);
    for (n, (from, _)) in marks.iter().enumerate() {
        while end < marks.len() && marks[end].1 <= from + bytes {
            *inside.entry(&words[end]).or_default() += 1;
            end += 1;
        }
        if n == 0 || inside.len() > most {
            (most, best) = (inside.len(), *from);
        }
        end = end.max(n + 1);
        match inside.get_mut(words[n].as_str()) {
            Some(times) if *times > 1 => *times -= 1,
            Some(_) => drop(inside.remove(words[n].as_str())),
            None => {}
        }
    }
    best
}

/// The stretch of a text that has most of the words, with the words marked; `…` where it goes on. `None` where none of them is in it.
#[must_use]
pub fn snippet(text: &str, terms: &BTreeSet<&str>, bytes: usize) -> Option<String> {
    let marks = marks(text, terms);
    marks.first()?;
    // A little of what comes before tells what it is about.
    let before = bytes / 4;
    let from = floor(text, densest(text, &marks, bytes - before).saturating_sub(before));
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
        assert_eq!(shown("日本語の検索", &["日本", "の", "検"], 100).unwrap(), "«日本»語«の検»索");
        assert_eq!(shown("会议在3月5日举行", &["3", "月", "5", "日"], 100).unwrap(), "会议在«3月5日»举行");
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
