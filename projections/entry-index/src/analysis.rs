//! What counts as a word, the same for every language and for code.
//!
//! A run of letters, digits and underscores is a word as it is written; one that is made of several (`fromSortedIter`, `MAX_SIZE`) counts as
//! those too. Scripts that are written without spaces are cut into pairs of neighbours, so that a word of two characters is found
//! wherever it stands. There is no stemming and there are no stop words: both would be rules of one language.

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

/// Bytes of a word that stand in its term. Longer ones are hashes and encoded data: the rest of them is told by a digest of the whole.
const LONGEST: usize = 64;
/// Digits of it.
const DIGEST: usize = 8;

/// The characters of scripts without spaces between words, and those whose words grow at their ends.
#[must_use]
pub fn is_dense(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF          // Thai, Lao, Burmese, Khmer
        | 0x1100..=0x11FF | 0x3130..=0x318F | 0xAC00..=0xD7AF       // Hangul
        | 0x3005..=0x3007 | 0x3040..=0x30FF | 0x31F0..=0x31FF | 0xFF66..=0xFF9F // Kana
        | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF) // Han
}

fn is_han(c: char) -> bool {
    matches!(u32::from(c), 0x3005..=0x3007 | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

/// Whether a word may end between two dense characters. Within a word of Kana or Hangul every pair belongs to it.
pub(crate) fn may_end_between(one: char, two: char) -> bool {
    let is_katakana = |c: char| matches!(u32::from(c), 0x30A0..=0x30FF | 0x31F0..=0x31FF | 0xFF66..=0xFF9F);
    (is_han(one) && is_han(two)) || is_han(one) != is_han(two) || is_katakana(one) != is_katakana(two)
}

/// Marks above and below letters belong to them.
fn is_mark(c: char) -> bool {
    matches!(u32::from(c), 0x0300..=0x036F | 0x0591..=0x05C7 | 0x064B..=0x065F | 0x0900..=0x0903 | 0x093A..=0x094F)
}

fn is_word(c: char) -> bool {
    c == '_' || ((c.is_alphanumeric() || is_mark(c)) && !is_dense(c))
}

/// A run of a text that is one word, or one of characters without spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run<'a> {
    pub text: &'a str,
    /// Where it begins.
    pub at: usize,
    pub dense: bool,
}

/// The runs of a text in order.
pub(crate) fn runs(text: &str) -> impl Iterator<Item = Run<'_>> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (at, first) = rest.find(|(_, c)| is_word(*c) || is_dense(*c))?;
        let same = if is_word(first) { is_word } else { is_dense };
        let mut end = at + first.len_utf8();
        while let Some((next, c)) = rest.next_if(|(_, c)| same(*c)) {
            end = next + c.len_utf8();
        }
        Some(Run { text: &text[at..end], at, dense: is_dense(first) })
    })
}

fn lowered(text: &str) -> String {
    let mut low: String = text.chars().flat_map(char::to_lowercase).collect();
    if low.len() > LONGEST {
        let digest = blake3::hash(low.as_bytes()).to_hex();
        low.truncate(low.floor_char_boundary(LONGEST));
        low.push('…');
        low.push_str(&digest[..DIGEST]);
    }
    low
}

/// The words that a compound is made of, as they are written; none if it is simple.
pub(crate) fn parts(word: &str) -> Vec<&str> {
    let mut cuts = vec![0];
    let chars: Vec<(usize, char)> = word.char_indices().collect();
    for n in 1..chars.len() {
        let (before, (at, c)) = (chars[n - 1].1, chars[n]);
        let after_lower = !before.is_uppercase() && before != '_' && c.is_uppercase();
        let last_of_capitals =
            before.is_uppercase() && c.is_uppercase() && chars.get(n + 1).is_some_and(|next| next.1.is_lowercase());
        if after_lower || last_of_capitals || c == '_' || before == '_' {
            cuts.push(at);
        }
    }
    cuts.push(word.len());
    let parts: Vec<&str> = cuts.windows(2).map(|cut| &word[cut[0]..cut[1]]).filter(|part| !part.starts_with('_')).collect();
    if parts.len() > 1 { parts } else { Vec::new() }
}

/// The terms of one run: for a word itself, then what it is made of; for dense characters each pair, or the one there is.
pub(crate) fn terms(run: &Run<'_>, mut each: impl FnMut(String, usize)) {
    if run.dense {
        let chars: Vec<(usize, char)> = run.text.char_indices().collect();
        match chars.as_slice() {
            [(_, only)] => each(only.to_string(), run.at),
            many => many.windows(2).for_each(|pair| each([pair[0].1, pair[1].1].iter().collect(), run.at + pair[0].0)),
        }
        return;
    }
    let word = run.text.trim_matches('_');
    if word.is_empty() {
        return;
    }
    each(lowered(word), run.at);
    for part in parts(word) {
        each(lowered(part), run.at + (part.as_ptr().addr() - run.text.as_ptr().addr()));
    }
}

pub(crate) fn terms_of(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for run in runs(text) {
        terms(&run, |term, _| all.push(term));
    }
    all
}

/// The analysis as tantivy takes it. Persisted by this name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words;

pub(crate) const WORDS: &str = "words";

pub(crate) struct Found {
    terms: std::vec::IntoIter<(String, usize)>,
    token: Token,
}

impl Tokenizer for Words {
    type TokenStream<'a> = Found;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Found {
        let mut all = Vec::new();
        for run in runs(text) {
            terms(&run, |term, at| all.push((term, at)));
        }
        Found { terms: all.into_iter(), token: Token { position: usize::MAX, ..Token::default() } }
    }
}

impl TokenStream for Found {
    fn advance(&mut self) -> bool {
        let Some((term, at)) = self.terms.next() else { return false };
        self.token.offset_from = at;
        self.token.offset_to = at + term.len();
        self.token.position = self.token.position.wrapping_add(1);
        self.token.text = term;
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        runs(text).for_each(|run| terms(&run, |term, _| all.push(term)));
        all
    }

    #[test]
    fn a_word_is_what_is_written_and_what_it_is_made_of() {
        assert_eq!(told("fromSortedIter"), ["fromsortediter", "from", "sorted", "iter"]);
        assert_eq!(told("MAX_SIZE"), ["max_size", "max", "size"]);
        assert_eq!(told("HTTPServer2Go"), ["httpserver2go", "http", "server2", "go"]);
        assert_eq!(told("__init__"), ["init"]);
        assert_eq!(told("sha256 e2e"), ["sha256", "e2e"]);
        assert_eq!(told("src/lib.rs:12"), ["src", "lib", "rs", "12"]);
    }

    #[test]
    fn scripts_without_spaces_are_found_in_pairs() {
        assert_eq!(told("日本語の検索"), ["日本", "本語", "語の", "の検", "検索"]);
        assert_eq!(told("字"), ["字"]);
        assert_eq!(told("Rust封装库"), ["rust", "封装", "装库"]);
        assert_eq!(told("검색을"), ["검색", "색을"]);
    }

    #[test]
    fn every_language_is_lowered_and_nothing_is_cut_off() {
        assert_eq!(told("Größe ŠKODA Поиск"), ["größe", "škoda", "поиск"]);
    }

    #[test]
    fn what_is_longer_than_words_are_is_told_by_its_beginning_and_is_the_same_only_if_all_of_it_is() {
        assert_eq!(told(&"a".repeat(LONGEST)), ["a".repeat(LONGEST)]);
        let (long, longer) = (told(&"a".repeat(499)), told(&"a".repeat(500)));
        assert_eq!((long.len(), longer.len(), &told(&"A".repeat(499))), (1, 1, &long));
        assert_ne!(long, longer);
        for term in [&long[0], &longer[0]] {
            let digest = term.strip_prefix(&"a".repeat(LONGEST)).and_then(|rest| rest.strip_prefix('…')).unwrap();
            assert_eq!(digest.len(), DIGEST);
        }
        assert!(told(&"ß".repeat(99))[0].starts_with(&"ß".repeat(LONGEST / 2)));
    }

    #[test]
    fn terms_know_where_they_stand() {
        let text = "let fromIter";
        let mut at = Vec::new();
        runs(text).for_each(|run| terms(&run, |term, place| at.push((term, place))));
        assert_eq!(at, [("let".into(), 0), ("fromiter".into(), 4), ("from".into(), 4), ("iter".into(), 8)]);
    }
}
