//! One message.

use std::fmt::Write;

use queries::library::MessageView;

use super::page::{asked, fitting, parts, quote_ends, word};

/// What stands on the line of a part, or where it belongs.
const OF_ITS_LINE: [&str; 7] = ["id", "session_id", "message_id", "type", "provenance", "name", "options"];

/// A message with those of its parts that fit.
pub(super) struct Shown {
    pub text: String,
    /// Parts that do not.
    pub left: u64,
    /// The last that does.
    pub last: String,
}

struct Piece {
    id: String,
    line: String,
    body: String,
    /// Bytes of a file, which nobody reads as base64.
    data: Option<usize>,
}

fn line(view: &MessageView) -> String {
    format!("{} {} message={}", view.role.as_str(), view.timestamp, word(view.id.as_str()))
}

/// What is said in it; the parts are only named.
pub(super) fn brief(session: &str, view: &MessageView, most: usize) -> String {
    let mut out = format!("{}\n", line(view));
    let mark = |missing| format!("[… {missing} bytes more; {}]", asked(session, view.id.as_str()));
    quote_ends(&mut out, view.text.as_deref().unwrap_or_default(), most, mark);
    parts(&mut out, view.parts_summary.as_deref().unwrap_or_default());
    out
}

/// With its parts. One that does not fit is left for the next page, where it comes first and is cut if it must be.
pub(super) fn whole(view: &MessageView, room: usize, how_to_go_on: &str) -> Shown {
    let pieces = pieces(view);
    let options = view.options.as_ref().map_or("{}", |options| options.get());
    let mut text = line(view);
    if options != "{}" {
        let _ = write!(text, " options={}B", options.len());
    }
    text.push('\n');
    if pieces.is_empty() {
        // A record that is no message is all in its options.
        let own = view.text.as_deref().unwrap_or(options);
        text.push_str(&fitting(room, |most| quoted(own, most, how_to_go_on)));
    }
    let (mut left, mut last) = (pieces.len() as u64, String::new());
    for piece in pieces {
        let block = fitting(room, |most| told(&piece, most, how_to_go_on));
        if text.len() + block.len() > room && !last.is_empty() {
            break;
        }
        text.push_str(&block);
        (left, last) = (left - 1, piece.id);
    }
    Shown { text, left, last }
}

fn quoted(text: &str, most: usize, how_to_go_on: &str) -> String {
    let mut out = String::new();
    quote_ends(&mut out, text, most, |missing| format!("[… {missing} bytes more{how_to_go_on}]"));
    out
}

fn told(piece: &Piece, most: usize, how_to_go_on: &str) -> String {
    let mut out = format!("{}\n{}", piece.line, quoted(&piece.body, most, how_to_go_on));
    if let Some(bytes) = piece.data {
        let _ = writeln!(out, "[… {bytes} bytes of base64]");
    }
    out
}

fn pieces(view: &MessageView) -> Vec<Piece> {
    let pieces = view.parts.iter().flatten().map(|part| {
        let text = |name: &str| part.get(name).and_then(|json| json.decode::<String>().ok());
        let (id, kind) = (text("id").unwrap_or_default(), text("type").unwrap_or_default());
        let mut piece = Piece { line: format!("part={} type={kind}", word(&id)), id, body: String::new(), data: None };
        if let Some(name) = text("name") {
            let _ = write!(piece.line, " name={}", word(&name));
        }
        if text("provenance").as_deref() == Some("injected") {
            piece.line.push_str(" injected");
        }
        if let Some(options) = part.get("options").map(|json| json.get()).filter(|options| *options != "{}") {
            let _ = write!(piece.line, " options={}B", options.len());
        }
        for (name, json) in part.iter().filter(|(name, _)| !OF_ITS_LINE.contains(&name.as_str())) {
            let value = text(name).unwrap_or_else(|| json.get().to_owned());
            match (kind.as_str(), name.as_str()) {
                ("file", "data") => piece.data = Some(value.len()),
                ("file", "data_bytes") => piece.data = value.parse().ok(),
                (_, "text") => piece.body.push_str(&value),
                (_, name) => {
                    let _ = writeln!(piece.body, "{name}: {value}");
                }
            }
        }
        piece
    });
    pieces.collect()
}
