//! The messages of a session in order, whatever form they were stored in.

use events::session::Timestamp;

use super::typing;
use crate::fault::{Location, What};
use crate::seam::{Extracted, Handle, Head, Out, Record, SessionDraft};
use crate::value::{Path, Value};

/// Where a record holds what it says, and where its id: rows keep the id in a column beside.
#[derive(Clone, Debug)]
pub(super) struct At {
    pub(super) body: Path,
    pub(super) id: Path,
}

impl At {
    pub(super) fn whole() -> Self {
        Self::inside(&Path::root())
    }

    pub(super) fn row() -> Self {
        Self { body: Path::from(["data"]), id: Path::from(["id"]) }
    }

    pub(super) fn inside(path: &Path) -> Self {
        Self { body: path.clone(), id: path.to("id") }
    }
}

/// A part inside the message's record, or one with a record of its own.
#[derive(Debug)]
pub(super) enum PartAt {
    Inside(At),
    Own(Record, At),
}

impl PartAt {
    pub(super) fn inside(message: &Record, body: &Path) -> Vec<Self> {
        let parts = body.to("parts");
        let count = message.look().at(&parts).map_or(0, |it| it.items().len());
        (0..count).map(|index| Self::Inside(At::inside(&parts.to(index)))).collect()
    }
}

pub(super) struct Log {
    pub(super) at: At,
    messages: Vec<Record>,
}

/// The moments of 0.1 stand among the metadata.
const TIMES: [&[&str]; 2] = [&["time"], &["metadata", "time"]];

impl Log {
    pub(super) fn new(at: At, messages: Vec<Record>) -> Self {
        Self { at, messages }
    }

    pub(super) fn sorted(at: At, mut messages: Vec<Record>) -> Self {
        messages.sort_by_cached_key(|message| {
            let created = created(message, &at.body).map(|it| *it.look());
            (created, message.str(at.id.clone()).map(str::to_owned))
        });
        Self { at, messages }
    }

    pub(super) fn first_time(&self) -> Option<Extracted<Timestamp>> {
        self.messages.iter().find_map(|message| created(message, &self.at.body))
    }

    /// Where the work was done, as the first answer has it.
    pub(super) fn directory(&self) -> Option<Extracted<String>> {
        let places = [&["path", "cwd"][..], &["metadata", "assistant", "path", "cwd"][..]];
        self.messages.iter().find_map(|message| places.iter().find_map(|keys| message.copy(down(&self.at.body, keys))))
    }

    /// Hands out every message, or the states of those that may still change.
    pub(super) fn tell(self, out: &mut Out<'_>, to: Handle, parts: &mut dyn FnMut(&mut Out<'_>, &Record) -> Vec<PartAt>) {
        let settled = self.messages.iter().rposition(|it| is_complete(it, &self.at.body)).map_or(0, |at| at + 1);
        for (index, message) in self.messages.into_iter().enumerate() {
            let parts = parts(out, &message);
            if index < settled {
                typing::message(out, to, message, &self.at, parts);
                continue;
            }
            let own = parts.into_iter().filter_map(|part| match part {
                PartAt::Own(record, _) => Some(record),
                PartAt::Inside(_) => None,
            });
            let timestamp = created(&message, &self.at.body);
            out.state(to, message, Head { timestamp, ..Head::default() });
            own.for_each(|record| state(out, to, record));
        }
    }
}

fn is_complete(message: &Record, body: &Path) -> bool {
    let has = |keys: &[&str]| message.look().at(&down(body, keys)).is_some_and(|it| *it != Value::Null);
    let ends = [&["time", "completed"][..], &["error"], &["metadata", "time", "completed"], &["metadata", "error"]];
    message.str(body.to("role")) == Some("assistant") && ends.iter().any(|keys| has(keys))
}

pub(super) fn created(message: &Record, body: &Path) -> Option<Extracted<Timestamp>> {
    TIMES.iter().find_map(|keys| message.time(down(body, keys).to("created")))
}

pub(super) fn down(from: &Path, keys: &[&str]) -> Path {
    keys.iter().fold(from.clone(), |path, key| path.to(*key))
}

/// A record that opencode writes over.
pub(super) fn state(out: &mut Out<'_>, to: Handle, record: Record) {
    let places = [&["time", "updated"][..], &["time_updated"], &["info", "time", "updated"]];
    let timestamp = places.iter().find_map(|keys| record.time(down(&Path::root(), keys)));
    out.state(to, record, Head { timestamp, ..Head::default() });
}

/// `told` is the id as the file's name has it, for a session whose record cannot be read.
pub(super) fn begin(
    out: &mut Out<'_>,
    info: Option<&Record>,
    at: &Path,
    told: Option<Extracted<String>>,
    log: &Log,
    slug: Option<Extracted<String>>,
    location: Location,
) -> Option<Handle> {
    let copy = |keys: &[&str]| info.and_then(|info| keys.iter().find_map(|key| info.copy(at.to(*key))));
    let fact = |key: &'static str| Some(("source", key, info?.copy_json(at.to(key))?));
    let Some(id) = copy(&["id"]).or(told) else {
        out.fault(location, What::Missing("the session's id"));
        return None;
    };
    let created = info.and_then(|info| info.time(at.to("time").to("created")).or_else(|| info.time(at.to("time_created"))));
    let draft = SessionDraft {
        id,
        parent: copy(&["parentID", "parent_id"]),
        cut: None,
        project: copy(&["directory"]).or_else(|| log.directory()).or(slug),
        created_at: created.or_else(|| log.first_time()),
        facts: ["title", "version"].into_iter().filter_map(fact).collect(),
    };
    out.session(draft, location)
}
