//! The world with what the handler needs beside it: how far it has come, and which commands it has seen.

use std::collections::{BTreeSet, HashMap, VecDeque};

use event_log::{CommandId, Op, Record};
use events::{Entry, EventId, StreamName};

use crate::world::{Effect, Unapplied, World};

/// As many as the log itself remembers.
const COMMANDS_KEPT: usize = 65_536;
/// Deletions without effect take a lost race each.
const WITHOUT_EFFECT_KEPT: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct Fold {
    pub(crate) world: World,
    /// Everything below this slot is in the world.
    pub(crate) position: u64,
    known: HashMap<CommandId, Known>,
    order: VecDeque<CommandId>,
    without_effect: BTreeSet<EventId>,
    without_effect_order: VecDeque<EventId>,
}

/// A command that the log holds.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) position: u64,
    /// Derived from the whole command, see `ids.rs`.
    pub(crate) first_event: EventId,
    pub(crate) spans: Vec<Span>,
}

#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) stream: StreamName,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) bytes: usize,
}

/// The entries of one append, read and parsed before the fold is locked.
#[derive(Debug)]
pub(crate) struct Batch {
    command: Option<CommandId>,
    span: Span,
    entries: Vec<Entry>,
}

impl Batch {
    /// `data` is the payload of an appended record of a platform stream.
    pub(crate) fn parse(stream: StreamName, record: &Record, data: &[u8]) -> Result<Option<Self>, Unapplied> {
        let appended = match &record.op {
            Op::Appended(appended) => appended,
            Op::Deleted { .. } => return Err(Unapplied::Broken { stream }),
            Op::Created(_) | Op::Closed { .. } | Op::Renewed => return Ok(None),
        };
        if appended.payload.cuts.is_none() {
            return Err(Unapplied::Broken { stream });
        }
        let (first, count) = (appended.first, appended.payload.units());
        let entry = |unit| {
            let text = &data[appended.payload.span(unit, unit + 1)];
            Entry::from_slice(text).map_err(|source| Unapplied::Undecodable { stream: stream.clone(), seq: first + unit, source })
        };
        let entries = (0..count).map(entry).collect::<Result<_, _>>()?;
        let span = Span { stream, first, count, bytes: data.len() };
        Ok(Some(Self { command: record.command, span, entries }))
    }
}

impl Fold {
    /// Applies one commit, which ends below `position`.
    pub(crate) fn apply(&mut self, batches: Vec<Batch>, position: u64) -> Result<(), Unapplied> {
        for Batch { command, span, entries } in batches {
            for (seq, entry) in (span.first..).zip(&entries) {
                match self.world.apply(&span.stream, seq, entry)? {
                    Effect::Applied => {}
                    Effect::None => self.note_without_effect(entry.id),
                }
            }
            if let (Some(command), Some(first)) = (command, entries.first()) {
                self.note_command(command, position, first.id, span);
            }
        }
        self.position = position;
        Ok(())
    }

    pub(crate) fn known(&self, id: CommandId) -> Option<&Known> {
        self.known.get(&id)
    }

    pub(crate) fn had_no_effect(&self, id: &EventId) -> bool {
        self.without_effect.contains(id)
    }

    fn note_command(&mut self, id: CommandId, position: u64, first_event: EventId, span: Span) {
        if let Some(known) = self.known.get_mut(&id) {
            known.spans.push(span);
            return;
        }
        self.known.insert(id, Known { position, first_event, spans: vec![span] });
        self.order.push_back(id);
        if self.order.len() > COMMANDS_KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn note_without_effect(&mut self, id: EventId) {
        self.without_effect.insert(id);
        self.without_effect_order.push_back(id);
        if self.without_effect_order.len() > WITHOUT_EFFECT_KEPT
            && let Some(oldest) = self.without_effect_order.pop_front()
        {
            self.without_effect.remove(&oldest);
        }
    }
}
