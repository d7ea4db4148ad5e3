//! How much the drivers of a server have to do, for whoever watches it.

use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Runs that have not ended, by how far they are. Part of metrics, as the other names here: never renamed.
    pub runs: BTreeMap<&'static str, u64>,
    /// What is being done at this moment, by its kind.
    pub driving: BTreeMap<&'static str, u64>,
    /// Failures that the log tells of, by their class.
    pub failures: BTreeMap<String, u64>,
    /// How long the first of what no server has begun has been waiting.
    pub oldest_waiting: Option<Duration>,
}
