use std::borrow::Cow;
use std::fmt::Write;

use queries::library::PartSummary;
use serde::Serialize;

/// Bytes of a project, a tool's name and the like.
const NAME: usize = 600;
/// Parts that are named one by one.
const NAMED: usize = 12;

/// Text that grows block by block and never beyond its room.
pub(super) struct Page {
    pub text: String,
    room: usize,
}

impl Page {
    pub fn new(room: usize) -> Self {
        Self { text: String::new(), room }
    }

    /// Whether it went in; a block goes in whole.
    pub fn add(&mut self, block: &str) -> bool {
        let fits = self.text.len() + block.len() <= self.room;
        if fits {
            self.text.push_str(block);
        }
        fits
    }
}

/// The first of ever tighter renderings that fits. Indentation makes a text longer, by how much is known only afterwards.
pub(super) fn fitting(room: usize, render: impl Fn(usize) -> String) -> String {
    let mut most = room;
    loop {
        let text = render(most);
        if text.len() <= room || most < 64 {
            return text;
        }
        most = most / 4 * 3;
    }
}

/// Whatever some reader takes for the end of a line.
pub(super) fn ends_line(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn quote(out: &mut String, text: &str) {
    for line in text.lines().flat_map(|line| line.split(ends_line)) {
        let _ = writeln!(out, "  {line}");
    }
}

/// How a text begins and how it ends, and between them `mark` with the number of bytes that are missing.
pub(super) fn quote_ends(out: &mut String, text: &str, most: usize, mark: impl Fn(usize) -> String) {
    if text.len() <= most {
        return quote(out, text);
    }
    let head = text.floor_char_boundary(most / 3 * 2);
    let tail = text.ceil_char_boundary(text.len() - most / 3);
    quote(out, &text[..head]);
    let _ = writeln!(out, "{}", mark(tail - head));
    quote(out, &text[tail..]);
}

/// What stands around the longest of the words that is in the text, and after it `mark` with the number of bytes that are missing.
pub(super) fn quote_around(out: &mut String, text: &str, words: &str, most: usize, mark: impl Fn(usize) -> String) {
    if text.len() <= most {
        return quote(out, text);
    }
    // Lowering only ASCII keeps every place where it is.
    let lower = text.to_ascii_lowercase();
    let mut words: Vec<_> = words.split_whitespace().map(str::to_ascii_lowercase).collect();
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    let at = words.iter().find_map(|word| lower.find(word.as_str())).unwrap_or(0);
    let from = text.floor_char_boundary(at.saturating_sub(most / 3).min(text.len() - most));
    let to = text.floor_char_boundary(from + most);
    let dots = if from > 0 { "…" } else { "" };
    quote(out, &format!("{dots}{}", &text[from..to]));
    let _ = writeln!(out, "{}", mark(text.len() - (to - from)));
}

/// An id or a name: bare if it is one word, so that it can be copied as it stands. No id is so long that it is cut.
pub(super) fn word(text: &str) -> Cow<'_, str> {
    let short = &text[..text.floor_char_boundary(NAME)];
    let dots = if short.len() < text.len() { "…" } else { "" };
    let plain = |c: char| !(c.is_whitespace() || c.is_control() || c == '"');
    if dots.is_empty() && !text.is_empty() && text.chars().all(plain) {
        return text.into();
    }
    let short = short.replace(|c: char| c.is_control() || ends_line(c), " ").replace('"', "\\\"");
    format!("\"{short}{dots}\"").into()
}

/// How a message is asked for. Always with its session: forks repeat messages under the same ids.
pub(super) fn asked(session: &str, message: &str) -> String {
    format!("pond_get session_id={} message_id={}", word(session), word(message))
}

/// As it is spelled on the wire.
pub(crate) fn spelled<T: Serialize>(value: &T) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Names the parts beside the text that is quoted anyway.
pub(super) fn parts(out: &mut String, parts: &[PartSummary]) {
    let unquoted = |part: &&PartSummary| part.kind != "text" || spelled(&part.provenance) != "conversational";
    let others: Vec<_> = parts.iter().filter(unquoted).collect();
    if others.is_empty() {
        return;
    }
    let named = others.iter().take(NAMED).map(|part| {
        let name = part.name.as_deref().map(|name| format!(" {}", word(name))).unwrap_or_default();
        let injected = if spelled(&part.provenance) == "injected" { " injected" } else { "" };
        format!("{}{name}{injected} {} B", part.kind, part.bytes)
    });
    let named: Vec<_> = named.collect();
    let _ = write!(out, "parts: {}", named.join(", "));
    if others.len() > NAMED {
        let _ = write!(out, " and {} more", others.len() - NAMED);
    }
    out.push('\n');
}

pub(super) fn count(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}
