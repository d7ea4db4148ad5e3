//! Canonical sessions back into files.
//!
//! `adapter-native-restore-lossless`: whether a restoration is native is decided here, by comparing origins.

use std::collections::BTreeMap;

use events::Json;
use events::session::{BodyRef, Content, Data, Message, PartRef, Session};

use crate::artifact::{Report, Restored};
use crate::lineage::Lineage;
use crate::registry::Codec;
use crate::value::{Path, Reader, Value};

/// The write face of a codec; it holds no source.
pub trait Serialize: Sync {
    /// The session was made by this client: its files as they were.
    fn native(&self, lineage: &Lineage) -> Result<Vec<crate::artifact::Artifact>, RestoreError>;

    /// The session was made by another: a valid one of this client's that says the same. What it cannot say goes into the report.
    fn foreign(
        &self,
        lineage: &Lineage,
        place: &Place,
        report: &mut Report,
    ) -> Result<Vec<crate::artifact::Artifact>, RestoreError>;

    /// The id under which the client finds a restored session.
    fn session_id(&self, session: &Session) -> String;
}

/// Where a session is to be gone on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The working directory that the client will be started in.
    pub directory: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Only for a session that did not come through this codec, whatever it says of its source.
    #[error("message {message} of session {session} does not say what its record was: {why}")]
    NoRecord { session: String, message: String, why: &'static str },
    #[error("the data of part {part} in message {message} is a blob that was not loaded")]
    BlobNotLoaded { message: String, part: String },
}

pub fn restore(codec: &Codec, lineage: &Lineage, place: &Place) -> Result<Restored, RestoreError> {
    let native = codec.origin == lineage.session.source_agent;
    let mut report = Report::default();
    let artifacts =
        if native { codec.serialize.native(lineage)? } else { codec.serialize.foreign(lineage, place, &mut report)? };
    Ok(Restored { artifacts, session_id: codec.serialize.session_id(&lineage.session), native, report })
}

/// A source record, whole again, and where it stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub n: u64,
    pub value: Value,
}

/// Every record of a lineage by file, in the order of the source.
pub fn records(lineage: &Lineage) -> Result<BTreeMap<String, Vec<Placed>>, RestoreError> {
    let mut files: BTreeMap<String, Vec<Placed>> = BTreeMap::new();
    for (session, messages) in lineage.all() {
        let main = source(&session.options).and_then(|it| it.get("file").and_then(Value::as_str).map(str::to_owned));
        let main = main.unwrap_or_default();
        files.entry(main.clone()).or_default();
        let mut beside: BTreeMap<&str, Vec<&Message>> = BTreeMap::new();
        let places: Vec<_> = messages.iter().map(|message| source(&message.options)).collect();
        for (message, place) in messages.iter().zip(&places) {
            if let Some(of) = place.as_ref().and_then(|place| place.get("of")).and_then(Value::as_str) {
                beside.entry(of).or_default().push(message);
            }
        }
        for (message, place) in messages.iter().zip(&places) {
            if place.as_ref().is_some_and(|place| place.get("of").is_some()) {
                continue;
            }
            let others = beside.remove(message.id.as_str()).unwrap_or_default();
            for (file, placed) in whole(session, message, place.as_ref(), &others)? {
                files.entry(file.unwrap_or_else(|| main.clone())).or_default().push(placed);
            }
        }
    }
    // Stable: what was stored later at the same place comes later.
    files.values_mut().for_each(|placed| placed.sort_by_key(|it| it.n));
    Ok(files)
}

#[must_use]
pub fn source(options: &events::session::Options) -> Option<Value> {
    options.get("source").and_then(|json| Reader::only(json.get()).ok())
}

/// The records that a message was made of, with their holes filled: its own, which `others` share, and those of parts that had one.
fn whole(
    session: &Session,
    message: &Message,
    own: Option<&Value>,
    others: &[&Message],
) -> Result<Vec<(Option<String>, Placed)>, RestoreError> {
    let missing = |why| RestoreError::NoRecord { session: session.id.to_string(), message: message.id.to_string(), why };
    let own = own.ok_or_else(|| missing("options.source is missing"))?;
    let mut record = own.get("record").cloned().ok_or_else(|| missing("options.source.record is missing"))?;
    if let (Content::System(text), Some(at)) = (&message.content, own.get("at").and_then(Value::as_str)) {
        fill(&mut record, at, Value::from(text.as_str())).ok_or_else(|| missing("the place of its text"))?;
    }
    let mut made = Vec::new();
    for part in others.iter().fold(message.parts(), |parts, other| parts.into_iter().chain(other.parts()).collect()) {
        let Some(place) = source(part.options) else { continue };
        let value = || value_of(message, &part, &place);
        match (place.get("record"), place.get("at").and_then(Value::as_str)) {
            (Some(part_record), at) => {
                let mut part_record = part_record.clone();
                if let Some(at) = at {
                    fill(&mut part_record, at, value()?).ok_or_else(|| missing("the place of a part"))?;
                }
                made.push((file(&place), Placed { n: number(&place), value: part_record }));
            }
            (None, Some(at)) => fill(&mut record, at, value()?).ok_or_else(|| missing("the place of a part"))?,
            (None, None) => {}
        }
    }
    made.insert(0, (file(own), Placed { n: number(own), value: record }));
    Ok(made)
}

fn file(place: &Value) -> Option<String> {
    place.get("file").and_then(Value::as_str).map(str::to_owned)
}

fn number(place: &Value) -> u64 {
    place.get("n").and_then(Value::as_i64).and_then(|n| u64::try_from(n).ok()).unwrap_or_default()
}

/// Pieces of one text follow each other.
fn fill(record: &mut Value, at: &str, value: Value) -> Option<()> {
    let path = Path::parse(at, record)?;
    let hole = record.at_mut(&path)?;
    match (hole, value) {
        (Value::String(text), Value::String(piece)) => text.push_str(&piece),
        (hole, value) => *hole = value,
    }
    Some(())
}

fn value_of(message: &Message, part: &PartRef<'_>, place: &Value) -> Result<Value, RestoreError> {
    let encoded = place.get("as").and_then(Value::as_str) == Some("encoded");
    let of_json = |json: &Json| {
        if encoded { Value::from(json.get()) } else { Reader::only(json.get()).unwrap_or(Value::Null) }
    };
    Ok(match part.body {
        BodyRef::Text(it) => Value::from(it.text.as_str()),
        BodyRef::Reasoning(it) => Value::from(it.text.as_str()),
        BodyRef::ToolCall(it) => of_json(&it.params),
        BodyRef::ToolResult(it) => of_json(&it.result),
        BodyRef::File(it) => {
            let prefix = place.get("prefix").and_then(Value::as_str).unwrap_or_default();
            match &it.data {
                Data::Inline(data) => Value::from(format!("{prefix}{data}")),
                Data::Url(url) if url.starts_with("pond://blob/") => {
                    let (message, part) = (message.id.to_string(), part.id.to_string());
                    return Err(RestoreError::BlobNotLoaded { message, part });
                }
                Data::Url(url) => Value::from(url.as_str()),
            }
        }
        BodyRef::ApprovalRequest(_) | BodyRef::ApprovalResponse(_) => Value::Null,
    })
}
