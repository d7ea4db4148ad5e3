use std::fmt::Write;

use queries::library::{Hit, Mode, SearchResponse, SessionHit};

use super::page::{Page, asked, count, ends_line, parts, quote, quote_around, word};

/// Bytes of an answer: about 6,000 tokens.
pub(crate) const LIMIT: usize = 24 << 10;
/// For the line that tells what was left out.
const TAIL: usize = 256;
/// Bytes of one message; tighter until everything fits.
const TEXTS: [usize; 7] = [8 << 10, 4 << 10, 2 << 10, 1 << 10, 512, 256, 128];
const HINTS: usize = 8;

const NOTHING: &str = "\
No message fits. Searched was what users and assistants said, within the filters, and none of it has these words. That is no proof \
that it was not done: what tools printed is not searched. Try fewer words, another spelling, or an identifier that must have been \
mentioned; leave out filters.
";

pub(crate) fn search(response: &SearchResponse, query: &str) -> String {
    if response.sessions.is_empty() {
        let mut out = NOTHING.to_owned();
        hints(&mut out, response);
        return out;
    }
    let mut out = String::new();
    for most in TEXTS {
        let (text, left) = told(response, query, most);
        out = text;
        if left == 0 {
            break;
        }
    }
    out
}

/// Everything up to the room there is, and how many matches are left out.
fn told(response: &SearchResponse, query: &str, most: usize) -> (String, usize) {
    let mut page = Page::new(LIMIT - TAIL);
    let compared = match response.mode {
        Mode::Keyword => "by words",
        Mode::Hybrid => "by words and meaning",
    };
    let mut head = format!("{}, best first, found {compared}\n", count(response.sessions.len() as u64, "session"));
    hints(&mut head, response);
    page.add(&head);
    let blocks: Vec<_> = response.sessions.iter().flat_map(|session| blocks(session, query, most)).collect();
    let shown = blocks.iter().take_while(|block| page.add(block)).count();
    let left = blocks.len() - shown;
    if left > 0 {
        let left = if left == 1 { "1 match".to_owned() } else { format!("{left} matches") };
        let _ = writeln!(page.text, "\n[… {left} more; narrow the search by project, role, since, until or session_id]");
    }
    (page.text, left)
}

fn hints(out: &mut String, response: &SearchResponse) {
    for hint in response.hints.iter().take(HINTS) {
        let _ = writeln!(out, "hint: {}", &hint[..hint.floor_char_boundary(500)].replace(ends_line, " "));
    }
}

/// One for each match, the first with the line of the session.
fn blocks(session: &SessionHit, query: &str, most: usize) -> Vec<String> {
    let mut head = format!(
        "\nsession={} project={} client={} created={} last_message={} score={:.2} newer_messages={}\n",
        word(session.session_id.as_str()),
        word(&session.project),
        word(&session.source_agent),
        session.created_at,
        session.last_message_at,
        session.score,
        session.newer_messages,
    );
    let mut blocks = Vec::new();
    for hit in &session.matches {
        let mut block = std::mem::take(&mut head);
        matched(&mut block, session, hit, query, most);
        blocks.push(block);
    }
    if blocks.is_empty() {
        blocks.push(head);
    }
    blocks
}

fn matched(out: &mut String, session: &SessionHit, hit: &Hit, query: &str, most: usize) {
    let id = word(hit.message_id.as_str());
    let asked = asked(hit.session_id.as_ref().unwrap_or(&session.session_id).as_str(), hit.message_id.as_str());
    let _ = write!(out, "{} {} message={id} score={:.2}", hit.role.as_str(), hit.timestamp, hit.score);
    if let Some(session) = &hit.session_id {
        let _ = write!(out, " session={}", word(session.as_str()));
    }
    out.push('\n');
    match (&hit.snippet, hit.text_bytes) {
        (Some(snippet), Some(all)) if snippet.len() <= most => {
            quote(out, snippet);
            let _ = writeln!(out, "[… a passage of {all} bytes; {asked}]");
        }
        (snippet, all) => {
            let text = snippet.as_ref().unwrap_or(&hit.text);
            // Bytes that were left out before it got here.
            let before = all.map_or(0, |all| usize::try_from(all).unwrap_or(usize::MAX).saturating_sub(text.len()));
            let mark = |missing: usize| format!("[… {} bytes more; {asked}]", missing.saturating_add(before));
            quote_around(out, text, query, most, mark);
            if before > 0 && text.len() <= most {
                let _ = writeln!(out, "{}", mark(0));
            }
        }
    }
    parts(out, hit.parts_summary.as_deref().unwrap_or_default());
}
