//! `pond_ingest`: canonical objects one after the other, a session before its messages and a message before its parts. A message and its parts
//! are in one batch.

use std::collections::BTreeMap;

use commands::CommandError;
use commands::sessions::{OTHER, Recording, Row, Sessions};
use events::session::{Message, Session, SessionId};
use events::{HouseId, Json};
use queries::library::{Code, PondError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MOST: usize = 10_000;
/// The brand of threads.
const OWN: &str = "arbe";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ingest {
    /// Looked at before anything else.
    #[schemars(range(min = 1))]
    #[serde(rename = "protocol_version")]
    pub _protocol_version: u32,
    /// Whose sessions; the only ones there are if left out.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Canonical objects with their `kind`: `session`, `message` or `part`. Parts follow their message, which may hold some already. One that
    /// is no such object is refused by itself.
    #[schemars(length(max = 10_000))]
    pub events: Vec<Json>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Ingested {
    pub new: u64,
    pub unchanged: u64,
    pub refused: u64,
    /// Whoever waits for this position of the log sees what is new.
    pub position: u64,
    /// One for each event, in order.
    pub results: Vec<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(super) enum Outcome {
    New,
    /// The message, with these parts, was there before.
    Unchanged,
    Refused {
        code: Code,
        message: String,
    },
}

impl Outcome {
    fn refused(error: &PondError) -> Self {
        Self::Refused { code: error.code, message: error.message.clone() }
    }
}

/// A message that is being put together from events.
struct Draft {
    fields: BTreeMap<String, Json>,
    parts: Vec<Json>,
    events: Vec<usize>,
    /// A message is recorded whole or not at all, since it never changes afterwards.
    broken: Option<PondError>,
}

impl Draft {
    fn is(&self, id: &str) -> bool {
        self.fields.get("id").is_some_and(|own| own.decode::<String>().is_ok_and(|own| own == id))
    }
}

/// What the batch says of one session, and which events said it.
struct Group {
    id: SessionId,
    session: Option<(usize, Session)>,
    messages: Vec<Draft>,
}

struct Batch {
    groups: Vec<Group>,
    outcomes: Vec<Option<Outcome>>,
}

pub(super) async fn ingest(
    sessions: &Sessions,
    house: &HouseId,
    events: Vec<Json>,
    is_thread: impl Fn(&SessionId) -> bool,
) -> Result<Ingested, PondError> {
    if events.len() > MOST {
        return Err(PondError::invalid(format!("a batch has at most {MOST} events, not {}", events.len())));
    }
    let mut batch = Batch { groups: Vec::new(), outcomes: vec![None; events.len()] };
    for (index, event) in events.into_iter().enumerate() {
        let taken = match event.decode() {
            Ok(fields) => batch.take(index, fields),
            Err(_) => Err(batch.spoilt("an event is an object")),
        };
        if let Err(error) = taken {
            batch.outcomes[index] = Some(Outcome::refused(&error));
        }
    }
    let mut position = 0;
    for group in std::mem::take(&mut batch.groups) {
        let ours = group.session.as_ref().is_some_and(|(_, session)| session.source_agent == OWN);
        if ours || is_thread(&group.id) {
            batch.refuse(&group, &PondError::invalid("threads are written by /api, and nobody else speaks for them"));
            continue;
        }
        if let Some((_, session)) = &group.session {
            match sessions.is_circular(house, session).await {
                Ok(false) => {}
                Ok(true) => {
                    batch.refuse(&group, &PondError::invalid("the parents of the session lead back to it"));
                    continue;
                }
                Err(error) => {
                    batch.refuse(&group, &told(&error));
                    continue;
                }
            }
        }
        position = position.max(batch.apply(sessions, house, group).await);
    }
    let internal = || Outcome::refused(&PondError::new(Code::Internal, "it was not looked at"));
    let results: Vec<_> = batch.outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(internal)).collect();
    let count = |wanted: fn(&Outcome) -> bool| results.iter().filter(|outcome| wanted(outcome)).count() as u64;
    Ok(Ingested {
        new: count(|it| matches!(it, Outcome::New)),
        unchanged: count(|it| matches!(it, Outcome::Unchanged)),
        refused: count(|it| matches!(it, Outcome::Refused { .. })),
        position,
        results,
    })
}

fn taken(event: &mut BTreeMap<String, Json>, field: &str) -> Result<String, PondError> {
    let value = event.remove(field).ok_or_else(|| PondError::invalid(format!("an event has `{field}`")))?;
    value.decode().map_err(|_| PondError::invalid(format!("`{field}` is a text")))
}

fn of<T: serde::de::DeserializeOwned>(fields: &BTreeMap<String, Json>) -> Result<T, PondError> {
    let text = serde_json::to_string(fields).map_err(|error| PondError::invalid(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| PondError::invalid(error.to_string()))
}

impl Batch {
    fn take(&mut self, index: usize, mut event: BTreeMap<String, Json>) -> Result<(), PondError> {
        let kind = taken(&mut event, "kind").map_err(|error| self.spoilt(error.message))?;
        match kind.as_str() {
            "session" => {
                let session: Session = of(&event)?;
                self.groups.push(Group { id: session.id.clone(), session: Some((index, session)), messages: Vec::new() });
            }
            "message" => {
                let id = taken(&mut event, "session_id")?;
                let id = SessionId::new(&id).map_err(|error| PondError::invalid(error.to_string()))?;
                let system = event.get("role").is_some_and(|role| role.get() == r#""system""#);
                let parts = match (system, event.remove("content")) {
                    (true, Some(content)) => {
                        event.insert("content".to_owned(), content);
                        Vec::new()
                    }
                    (_, None) => Vec::new(),
                    (_, Some(content)) => content
                        .decode()
                        .map_err(|_| PondError::invalid("`content` is a list of parts; they may follow as events"))?,
                };
                if self.groups.last().is_none_or(|group| group.id != id) {
                    self.groups.push(Group { id, session: None, messages: Vec::new() });
                }
                if let Some(group) = self.groups.last_mut() {
                    group.messages.push(Draft { fields: event, parts, events: vec![index], broken: None });
                }
            }
            "part" => {
                let named = taken(&mut event, "session_id").and_then(|session| Ok((session, taken(&mut event, "message_id")?)));
                let (session, message) = named.map_err(|error| self.spoilt(error.message))?;
                let last = self.groups.last_mut().filter(|group| group.id.as_str() == session);
                if let Some(draft) = last.and_then(|group| group.messages.last_mut()).filter(|draft| draft.is(&message)) {
                    draft.parts.push(Json::of(&event).map_err(|error| PondError::invalid(error.to_string()))?);
                    draft.events.push(index);
                    return Ok(());
                }
                let error = PondError::invalid("a part follows its message, before the next");
                let of_session = self.groups.iter_mut().filter(|group| group.id.as_str() == session);
                let mut drafts = of_session.flat_map(|group| &mut group.messages);
                if let Some(draft) = drafts.find(|draft| draft.is(&message)) {
                    draft.broken = Some(PondError::invalid("a part of the message stands elsewhere in the batch"));
                }
                return Err(error);
            }
            other => return Err(self.spoilt(format!("no event has the kind {other:?}"))),
        }
        Ok(())
    }

    /// What may have been a part of the message before leaves that without it, and so out.
    fn spoilt(&mut self, why: impl Into<String>) -> PondError {
        if let Some(draft) = self.groups.last_mut().and_then(|group| group.messages.last_mut()) {
            draft.broken.get_or_insert_with(|| PondError::invalid("what follows it cannot be read, and may be a part of it"));
        }
        PondError::invalid(why)
    }

    /// Returns the position up to which it is written.
    async fn apply(&mut self, sessions: &Sessions, house: &HouseId, group: Group) -> u64 {
        let Group { id, session, messages } = group;
        let (mut good, mut drafts) = (Vec::new(), Vec::new());
        for draft in messages {
            match message(&draft) {
                Ok(message) => {
                    good.push(message);
                    drafts.push(draft);
                }
                Err(error) => self.settle(&draft.events, &Outcome::refused(&error)),
            }
        }
        let (at, session) = session.map_or((None, None), |(at, session)| (Some(at), Some(session)));
        let recorded = sessions.record(house, Recording { session_id: id, session, messages: good }).await;
        match recorded {
            Ok(recorded) => {
                self.settle(at.as_slice(), &session_outcome(&recorded.rows.session));
                for (draft, row) in drafts.iter().zip(&recorded.rows.messages) {
                    self.settle_message(draft, row);
                }
                recorded.position
            }
            Err(error) => {
                let outcome = Outcome::refused(&told(&error));
                self.settle(at.as_slice(), &outcome);
                drafts.iter().for_each(|draft| self.settle(&draft.events, &outcome));
                0
            }
        }
    }

    /// Of a message that was recorded without some of its parts, those are refused and the rest is as it was.
    fn settle_message(&mut self, draft: &Draft, row: &Row) {
        let outcome = match row {
            Row::New => Outcome::New,
            Row::Unchanged => Outcome::Unchanged,
            Row::Refused(refusal) => Outcome::refused(&PondError::invalid(refusal.to_string())),
            Row::Other(new) => {
                let refused = Outcome::refused(&PondError::invalid(format!("the message is {OTHER}")));
                let told = draft.events.len() - 1;
                let (inline, following) = draft.parts.split_at(draft.parts.len() - told);
                let is_new = |part: &Json| id_of(part).is_some_and(|id| new.iter().any(|it| it.as_str() == id));
                for (event, part) in draft.events[1..].iter().zip(following) {
                    self.settle(&[*event], if is_new(part) { &refused } else { &Outcome::Unchanged });
                }
                if inline.iter().any(is_new) { refused } else { Outcome::Unchanged }
            }
        };
        self.settle(&draft.events, &outcome);
    }

    fn refuse(&mut self, group: &Group, error: &PondError) {
        let outcome = Outcome::refused(error);
        let session = group.session.as_ref().map(|(at, _)| *at);
        self.settle(session.as_slice(), &outcome);
        group.messages.iter().for_each(|draft| self.settle(&draft.events, &outcome));
    }

    fn settle(&mut self, events: &[usize], outcome: &Outcome) {
        for event in events {
            self.outcomes[*event].get_or_insert_with(|| outcome.clone());
        }
    }
}

fn session_outcome(row: &Row) -> Outcome {
    match row {
        Row::New => Outcome::New,
        Row::Unchanged | Row::Other(_) => Outcome::Unchanged,
        Row::Refused(refusal) => Outcome::refused(&PondError::invalid(refusal.to_string())),
    }
}

fn id_of(part: &Json) -> Option<String> {
    part.decode::<BTreeMap<String, Json>>().ok()?.get("id")?.decode().ok()
}

fn message(draft: &Draft) -> Result<Message, PondError> {
    if let Some(broken) = &draft.broken {
        return Err(broken.clone());
    }
    let mut fields = draft.fields.clone();
    if !fields.contains_key("content") {
        let parts = Json::of(&draft.parts).map_err(|error| PondError::invalid(error.to_string()))?;
        fields.insert("content".to_owned(), parts);
    } else if !draft.parts.is_empty() {
        return Err(PondError::invalid("a system message has no parts"));
    }
    of(&fields)
}

fn told(error: &CommandError) -> PondError {
    match error {
        CommandError::Conflict => PondError::new(Code::Conflict, "others wrote the session at the same time; try again"),
        CommandError::Unknown(why) => PondError::new(
            Code::StorageUnavailable,
            format!("whether it was written is not known: {why}; a repetition is harmless"),
        ),
        CommandError::Rejected(_)
        | CommandError::IdempotencyKeyReused
        | CommandError::Unavailable(_)
        | CommandError::Stopped(_) => PondError::new(Code::StorageUnavailable, error.to_string()),
    }
}
