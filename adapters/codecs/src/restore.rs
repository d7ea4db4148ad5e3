//! Canonical sessions back into files.
//!
//! `adapter-native-restore-lossless`: whether a restoration is native is decided here, by comparing origins.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use events::Json;
use events::session::{BodyRef, Content, Data, File, Message, PartRef, Session, SessionId};

use crate::artifact::{Artifact, Body, Report, Restored};
use crate::lineage::Lineage;
use crate::registry::Codec;
use crate::thread;
use crate::value::{Path, Reader, Value};

mod bases;

pub use bases::{base, unfolded};

/// The write face of a codec; it holds no source.
pub trait Serialize: Sync {
    /// The session was made by this client: its files as they were.
    fn native(&self, lineage: &Lineage) -> Result<Vec<Artifact>, RestoreError>;

    /// The session was made by another: a valid one of this client's that says the same. What it cannot say goes into the report.
    fn foreign(&self, lineage: &Lineage, place: &Place, report: &mut Report) -> Result<Vec<Artifact>, RestoreError>;

    /// A thread of ours: as any other session, with what is said twice in it said once.
    fn thread(&self, lineage: &Lineage, place: &Place, report: &mut Report) -> Result<Vec<Artifact>, RestoreError> {
        self.foreign(&thread::said_once(lineage), place, report)
    }

    /// The session whose messages this one goes on from, where the client looks them up there instead of repeating them.
    fn base(&self, _: &[Message]) -> Option<SessionId> {
        None
    }

    /// The id under which the client finds a restored session.
    fn session_id(&self, session: &Session) -> String;

    /// The shell command with which the client goes on with what was restored and written below `root`.
    fn resume_command(&self, restored: &Restored, root: &std::path::Path) -> String;
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
    /// Without it the client has only the end of the conversation.
    #[error("session {session} goes on from session {base}, which is not recorded before it")]
    NoBase { session: SessionId, base: SessionId },
}

pub fn restore(codec: &Codec, lineage: &Lineage, place: &Place) -> Result<Restored, RestoreError> {
    let native = codec.origin == lineage.session.source_agent;
    let mut report = Report::default();
    let known = bases::check(lineage)?;
    let mut bases = Vec::new();
    let artifacts = match lineage.session.source_agent.as_str() {
        origin if origin == codec.origin => {
            for (session, messages) in &lineage.bases[..known] {
                let alone =
                    Lineage::new(session.clone(), messages.clone(), Vec::new()).expect("without children none is too deep");
                bases.extend(codec.serialize.native(&alone)?);
            }
            codec.serialize.native(lineage)?
        }
        thread::ORIGIN => codec.serialize.thread(lineage, place, &mut report)?,
        _ => codec.serialize.foreign(&bases::unfolded(lineage), place, &mut report)?,
    };
    Ok(Restored { artifacts, bases, session_id: codec.serialize.session_id(&lineage.session), native, report })
}

/// A source record, whole again, and where it stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub n: u64,
    pub value: Value,
    /// One of the states that the record was seen in; another may stand at the same place.
    pub state: bool,
}

/// Every record of a lineage by file, in the order of the source.
pub fn records(lineage: &Lineage) -> Result<BTreeMap<String, Vec<Placed>>, RestoreError> {
    let mut files: BTreeMap<String, Vec<Placed>> = BTreeMap::new();
    for (session, messages) in lineage.all() {
        let main = file_of(session).unwrap_or_default();
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
    // Stable: what was stored later at the same place comes later, and what it became in the end comes last.
    files.values_mut().for_each(|placed| placed.sort_by_key(|it| (it.n, !it.state)));
    Ok(files)
}

/// Files of one value a line.
#[must_use]
pub fn lines(placed: Vec<Placed>) -> Body {
    Body::Lines(placed.into_iter().map(|it| it.value).collect())
}

/// A file that was read by [`crate::source::whole`], as it was.
#[must_use]
pub fn whole_file(record: &Value) -> Body {
    let field = |key| record.get(key).and_then(Value::as_str);
    match (record.get("json"), field("text"), field("base64")) {
        (Some(json), _, _) => Body::Json(json.clone()),
        (None, Some(text), _) => Body::Text(text.to_owned()),
        (None, None, data) => Body::Bytes(STANDARD.decode(data.unwrap_or_default()).unwrap_or_default()),
    }
}

/// The file that a session's records stand in.
#[must_use]
pub fn file_of(session: &Session) -> Option<String> {
    source(&session.options).and_then(|place| file(&place))
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
    let places: Vec<_> = others.iter().map(|other| source(&other.options)).collect();
    let beside = others.iter().copied().zip(places.iter().map(Option::as_ref));
    for (said, place) in std::iter::once((message, Some(own))).chain(beside) {
        let at = place.and_then(|place| place.get("at")).and_then(Value::as_str);
        if let (Content::System(text), Some(at)) = (&said.content, at) {
            fill(&mut record, at, Value::from(text.as_str())).ok_or_else(|| missing("the place of its text"))?;
        }
    }
    let parts = others.iter().fold(message.parts(), |parts, other| parts.into_iter().chain(other.parts()).collect());
    let mut made: Vec<(Option<String>, Placed)> = Vec::new();
    // Which of the records made so far belongs to the part at the same place here.
    let mut owned: Vec<Option<usize>> = Vec::with_capacity(parts.len());
    for part in parts {
        let place = source(part.options).unwrap_or(Value::Null);
        let own = match (place.get("record"), usize::try_from(number(&place, "back")).unwrap_or_default()) {
            (Some(record), _) => {
                made.push((file(&place), placed(&place, record.clone())));
                Some(made.len() - 1)
            }
            (None, 0) => None,
            (None, back) => owned.len().checked_sub(back).and_then(|at| owned[at]),
        };
        owned.push(own);
        if let Some(at) = place.get("at").and_then(Value::as_str) {
            let record = own.map_or(&mut record, |own| &mut made[own].1.value);
            fill(record, at, value_of(message, &part, &place)?).ok_or_else(|| missing("the place of a part"))?;
        }
    }
    for beside in own.get("beside").map(Value::items).unwrap_or_default() {
        let record = beside.get("record").cloned().ok_or_else(|| missing("a record beside it"))?;
        made.push((file(beside), placed(beside, record)));
    }
    made.insert(0, (file(own), placed(own, record)));
    Ok(made)
}

fn placed(place: &Value, value: Value) -> Placed {
    Placed { n: number(place, "n"), value, state: place.get("state").and_then(Value::as_bool).unwrap_or_default() }
}

fn file(place: &Value) -> Option<String> {
    place.get("file").and_then(Value::as_str).map(str::to_owned)
}

fn number(place: &Value, key: &str) -> u64 {
    place.get(key).and_then(Value::as_i64).and_then(|n| u64::try_from(n).ok()).unwrap_or_default()
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
    let form = place.get("as").and_then(Value::as_str);
    let of_json = |json: &Json| {
        if form == Some("encoded") { Value::from(json.get()) } else { Reader::only(json.get()).unwrap_or(Value::Null) }
    };
    Ok(match part.body {
        BodyRef::Text(it) => Value::from(it.text.as_str()),
        BodyRef::Reasoning(it) => Value::from(it.text.as_str()),
        BodyRef::ToolCall(it) => of_json(&it.params),
        BodyRef::ToolResult(it) => of_json(&it.result),
        BodyRef::File(it) => match (loaded(message, part, it)?, place.get("prefix").and_then(Value::as_str)) {
            (Data::Inline(data), _) if form == Some("text") => {
                let text = STANDARD.decode(data).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                Value::from(text.unwrap_or_else(|| data.clone()))
            }
            (Data::Inline(data), Some(prefix)) => Value::from(format!("{prefix}{data}")),
            (Data::Inline(data) | Data::Url(data), _) => Value::from(data.as_str()),
        },
        BodyRef::ApprovalRequest(_) | BodyRef::ApprovalResponse(_) => Value::Null,
    })
}

/// What a file holds, unless it is kept elsewhere.
pub(crate) fn loaded<'a>(message: &Message, part: &PartRef<'_>, file: &'a File) -> Result<&'a Data, RestoreError> {
    match &file.data {
        Data::Url(url) if url.starts_with("pond://blob/") => {
            Err(RestoreError::BlobNotLoaded { message: message.id.to_string(), part: part.id.to_string() })
        }
        data @ (Data::Url(_) | Data::Inline(_)) => Ok(data),
    }
}
