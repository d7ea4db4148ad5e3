//! What somebody looks for, taken apart.

use std::collections::BTreeSet;

use crate::analysis::{self, Run};

/// Words of a question that are looked at; a longer one is cut, and says so.
pub(crate) const MOST_WORDS: usize = 64;

/// One word of a question, as it is written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub term: String,
    /// What a compound is made of.
    pub parts: Vec<String>,
    pub shape: Shape,
    /// The number of the piece between spaces that it stands in.
    pub chunk: usize,
}

/// How a word looks. Nothing here depends on a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Plain,
    /// Begins with a capital, not at the beginning of the question.
    Capital,
    /// `camelCase`, `snake_case`, `ALLCAPS`, letters with digits: nobody writes this but to name something.
    Name,
    /// A pair of characters of a script without spaces.
    Pair,
}

/// A piece between spaces that is meant as it is typed: a path, a flag, a name with dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    pub text: String,
    pub chunk: usize,
    /// The words that it cannot do without: of a path its last component.
    pub needs: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    pub(crate) words: Vec<Word>,
    pub(crate) literals: Vec<Literal>,
    /// It quotes an error or a line of output: it has marks that prose has not.
    pub(crate) quotes: bool,
    /// Words that were left out because there are too many.
    pub left_out: usize,
}

fn shape(word: &str, first: bool) -> Shape {
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    let digits = word.chars().any(|c| c.is_ascii_digit());
    let capitals = word.chars().filter(|c| c.is_uppercase()).count();
    let compound = word.contains('_') || !analysis::parts(word).is_empty();
    if compound || (letters > 0 && digits) || (letters >= 2 && capitals == letters) {
        Shape::Name
    } else if capitals > 0 && !first {
        Shape::Capital
    } else {
        Shape::Plain
    }
}

/// Quotes, brackets and the marks that end a sentence are not part of what is named.
fn bare(chunk: &str) -> &str {
    let edge = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.' | '~' | '\\' | '@'));
    chunk.trim_matches(edge).trim_end_matches(['.', '-', '/', '\\'])
}

fn literal(chunk: &str, number: usize) -> Option<Literal> {
    let text = bare(chunk);
    let inner = text.trim_start_matches(['-', '.', '/', '~', '@']);
    let joined = |c: char| inner.char_indices().any(|(at, it)| it == c && at > 0 && at + it.len_utf8() < inner.len());
    let path = joined('/') || joined('\\');
    let numbers = inner.chars().all(|c| c.is_ascii_digit() || c == '.');
    let flag = text.starts_with("--") || (text.starts_with('-') && inner.len() > 1);
    let dotted = joined('.') && !numbers && !inner.contains("..");
    let coded = joined('-') && inner.chars().any(|c| c.is_ascii_digit()) && inner.chars().any(char::is_alphabetic);
    if !(path || flag || dotted || coded || inner.contains("::")) || inner.is_empty() {
        return None;
    }
    let last = if path { inner.rsplit(['/', '\\']).next().unwrap_or(inner) } else { inner };
    let mut needs = Vec::new();
    for run in analysis::runs(last) {
        analysis::terms(&run, |term, _| needs.push(term));
    }
    Some(Literal { text: text.to_owned(), chunk: number, needs })
}

fn words_of(run: &Run<'_>, chunk: usize, first: bool) -> Vec<Word> {
    let mut terms = Vec::new();
    analysis::terms(run, |term, _| terms.push(term));
    if run.dense {
        let word = |term| Word { term, parts: Vec::new(), shape: Shape::Pair, chunk };
        return terms.into_iter().map(word).collect();
    }
    let mut terms = terms.into_iter();
    let Some(term) = terms.next() else { return Vec::new() };
    vec![Word { term, parts: terms.collect(), shape: shape(run.text, first), chunk }]
}

impl Question {
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut question = Self { quotes: quotes(text), ..Self::default() };
        let mut seen = BTreeSet::new();
        for (number, chunk) in text.split_whitespace().enumerate() {
            question.literals.extend(literal(chunk, number));
            for run in analysis::runs(chunk) {
                let first = seen.is_empty();
                for word in words_of(&run, number, first) {
                    if question.words.len() == MOST_WORDS {
                        question.left_out += 1;
                    } else if seen.insert(word.term.clone()) {
                        question.words.push(word);
                    }
                }
            }
        }
        question
    }

    /// Everything that a text may have in common with it, for marking it there.
    #[must_use]
    pub fn terms(&self) -> BTreeSet<&str> {
        self.words.iter().flat_map(|word| std::iter::once(&word.term).chain(&word.parts)).map(String::as_str).collect()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

/// A colon after a word and more behind it, quoted or bracketed pieces: what is pasted rather than asked.
fn quotes(text: &str) -> bool {
    let asked = text.trim_end().ends_with(['?', '？']);
    let marked = text.contains(": ") || text.contains(['`', '[', '{', '<', '=']) || text.contains("'");
    marked && !asked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(text: &str) -> Vec<(String, Shape)> {
        Question::new(text).words.into_iter().map(|word| (word.term, word.shape)).collect()
    }

    #[test]
    fn names_are_told_from_words() {
        let told = shapes("How did the openEHR Magento MAX_SIZE XCUITest e2e work");
        let names: Vec<_> = told.iter().filter(|(_, shape)| *shape == Shape::Name).map(|(term, _)| term.as_str()).collect();
        assert_eq!(names, ["openehr", "max_size", "xcuitest", "e2e"]);
        assert_eq!(told[4], ("magento".into(), Shape::Capital));
        assert_eq!(shapes("Magento plugin")[0].1, Shape::Plain);
    }

    #[test]
    fn paths_flags_and_dotted_names_are_meant_as_typed() {
        let literal = |text: &str| Question::new(text).literals.into_iter().map(|it| (it.text, it.needs)).collect::<Vec<_>>();
        assert_eq!(
            literal("crates/wavelet/src/haar.rs"),
            [("crates/wavelet/src/haar.rs".into(), vec!["haar".into(), "rs".into()])]
        );
        assert_eq!(literal("--enable-hyperfetch flag")[0].0, "--enable-hyperfetch");
        assert_eq!(literal("use `io.Discard`, then")[0].0, "io.Discard");
        assert_eq!(literal("ORA-01555: snapshot")[0].0, "ORA-01555");
        assert!(literal("a well-known read-only file. It is.").is_empty());
        assert!(literal("version 1.25 or 2").is_empty());
    }

    #[test]
    fn too_many_words_are_told() {
        let many: Vec<String> = (0..80).map(|n| format!("w{n}")).collect();
        let question = Question::new(&many.join(" "));
        assert_eq!((question.words.len(), question.left_out), (MOST_WORDS, 16));
    }
}
