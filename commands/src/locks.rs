//! Turns within one process. The log alone decides who was first; these only keep neighbours from running into each other's
//! expectations over and over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use events::StreamName;
use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::decision::Decision;

type Turns = Mutex<BTreeMap<StreamName, Arc<RwLock<()>>>>;

#[derive(Debug, Default)]
pub(crate) struct Locks {
    turns: Arc<Turns>,
}

/// Streams a decision needs for itself, and those that it only must not see changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    alone: BTreeSet<StreamName>,
    shared: BTreeSet<StreamName>,
}

impl Needs {
    pub(crate) fn of(decision: &Decision) -> Self {
        let appended = decision.appends.iter().map(|append| &append.stream);
        let (alone, shared) = appended
            .chain(&decision.reads)
            .cloned()
            .partition(|stream| decision.reads.contains(stream) && decision.appends_to(stream));
        Self { alone, shared }
    }

    fn is_within(&self, held: &Self) -> bool {
        let covered = |stream| held.alone.contains(stream) || held.shared.contains(stream);
        self.alone.is_subset(&held.alone) && self.shared.iter().all(covered)
    }
}

enum Guard {
    Alone { _guard: OwnedRwLockWriteGuard<()> },
    Shared { _guard: OwnedRwLockReadGuard<()> },
}

pub(crate) struct Held {
    turns: Arc<Turns>,
    needs: Needs,
    guards: Vec<Guard>,
}

impl Locks {
    /// In the order of names, so that no two wait for each other.
    pub(crate) async fn hold(&self, needs: Needs) -> Held {
        let streams: BTreeSet<_> = needs.alone.union(&needs.shared).cloned().collect();
        let mut held = Held { turns: self.turns.clone(), needs, guards: Vec::with_capacity(streams.len()) };
        for stream in streams {
            let alone = held.needs.alone.contains(&stream);
            let turn = self.turns.lock().entry(stream).or_default().clone();
            held.guards.push(if alone {
                Guard::Alone { _guard: turn.write_owned().await }
            } else {
                Guard::Shared { _guard: turn.read_owned().await }
            });
        }
        held
    }
}

impl Held {
    pub(crate) fn covers(&self, needs: &Needs) -> bool {
        needs.is_within(&self.needs)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.guards.clear();
        let mut turns = self.turns.lock();
        for stream in self.needs.alone.union(&self.needs.shared) {
            if turns.get(stream).is_some_and(|turn| Arc::strong_count(turn) == 1) {
                turns.remove(stream);
            }
        }
    }
}
