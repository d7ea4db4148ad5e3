//! Patterns over stream paths: `*` is one segment, `**` any number of them, everything else is literal.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Keeps the set of reached segments in one word.
const SEGMENTS_MAX: usize = 63;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Pattern {
    text: Arc<str>,
    segments: Arc<[Segment]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(Box<str>),
    One,
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pattern has 1 to {SEGMENTS_MAX} segments")]
pub(super) struct BadPattern;

impl TryFrom<String> for Pattern {
    type Error = BadPattern;

    fn try_from(text: String) -> Result<Self, BadPattern> {
        let segments: Arc<[Segment]> = text.split('/').map(Segment::parse).collect();
        if text.is_empty() || segments.len() > SEGMENTS_MAX {
            return Err(BadPattern);
        }
        Ok(Self { text: text.into(), segments })
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text.to_string()
    }
}

impl Segment {
    fn parse(text: &str) -> Self {
        match text {
            "*" => Self::One,
            "**" => Self::Any,
            literal => Self::Literal(literal.replace("%2A", "*").replace("%2a", "*").into()),
        }
    }
}

impl Pattern {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        let mut reached = self.skip(1);
        for part in path.split('/') {
            reached = self.skip(self.step(reached, part));
            if reached == 0 {
                return false;
            }
        }
        reached & (1 << self.segments.len()) != 0
    }

    fn step(&self, reached: u64, part: &str) -> u64 {
        let mut next = 0;
        for (index, segment) in self.segments.iter().enumerate().filter(|(index, _)| reached & (1 << index) != 0) {
            next |= match segment {
                Segment::Any => 1 << index,
                Segment::One => 1 << (index + 1),
                Segment::Literal(literal) if **literal == *part => 1 << (index + 1),
                Segment::Literal(_) => 0,
            };
        }
        next
    }

    /// `**` also matches nothing.
    fn skip(&self, mut reached: u64) -> u64 {
        for (index, segment) in self.segments.iter().enumerate() {
            if *segment == Segment::Any && reached & (1 << index) != 0 {
                reached |= 1 << (index + 1);
            }
        }
        reached
    }

    /// The first segment of every path that matches, if there is only one such.
    pub(super) fn first(&self) -> Option<&str> {
        match self.segments.first() {
            Some(Segment::Literal(literal)) => Some(literal),
            Some(Segment::One | Segment::Any) | None => None,
        }
    }

    /// What every path that matches begins with.
    pub(super) fn prefix(&self) -> String {
        let mut prefix = String::new();
        for (index, segment) in self.segments.iter().enumerate() {
            let Segment::Literal(literal) = segment else { break };
            if index > 0 {
                prefix.push('/');
            }
            prefix.push_str(literal);
        }
        prefix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Pattern::try_from(pattern.to_owned()).unwrap().matches(path)
    }

    #[test]
    fn one_star_is_exactly_one_segment() {
        assert!(matches("events/*", "events/a"));
        assert!(!matches("events/*", "events"));
        assert!(!matches("events/*", "events/a/b"));
        assert!(!matches("events/*", "other/a"));
        assert!(matches("*/x/*", "a/x/b"));
    }

    #[test]
    fn two_stars_are_any_number_of_segments() {
        for path in ["a", "a/b", "a/b/c"] {
            assert!(matches("**", path), "{path}");
            assert!(matches("a/**", path), "{path}");
        }
        assert!(matches("**/z", "z"));
        assert!(matches("**/b/**/d", "a/b/c/c/d"));
        assert!(!matches("**/b/**/d", "a/c/d"));
        assert!(matches("**/**/**", "a"));
    }

    #[test]
    fn a_star_inside_a_segment_is_literal_and_so_is_an_escaped_one() {
        assert!(matches("a-*", "a-*"));
        assert!(!matches("a-*", "a-b"));
        assert!(matches("%2A", "*"));
        assert!(!matches("%2A", "x"));
    }

    #[test]
    fn many_stars_do_not_make_matching_slow() {
        let pattern = vec!["**"; 63].join("/");
        let path = vec!["a"; 500].join("/");
        assert!(matches(&pattern, &path));
        assert!(!matches(&format!("{}/b", vec!["**"; 62].join("/")), &path));
    }

    #[test]
    fn the_prefix_ends_before_the_first_star() {
        let prefix = |text: &str| Pattern::try_from(text.to_owned()).unwrap().prefix();
        assert_eq!((prefix("a/b/*/c"), prefix("**"), prefix("a/b")), ("a/b".into(), String::new(), "a/b".into()));
    }
}
