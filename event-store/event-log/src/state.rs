//! The durable table of streams: a fold of the log, never written except by [`State::apply`].

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::chain::Chain;
use crate::command::Receipt;
use crate::record::{CommandId, Op, Record, Stamp};
use crate::stream::{Extent, Head, Impossible, Place, Producer, Stream, Table, evolve};

/// Command ids that are remembered, oldest forgotten first. Part of the log's meaning: every server forgets alike.
pub const COMMANDS_KEPT: usize = 65_536;

#[derive(Debug, Default)]
pub struct State {
    pub chain: Chain,
    pub streams: HashMap<Arc<str>, Stream>,
    /// Streams that can expire.
    pub mortal: BTreeSet<Arc<str>>,
    pub commands: Commands,
    /// The packs in use, in order and without gaps from slot 0.
    pub packs: Vec<PackRef>,
    /// Slots that hold no records that happened: claims and voids. Needed for as long as a pack may have to be made again.
    pub skips: BTreeSet<u64>,
}

/// Covers slots `from..to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackRef {
    pub from: u64,
    pub to: u64,
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub struct Commands {
    receipts: HashMap<CommandId, Receipt>,
    order: VecDeque<CommandId>,
    /// The position of the newest receipt that is no longer remembered.
    pub(crate) forgotten: u64,
}

impl Commands {
    #[must_use]
    pub fn get(&self, id: CommandId) -> Option<&Receipt> {
        self.receipts.get(&id)
    }

    pub(crate) fn remember(&mut self, id: CommandId, receipt: Receipt) {
        if self.receipts.insert(id, receipt).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > COMMANDS_KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.forgotten = self.receipts.remove(&oldest).map_or(self.forgotten, |receipt| receipt.position);
        }
    }

    pub(crate) fn in_order(&self) -> impl ExactSizeIterator<Item = (CommandId, &Receipt)> {
        self.order.iter().map(|id| (*id, &self.receipts[id]))
    }
}

impl State {
    #[must_use]
    pub fn stream(&self, name: &str) -> Option<&Stream> {
        self.streams.get(name)
    }

    #[must_use]
    pub fn producer(&self, name: &str, id: &str) -> Option<Producer> {
        self.streams.get(name)?.producers.as_ref()?.get(id).copied()
    }

    /// Applies the records of valid slot `n`.
    pub fn apply(&mut self, n: u64, records: &[Record]) -> Result<(), Impossible> {
        let mut command: Option<(CommandId, Receipt)> = None;
        for (index, record) in records.iter().enumerate() {
            evolve(self, record)?;
            if let Op::Appended(appended) = &record.op {
                let place = Place::Slot { n, index: index as u32 };
                if let Some(stream) = self.streams.get_mut(&record.stream) {
                    stream.extents.push(Extent { start: appended.first, place });
                }
            }
            self.settle(&mut command, n, record);
        }
        if let Some((id, receipt)) = command {
            self.commands.remember(id, receipt);
        }
        Ok(())
    }

    /// Records of one command stand side by side and share its receipt.
    fn settle(&mut self, command: &mut Option<(CommandId, Receipt)>, n: u64, record: &Record) {
        if let Some((id, receipt)) = command.take_if(|(id, _)| record.command != Some(*id)) {
            self.commands.remember(id, receipt);
        }
        let Some(id) = record.command else { return };
        let receipt = &mut command.get_or_insert_with(|| (id, Receipt { position: n + 1, outcomes: Vec::new() })).1;
        receipt.note(self, record);
    }

    /// Replaces the extents in slots `from..to` by those of the pack that covers them.
    pub fn install_pack(&mut self, pack: PackRef, index: &[crate::pack::Entry]) {
        let covers = |place: Place| match place {
            Place::Slot { n, .. } => (pack.from..pack.to).contains(&n),
            Place::Pack { from, .. } => (pack.from..pack.to).contains(&from),
        };
        for entry in index {
            let Some(stream) = self.streams.get_mut(entry.stream.as_ref()) else { continue };
            if stream.head.config.generation != entry.generation {
                continue;
            }
            let extents = &mut stream.extents;
            let Some(first) = extents.iter().position(|e| covers(e.place)) else { continue };
            let last = extents.iter().rposition(|e| covers(e.place)).map_or(first, |i| i + 1);
            let packed = entry.blocks.iter().map(|block| Extent {
                start: block.start,
                place: Place::Pack { from: pack.from, offset: block.offset, len: block.len },
            });
            extents.splice(first..last, packed);
            extents.shrink_to_fit();
        }
        self.packs.retain(|old| !(pack.from..pack.to).contains(&old.from));
        self.packs.push(pack);
        self.packs.sort_unstable_by_key(|pack| pack.from);
    }

    #[must_use]
    pub fn pack(&self, from: u64) -> Option<PackRef> {
        self.packs.binary_search_by_key(&from, |pack| pack.from).ok().map(|i| self.packs[i])
    }

    /// The first slot that no pack covers.
    #[must_use]
    pub fn packed_to(&self) -> u64 {
        self.packs.last().map_or(0, |pack| pack.to)
    }
}

impl Table for State {
    fn head(&self, name: &str) -> Option<Head> {
        self.streams.get(name).map(|stream| stream.head.clone())
    }

    fn set_head(&mut self, name: &Arc<str>, head: Option<Head>) {
        match (head, self.streams.get_mut(name)) {
            (Some(head), Some(stream)) => stream.head = head,
            (Some(head), None) => {
                if head.config.ttl_seconds.is_some() || head.config.expires_at.is_some() {
                    self.mortal.insert(name.clone());
                }
                self.streams.insert(name.clone(), Stream::new(head));
            }
            (None, _) => {
                self.mortal.remove(name);
                self.streams.remove(name);
            }
        }
    }

    fn set_producer(&mut self, name: &Arc<str>, _head: &Head, stamp: &Stamp) {
        if let Some(stream) = self.streams.get_mut(name) {
            let producers = stream.producers.get_or_insert_default();
            producers.insert(stamp.id.clone(), Producer { epoch: stamp.epoch, seq: stamp.seq });
        }
    }
}
