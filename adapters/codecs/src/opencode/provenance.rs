//! What the harness put into a user's message.

use events::session::Provenance;

use crate::seam::Extracted;
use crate::value::{Path, Value};

const OPEN: &str = "<system-reminder>";
const CLOSE: &str = "</system-reminder>";

pub(super) fn of(injected: bool) -> Provenance {
    if injected { Provenance::Injected } else { Provenance::Conversational }
}

/// opencode marks what it adds; what only the person is shown was not said by anyone.
pub(super) fn is_marked(part: Option<&Value>) -> bool {
    let flag = |key| part.and_then(|part| part.get(key)).and_then(Value::as_bool).unwrap_or_default();
    flag("synthetic") || flag("ignored")
}

/// The whole turn of a compaction is the harness's own, question and summary.
pub(super) fn is_compaction(message: Option<&Value>) -> bool {
    let at = |keys: [&str; 3]| message.and_then(|it| it.at(&Path::from(keys))).and_then(Value::as_bool);
    let summary = message.and_then(|it| it.get("summary")).and_then(Value::as_bool);
    summary.or_else(|| at(["metadata", "assistant", "summary"])).unwrap_or_default()
}

/// Cuts reminders out of what was typed, to the byte.
pub(super) fn split(text: Extracted<String>) -> Vec<(Extracted<String>, Provenance)> {
    let mut cuts = Vec::new();
    let whole = text.look();
    let mut from = 0;
    while let Some(open) = whole[from..].find(OPEN).map(|at| from + at) {
        let Some(close) = whole[open..].find(CLOSE).map(|at| open + at + CLOSE.len()) else { break };
        if open == 0 || whole[..open].ends_with('\n') {
            cuts.extend([open, close]);
        }
        from = close;
    }
    if cuts.is_empty() {
        return vec![(text, Provenance::Conversational)];
    }
    let is_reminder = |piece: &str| piece.trim().is_empty() || piece.starts_with(OPEN) && piece.ends_with(CLOSE);
    text.split(&cuts).into_iter().map(|piece| (is_reminder(piece.look()), piece)).map(|(is, piece)| (piece, of(is))).collect()
}
