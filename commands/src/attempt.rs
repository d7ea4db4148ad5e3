//! One command on its way into the log.

use std::sync::Arc;

use event_log::{CommandId, Create, Expect, Payload, command_id};
use events::{Entry, EventId, StreamName};

use crate::actor::Actor;
use crate::bounds;
use crate::command::{Command, Made};
use crate::decision::Decision;
use crate::ids::{Ids, derived_event_id, random_event_id};
use crate::rejection::Rejection;
use crate::source::Source;
use crate::world::World;

const CONTENT_TYPE: &str = "application/json";

#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) actor: Actor,
    pub(crate) commands: Vec<Command>,
    pub(crate) made: Made,
    pub(crate) key: Option<Key>,
}

/// What an idempotency key becomes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) id: CommandId,
    /// Of the commands as they were asked, before ids were filled in.
    digest: CommandId,
}

impl Key {
    pub(crate) fn event_id(self, index: usize) -> EventId {
        derived_event_id(self.id, self.digest, index)
    }
}

/// A decision ready for the log.
pub(crate) struct Commit {
    pub(crate) command: event_log::Command,
    /// One per changed stream.
    pub(crate) entries: Vec<(StreamName, Vec<Entry>)>,
}

impl Attempt {
    pub(crate) fn new(
        source: &dyn Source,
        actor: Actor,
        mut commands: Vec<Command>,
        key: Option<&str>,
    ) -> Result<Self, Rejection> {
        let key = key.map(|text| key_of(actor, &commands, text)).transpose()?;
        let mut ids = Ids::new(source, key.map(|key| key.id));
        let made = commands.iter_mut().fold(Made::default(), |made, command| made.and(command.fill(&mut ids)));
        Ok(Self { actor, commands, made, key })
    }

    /// Whether all that is asked is to say something.
    pub(crate) fn is_content(&self) -> bool {
        self.commands.iter().all(|command| matches!(command, Command::AppendEntry(_)))
    }

    /// Expectations are those of `world`, which the decision was made on.
    pub(crate) fn commit(&self, source: &dyn Source, world: &World, decision: Decision) -> Commit {
        let ts = source.now_ms();
        let expected = |stream: &StreamName| Expect { stream: stream.to_string().into(), tail: world.tail(stream) };
        let expect = decision.reads.iter().map(expected).collect();
        let (mut changes, mut entries, mut index) = (Vec::new(), Vec::new(), 0);
        for append in decision.appends {
            let made: Vec<_> = append
                .events
                .iter()
                .map(|event| {
                    let id = self.key.map_or_else(|| random_event_id(source, ts), |key| key.event_id(index));
                    index += 1;
                    Entry::of(id, ts, decision.author, event)
                })
                .collect();
            let exists = world.tail(&append.stream).is_some();
            changes.push((append.stream.to_string().into(), change(exists, &made)));
            entries.push((append.stream, made));
        }
        let command = event_log::Command { id: self.key.map(|key| key.id), since: None, expect, changes };
        Commit { command, entries }
    }
}

fn key_of(actor: Actor, commands: &[Command], text: &str) -> Result<Key, Rejection> {
    bounds::name("idempotency_key", text)?;
    let asked = serde_json::to_string(commands).expect("a command has text keys only and no failing field");
    let id = command_id(&["command", &actor.to_string(), text]);
    Ok(Key { id, digest: command_id(&["digest", &asked]) })
}

fn change(exists: bool, entries: &[Entry]) -> event_log::Change {
    let texts: Vec<_> = entries.iter().map(Entry::to_json).collect();
    let payload = Payload::messages(texts.iter().map(String::as_str));
    let content_type: Option<Arc<str>> = Some(CONTENT_TYPE.into());
    if exists {
        let append = event_log::Append { content_type, payload: Ok(payload), producer: None, stream_seq: None, close: false };
        return event_log::Change::Append(append);
    }
    event_log::Change::Create(Create { content_type, payload: Some(Ok(payload)), ..Create::default() })
}
