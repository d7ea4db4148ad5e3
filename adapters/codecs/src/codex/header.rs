//! What a rollout says of itself: who it is, whose child, where it ran.

use std::path::Path as FilePath;

use crate::seam::{Extracted, Record, SessionDraft};
use crate::source::Records;
use crate::value::{Path, Value};

/// The session of a file; `None`: not even its name has an id.
pub(super) fn read(root: &FilePath, file: &FilePath) -> Option<SessionDraft> {
    let mut own = None;
    let mut project = None;
    let mut first = None;
    for record in Records::open(root, file).flatten() {
        first = first.or_else(|| record.time(["timestamp"]));
        project = project.or_else(|| directory(&record));
        // A child copies its parent's header and a resumed session repeats its own: the first is the file's.
        if own.is_none() && is_header(record.look()) {
            own = Some(record);
        }
        if own.is_some() && project.is_some() {
            break;
        }
    }
    let field = |key: &str| own.as_ref().and_then(|own| own.copy(header_path(own.look()).to(key)));
    let id = field("id").filter(|id| !id.look().is_empty()).or_else(|| named(file))?;
    let parent = own.as_ref().and_then(parent).filter(|parent| parent.look() != id.look());
    let cut = field("forked_from_ordinal_exclusive").filter(|_| parent.is_some()).and_then(|end| end.before());
    let created_at = own.as_ref().and_then(|own| own.time(header_path(own.look()).to("timestamp")));
    // Some of the oldest say only which repository it was.
    let repository = || own.as_ref()?.copy(header_path(own.as_ref()?.look()).to("git").to("repository_url"));
    let fact = |name: &'static str, key: &str| {
        let value = own.as_ref()?.copy_json(header_path(own.as_ref()?.look()).to(key))?;
        Some(("source", name, value))
    };
    let facts = [fact("version", "cli_version"), fact("originator", "originator")];
    Some(SessionDraft {
        id,
        parent,
        cut,
        project: project.or_else(repository),
        created_at: created_at.or(first),
        facts: facts.into_iter().flatten().collect(),
    })
}

pub(super) fn is_header(record: &Value) -> bool {
    match record.get("type").and_then(Value::as_str) {
        Some(kind) => kind == "session_meta" && record.get("payload").is_some(),
        None => record.get("id").is_some() && record.get("timestamp").is_some(),
    }
}

pub(super) fn header_path(record: &Value) -> Path {
    if record.get("payload").is_some() { Path::from(["payload"]) } else { Path::root() }
}

fn parent(own: &Record) -> Option<Extracted<String>> {
    let spawned = ["payload", "source", "subagent", "thread_spawn", "parent_thread_id"];
    let ways = [Path::from(["payload", "parent_thread_id"]), spawned.into(), ["payload", "forked_from_id"].into()];
    ways.into_iter().find_map(|way| own.copy(way)).filter(|parent| !parent.look().is_empty())
}

/// The working directory: in the header, in a turn's context, or, before there were either, in what the model was told.
fn directory(record: &Record) -> Option<Extracted<String>> {
    let at = header_path(record.look());
    let told = record.copy(at.to("cwd")).filter(|cwd| !cwd.look().is_empty());
    told.or_else(|| {
        let content = at.to("content");
        let texts = 0..record.look().at(&content)?.items().len();
        texts.map(|index| content.to(index).to("text")).find_map(|text| environment(record, text))
    })
}

fn environment(record: &Record, at: Path) -> Option<Extracted<String>> {
    const WAYS: [(&str, &str); 2] = [("<cwd>", "</cwd>"), ("Current working directory: ", "\n")];
    record.str(at.clone()).filter(|text| text.trim_start().starts_with("<environment_context>"))?;
    let text = record.copy(at)?;
    WAYS.iter().find_map(|(before, after)| {
        let start = text.look().find(before)? + before.len();
        let end = start + text.look()[start..].find(after)?;
        text.piece(start..end).filter(|cwd| !cwd.look().is_empty())
    })
}

fn named(file: &FilePath) -> Option<Extracted<String>> {
    const UUID: usize = 36;
    let Some(name) = Extracted::of_stem(file, "rollout-") else { return Extracted::of_stem(file, "") };
    let whole = name.look().len();
    name.piece(whole.checked_sub(UUID)?..whole)
}
