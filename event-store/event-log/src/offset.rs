//! The opaque position token of the Durable Streams protocol.

use std::fmt;

/// `{generation:016}_{position:016}`. Persisted by clients; never reformatted.
///
/// The generation is unique per incarnation of a path, so a token (or a cached page) of a deleted stream cannot be mistaken
/// for one of its successor. Generation 0 is never given out and stands for "whichever stream is there".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Offset {
    pub generation: u64,
    pub position: u64,
}

const DIGITS: usize = 16;

impl Offset {
    #[must_use]
    pub fn parse(token: &str) -> Option<Self> {
        let (generation, position) = token.split_once('_')?;
        Some(Self { generation: number(generation)?, position: number(position)? })
    }
}

fn number(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.len() <= DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016}_{:016}", self.generation, self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_as_itself() {
        let offset = Offset { generation: 7, position: 1234 };
        assert_eq!(offset.to_string(), "0000000000000007_0000000000001234");
        assert_eq!(Offset::parse(&offset.to_string()), Some(offset));
    }

    #[test]
    fn anything_but_two_short_numbers_is_refused() {
        for token in ["", "-1", "now", "1", "1_", "_1", "1_2_3", "+1_2", " 1_2", "1_2\n", "00000000000000001_0", "a_b", "1,2"] {
            assert_eq!(Offset::parse(token), None, "{token:?}");
        }
    }
}
