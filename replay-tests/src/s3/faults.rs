use std::collections::VecDeque;
use std::time::Duration;

/// What becomes of one PUT of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Honest,
    /// 409 with nothing stored, as S3 answers when it saw two writers that both failed.
    Conflict,
    /// 503 with nothing stored.
    Unavailable,
    /// Carried out, then answered with 503.
    LostReply,
    /// Carried out, then the connection is closed without an answer.
    Dropped,
}

/// Probabilities are per PUT, between 0 and 1, and add up: one PUT meets one fate.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    pub seed: u64,
    pub conflict: f64,
    pub unavailable: f64,
    pub lost_reply: f64,
    pub dropped: f64,
    /// Waited before a PUT takes effect. A client that gives up meanwhile does not stop it.
    pub put_latency: Duration,
    /// Waited before a GET, HEAD or LIST is answered.
    pub get_latency: Duration,
    /// Fates of the next PUTs in order of arrival; while it lasts, no dice are rolled.
    pub script: VecDeque<Fate>,
}

/// Requests that arrived, whatever was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub puts: u64,
    pub gets: u64,
    pub heads: u64,
    pub lists: u64,
    pub deletes: u64,
    pub conflicts: u64,
    pub unavailable: u64,
    pub lost_replies: u64,
    pub dropped: u64,
}

impl Faults {
    /// The nth PUT of a key meets the same fate in every run with the same seed, however the
    /// requests of different keys interleave.
    pub(super) fn fate(&mut self, key: &str, attempt: u64) -> Fate {
        if let Some(fate) = self.script.pop_front() {
            return fate;
        }
        let mut roll = uniform(self.seed, key, attempt);
        for (probability, fate) in [
            (self.conflict, Fate::Conflict),
            (self.unavailable, Fate::Unavailable),
            (self.lost_reply, Fate::LostReply),
            (self.dropped, Fate::Dropped),
        ] {
            if roll < probability {
                return fate;
            }
            roll -= probability;
        }
        Fate::Honest
    }
}

impl Counts {
    pub(super) fn add(&mut self, fate: Fate) {
        match fate {
            Fate::Honest => {}
            Fate::Conflict => self.conflicts += 1,
            Fate::Unavailable => self.unavailable += 1,
            Fate::LostReply => self.lost_replies += 1,
            Fate::Dropped => self.dropped += 1,
        }
    }
}

/// FNV-1a over the key, finished by SplitMix64: stable across runs, platforms and compilers.
fn uniform(seed: u64, key: &str, attempt: u64) -> f64 {
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = mix(mix(seed ^ hash).wrapping_add(attempt));
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_in_five_each() -> Faults {
        Faults { seed: 7, conflict: 0.2, unavailable: 0.2, lost_reply: 0.2, dropped: 0.2, ..Faults::default() }
    }

    fn fates(mut faults: Faults) -> Vec<Fate> {
        (0..10_000).map(|n| faults.fate(&format!("arbe/j/{}", n / 2), n % 2)).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_fates_and_another_seed_others() {
        assert_eq!(fates(one_in_five_each()), fates(one_in_five_each()));
        assert_ne!(fates(one_in_five_each()), fates(Faults { seed: 8, ..one_in_five_each() }));
    }

    #[test]
    fn each_fate_comes_as_often_as_asked() {
        let fates = fates(one_in_five_each());
        for wanted in [Fate::Honest, Fate::Conflict, Fate::Unavailable, Fate::LostReply, Fate::Dropped] {
            let count = fates.iter().filter(|fate| **fate == wanted).count();
            assert!((1_850..2_150).contains(&count), "{wanted:?} came {count} times in 10,000");
        }
    }

    #[test]
    fn a_script_goes_before_the_dice() {
        let mut faults = Faults { script: [Fate::Dropped, Fate::Honest].into(), conflict: 1.0, ..Faults::default() };
        assert_eq!([0, 1, 2].map(|n| faults.fate("k", n)), [Fate::Dropped, Fate::Honest, Fate::Conflict]);
    }
}
