//! What clients want.

use std::sync::Arc;

use bytes::Bytes;
use event_log::{Append, Change, Command, Create, Expect, ForkFrom, Offset, Page, Payload, Stamp};

use super::client::{Client, appends_of};

pub struct Intent {
    pub marker: String,
    pub command: Command,
    pub appends: Vec<Arc<str>>,
    /// The stream and sequence number of an idempotent producer.
    pub stamped: Option<(Arc<str>, u64)>,
    /// Asking twice is harmless.
    pub can_retry: bool,
}

/// Streams with an even number hold JSON.
pub fn is_json(stream: &str) -> bool {
    stream.bytes().last().is_some_and(|digit| digit % 2 == 0)
}

/// The page as one piece of text.
pub fn chunks(page: &Page) -> Vec<u8> {
    page.chunks.join(if page.json { &b","[..] } else { &b""[..] })
}

impl Client {
    pub fn intend(&mut self, k: u64) -> Option<Intent> {
        let marker = format!("c{}k{k}", self.id);
        let with_id = self.net.env.chance(600);
        let mut stamped = None;
        // First of all there must be streams.
        let kind = if k == 0 { 70 } else { self.net.env.below(100) };
        let mut command = match kind {
            0..35 => Command::one(self.stream(), Change::Append(self.append_to(&marker, None))),
            35..50 => {
                let stream = self.stream();
                let seq = self.sequences.get(&stream).copied().unwrap_or(0);
                let stamp = Stamp { id: format!("p{}", self.id).into(), epoch: 0, seq };
                stamped = Some((stream.clone(), seq));
                Command::one(stream, Change::Append(self.append_to(&marker, Some(stamp))))
            }
            50..65 => self.together(&marker),
            65..88 => self.creation(&marker),
            88..90 => Command::one(self.stream(), Change::Close { producer: None }),
            90..94 => Command::one(self.stream(), Change::Delete),
            _ => self.fork()?,
        };
        self.fit_bodies(&mut command, &marker);
        if with_id && stamped.is_none() {
            command.id = Some(self.net.env.draw(|rng| u128::from(rng.number()) << 64 | u128::from(rng.number())));
        }
        let can_retry = command.id.is_some() || stamped.is_some();
        Some(Intent { marker, appends: appends_of(&command), command, stamped, can_retry })
    }

    fn append_to(&self, marker: &str, producer: Option<Stamp>) -> Append {
        let close = self.net.env.chance(8);
        Append { content_type: None, payload: Ok(payload(marker, true, 1)), producer, stream_seq: None, close }
    }

    /// Bodies follow the stream they go to.
    fn fit_bodies(&self, command: &mut Command, marker: &str) {
        for (stream, change) in &mut command.changes {
            let count = self.net.env.within(1, 3);
            match change {
                Change::Append(append) => append.payload = Ok(payload(marker, is_json(stream), count)),
                Change::Create(Create { payload: Some(body), .. }) => *body = Ok(payload(marker, is_json(stream), count)),
                Change::Create(_) | Change::Close { .. } | Change::Delete | Change::Renew | Change::Expire => {}
            }
        }
    }

    /// Several streams at once, some of them only if they are as this server last saw them.
    fn together(&self, marker: &str) -> Command {
        let mut command = Command::default();
        let log = self.net.get(self.home).map(|up| up.log);
        for _ in 0..self.net.env.within(2, 3) {
            let stream = self.stream();
            if command.changes.iter().any(|(other, _)| *other == stream) {
                continue;
            }
            if let Some(log) = &log
                && self.net.env.chance(400)
            {
                let tail = log.with_stream(&stream, |s| (!s.head.deleted).then_some(s.head.tail)).flatten();
                command.expect.push(Expect { stream: stream.clone(), tail });
            }
            command.changes.push((stream, Change::Append(self.append_to(marker, None))));
        }
        command
    }

    fn creation(&self, marker: &str) -> Command {
        let stream = self.stream();
        let json = is_json(&stream);
        let content_type = if json { "application/json" } else { "text/plain" };
        let env = &self.net.env;
        let create = Create {
            content_type: Some(content_type.into()),
            ttl_seconds: env.chance(150).then(|| env.within(1, 6)),
            closed: env.chance(10),
            payload: env.chance(500).then(|| Ok(payload(marker, json, 1))),
            ..Create::default()
        };
        Command::one(stream, Change::Create(create))
    }

    /// A fork of a stream that this server knows, at its tail or somewhere before it.
    fn fork(&self) -> Option<Command> {
        let env = &self.net.env;
        let source = self.stream();
        let log = self.net.get(self.home)?.log;
        let (generation, tail, base) =
            log.with_stream(&source, |s| (s.head.config.generation, s.head.tail, s.head.config.base()))?;
        let position = env.below(tail + 1);
        let own = position > base;
        let at = (own && env.chance(600)).then_some(Offset { generation, position });
        let fork = ForkFrom { source: source.clone(), at, sub: 0, prefix: None };
        let target: Arc<str> = format!("f/{}{}", env.below(8), if is_json(&source) { 0 } else { 1 }).into();
        Some(Command::one(target, Change::Create(Create { fork: Some(fork), ..Create::default() })))
    }
}

fn payload(marker: &str, json: bool, count: u64) -> Payload {
    if json {
        let texts: Vec<String> = (0..count).map(|i| format!("{{\"at\":\"{marker}.{i}\"}}")).collect();
        Payload::messages(texts.iter().map(String::as_str))
    } else {
        let text: String = (0..count).map(|i| format!("{marker}.{i};")).collect();
        Payload::bytes(Bytes::from(text))
    }
}
