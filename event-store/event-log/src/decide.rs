//! Pure decisions: a command against the streams as they stand becomes records, or a refusal.

use std::sync::Arc;

use crate::command::{Append, Change, Command, Create, ForkFrom, Outcome, Receipt, Rejection, Status};
use crate::draft::{Changes, Draft, Found};
use crate::offset::Offset;
use crate::record::{Appended, Created, Fork, Op, Payload, Record, Stamp};
use crate::sabotage::{self, Sabotage};
use crate::stream::{Head, Producer, Table, evolve, media_type, token};

pub const DEFAULT_CONTENT_TYPE: &str = "application/octet-stream";

#[derive(Debug)]
pub(crate) enum Decision {
    /// A retry of a command that the log already holds.
    Known(Receipt),
    /// A retry of a command whose first attempt is older than the ids the log remembers.
    Forgotten,
    New {
        records: Vec<Record>,
        outcomes: Vec<Outcome>,
        changes: Changes,
    },
}

/// `ordinal` is the number of records before the command; it makes generations unique.
pub(crate) fn decide(draft: Draft<'_>, ordinal: u64, command: &Command) -> Result<Decision, Rejection> {
    if let Some(id) = command.id
        && !sabotage::is(Sabotage::CommandDedupe)
        && let Some(receipt) = draft.receipt(id)
    {
        return Ok(Decision::Known(receipt));
    }
    if command.since.is_some_and(|since| since < draft.forgotten()) {
        return Ok(Decision::Forgotten);
    }
    for expect in &command.expect {
        let actual = match draft.find(&expect.stream) {
            Found::Live(head) => Some(head.tail),
            Found::Absent | Found::Expired | Found::Retired => None,
        };
        if actual != expect.tail {
            return Err(Rejection::Conflict { stream: expect.stream.clone(), expected: expect.tail, actual });
        }
    }
    for (index, (stream, _)) in command.changes.iter().enumerate() {
        if command.changes[..index].iter().any(|(earlier, _)| earlier == stream) {
            return Err(Rejection::Repeated { stream: stream.clone() });
        }
    }
    let mut deciding = Deciding { draft, ordinal, id: command.id, records: Vec::new() };
    let mut outcomes = Vec::with_capacity(command.changes.len());
    for (stream, change) in &command.changes {
        outcomes.push(deciding.change(stream, change)?);
    }
    Ok(Decision::New { records: deciding.records, outcomes, changes: deciding.draft.changes })
}

struct Deciding<'a> {
    draft: Draft<'a>,
    ordinal: u64,
    id: Option<u128>,
    records: Vec<Record>,
}

impl Deciding<'_> {
    fn change(&mut self, stream: &Arc<str>, change: &Change) -> Result<Outcome, Rejection> {
        match change {
            Change::Create(create) => self.create(stream, create),
            Change::Append(append) => self.append(stream, append),
            Change::Close { producer } => self.close(stream, producer.as_ref()),
            Change::Delete => {
                self.live(stream)?;
                self.record(stream, Op::Deleted { expired: false });
                Ok(self.outcome(stream, Status::Done, None))
            }
            Change::Renew => {
                self.live(stream)?;
                self.record(stream, Op::Renewed);
                Ok(self.outcome(stream, Status::Done, None))
            }
            Change::Expire => {
                let over = matches!(self.draft.find(stream), Found::Expired);
                if over {
                    self.record(stream, Op::Deleted { expired: true });
                }
                Ok(self.outcome(stream, if over { Status::Done } else { Status::Already }, None))
            }
        }
    }

    fn live(&self, stream: &str) -> Result<Head, Rejection> {
        match self.draft.find(stream) {
            Found::Live(head) => Ok(head),
            Found::Absent | Found::Expired => Err(Rejection::NotFound),
            Found::Retired => Err(Rejection::Gone),
        }
    }

    fn record(&mut self, stream: &Arc<str>, op: Op) {
        let record = Record { stream: stream.clone(), time: self.draft.now, command: self.id, op };
        evolve(&mut self.draft, &record).expect("a decision follows from the streams it was made on");
        self.records.push(record);
    }

    fn outcome(&self, stream: &Arc<str>, status: Status, producer: Option<Producer>) -> Outcome {
        let head = self.draft.head(stream);
        let tail = head.as_ref().map_or_else(Offset::default, |head| token(&self.draft, head, head.tail));
        Outcome { stream: stream.clone(), status, tail, closed: head.is_some_and(|h| h.closed), producer }
    }

    fn create(&mut self, stream: &Arc<str>, create: &Create) -> Result<Outcome, Rejection> {
        match self.draft.find(stream) {
            Found::Retired => return Err(Rejection::Retired),
            Found::Live(head) => {
                self.same_config(&head, create)?;
                return Ok(self.outcome(stream, Status::Already, None));
            }
            Found::Expired => {
                self.record(stream, Op::Deleted { expired: true });
                if self.draft.head(stream).is_some() {
                    return Err(Rejection::Retired);
                }
            }
            Found::Absent => {}
        }
        let payload = create.payload.clone().transpose().map_err(Rejection::BadBody)?;
        let (created, prefix) = self.born(create)?;
        let json = media_type(&created.content_type).eq_ignore_ascii_case("application/json");
        if [&prefix, &payload].into_iter().flatten().any(|payload| payload.cuts.is_some() != json) {
            return Err(Rejection::ContentType);
        }
        self.record(stream, Op::Created(created));
        for payload in [prefix, payload].into_iter().flatten().filter(|p| !p.is_empty()) {
            self.append_payload(stream, payload);
        }
        if create.closed {
            self.record(stream, Op::Closed { producer: None });
        }
        Ok(self.outcome(stream, Status::Done, None))
    }

    fn append_payload(&mut self, stream: &Arc<str>, payload: Payload) {
        let Some(head) = self.draft.head(stream) else { return };
        self.record(
            stream,
            Op::Appended(Appended {
                generation: head.config.generation,
                first: head.tail,
                payload,
                producer: None,
                stream_seq: None,
                close: false,
            }),
        );
    }

    fn born(&self, create: &Create) -> Result<(Created, Option<Payload>), Rejection> {
        let source = create.fork.as_ref().map(|fork| self.fork(fork)).transpose()?;
        let content_type = match (&create.content_type, &source) {
            (Some(own), Some((_, head, _))) if !same_media(own, &head.config.content_type) => {
                return Err(Rejection::ForkContentType);
            }
            (Some(own), _) => own.clone(),
            (None, Some((_, head, _))) => head.config.content_type.clone(),
            (None, None) => DEFAULT_CONTENT_TYPE.into(),
        };
        let (mut ttl_seconds, mut expires_at) = (create.ttl_seconds, create.expires_at);
        if let Some((_, head, _)) = &source
            && ttl_seconds.is_none()
            && expires_at.is_none()
        {
            (ttl_seconds, expires_at) = (head.config.ttl_seconds, head.config.expires_at);
        }
        let generation = self.ordinal + self.records.len() as u64 + 1;
        let (fork, prefix) = source.map_or((None, None), |(fork, _, prefix)| (Some(fork), prefix));
        Ok((Created { generation, content_type, ttl_seconds, expires_at, fork }, prefix))
    }

    fn fork(&self, from: &ForkFrom) -> Result<(Fork, Head, Option<Payload>), Rejection> {
        let head = match self.draft.find(&from.source) {
            Found::Live(head) => head,
            Found::Absent | Found::Expired => return Err(Rejection::SourceMissing),
            Found::Retired => return Err(Rejection::SourceGone),
        };
        let at = match from.at {
            None => head.tail,
            Some(offset) => locate(&self.draft, &head, offset).ok_or(Rejection::ForkOffset)?,
        };
        if at > head.tail || (from.sub > 0 && from.prefix.is_none()) {
            return Err(Rejection::ForkOffset);
        }
        let prefix = match &from.prefix {
            Some((generation, _)) if *generation != head.config.generation => return Err(Rejection::SourceMissing),
            Some((_, payload)) => Some(payload.clone()),
            None => None,
        };
        Ok((Fork { source: from.source.clone(), at, sub: from.sub }, head, prefix))
    }

    fn same_config(&self, head: &Head, create: &Create) -> Result<(), Rejection> {
        let fork = match (&create.fork, &head.config.fork) {
            (None, None) => true,
            (Some(asked), Some(has)) => {
                let at = asked.at.is_none_or(|at| {
                    at.position == has.at
                        || self.draft.head(&asked.source).and_then(|s| locate(&self.draft, &s, at)) == Some(has.at)
                });
                asked.source == has.source && at && asked.sub == has.sub
            }
            _ => false,
        };
        let inherits = create.fork.is_some();
        let content_type = match &create.content_type {
            Some(asked) => same_media(asked, &head.config.content_type),
            None => inherits || same_media(DEFAULT_CONTENT_TYPE, &head.config.content_type),
        };
        let unnamed = inherits && create.ttl_seconds.is_none() && create.expires_at.is_none();
        let lifetime = unnamed || (create.ttl_seconds == head.config.ttl_seconds && create.expires_at == head.config.expires_at);
        if fork && content_type && lifetime && create.closed == head.closed { Ok(()) } else { Err(Rejection::ConfigDiffers) }
    }

    fn append(&mut self, stream: &Arc<str>, append: &Append) -> Result<Outcome, Rejection> {
        let head = self.live(stream)?;
        if head.closed {
            return self.after_close(stream, &head, append.producer.as_ref());
        }
        if append.content_type.as_ref().is_some_and(|asked| !same_media(asked, &head.config.content_type)) {
            return Err(Rejection::ContentType);
        }
        if let Some(known) = self.sequence(stream, &head, append.producer.as_ref())? {
            return Ok(self.outcome(stream, Status::Already, Some(known)));
        }
        if let Some(seq) = &append.stream_seq
            && head.stream_seq.as_ref().is_some_and(|last| seq.as_bytes() <= last.as_bytes())
        {
            return Err(Rejection::StreamSeq);
        }
        let payload = append.payload.clone().map_err(Rejection::BadBody)?;
        if payload.cuts.is_some() != head.config.is_json() {
            return Err(Rejection::ContentType);
        }
        let appended = Appended {
            generation: head.config.generation,
            first: head.tail,
            payload,
            producer: append.producer.clone(),
            stream_seq: append.stream_seq.clone(),
            close: append.close,
        };
        self.record(stream, Op::Appended(appended));
        Ok(self.outcome(stream, Status::Done, append.producer.as_ref().map(mark)))
    }

    fn close(&mut self, stream: &Arc<str>, producer: Option<&Stamp>) -> Result<Outcome, Rejection> {
        let head = self.live(stream)?;
        if head.closed {
            return match producer {
                None => Ok(self.outcome(stream, Status::Already, None)),
                Some(_) => self.after_close(stream, &head, producer),
            };
        }
        if let Some(known) = self.sequence(stream, &head, producer)? {
            return Ok(self.outcome(stream, Status::Already, Some(known)));
        }
        self.record(stream, Op::Closed { producer: producer.cloned() });
        Ok(self.outcome(stream, Status::Done, producer.map(mark)))
    }

    /// A closed stream answers only the retry of what it holds, or else a producer would take its own append for lost.
    fn after_close(&self, stream: &Arc<str>, head: &Head, producer: Option<&Stamp>) -> Result<Outcome, Rejection> {
        match self.sequence(stream, head, producer) {
            Ok(Some(known)) => Ok(self.outcome(stream, Status::Already, Some(known))),
            Ok(None) | Err(_) => Err(Rejection::Closed { tail: token(&self.draft, head, head.tail) }),
        }
    }

    /// `Some` when the producer's append is already in the log.
    fn sequence(&self, stream: &Arc<str>, head: &Head, stamp: Option<&Stamp>) -> Result<Option<Producer>, Rejection> {
        let Some(stamp) = stamp else { return Ok(None) };
        let gap = |expected| Err(Rejection::ProducerGap { expected, received: stamp.seq });
        match self.draft.producer(stream, head, &stamp.id) {
            None if stamp.seq == 0 => Ok(None),
            None => gap(0),
            Some(known) if stamp.epoch < known.epoch => Err(Rejection::StaleEpoch { current: known.epoch }),
            Some(known) if stamp.epoch > known.epoch => {
                if stamp.seq == 0 {
                    Ok(None)
                } else {
                    Err(Rejection::EpochStart)
                }
            }
            Some(known) if stamp.seq <= known.seq => Ok(Some(known)),
            Some(known) if stamp.seq == known.seq + 1 => Ok(None),
            Some(known) => gap(known.seq + 1),
        }
    }
}

fn mark(stamp: &Stamp) -> Producer {
    Producer { epoch: stamp.epoch, seq: stamp.seq }
}

fn same_media(a: &str, b: &str) -> bool {
    media_type(a).eq_ignore_ascii_case(media_type(b))
}

/// The position an offset names in this incarnation of the stream, if it is one of its own tokens.
pub(crate) fn locate(table: &impl Table, head: &Head, offset: Offset) -> Option<u64> {
    let mut lineage = Some(head.clone());
    let mut shared = u64::MAX;
    while let Some(head) = lineage {
        if offset.generation == 0 || offset.generation == head.config.generation {
            return (offset.position <= shared || offset.generation == 0).then_some(offset.position);
        }
        shared = shared.min(head.config.base());
        lineage = head.config.fork.as_ref().and_then(|fork| table.head(&fork.source));
    }
    None
}
