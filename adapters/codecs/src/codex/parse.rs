//! A rollout, line by line.

use events::Json;

use super::header::{self, header_path, is_header};
use super::items;
use crate::fault::{Location, What};
use crate::seam::{Extracted, Fact, Handle, Head, Out, Record};
use crate::source::{Bundle, Records, name};
use crate::value::{Path, Value};

pub(super) fn rollout(bundle: &Bundle, out: &mut Out<'_>) {
    let file = Location { file: name(bundle.main()), line: None };
    let session = match header::read(&bundle.root, bundle.main()) {
        Some(draft) => out.session(draft, file),
        None => {
            out.fault(file, What::Missing("the id"));
            None
        }
    };
    let mut state = State::default();
    for record in Records::open(&bundle.root, bundle.main()) {
        match (record, session) {
            (Ok(record), Some(to)) => line(out, to, record, &mut state),
            (Ok(_), None) => {}
            (Err((location, what)), _) => out.fault(location, what),
        }
    }
}

/// What a line says of those after it.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Only a turn's context names it.
    model: Option<Extracted<Json>>,
    introduced: bool,
}

impl State {
    pub(super) fn facts(&self) -> Vec<Fact> {
        self.model.iter().map(|model| (PROVIDER, "model", model.clone())).collect()
    }
}

const PROVIDER: &str = "openai";

fn line(out: &mut Out<'_>, to: Handle, mut record: Record, state: &mut State) {
    let at = header_path(record.look());
    let enveloped = !at.0.is_empty();
    let mut head = Head { id: id(&mut record, &at), timestamp: record.time(["timestamp"]), facts: Vec::new() };
    if is_header(record.look()) {
        return introduce(out, to, record, head, state);
    }
    match record.str(["type"]) {
        Some("response_item") if enveloped => return items::item(out, to, record, head, &at, state),
        Some(_) if !enveloped => return items::item(out, to, record, head, &at, state),
        Some("turn_context") => state.model = record.copy_json(["payload", "model"]).or(state.model.take()),
        Some("event_msg") => head.facts.extend(event(&record)),
        Some(_) | None => {}
    }
    out.carry(to, record, head);
}

/// The item's own id, or else its place in the thread, by which forks name where they were cut. Once there was neither.
fn id(record: &mut Record, at: &Path) -> Option<Extracted<String>> {
    let of_item = matches!(record.str(["type"]), Some("response_item")) || at.0.is_empty() && !is_header(record.look());
    let own = of_item.then(|| record.id(at.to("id"))).flatten();
    own.or_else(|| record.id(["ordinal"]))
}

/// The header of the file itself tells the model who it is; one that is copied or repeated is carried.
fn introduce(out: &mut Out<'_>, to: Handle, mut record: Record, head: Head, state: &mut State) {
    let at = header_path(record.look());
    let first = !std::mem::replace(&mut state.introduced, true);
    let ways = [at.to("base_instructions").to("text"), at.to("instructions")];
    let text = ways.into_iter().filter(|_| first).find_map(|way| record.text(way));
    match text {
        Some(text) => out.system(to, record, head, text),
        None => out.carry(to, record, head),
    };
}

fn event(record: &Record) -> Option<Fact> {
    let (name, at): (_, Path) = match record.str(["payload", "type"])? {
        "token_count" => ("usage", ["payload", "info", "last_token_usage"].into()),
        "task_complete" => ("stop_reason", ["payload", "type"].into()),
        "turn_aborted" => ("stop_reason", ["payload", "reason"].into()),
        "error" => ("error", ["payload", "message"].into()),
        _ => return None,
    };
    record.look().at(&at).filter(|value| **value != Value::Null)?;
    Some((PROVIDER, name, record.copy_json(at)?))
}
