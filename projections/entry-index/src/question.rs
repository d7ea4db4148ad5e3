//! What somebody looks for, taken apart.

use std::collections::BTreeSet;

use crate::analysis::{self, Run};

/// Words of a question that are looked at; a longer one is cut, and says so.
pub(crate) const MOST_WORDS: usize = 64;
/// So many words with a capital may be a name of several.
const TITLE: usize = 3;

/// One word of a question, as it is written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub term: String,
    /// What a compound is made of.
    pub parts: Vec<String>,
    pub shape: Shape,
    /// Has a capital, wherever it stands: it may be a name.
    pub capital: bool,
    /// Stands where a sentence begins, where a capital says little.
    pub opens: bool,
    /// The number of the piece between spaces that it stands in.
    pub chunk: usize,
}

/// How a word looks. Nothing here depends on a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Plain,
    /// Begins with a capital, not at the beginning of a sentence.
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
    /// Two words with a stroke between them may be a path, and may be one or the other.
    pub either: bool,
    /// What it cannot do without: of a path its last component, and no line number or value behind it.
    pub stands: String,
    /// The words of that.
    pub needs: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    pub(crate) words: Vec<Word>,
    pub(crate) literals: Vec<Literal>,
    /// It quotes an error or a line of output: it has marks that prose has not.
    pub(crate) quotes: bool,
    /// It ends as questions do.
    pub(crate) asks: bool,
    /// Words that were left out because there are too many.
    pub left_out: usize,
}

fn shape(word: &str, opens: bool) -> Shape {
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    let digits = word.chars().any(|c| c.is_ascii_digit());
    let capitals = word.chars().filter(|c| c.is_uppercase()).count();
    let compound = word.contains('_') || !analysis::parts(word).is_empty();
    if compound || (letters > 0 && digits) || (letters >= 2 && capitals == letters) {
        Shape::Name
    } else if capitals > 0 && letters >= 2 && !opens {
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
    // `e.g.` and `v2.0.1` name nothing.
    let letters = inner.chars().filter(|c| c.is_alphabetic()).count() > 2;
    let dotted = joined('.') && letters && !numbers && !inner.contains("..");
    let coded = joined('-') && inner.chars().any(|c| c.is_ascii_digit()) && inner.chars().any(char::is_alphabetic);
    if !(path || flag || dotted || coded || inner.contains("::")) || inner.is_empty() {
        return None;
    }
    let last = if path { inner.rsplit(['/', '\\']).next().unwrap_or(inner) } else { inner };
    let stands = named(last);
    let needs = analysis::terms_of(stands);
    let plain = |c: char| c.is_alphanumeric() || c == '/';
    let either = path && text.matches('/').count() == 1 && text.chars().all(plain);
    Some(Literal { text: text.to_owned(), chunk: number, either, needs, stands: stands.to_owned() })
}

/// `wick.rs` of `wick.rs:12:3`, `--prefer` of `--prefer=moonlight`.
fn named(literal: &str) -> &str {
    let mut name = literal.split_once('=').map_or(literal, |(name, _)| name);
    while let Some((before, line)) = name.rsplit_once(':')
        && line.chars().all(|c| c.is_ascii_digit())
    {
        name = before;
    }
    name
}

/// Letters with a few digits, `500ms` or `win32`, and capitals as few as of an abbreviation: by themselves or in a few words they name
/// something, in a sentence they need not.
pub(crate) fn is_slight(term: &str) -> bool {
    let digits = term.chars().filter(char::is_ascii_digit).count();
    let letters = term.chars().filter(|c| c.is_alphabetic()).count();
    let apart = term.trim_start_matches(|c: char| c.is_ascii_digit()).len() == letters
        || term.trim_end_matches(|c: char| c.is_ascii_digit()).len() == letters;
    letters + digits == term.chars().count() && if digits == 0 { letters < 5 } else { letters < 4 && digits < 4 && apart }
}

fn words_of(run: &Run<'_>, chunk: usize, opens: bool) -> Vec<Word> {
    let mut terms = Vec::new();
    analysis::terms(run, |term, _| terms.push(term));
    if run.dense {
        let word = |term| Word { term, parts: Vec::new(), shape: Shape::Pair, capital: false, opens, chunk };
        return terms.into_iter().map(word).collect();
    }
    let mut terms = terms.into_iter();
    let Some(term) = terms.next() else { return Vec::new() };
    let capital = run.text.chars().any(char::is_uppercase);
    vec![Word { term, parts: terms.collect(), shape: shape(run.text, opens), capital, opens, chunk }]
}

impl Question {
    #[must_use]
    pub fn new(text: &str) -> Self {
        let asks = text.trim_end().ends_with(['?', '？']);
        let mut question = Self { quotes: !asks && quotes(text), asks, ..Self::default() };
        let (mut seen, mut opens) = (BTreeSet::new(), true);
        for (number, chunk) in text.split_whitespace().enumerate() {
            question.literals.extend(literal(chunk, number));
            for run in analysis::runs(chunk) {
                for word in words_of(&run, number, std::mem::take(&mut opens)) {
                    if question.words.len() == MOST_WORDS {
                        question.left_out += 1;
                    } else if seen.insert(word.term.clone()) {
                        question.words.push(word);
                    }
                }
            }
            opens |= chunk.ends_with(['.', '!', '?', ':', '…']);
        }
        question.forget_title();
        question
    }

    /// Where nearly every word has a capital it is the style of a title, and names nothing.
    fn forget_title(&mut self) {
        let words = self.words.iter().filter(|word| matches!(word.shape, Shape::Plain | Shape::Capital));
        let capitals = words.clone().filter(|word| word.capital).count();
        if capitals > TITLE && capitals * 3 >= words.count() * 2 {
            for word in self.words.iter_mut().filter(|word| word.shape == Shape::Capital) {
                (word.shape, word.capital) = (Shape::Plain, false);
            }
        }
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

/// A colon after a word and more behind it, quoted or bracketed pieces: what is pasted rather than asked. One name by itself between marks
/// or with them, as in `Vec<u8>`, is neither.
fn quotes(text: &str) -> bool {
    let mut marked = text.split_whitespace().filter(|chunk| chunk.contains(['`', '[', '{', '<', '=']));
    let bracketed = marked.clone().filter(|chunk| chunk.starts_with(['[', '{', '<'])).count();
    text.contains(": ") || bracketed > 1 || marked.any(|chunk| !is_marked_name(chunk)) || has_quoted(text)
}

fn is_marked_name(chunk: &str) -> bool {
    let closed = [('`', '`'), ('[', ']'), ('{', '}'), ('<', '>')];
    let even = closed.into_iter().all(|(open, close)| match open == close {
        true => chunk.matches(open).count().is_multiple_of(2),
        false => chunk.matches(open).count() == chunk.matches(close).count(),
    });
    even && !chunk.contains('=')
}

/// An apostrophe within a word quotes nothing.
fn has_quoted(text: &str) -> bool {
    let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices('\'')
        .any(|(at, it)| !(letter(text[..at].chars().next_back()) && letter(text[at + it.len()..].chars().next())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(text: &str) -> Vec<(String, Shape)> {
        Question::new(text).words.into_iter().map(|word| (word.term, word.shape)).collect()
    }

    #[test]
    fn names_are_told_from_words() {
        let told = shapes("How did the openKVX Morvane MAX_SIZE XRBNProbe p2p work");
        let names: Vec<_> = told.iter().filter(|(_, shape)| *shape == Shape::Name).map(|(term, _)| term.as_str()).collect();
        assert_eq!(names, ["openkvx", "max_size", "xrbnprobe", "p2p"]);
        assert_eq!(told[4], ("morvane".into(), Shape::Capital));
        assert_eq!(shapes("Morvane plugin")[0].1, Shape::Plain);
    }

    #[test]
    fn paths_flags_and_dotted_names_are_meant_as_typed() {
        let literal = |text: &str| Question::new(text).literals.into_iter().map(|it| (it.text, it.needs)).collect::<Vec<_>>();
        assert_eq!(
            literal("crates/lantern/src/wick.rs"),
            [("crates/lantern/src/wick.rs".into(), vec!["wick".into(), "rs".into()])]
        );
        assert_eq!(literal("--prefer-moonlight flag")[0].0, "--prefer-moonlight");
        assert_eq!(literal("use `io.Plunge`, then")[0].0, "io.Plunge");
        assert_eq!(literal("TRK-04711: tide")[0].0, "TRK-04711");
        let either = |text: &str| Question::new(text).literals[0].either;
        assert!(either("CI/CD") && either("and/or") && !either("src/add.py") && !either("a/b/c") && !either("/etc/hosts"));
        assert!(literal("a well-known read-only file. It is.").is_empty());
        assert!(literal("version 3.14 or 2, e.g. v2.0.1").is_empty());
    }

    #[test]
    fn of_what_is_meant_as_typed_a_name_has_to_stand_somewhere() {
        let stands = |text: &str| Question::new(text).literals.remove(0).stands;
        assert_eq!(stands("crates/lantern/src/wick.rs:12:3"), "wick.rs");
        assert_eq!(stands("--prefer-moonlight=100"), "prefer-moonlight");
        assert_eq!(stands("io.Plunge()"), "io.Plunge");
        assert_eq!(stands("TRK-04711:"), "TRK-04711");
    }

    #[test]
    fn quantities_and_abbreviations_are_slight_names() {
        for slight in ["500ms", "8bit", "win32", "ios", "asap"] {
            assert!(is_slight(slight), "{slight}");
        }
        for name in ["p2p", "openkvx", "max_size", "pgxl2", "x86_64", "e0502"] {
            assert!(!is_slight(name), "{name}");
        }
    }

    #[test]
    fn a_capital_tells_nothing_where_a_sentence_begins_nor_alone() {
        let capitals = |text: &str| shapes(text).into_iter().filter(|(_, shape)| *shape == Shape::Capital).count();
        assert_eq!(capitals("It hung. Probably I held the lock"), 0);
        assert_eq!(capitals("It hung, Probably because of Valgrind"), 2);
    }

    #[test]
    fn apostrophes_within_words_quote_nothing() {
        assert!(!quotes("what's our policy for retries"));
        assert!(!quotes("l'auth ne marche pas"));
        assert!(quotes("cannot open 'x' for writing"));
        assert!(quotes("error: it is gone"));
        assert!(quotes("[2026-01-01] [ERROR] worker died") && !quotes("the [wick] crate") && !quotes("a Vec<u8> and `keel`"));
        assert!(!Question::new("why does it say error: it is gone?").quotes);
    }

    #[test]
    fn a_name_between_marks_quotes_nothing() {
        assert!(!quotes("decision on retry policy for `uploadBlob` when the network drops"));
        assert!(!quotes("when did Vec<u8> become a slice [u8]"));
        assert!(quotes("it printed `cannot find it` again"));
        assert!(quotes("exit status=3 of the worker"));
    }

    #[test]
    fn capitals_of_a_title_name_nothing() {
        assert!(shapes("Retry Policy For Uploads And Blobs").iter().all(|(_, shape)| *shape == Shape::Plain));
        assert_eq!(shapes("ask Jenny Morvane Smith about it")[1].1, Shape::Capital);
    }

    #[test]
    fn too_many_words_are_told() {
        let many: Vec<String> = (0..80).map(|n| format!("w{n}")).collect();
        let question = Question::new(&many.join(" "));
        assert_eq!((question.words.len(), question.left_out), (MOST_WORDS, 16));
    }
}
