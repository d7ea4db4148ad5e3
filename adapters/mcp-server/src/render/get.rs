use std::fmt::Write;

use queries::library::{GetResponse, MessagePage, MessageView, SessionPage};
use serde::Serialize;

use super::page::{Page, asked, count, fitting, word};
use super::view::{Shown, brief, whole};

/// Bytes of an answer: about 8,000 tokens.
pub(crate) const LIMIT: usize = 32 << 10;
/// For the lines that tell what was left out.
const TAIL: usize = 3 << 10;
/// Of one message on a page of a session.
const MESSAGE: usize = 10 << 10;
/// Of the message that was asked for.
const TARGET: usize = 20 << 10;
/// Of a message around it.
const AROUND: usize = 1 << 10;

pub(crate) fn got(response: &GetResponse) -> String {
    match response {
        GetResponse::Session(page) => session(page),
        GetResponse::Message(page) => message(page),
    }
}

fn header<T: Serialize>(session: &T) -> String {
    let fields = serde_json::to_value(session).unwrap_or_default();
    let mut out = String::new();
    for (name, field) in [
        ("session", "id"),
        (" project", "project"),
        (" client", "source_agent"),
        (" created", "created_at"),
        (" parent", "parent_session_id"),
        (" cut_off_after", "parent_message_id"),
    ] {
        if let Some(text) = fields[field].as_str() {
            let _ = write!(out, "{name}={}", word(text));
        }
    }
    out.push('\n');
    out
}

fn session(page: &SessionPage) -> String {
    let mut out = Page::new(LIMIT - TAIL);
    out.add(&header(&page.session));
    let shown = page.messages.iter().take_while(|view| out.add(&format!("\n{}", block(page.session.id.as_str(), view)))).count();
    let left = (page.messages.len() - shown) as u64 + page.messages_remaining;
    let id = word(page.session.id.as_str());
    let mut out = out.text;
    match page.messages[..shown].last() {
        None => out.push_str("\n[no more messages of this kind; response_mode=complete shows every message]\n"),
        Some(last) if left > 0 => {
            let (left, last) = (count(left, "message"), word(last.id.as_str()));
            let _ = writeln!(out, "\n[… {left} more; pond_get session_id={id} after_id={last} and the same response_mode]");
        }
        Some(_) => out.push_str("\n[the session ends here]\n"),
    }
    out
}

/// A message of a page, with its parts as far as they fit.
fn block(session: &str, view: &MessageView) -> String {
    if view.parts.is_none() {
        return fitting(MESSAGE, |most| brief(session, view, most));
    }
    let asked = asked(session, view.id.as_str());
    let Shown { mut text, left, last } = whole(view, MESSAGE, &format!("; {asked}"));
    if left > 0 {
        let parts = count(left, "part");
        let _ = writeln!(text, "[… {parts} more; {asked} after_id={}]", word(&last));
    }
    text
}

fn message(page: &MessagePage) -> String {
    let (session, id) = (word(page.session.id.as_str()), word(page.target.id.as_str()));
    let Shown { text: mut target, left, last } = whole(&page.target, TARGET, " than are shown at once");
    let left = left + page.target_parts_remaining;
    if left > 0 {
        let parts = count(left, "part");
        let _ = writeln!(target, "[… {parts} more; pond_get session_id={session} message_id={id} after_id={}]", word(&last));
    }
    let head = header(&page.session);
    let room = (LIMIT - TAIL).saturating_sub(head.len() + target.len());
    let (before, earlier) = nearest(page.session.id.as_str(), page.before.iter().rev(), room / 2);
    let left = room.saturating_sub(before.iter().map(String::len).sum());
    let (after, later) = nearest(page.session.id.as_str(), page.after.iter(), left);
    let mut out = head;
    if earlier > 0 {
        let _ = writeln!(out, "\n[… {} before left out; ask for one of those below to see them]", count(earlier, "message"));
    }
    before.iter().rev().for_each(|block| out.push_str(block));
    let _ = write!(out, "\n-- asked for:\n{target}");
    if !after.is_empty() {
        out.push_str("-- after it:\n");
    }
    after.iter().for_each(|block| out.push_str(block));
    if later > 0 {
        let last = page.after[..after.len()].last().map_or(id, |last| word(last.id.as_str()));
        let later = count(later, "message");
        let _ =
            writeln!(out, "\n[… {later} after left out; pond_get session_id={session} response_mode=complete after_id={last}]");
    }
    out
}

/// As many as there is room for, and how many there is none for.
fn nearest<'a>(session: &str, views: impl ExactSizeIterator<Item = &'a MessageView>, room: usize) -> (Vec<String>, u64) {
    let all = views.len();
    let mut used = 0;
    let blocks = views.map(|view| format!("\n{}", fitting(AROUND, |most| brief(session, view, most))));
    let fits = |block: &String| {
        used += block.len();
        used <= room
    };
    let blocks: Vec<_> = blocks.take_while(fits).collect();
    let left = all - blocks.len();
    (blocks, left as u64)
}
