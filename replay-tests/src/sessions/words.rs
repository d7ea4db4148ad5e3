//! Made-up words that compress about as well as people's.

const VOCABULARY: u64 = 4_000;
const SYLLABLES: [&str; 24] = [
    "ta", "re", "ion", "con", "pro", "er", "ing", "de", "ver", "le", "sta", "in", "ment", "al", "ty", "com", "ex", "pa", "ter",
    "un", "lo", "ca", "ble", "or",
];

/// The same seed says the same.
#[derive(Clone, Debug)]
pub(crate) struct Words(u64);

impl Words {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn hex(&mut self, digits: usize) -> String {
        let text = format!("{:016x}{:016x}{:016x}", self.next(), self.next(), self.next());
        text[..digits].to_owned()
    }

    pub(super) fn uuid(&mut self) -> String {
        let hex = self.hex(32);
        format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
    }

    /// About `count` words, with a line's end here and there, and a dotted name.
    pub(crate) fn text(&mut self, count: u64) -> String {
        let count = count / 2 + self.below(count) + 1;
        let mut text = String::new();
        for at in 0..count {
            if at > 0 {
                text.push(match self.below(42) {
                    0..3 => '\n',
                    3 => '.',
                    _ => ' ',
                });
            }
            self.word(&mut text);
        }
        text
    }

    /// Few words are frequent and most are rare; some are numbers.
    fn word(&mut self, text: &mut String) {
        if self.below(12) == 0 {
            text.push_str(&self.below(100_000).to_string());
            return;
        }
        let rank = self.below(VOCABULARY) * self.below(VOCABULARY) / VOCABULARY;
        let mut letters = mix(rank);
        for _ in 0..1 + letters % 4 {
            letters /= 7;
            text.push_str(SYLLABLES[(letters % SYLLABLES.len() as u64) as usize]);
        }
    }
}

fn mix(seed: u64) -> u64 {
    let mut z = seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
