//! What pi itself puts around the words of a person: the files named on its command line, and a skill that a command was expanded to.
//! Prompt templates are expanded without a trace.

use events::session::Provenance;

use crate::seam::Extracted;

/// The pieces of a user's text in order, byte for byte.
pub(super) fn split(text: Extracted<String>, said: Provenance) -> Vec<(Extracted<String>, Provenance)> {
    let end = skill(text.look()).unwrap_or_else(|| files(text.look()));
    if end == 0 {
        return vec![(text, said)];
    }
    let pieces = text.split(&[end]).into_iter().enumerate();
    pieces.map(|(index, piece)| (piece, if index == 0 { Provenance::Injected } else { said })).collect()
}

/// `<skill name="…" location="…">\n…\n</skill>`, then the end or an empty line and what was typed after the command.
fn skill(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("<skill name=\"")?;
    let (name, rest) = rest.split_once("\" location=\"")?;
    let (location, body) = rest.split_once("\">\n")?;
    if name.contains('"') || location.contains('"') {
        return None;
    }
    let start = text.len() - body.len();
    let close = "\n</skill>";
    // The newline before the body may be the one before the closing tag.
    let ends = text[start - 1..].match_indices(close).map(|(at, _)| start - 1 + at + close.len());
    ends.into_iter().find_map(|end| match &text[end..] {
        "" => Some(end),
        rest if rest.len() > 2 && rest.starts_with("\n\n") => Some(end + 2),
        _ => None,
    })
}

/// Any number of `<file name="…">…</file>\n` in front.
fn files(text: &str) -> usize {
    let mut end = 0;
    while let Some(rest) = text[end..].strip_prefix("<file name=\"") {
        let Some((name, body)) = rest.split_once("\">") else { break };
        let close = if body.starts_with('\n') { "\n</file>\n" } else { "</file>\n" };
        let Some(at) = body.find(close).filter(|_| !name.contains(['"', '\n'])) else { break };
        end = text.len() - body.len() + at + close.len();
    }
    end
}
