//! The writer's view ahead of what is durable.

use std::collections::HashMap;
use std::sync::Arc;

use crate::command::Receipt;
use crate::record::{CommandId, Stamp};
use crate::state::State;
use crate::stream::{Head, Producer, Table};

/// What slots in flight will have changed once they are durable. Forgotten whole when one of them is lost.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    heads: HashMap<Arc<str>, (u64, Option<Head>)>,
    producers: HashMap<(u64, Arc<str>), (u64, Producer)>,
    commands: HashMap<CommandId, (u64, Receipt)>,
}

impl Ahead {
    /// Slot `n` is durable: what it said last is in the table now.
    pub(crate) fn settle(&mut self, n: u64) {
        self.heads.retain(|_, (slot, _)| *slot != n);
        self.producers.retain(|_, (slot, _)| *slot != n);
        self.commands.retain(|_, (slot, _)| *slot != n);
    }

    pub(crate) fn clear(&mut self) {
        self.heads.clear();
        self.producers.clear();
        self.commands.clear();
    }

    pub(crate) fn absorb(&mut self, slot: u64, changes: Changes) {
        for (name, head) in changes.heads {
            self.heads.insert(name, (slot, head));
        }
        for (key, producer) in changes.producers {
            self.producers.insert(key, (slot, producer));
        }
    }

    pub(crate) fn remember(&mut self, slot: u64, id: CommandId, receipt: Receipt) {
        self.commands.insert(id, (slot, receipt));
    }
}

/// What one command changes, small enough to search by eye.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    heads: Vec<(Arc<str>, Option<Head>)>,
    producers: Vec<((u64, Arc<str>), Producer)>,
}

/// One command's scratch view: its own changes, over those in flight, over the durable table.
pub(crate) struct Draft<'a> {
    base: &'a State,
    ahead: &'a Ahead,
    pub(crate) changes: Changes,
    pub(crate) now: u64,
}

/// A stream as a command finds it.
pub(crate) enum Found {
    Absent,
    /// Its lifetime is over but the log does not say so yet.
    Expired,
    /// Kept only for its forks.
    Retired,
    Live(Head),
}

impl<'a> Draft<'a> {
    pub(crate) fn new(base: &'a State, ahead: &'a Ahead, now: u64) -> Self {
        Self { base, ahead, changes: Changes::default(), now }
    }

    pub(crate) fn find(&self, name: &str) -> Found {
        let Some(head) = self.head(name) else { return Found::Absent };
        if head.deleted {
            return Found::Retired;
        }
        let last_read = self.base.stream(name).map_or(0, |s| s.last_read.load(std::sync::atomic::Ordering::Relaxed));
        match head.deadline(last_read) {
            Some(deadline) if deadline <= self.now => Found::Expired,
            _ => Found::Live(head),
        }
    }

    pub(crate) fn producer(&self, name: &Arc<str>, head: &Head, id: &Arc<str>) -> Option<Producer> {
        let key = (head.config.generation, id.clone());
        if let Some((_, producer)) = self.changes.producers.iter().rev().find(|(k, _)| *k == key) {
            return Some(*producer);
        }
        if let Some((_, producer)) = self.ahead.producers.get(&key) {
            return Some(*producer);
        }
        let same = self.base.stream(name).is_some_and(|s| s.head.config.generation == head.config.generation);
        if same { self.base.producer(name, id) } else { None }
    }

    /// Commands at or before this position are not all remembered.
    pub(crate) fn forgotten(&self) -> u64 {
        self.base.commands.forgotten
    }

    pub(crate) fn receipt(&self, id: CommandId) -> Option<Receipt> {
        self.ahead.commands.get(&id).map(|(_, receipt)| receipt).or_else(|| self.base.commands.get(id)).cloned()
    }
}

impl Table for Draft<'_> {
    fn head(&self, name: &str) -> Option<Head> {
        if let Some((_, head)) = self.changes.heads.iter().find(|(n, _)| n.as_ref() == name) {
            return head.clone();
        }
        match self.ahead.heads.get(name) {
            Some((_, head)) => head.clone(),
            None => self.base.head(name),
        }
    }

    fn set_head(&mut self, name: &Arc<str>, head: Option<Head>) {
        match self.changes.heads.iter_mut().find(|(n, _)| n == name) {
            Some((_, slot)) => *slot = head,
            None => self.changes.heads.push((name.clone(), head)),
        }
    }

    fn set_producer(&mut self, _name: &Arc<str>, head: &Head, stamp: &Stamp) {
        let key = (head.config.generation, stamp.id.clone());
        self.changes.producers.push((key, Producer { epoch: stamp.epoch, seq: stamp.seq }));
    }
}
