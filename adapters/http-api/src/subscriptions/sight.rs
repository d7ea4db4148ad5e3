//! What a decision may know of streams.

use std::sync::Arc;

use event_log::{Log, Offset};

use super::mark::Mark;
use super::state::{Link, Subscription};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    /// The stream's generation: another one is another stream of the same name.
    pub(super) incarnation: u64,
    pub(super) tail: Offset,
    pub(super) forked: bool,
    /// Takes messages.
    pub(super) open_json: bool,
}

pub(super) trait Streams {
    /// `None` if there is no such stream.
    fn look(&self, path: &str) -> Option<Sight>;
    fn named(&self, prefix: &str) -> Vec<Arc<str>>;
}

impl Streams for Log {
    fn look(&self, path: &str) -> Option<Sight> {
        let (head, tail) = self.head(path).ok()?;
        Some(Sight {
            incarnation: head.config.generation,
            tail,
            forked: head.config.fork.is_some(),
            open_json: head.config.is_json() && !head.closed,
        })
    }

    fn named(&self, prefix: &str) -> Vec<Arc<str>> {
        self.stream_names(prefix)
    }
}

impl Sight {
    /// Whether the offset is one that a reader of this stream can have reached.
    pub(super) fn holds(&self, offset: Offset) -> bool {
        let ours = offset.generation == self.incarnation || offset.generation == 0;
        // The inherited part of a fork keeps the tokens of its source, which is older.
        let inherited = self.forked && offset.generation < self.incarnation;
        (ours || inherited) && offset.position <= self.tail.position
    }
}

impl Link {
    pub(super) fn is_pending(&self, sight: &Sight) -> bool {
        sight.incarnation == self.incarnation && sight.tail.position > self.acked.position()
    }
}

/// A link as the protocol shows it.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Linkage {
    pub(super) path: Arc<str>,
    pub(super) link_type: &'static str,
    pub(super) acked_offset: Mark,
    pub(super) tail_offset: Mark,
    pub(super) has_pending: bool,
}

pub(super) fn linkages(subscription: &Subscription, streams: &dyn Streams) -> Vec<Linkage> {
    let linkage = |(path, link): (&Arc<str>, &Link)| {
        let sight = streams.look(path);
        Linkage {
            path: path.clone(),
            link_type: if link.explicit { "explicit" } else { "glob" },
            acked_offset: link.acked,
            tail_offset: Mark::at(sight.map_or_else(Offset::default, |sight| sight.tail)),
            has_pending: sight.is_some_and(|sight| link.is_pending(&sight)),
        }
    };
    subscription.links.iter().map(linkage).collect()
}
