use std::collections::BTreeSet;

use events::{AgentId, Event, StreamName};

/// Events that follow each other in one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    pub stream: StreamName,
    pub events: Vec<Event>,
}

/// What a command makes true, in one commit. Without appends everything is already as asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Each stream once.
    pub appends: Vec<Append>,
    /// Streams whose contents mattered: the decision holds only while they stand where they stood.
    pub reads: BTreeSet<StreamName>,
    pub author: Option<AgentId>,
}

impl Decision {
    pub(crate) fn appends_to(&self, stream: &StreamName) -> bool {
        self.appends.iter().any(|append| append.stream == *stream)
    }

    /// Whether something is appended that decisions are made on.
    pub(crate) fn changes_state(&self) -> bool {
        self.reads.iter().any(|stream| self.appends_to(stream))
    }
}
