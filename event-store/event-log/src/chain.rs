//! The one rule by which writer, reader, packer and checker decide what a slot means.

use crate::sabotage::{self, Sabotage};
use crate::slot::{Digest, Header, Kind};

/// The log's head as a fold of its slots from zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Number of the first slot not yet seen.
    pub next: u64,
    pub epoch: u64,
    /// The owner: writer of the latest claim. 0 before the first.
    pub writer: u64,
    pub digest: Digest,
    /// Records in valid slots so far.
    pub records: u64,
    pub time: u64,
    /// Where the owner is reached; empty if it cannot be.
    pub url: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Ownership moved.
    Claim,
    /// The slot's records happened.
    Data,
    /// Well-formed, but it lost a race: skipped by everybody for ever.
    Void,
}

impl Chain {
    /// Judges the well-formed slot `next` and moves past it.
    pub fn admit(&mut self, header: &Header, digest: Digest, records: u64) -> Verdict {
        self.next += 1;
        let verdict = match header.kind {
            Kind::Claim if header.epoch > self.epoch => Verdict::Claim,
            Kind::Data if self.continues(header) => Verdict::Data,
            Kind::Claim | Kind::Data => return Verdict::Void,
        };
        if verdict == Verdict::Claim {
            self.epoch = header.epoch;
            self.writer = header.writer;
            self.url.clone_from(&header.url);
        }
        self.digest = digest;
        self.records += records;
        self.time = self.time.max(header.time);
        verdict
    }

    fn continues(&self, header: &Header) -> bool {
        header.epoch == self.epoch
            && header.writer == self.writer
            && ((header.prev == self.digest && header.before == self.records) || sabotage::is(Sabotage::ChainCheck))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: Kind, epoch: u64, writer: u64, prev: Digest) -> Header {
        Header {
            kind,
            cluster: 1,
            shard: 0,
            n: 0,
            epoch,
            writer,
            nonce: 0,
            prev,
            before: 0,
            durable: 0,
            time: 0,
            url: String::new(),
        }
    }

    fn owned() -> Chain {
        let mut chain = Chain::default();
        assert_eq!(chain.admit(&header(Kind::Claim, 1, 7, [0; 32]), [1; 32], 0), Verdict::Claim);
        chain
    }

    #[test]
    fn data_of_the_owner_that_chains_on_is_valid() {
        let mut chain = owned();
        assert_eq!(chain.admit(&header(Kind::Data, 1, 7, [1; 32]), [2; 32], 0), Verdict::Data);
        assert_eq!((chain.next, chain.digest), (2, [2; 32]));
    }

    #[test]
    fn a_deposed_owner_writes_only_voids() {
        let mut chain = owned();
        assert_eq!(chain.admit(&header(Kind::Claim, 2, 8, [0; 32]), [3; 32], 0), Verdict::Claim);
        assert_eq!(chain.admit(&header(Kind::Data, 1, 7, [1; 32]), [4; 32], 0), Verdict::Void);
        assert_eq!((chain.digest, chain.writer), ([3; 32], 8), "a void slot changes nothing but the number");
    }

    #[test]
    fn data_that_does_not_chain_on_the_last_valid_slot_is_void() {
        let mut chain = owned();
        assert_eq!(chain.admit(&header(Kind::Data, 1, 7, [9; 32]), [2; 32], 0), Verdict::Void);
    }

    #[test]
    fn a_claim_must_raise_the_epoch() {
        let mut chain = owned();
        assert_eq!(chain.admit(&header(Kind::Claim, 1, 8, [1; 32]), [2; 32], 0), Verdict::Void);
        assert_eq!(chain.writer, 7);
    }
}
