//! The log read again from zero, by a reader that trusts nobody but the chain rule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use event_log::{Appended, Body, Chain, CommandId, Created, Op, Record, State, Verdict, decode_slot};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

#[derive(Debug, Default)]
pub struct Fold {
    /// By the engine's own fold, to hold its servers against.
    pub state: State,
    /// By ours.
    pub incarnations: BTreeMap<u64, Incarnation>,
    pub placed: BTreeMap<String, Vec<Placed>>,
    pub ids: BTreeMap<CommandId, Vec<u64>>,
    /// Every tail each stream ever had.
    pub tails: BTreeSet<(Arc<str>, u64)>,
    pub commits: Vec<(u64, u64)>,
    pub voids: u64,
    pub claims: u64,
    living: BTreeMap<Arc<str>, u64>,
}

/// One life of a stream, with all it holds.
#[derive(Clone, Debug)]
pub struct Incarnation {
    pub stream: Arc<str>,
    pub json: bool,
    /// Messages, or bytes as one-byte messages would be wasteful: a JSON stream fills one, any other the other.
    pub messages: Vec<Bytes>,
    pub text: Vec<u8>,
    pub closed: bool,
}

#[derive(Clone, Debug)]
pub struct Placed {
    pub slot: u64,
    pub stream: Arc<str>,
    pub generation: u64,
    pub end: u64,
}

impl Incarnation {
    pub fn units(&self) -> u64 {
        if self.json { self.messages.len() as u64 } else { self.text.len() as u64 }
    }

    pub fn page(&self, from: u64, to: u64) -> Vec<u8> {
        let range = from as usize..to as usize;
        if self.json { self.messages[range].join(&b","[..]) } else { self.text[range].to_vec() }
    }
}

fn path(n: u64) -> Path {
    Path::from(format!("j/00/{:012x}/{:03x}.seg", n >> 12, n & 0xfff))
}

pub async fn slot_bytes(objects: &dyn ObjectStore, n: u64) -> Option<Bytes> {
    objects.get(&path(n)).await.ok()?.bytes().await.ok()
}

impl Fold {
    pub async fn of(objects: &InMemory) -> Result<Self, String> {
        let mut fold = Self::default();
        while let Some(bytes) = slot_bytes(objects, fold.state.chain.next).await {
            let n = fold.state.chain.next;
            let slot = decode_slot(&bytes).map_err(|error| format!("slot {n}: {error}"))?;
            match Chain::admit(&mut fold.state.chain, &slot.header, slot.digest, slot.records.len() as u64) {
                Verdict::Data => {
                    fold.commits.push((slot.header.before, slot.records.len() as u64));
                    fold.state.apply(n, &slot.records).map_err(|error| format!("slot {n}: {error}"))?;
                    for record in &slot.records {
                        fold.take(n, record).map_err(|error| format!("slot {n}: {error}"))?;
                    }
                }
                Verdict::Claim => fold.claims += 1,
                Verdict::Void => fold.voids += 1,
            }
        }
        Ok(fold)
    }

    fn take(&mut self, slot: u64, record: &Record) -> Result<(), String> {
        if let Some(id) = record.command {
            let slots = self.ids.entry(id).or_default();
            if slots.last() != Some(&slot) {
                slots.push(slot);
            }
        }
        match &record.op {
            Op::Created(created) => self.create(&record.stream, created)?,
            Op::Appended(appended) => self.append(slot, &record.stream, appended)?,
            Op::Closed { .. } => self.living_of(&record.stream)?.closed = true,
            Op::Deleted { .. } => {
                self.living.remove(&record.stream).ok_or("deleted twice")?;
            }
            Op::Renewed => {}
        }
        if let Some(generation) = self.living.get(&record.stream) {
            let tail = self.incarnations[generation].units();
            self.tails.insert((record.stream.clone(), tail));
        }
        Ok(())
    }

    fn living_of(&mut self, stream: &Arc<str>) -> Result<&mut Incarnation, String> {
        let generation = self.living.get(stream).ok_or_else(|| format!("{stream} is not there"))?;
        self.incarnations.get_mut(generation).ok_or_else(|| format!("{stream} was never born"))
    }

    fn create(&mut self, stream: &Arc<str>, created: &Created) -> Result<(), String> {
        let json = created.content_type.starts_with("application/json");
        let mut born = Incarnation { stream: stream.clone(), json, messages: Vec::new(), text: Vec::new(), closed: false };
        if let Some(fork) = &created.fork {
            let source = self.living_of(&fork.source)?;
            let at = fork.at as usize;
            if at as u64 > source.units() || source.json != json {
                return Err(format!("{stream} forks {} where it is not", fork.source));
            }
            born.messages = source.messages[..if json { at } else { 0 }].to_vec();
            born.text = source.text[..if json { 0 } else { at }].to_vec();
        }
        if self.incarnations.insert(created.generation, born).is_some()
            || self.living.insert(stream.clone(), created.generation).is_some()
        {
            return Err(format!("{stream} is born twice"));
        }
        Ok(())
    }

    fn append(&mut self, slot: u64, stream: &Arc<str>, appended: &Appended) -> Result<(), String> {
        let Body::Inline(data) = &appended.payload.body else { return Err("the simulation writes no blobs".into()) };
        let life = self.living_of(stream)?;
        if appended.first != life.units() {
            return Err(format!("{stream} continues at {} instead of {}", appended.first, life.units()));
        }
        if life.closed {
            return Err(format!("{stream} is closed"));
        }
        if life.json {
            life.messages.extend((0..appended.payload.units()).map(|i| data.slice(appended.payload.span(i, i + 1))));
        } else {
            life.text.extend_from_slice(data);
        }
        life.closed |= appended.close;
        let placed = Placed { slot, stream: stream.clone(), generation: appended.generation, end: life.units() };
        self.placed.entry(marker(data)).or_default().push(placed);
        Ok(())
    }
}

/// `{"at":"c1k2.0"}` or `c1k2.0;` was written by command `c1k2`.
fn marker(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data);
    let start = text.trim_start_matches("{\"at\":\"");
    start.split('.').next().unwrap_or_default().to_owned()
}
