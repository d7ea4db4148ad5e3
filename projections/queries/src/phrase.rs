//! How much of a question stands in a text as it was typed.

use std::collections::HashSet;

use entry_index::is_dense;

/// Words of a question that are looked at.
const MOST_WORDS: usize = 64;

/// A question as a run of words.
#[derive(Clone, Debug)]
pub(crate) struct Phrase {
    words: Vec<String>,
}

/// Letters and digits are words, whatever joins them, and so is each character of a script without spaces; case does not count.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = &rest[rest.find(part)?..];
        let first = rest.chars().next()?;
        let end = match is_dense(first) {
            true => first.len_utf8(),
            false => rest.find(|c| !part(c) || is_dense(c)).unwrap_or(rest.len()),
        };
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word.to_lowercase())
    })
}

impl Phrase {
    pub fn new(query: &str) -> Self {
        Self { words: words(query).take(MOST_WORDS).collect() }
    }

    /// The share of its words that stand in the text in one run, one after the other. One of several words is no run.
    pub fn share(&self, text: &str) -> f64 {
        let mut longest = 0;
        // How many words, ending with each of the question, match the text up to here.
        let mut runs = vec![0_usize; self.words.len() + 1];
        let known: HashSet<&str> = self.words.iter().map(String::as_str).collect();
        for word in words(text) {
            if !known.contains(word.as_str()) {
                runs.fill(0);
                continue;
            }
            for at in (0..self.words.len()).rev() {
                runs[at + 1] = if self.words[at] == word { runs[at] + 1 } else { 0 };
                longest = longest.max(runs[at + 1]);
            }
        }
        if longest < 2.min(self.words.len()) || longest == 0 { 0.0 } else { longest as f64 / self.words.len() as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_whatever_stands_between_its_words() {
        let phrase = Phrase::new("error: pathspec '.' did not match");
        assert_eq!(phrase.share("it said `error: pathspec 'x' did`"), 0.4);
        assert_eq!(phrase.share("Error: pathspec . did not match any"), 1.0);
        assert_eq!(phrase.share("match not did"), 0.0);
        assert_eq!(Phrase::new("word").share("a word"), 1.0);
        assert_eq!(Phrase::new("word").share("words"), 0.0);
        assert_eq!(Phrase::new("?").share("words"), 0.0);
        assert_eq!(Phrase::new("検索").share("日本語の検索は速い"), 1.0);
        assert_eq!(Phrase::new("検索は速い").share("検索が速い"), 0.4);
    }
}
